"""The non-private fit of records with attributes: the same mixture as without them, and the best shares for it."""

import numpy as np
import pytest
from making import clusters, make_domain, make_spec

from privmix.artefacts.domain import Attribute
from privmix.artefacts.fitted_model import FittedModel
from privmix.mechanisms.base import Records, Spec, seeded_randomness
from privmix.mechanisms.central.non_private import NonPrivate
from privmix.mixture import mixed_em
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget

SPEC = make_spec(attributes=(("side", ("left", "right", "unknown")), ("high", ("no", "yes"))))
SIZES = {"side": 3, "high": 2}
BUDGET = Budget(1.0, 0.0)


def records():
    points = clusters()
    drawn = np.random.default_rng(1).random((2, len(points)))
    return Records(
        points,
        {
            "side": ((points[:, 0] > 0) ^ (drawn[0] < 0.2)).astype(np.int64),
            "high": (drawn[1] < 0.3).astype(np.int64),
        },
    )


def test_attributes_do_not_change_the_mixture():
    view = records()
    with_codes = NonPrivate().fit(view, SPEC, BUDGET, seeded_randomness(1))
    without = NonPrivate().fit(Records(view.points), SPEC, BUDGET, seeded_randomness(1))
    for part in ("weights", "means", "covariances"):
        np.testing.assert_array_equal(
            getattr(with_codes.mixture, part), getattr(without.mixture, part), err_msg=part
        )
    assert set(with_codes.shares) == set(SIZES)
    assert not without.shares


def test_the_shares_are_the_best_for_this_mixture_and_survive_the_file():
    view = records()
    release = NonPrivate().fit(view, SPEC, BUDGET, seeded_randomness(1))
    wanted = mixed_em.fit_shares(view.points, view.codes, SIZES, release.mixture).mixture
    stored = FittedModel.model_validate_json(release.to_artefact(0, 1.0).model_dump_json())
    read = MixedMixture(
        Mixture(*(np.array(part) for part in (stored.weights, stored.means, stored.covariances))),
        {name: np.array(shares) for name, shares in stored.shares.items()},
    )
    np.testing.assert_allclose(
        read.log_density(view.points, view.codes), wanted.log_density(view.points, view.codes), rtol=1e-12
    )
    independent = {
        name: np.tile(np.bincount(view.codes[name], minlength=size) / len(view), (3, 1))
        for name, size in SIZES.items()
    }
    rival = MixedMixture(release.mixture, independent).log_density(view.points, view.codes).mean()
    assert read.log_density(view.points, view.codes).mean() > rival + 0.01
    assert read.shares["side"].min() > 0  # a value that no record has


def test_fits_of_many_subsets_have_the_shares_of_their_own_records():
    view, subsets = records(), [np.arange(1000) < 500, np.arange(1000) >= 500]
    releases = NonPrivate().fit_many(view, subsets, SPEC, seeded_randomness(1))
    for mask, release in zip(subsets, releases, strict=True):
        half = view.select(np.flatnonzero(mask))
        wanted = mixed_em.fit_shares(half.points, half.codes, SIZES, release.mixture).mixture.shares
        assert set(release.shares) == set(SIZES)
        for name, shares in release.shares.items():
            np.testing.assert_array_equal(shares, wanted[name], err_msg=name)
    bare = NonPrivate().fit_many(Records(view.points), subsets, SPEC, seeded_randomness(1))
    assert [dict(release.shares) for release in bare] == [{}, {}]


def _records_with_blanks(rows=20_000, blank=None):
    """Two clusters whose second coordinate is blank more often where the first is high, given no other reason."""
    rng = np.random.default_rng(5)
    domain = make_domain(rows=rows, attributes=[("side", ("left", "right"))])
    state = Attribute(name="s1", description="", values=("there", "blank"), state_of=("v1",))
    domain = domain.model_copy(update={"attributes": (*domain.attributes, state)})
    side = rng.integers(2, size=rows)
    points = np.clip(0.3 * (2 * side[:, None] - 1) + rng.normal(0, 0.08, (rows, 2)), -0.7, 0.7)
    chance = 1 / (1 + np.exp(-6 * points[:, 0])) if blank is None else blank
    lacks = rng.random(rows) < chance
    truth = points.copy()
    points[lacks, 1] = 0.7
    return Records(points, {"side": side, "s1": lacks.astype(int)}), truth, Spec(domain, 2)


def test_records_that_lack_coordinates_take_part_without_the_bias_of_complete_ones():
    records, truth, spec = _records_with_blanks()
    release = NonPrivate().fit(records, spec, BUDGET, seeded_randomness(1))
    found = release.mixture
    assert found.weights @ found.means == pytest.approx(truth.mean(axis=0), abs=0.01)
    complete = truth[records.codes["s1"] == 0].mean(axis=0)
    assert (np.abs(complete - truth.mean(axis=0)) > 0.05).all()
    assert found.weights @ release.shares["s1"][:, 1] == pytest.approx(records.codes["s1"].mean(), abs=0.01)
    assert release.shares["side"].max(axis=1) == pytest.approx([1, 1], abs=0.02)


@pytest.mark.parametrize("blank", [0.0, 0.999, 1.0])
def test_few_or_no_complete_records_are_enough(blank):
    records, truth, spec = _records_with_blanks(2000, blank)
    found = NonPrivate().fit(records, spec, BUDGET, seeded_randomness(1)).mixture
    assert found.weights @ found.means[:, 0] == pytest.approx(truth[:, 0].mean(), abs=0.01)


def test_many_subsets_with_blanks_are_fitted_like_one():
    records, truth, spec = _records_with_blanks(3000)
    masks = [np.arange(3000) % 2 == 0, np.arange(3000) % 3 > 0]
    for mask, release in zip(
        masks, NonPrivate().fit_many(records, masks, spec, seeded_randomness(2)), strict=True
    ):
        alone = (
            NonPrivate().fit(records.select(np.flatnonzero(mask)), spec, BUDGET, seeded_randomness(2)).mixture
        )
        mean = release.mixture.weights @ release.mixture.means
        assert mean == pytest.approx(alone.weights @ alone.means, abs=0.01)
        assert mean == pytest.approx(truth[mask].mean(axis=0), abs=0.03)
