"""Each noise distribution describes its measurement: losses match densities, and scores are standard normal."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privmix.audit.recording import RecordingNoise
from privmix.privacy import noise, selection
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import SeededNoise
from privmix.privacy.noise_distributions import (
    ExponentialMechanism,
    GaussianNoise,
    LaplaceNoise,
    PlanarLaplaceNoise,
    PrivTreeDecisions,
    SampledGaussianNoise,
)
from privmix.privacy.oracles import (
    GeneralizedResponse,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
    UnaryEncoding,
)
from privmix.privacy.privtree import TreeShape, decompose
from privmix.privacy.sensitivity import Neighbours

MINE, OTHER = np.array([0.3, -1.0]), np.array([0.1, 0.4])
ALONE = {"released": np.array([0.25, 0.9]), "mine": MINE, "other": OTHER}


def _generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def test_the_loss_of_normal_noise_is_that_of_its_densities():
    density = stats.norm(scale=0.7).logpdf
    wanted = (density(ALONE["released"] - MINE) - density(ALONE["released"] - OTHER)).sum()
    assert GaussianNoise(0.7).log_ratio(**ALONE) == pytest.approx(wanted)
    assert GaussianNoise(0.7).distance(**ALONE) == pytest.approx(np.linalg.norm(MINE - OTHER) / 0.7)


def test_the_loss_of_laplace_noise_is_that_of_its_densities_and_reaches_its_distance():
    density, law = stats.laplace(scale=0.7).logpdf, LaplaceNoise(0.7)
    wanted = (density(ALONE["released"] - MINE) - density(ALONE["released"] - OTHER)).sum()
    assert law.log_ratio(**ALONE) == pytest.approx(wanted)
    assert law.log_ratio(np.array([9.0, -9.0]), MINE, OTHER) == pytest.approx(law.distance(**ALONE))


def test_the_loss_of_planar_noise_is_that_of_its_densities_and_reaches_its_distance():
    law, mine, other = PlanarLaplaceNoise(0.2), MINE[None], OTHER[None]
    beyond = mine + 5 * (mine - other)
    assert law.log_ratio(beyond, mine, other) == pytest.approx(law.distance(beyond, mine, other))
    assert law.log_ratio(other, mine, other) == pytest.approx(-law.distance(beyond, mine, other))


def test_the_loss_of_a_sampled_release_is_that_of_the_mixture():
    density = stats.norm(scale=0.7).logpdf
    inside, outside = (math.exp(density(ALONE["released"] - world).sum()) for world in (MINE, OTHER))
    wanted = math.log((0.9 * outside + 0.1 * inside) / outside)
    assert SampledGaussianNoise(0.7, 0.1).log_ratio(**ALONE) == pytest.approx(wanted)


ORACLES = [
    GeneralizedResponse(5, 1.3),
    UnaryEncoding(5, 1.3),
    SubsetSelection(7, 0.4),
    HadamardResponse(5, 1.3),
]


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: type(oracle).__name__)
def test_a_report_is_e_to_epsilon_times_as_likely_for_what_it_supports(oracle):
    """Up to a factor per report, the exact table of an oracle is e^ε if the report supports the truth, otherwise 1."""
    table = oracle.probability_table()
    reports = {
        GeneralizedResponse: lambda: np.arange(5, dtype=oracle.report),
        HadamardResponse: lambda: np.arange(table.shape[1], dtype=oracle.report),
        UnaryEncoding: lambda: np.packbits(
            np.array(list(itertools.product((0, 1), repeat=5)))[:, ::-1], axis=1, bitorder="little"
        ),
        SubsetSelection: lambda: _sets(oracle),
    }[type(oracle)]()
    supported = np.array(
        [oracle.supports(reports, np.full(table.shape[1], truth)) for truth in range(oracle.categories)]
    )
    ratio = np.log(table) - oracle.epsilon * supported
    assert supported.any()
    assert np.ptp(ratio, axis=0) == pytest.approx(0, abs=1e-12)


def _sets(oracle):
    named = list(itertools.combinations(range(oracle.categories), oracle.size))
    if oracle.is_list:
        return np.array(named)
    marks = np.array([[truth in each for truth in range(oracle.categories)] for each in named])
    return np.packbits(marks, axis=1, bitorder="little")


@pytest.mark.parametrize("hashed", [(3, 5), (0, 2), (12_345, 77)])
def test_a_hashed_report_is_e_to_epsilon_times_as_likely_for_what_it_supports(hashed):
    oracle = LocalHashing(40, 1.3)
    table = oracle.probability_table(*hashed)
    reports = np.zeros(oracle.buckets, dtype=oracle.report)
    reports["a"], reports["b"], reports["answer"] = *hashed, np.arange(oracle.buckets)
    supported = np.array([oracle.supports(reports, np.full(oracle.buckets, v)) for v in range(40)])
    assert np.ptp(np.log(table) - oracle.epsilon * supported, axis=0) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "oracle", [*ORACLES, LocalHashing(40, 1.3)], ids=lambda oracle: type(oracle).__name__
)
def test_reports_support_the_truth_as_often_as_stated(oracle):
    codes = _generator().integers(oracle.categories, size=4000)
    reports = oracle.perturb(codes, source=SeededNoise(_generator(1)), ledger=Ledger(), label="x")
    spread = math.sqrt(oracle.truth * (1 - oracle.truth) / 4000)
    assert abs(oracle.supports(reports, codes).mean() - oracle.truth) < 4 * spread


def test_a_choice_can_lose_what_its_probabilities_say():
    mine, other = np.array([0.0, -1.0, -np.inf]), np.array([-0.5, 0.0, -np.inf])
    chances = [selection.probabilities(each, sensitivity=1.0, epsilon=2.0) for each in (mine, other)]
    losses = np.log(chances[0][:2] / chances[1][:2])
    assert [ExponentialMechanism().log_ratio(option, mine, other) for option in (0, 1)] == pytest.approx(
        losses
    )
    assert ExponentialMechanism().distance(0, mine, other) == pytest.approx(np.abs(losses).max())


def test_what_is_possible_in_one_world_alone_loses_without_bound():
    assert ExponentialMechanism().distance(0, np.zeros(2), np.array([0.0, -np.inf])) == math.inf


def test_the_loss_of_splits_is_that_of_their_probabilities():
    shape = TreeShape(1, (np.array([True, False]), np.array([False, False])))
    scores = {"mine": [np.array([1.5, -0.5])], "other": [np.array([0.5, -0.5])]}
    above = stats.laplace(scale=2.0).sf
    wanted = math.log(above(-1.5)) - math.log(above(-0.5))
    worlds = {name: lambda _, own=own: own for name, own in scores.items()}
    assert PrivTreeDecisions(2.0).log_ratio(shape, **worlds) == pytest.approx(wanted)


def _gaussian(source):
    noise.gaussian(
        np.arange(500.0), sensitivity=2.0, noise_multiplier=3.0, source=source, ledger=Ledger(), label="x"
    )


def _laplace(source):
    noise.laplace(np.arange(500.0), sensitivity=2.0, epsilon=0.3, source=source, ledger=Ledger(), label="x")


def _sampled(source):
    total = np.arange(500.0)
    noise.sampled_gaussian(
        lambda sample: total * len(sample), 20, rate=0.3, sensitivity=2.0, noise_multiplier=3.0, source=source,
        ledger=Ledger(), label="x",
    )  # fmt: skip


def _planar(source):
    noise.planar_laplace(
        np.ones((500, 2)), epsilon=1.0, within=0.1, within_m=1000, metre=1e-4, diameter=2.0, source=source,
        ledger=Ledger(), label="x",
    )  # fmt: skip


def _tree(source):
    ordered = np.sort(_generator(3).integers(1 << 9, size=5000))
    decompose(
        ordered, depth=9, first=2, threshold=0, neighbours=Neighbours("record", "replace_one"), epsilon=5.0,
        source=source, ledger=Ledger(), label="x",
    )  # fmt: skip


def _choices(source):
    for number in range(300):
        scores = np.array([0.0, 1.0, number % 3])
        selection.exponential(scores, sensitivity=1.0, epsilon=1.0, source=source, ledger=Ledger(), label="x")


def _reports(source):
    for _ in range(300):
        GeneralizedResponse(4, 1.0).perturb(np.arange(40) % 4, source=source, ledger=Ledger(), label="x")


RELEASES = [_gaussian, _laplace, _sampled, _planar, _tree, _choices, _reports]


@pytest.mark.parametrize("make", RELEASES, ids=lambda make: make.__name__)
def test_scores_are_standard_normal(make):
    witness = RecordingNoise(SeededNoise(_generator(11)))
    make(witness)
    rng = _generator(8)
    scores = np.concatenate(
        [entry.law.scores(entry.released, entry.statistic, rng) for entry in witness.recording.entries]
    )
    assert len(scores) >= 200
    assert stats.kstest(scores, "norm").pvalue > 1e-3
    assert 1e-3 < stats.chi2(len(scores)).cdf(np.square(scores).sum()) < 1 - 1e-3


@pytest.mark.parametrize("make", RELEASES, ids=lambda make: make.__name__)
def test_scores_of_other_noise_are_not_standard_normal(make, monkeypatch):
    """The scores detect noise of half the scale, and coins that tell the truth more often."""
    monkeypatch.setattr(
        SeededNoise, "add_gaussian", lambda self, v, s: v + self.generator.normal(0, s / 2, np.shape(v))
    )
    monkeypatch.setattr(
        SeededNoise, "add_laplace", lambda self, v, s: v + self.generator.laplace(0, s / 2, np.shape(v))
    )
    planar = SeededNoise.add_planar_laplace
    monkeypatch.setattr(SeededNoise, "add_planar_laplace", lambda self, v, s: planar(self, v, s / 2))
    monkeypatch.setattr(SeededNoise, "uniform", lambda self, shape: np.sqrt(self.generator.random(shape)))
    drawn = selection._draw
    monkeypatch.setattr(selection, "_draw", lambda exponents, source: drawn(4 * exponents, source))
    witness = RecordingNoise(SeededNoise(_generator(11)))
    make(witness)
    rng = _generator(8)
    scores = np.concatenate(
        [entry.law.scores(entry.released, entry.statistic, rng) for entry in witness.recording.entries]
    )
    assert stats.kstest(scores, "norm").pvalue < 1e-4


def test_tails_are_precise():
    far = LaplaceNoise(1.0).scores(np.array([300.0, -300.0]), np.zeros(2), _generator())
    assert far == pytest.approx([stats.norm.isf(math.exp(-300) / 2), -stats.norm.isf(math.exp(-300) / 2)])
