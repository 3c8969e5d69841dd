"""The non-private fit of records with attributes: the same mixture as without them, and the best shares for it."""

import numpy as np
from making import clusters, make_spec

from privmix.artefacts.fitted_model import FittedModel
from privmix.mechanisms.base import Records, seeded_randomness
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
