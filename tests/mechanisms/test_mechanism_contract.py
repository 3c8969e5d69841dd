"""What every central mechanism keeps to: no data makes it fail, and its claim is its budget."""

import numpy as np
import pytest
from making import clusters, make_spec

from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded
from privmix.privacy.accounting import Budget, account

CENTRAL = [
    name
    for name in registry.METHODS
    if registry.method_class(name).trust == "central" and registry.method_class(name).private
]
UNITS = [("record", 1), ("person", 3)]
RELATIONS = ["add_remove", "replace_one"]


def _fit(method, points, epsilon=1.0, **domain):
    mechanism = registry.build(method, {})
    records = Records(points, {}, np.arange(len(points)) // domain.get("max_records", 1))
    release = mechanism.fit(records, make_spec(**domain), Budget(epsilon, 1e-6), seeded(1, method))
    return mechanism, release


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("points", [np.zeros((0, 2)), np.zeros((1, 2))], ids=["nobody", "one record"])
def test_nobody_is_no_failure(method, points):
    """Under add-or-remove the neighbour of one record is none: an error would tell them apart."""
    _, release = _fit(method, points, relation="add_remove", rows=50)
    mixture = release.mixture
    assert np.isfinite(mixture.log_density(np.zeros((1, 2)))).all()
    assert (np.linalg.eigvalsh(mixture.covariances) > 0).all()


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("unit", "limit"), UNITS)
def test_the_ledger_adds_up_to_the_budget(method, unit, limit, relation):
    """Under the mechanism's own composition, to 1e-6; and tight composition never costs more."""
    domain = {"unit": unit, "max_records": limit, "relation": relation, "rows": 600}
    mechanism, release = _fit(method, clusters(600), epsilon=1.5, **domain)
    total = account(release.events, release.claim.delta, mechanism.accountant)
    assert total.epsilon == release.claim.epsilon == pytest.approx(1.5, rel=1e-6)
    assert total.epsilon <= 1.5 * (1 + 1e-9)
    assert release.claim.delta <= 1e-6
    assert account(release.events, 1e-6, "exact").epsilon <= 1.5 * (1 + 1e-9)


@pytest.mark.parametrize("method", CENTRAL)
def test_a_budget_that_leaves_only_noise_gives_a_mixture_and_says_so(method):
    _, release = _fit(method, clusters(200), epsilon=1e-3, relation="add_remove", rows=200)
    assert np.isfinite(release.mixture.log_density(clusters(200))).all()
    assert any("noise" in note for note in release.notes), release.notes
