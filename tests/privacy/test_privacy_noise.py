"""Noise has the scale that the ledger states, and is drawn in no other module.

Goodness-of-fit tests are seeded and fail by chance with probability 1e-6 over seeds; each has a twin that must
reject 2/3 and 3/2 of the scale.
"""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import privmix
from privmix.errors import UserError
from privmix.privacy import noise
from privmix.privacy.ledger import Gaussian, Laplace, Ledger
from privmix.privacy.noise import SeededNoise, stream

ALPHA = 1e-6
DRAWS = 20_000


def _laplace(scale_factor: float, ledger: Ledger) -> np.ndarray:
    source = SeededNoise(stream(1, "laplace"))
    return noise.laplace(
        np.zeros(DRAWS), sensitivity=3.0 * scale_factor, epsilon=0.5, source=source, ledger=ledger, label="x"
    )


def _gaussian(scale_factor: float, ledger: Ledger) -> np.ndarray:
    source = SeededNoise(stream(1, "gaussian"))
    return noise.gaussian(
        np.zeros(DRAWS),
        sensitivity=3.0 * scale_factor,
        noise_multiplier=2.0,
        source=source,
        ledger=ledger,
        label="x",
    )


@pytest.mark.parametrize(
    ("draw", "law"), [(_laplace, stats.laplace(scale=3.0 / 0.5)), (_gaussian, stats.norm(scale=6.0))]
)
def test_noise_has_the_stated_scale_and_no_other(draw, law):
    assert stats.kstest(draw(1.0, Ledger()), law.cdf).pvalue > ALPHA
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(draw(factor, Ledger()), law.cdf).pvalue < ALPHA


def test_every_draw_writes_the_ledger():
    ledger = Ledger()
    _laplace(1.0, ledger)
    _gaussian(1.0, ledger)
    assert ledger.events == [Laplace("x", 0.5), Gaussian("x", 2.0)]


def test_symmetric_noise_is_symmetric_with_the_same_scale_on_and_off_the_diagonal():
    ledger, source = Ledger(), SeededNoise(stream(2, "matrix"))
    matrix = noise.gaussian_symmetric(
        np.zeros((200, 200)), sensitivity=1.5, noise_multiplier=2.0, source=source, ledger=ledger, label="m"
    )
    assert np.array_equal(matrix, matrix.T)
    assert len(ledger.events) == 1
    upper = matrix[np.triu_indices(200)]
    assert stats.kstest(upper, stats.norm(scale=3.0).cdf).pvalue > ALPHA
    assert stats.kstest(upper, stats.norm(scale=3.0 * 2 / 3).cdf).pvalue < ALPHA
    assert stats.kstest(np.diag(matrix), stats.norm(scale=3.0).cdf).pvalue > ALPHA


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_scales_are_refused_with_the_value(bad):
    source = SeededNoise(stream(1, "x"))
    for function, arguments in (
        (noise.laplace, {"sensitivity": bad, "epsilon": 1.0}),
        (noise.laplace, {"sensitivity": 1.0, "epsilon": bad}),
        (noise.gaussian, {"sensitivity": bad, "noise_multiplier": 1.0}),
        (noise.gaussian, {"sensitivity": 1.0, "noise_multiplier": bad}),
    ):
        ledger = Ledger()
        with pytest.raises(UserError, match="greater than 0"):
            function(np.zeros(2), source=source, ledger=ledger, label="x", **arguments)
        assert ledger.events == []


PURPOSE = {
    "seed": 7,
    "dataset": "checkins",
    "mechanism": "dp_em",
    "epsilon": 1.0,
    "replicate": 0,
    "purpose": "noise",
}
OTHER = {"seed": 8, "dataset": "mpls_stops", "mechanism": "noisy_grid", "epsilon": 3.0, "replicate": 1,
         "purpose": "search"}  # fmt: skip


@pytest.mark.parametrize("part", PURPOSE)
def test_every_part_of_a_purpose_gives_another_stream(part):
    """If a part were ignored, the two streams would be equal. Unrelated streams correlate by 0.2 once in 1e9."""
    first, again = (stream(*PURPOSE.values()).random(1000) for _ in range(2))
    assert np.array_equal(first, again)
    second = stream(*(PURPOSE | {part: OTHER[part]}).values()).random(1000)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2
    assert not np.intersect1d(first, second).size


