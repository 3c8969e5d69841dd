"""The public plan of every method is the ledger that its runs have, and synthetic rows follow from their seed."""

import numpy as np
import pytest
from making import clusters, make_domain, make_mechanism
from scipy import stats
from scipy.special import ndtri

from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import to_rows
from privmix.release import synthetic
from privmix.release.folder import Gaussians
from privmix.release.public_plan import mechanism_events

PRIVATE = [method for method in registry.METHODS if registry.method_class(method).private]
PERSON = {"unit": "person", "relation": "add_remove", "max_records_per_person": 3}
ROWS = 300


@pytest.mark.parametrize("method", PRIVATE)
@pytest.mark.parametrize(
    "changes", [{}, {"relation": "add_remove"}, PERSON], ids=["replaced", "added", "person"]
)
def test_the_plan_is_the_ledger_of_a_run(method, changes):
    domain = make_domain(rows=ROWS).model_copy(update=changes)
    mechanism, spec, budget = make_mechanism(method), Spec(domain, 3), Budget(1.5, 1e-6)
    records = Records(clusters(ROWS), persons=np.arange(ROWS, dtype=np.uint64))
    run = mechanism_run.run(mechanism, records, spec, budget, exact_randomness())
    assert to_rows(mechanism_events(mechanism, spec, budget)) == to_rows(run.events)


MIXTURE = Gaussians(
    weights=[0.3, 0.7], means=[[1.0, 2.0], [-1.0, 0.5]], covariances=[[[0.04, 0.01], [0.01, 0.09]]] * 2
)


NAMES = ("v0", "v1")
KNOWN = ["0x1.877e198096323p+0", "0x1.beebe7e35c16ep-3", "0x1.2c7c03b1bc2eep+1"]


def _wide_domain():
    domain = make_domain(2)
    axes = tuple(axis.model_copy(update={"lower": -9.0, "upper": 9.0}) for axis in domain.axes)
    return domain.model_copy(update={"axes": axes})


def test_synthetic_rows_have_the_same_bits_on_every_machine():
    """The rows of a known seed, to the last bit, and in parts of any size."""
    rows = synthetic.sample_rows(MIXTURE, _wide_domain(), {}, NAMES, 3000, "0f" * 16)
    parts = list(synthetic._sample(MIXTURE, _wide_domain(), {}, NAMES, 3000, "0f" * 16, 7))
    for name in NAMES:
        np.testing.assert_array_equal(rows[name], np.concatenate([part[name] for part in parts]))
    assert [value.hex() for value in rows["v1"][:3]] == KNOWN


def test_the_normal_quantile_is_accurate():
    share = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 10_001), 2.0 ** -np.arange(2, 54)])
    np.testing.assert_allclose(synthetic.normal_quantile(share), ndtri(share), rtol=2e-15, atol=1e-15)


def test_synthetic_rows_follow_the_mixture():
    """False alarm: 1e-6 for each of the tests."""
    made = synthetic.sample_rows(MIXTURE, _wide_domain(), {}, NAMES, 50_000, "5a" * 16)
    rows = np.column_stack([made[name] for name in NAMES])
    first = rows[:, 0] > 0
    assert stats.binomtest(int(first.sum()), 50_000, 0.3).pvalue > 1e-6
    white = np.linalg.solve(np.linalg.cholesky(MIXTURE.covariances[0]), (rows[first] - MIXTURE.means[0]).T)
    for numbers in (*white, white.sum(axis=0) / np.sqrt(2)):
        assert stats.kstest(numbers, "norm").pvalue > 1e-6


def test_the_factor_of_a_covariance_is_the_usual_one():
    matrix = np.cov(np.random.default_rng(0).normal(size=(5, 40)))
    np.testing.assert_allclose(synthetic.cholesky(matrix.tolist()), np.linalg.cholesky(matrix), atol=1e-14)
