"""Fits to noisy rows: knowing the noise never loses, and with very little noise the fit is that to the records."""

import numpy as np
import pytest
from making import make_domain

from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, Spec, seeded_randomness
from privmix.mechanisms.central.non_private import NonPrivate
from privmix.mechanisms.local.input_noise import fit_rows, report_columns
from privmix.mechanisms.run import run
from privmix.mixture.deconvolution import gaussian_scales
from privmix.privacy.accounting import Budget

# How much noise: the budget, or for planar noise the mean displacement as a share of the box's diagonal.
METHODS = ("laplace_input", "gaussian_input", "planar_laplace")


def places(rows, seed):
    """Towns of many sizes over a map, some of them narrow and close together."""
    rng = np.random.default_rng(seed)
    towns = np.random.default_rng(7)
    centres = towns.uniform(-0.5, 0.5, (6, 2))
    centres[3:5] = centres[2] + [[0.04, 0.0], [0.0, 0.06]]
    widths = np.array([0.1, 0.05, 0.008, 0.004, 0.01, 0.002])
    town = rng.choice(6, rows, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    return np.clip(centres[town] + widths[town, None] * rng.normal(size=(rows, 2)), -0.7, 0.7)


def on_a_map(rows):
    """The box of `make_domain` as a map at the equator, of one degree of latitude and longitude a unit."""
    domain = make_domain(rows=rows)
    kinds = ("latitude", "longitude")
    axes = [
        axis.model_copy(update={"geographic": kind}) for axis, kind in zip(domain.axes, kinds, strict=True)
    ]
    return Spec(domain.model_copy(update={"axes": tuple(axes)}), 6)


def fitted(method, reading, records, epsilon):
    parameters = {"fit": reading} | ({"within_m": 3000.0} if method == "planar_laplace" else {})
    mechanism = registry.build(method, parameters)
    spec = on_a_map(len(records))
    return run(
        mechanism, Records(records), spec, Budget(epsilon, 1e-6), seeded_randomness(3, method, epsilon)
    ).mixture


@pytest.mark.parametrize("method", METHODS)
def test_with_hardly_any_noise_it_is_as_good_as_the_fit_to_the_records(method):
    records, held_out = places(2500, 1), places(4000, 2)
    plain = NonPrivate().fit(Records(records), on_a_map(2500), Budget(1.0, 0.0), seeded_randomness(1)).mixture
    epsilon = {"laplace_input": 1e6, "gaussian_input": 1e9, "planar_laplace": 1e4}[method]
    aware = fitted(method, "aware", records, epsilon)
    assert aware.log_density(held_out).mean() > plain.log_density(held_out).mean() - 0.02


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_knowing_the_noise_never_loses(method, epsilon):
    """Planar noise moves a place by 4 % to four times the box, the others by more."""
    records, held_out = places(2500, 1), places(4000, 2)
    naive, aware = (
        fitted(method, reading, records, epsilon).log_density(held_out).mean()
        for reading in ("naive", "aware")
    )
    assert aware > naive + 0.1


@pytest.mark.parametrize("reading", ["naive", "aware"])
@pytest.mark.parametrize("method", METHODS)
def test_one_report_or_one_place_gives_a_valid_mixture(method, reading):
    for records in (np.zeros((1, 2)), np.full((40, 2), 0.2)):
        for epsilon in (0.01, 100.0):
            mixture = fitted(method, reading, records, epsilon)
            assert np.isfinite(mixture.log_density(np.zeros((1, 2)))).all()
            least = np.linalg.eigvalsh(mixture.covariances).min()
            assert least > 0.9e-6  # the floor, up to the rounding of variances as large as the noise's
            if reading == "aware":
                assert least >= 1e-6 * (1 - 1e-9)
                assert (np.abs(mixture.means) <= 1 / np.sqrt(2) + 1e-9).all()


def test_rows_are_stored_in_single_precision_and_fitted_in_double():
    rows = places(500, 1)
    answers = report_columns(rows)
    assert {column.dtype for column in answers.columns.values()} == {np.dtype(np.float32)}
    spec, noise = on_a_map(500), gaussian_scales(1e-3, 2)
    for reading in ("naive", "aware"):
        fit = fit_rows(answers, spec, noise, reading, np.random.default_rng(0), 1)
        assert fit.mixture.means.dtype == np.float64