@pytest.mark.parametrize(
    "purpose", [("ab", "c"), ("a", "bc"), ("abc",), ("a\x1fb", "c"), ("a", "b", "c"), ("1",), (1,)]
)
def test_purposes_that_read_alike_are_told_apart(purpose):
    others = {("ab", "c"), ("a", "bc"), ("abc",), ("a\x1fb", "c"), ("a", "b", "c"), ("1",), (1,)} - {purpose}
    assert all(stream(7, *purpose).random() != stream(7, *other).random() for other in others)


def test_seeded_noise_is_the_value_plus_the_stream():
    """The numbers of a benchmark do not change with the interface."""
    values, source, generator = (
        np.arange(6.0).reshape(2, 3),
        SeededNoise(stream(3, "same")),
        stream(3, "same"),
    )
    assert np.array_equal(source.add_laplace(values, 2.0), values + generator.laplace(0.0, 2.0, (2, 3)))
    assert np.array_equal(source.add_gaussian(values, 2.0), values + generator.normal(0.0, 2.0, (2, 3)))
    assert np.array_equal(source.uniform((4,)), generator.random(4))
    assert np.array_equal(source.integers(9, (4,)), generator.integers(9, size=4))
    assert source.rounding(10, 1) == source.rounding(10, 2) == 0.0


# All randomness that privacy depends on comes from privmix.privacy. Elsewhere only these files draw, and none of their
# draws protects anything: searches and samples of a mixture, made-up records, samples for attacks, dots on the page,
# and releases without a guarantee (naive/), whose noise an attack must remove and which no ledger may count.
ALLOWED = {
    "attacks/aggregate.py", "attacks/attribute.py", "attacks/differencing.py", "attacks/homogeneity.py",
    "attacks/linkage.py", "attacks/membership/learned.py", "attacks/membership/shadow_attacks.py",
    "attacks/membership/shadows.py", "attacks/membership/shares.py", "attacks/reconstruction.py",
    "audit/black_box.py", "audit/crafted_worlds.py", "audit/recording.py",
    "catalog/synthetic.py", "evaluate/clusters.py", "evaluate/simultaneous.py", "evaluate/table.py",
    "mixture/em.py", "mixture/mixed.py", "mixture/mixed_em.py", "mixture/model.py", "mixture/moments.py",
    "mixture/posterior.py", "mixture/search.py",
    "naive/k_anonymity.py", "naive/pseudonymised.py", "naive/statistics.py",
    "pipeline/naive.py", "pipeline/usefulness.py",
    "release/make.py", "release/synthetic.py", "report/run.py",
}  # fmt: skip
DRAWING = {"laplace", "normal", "standard_normal", "gumbel", "exponential", "geometric", "random", "uniform",
           "integers", "choice", "permutation", "shuffle", "default_rng", "gaussian", "binomial", "add_laplace",
           "add_gaussian", "add_planar_laplace", "standard_gamma", "urandom", "random_raw"}  # fmt: skip


def _draws(path: Path) -> set[str]:
    """Return calls of a drawing method, except the functions of the modules that write the ledger."""
    return {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in DRAWING
        and ast.unparse(node.func.value) not in ("noise", "selection")
    }


def test_privacy_noise_is_drawn_nowhere_else():
    package = Path(privmix.__file__).parent
    outside = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] != "privacy"]
    assert len(outside) > 150
    drawing = {path.relative_to(package).as_posix(): _draws(path) for path in outside if _draws(path)}
    assert set(drawing) == ALLOWED, "a file draws past the ledger, or no longer draws"
    for path in outside:
        text = path.read_text()
        assert "rng.noise." not in text, f"{path.name} reaches into the noise source"
        assert "ledger.append" not in text, f"{path.name} writes the ledger itself"


def test_the_guard_sees_a_draw(tmp_path):
    culprit = tmp_path / "culprit.py"
    culprit.write_text("def fit(x, rng):\n    return x + rng.search.normal(0, 1) + noise.laplace(x)\n")
    assert _draws(culprit) == {"rng.search.normal"}


def test_only_measurements_and_surveys_write_the_ledger():
    package = Path(privmix.__file__).parent
    writers = {path.name for path in package.rglob("*.py") if "ledger.append(" in path.read_text()}
    assert writers == {"noise.py", "survey.py"}
