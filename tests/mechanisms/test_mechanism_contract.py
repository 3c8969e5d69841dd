"""The contract of every central mechanism: it fails on no data, and its claim is its budget."""

import numpy as np
import pytest
from making import clusters, make_domain, make_spec

from privmix.artefacts.clean import CleanData, CleanInfo, RowCounts
from privmix.artefacts.privacy_statement import randomises_records
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, seeded_randomness, training_records
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
    release = mechanism.fit(records, make_spec(**domain), Budget(epsilon, 1e-6), seeded_randomness(1, method))
    return mechanism, release


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("points", [np.zeros((0, 2)), np.zeros((1, 2))], ids=["no records", "one record"])
def test_no_records_do_not_fail(method, points):
    """Under add-or-remove the empty dataset is a neighbour of one record: an error would tell them apart."""
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


def test_units_are_records_or_persons():
    records = Records(np.zeros((4, 2)), {}, np.array([7, 3, 7, 9], dtype=np.uint64))
    assert records.units("person").tolist() == [1, 0, 1, 2]
    assert records.units("record").tolist() == [0, 1, 2, 3]
    with pytest.raises(UserError, match="the person of each record"):
        Records(np.zeros((4, 2))).units("person")


@pytest.mark.parametrize(
    ("unit", "limit", "fails"), [("record", 1, False), ("person", 2, False), ("person", 1, True)]
)
def test_a_clean_file_with_more_records_of_a_person_than_the_limit_is_refused(unit, limit, fails):
    domain = make_domain(unit=unit, max_records=limit)
    counts = RowCounts(read=3, kept=3, dropped={}, clipped={}, persons=2, train=3, holdout=0)
    info = CleanInfo(domain=domain, entry_digest="", raw_sha256="", counts=counts, isolated=())
    data = CleanData(info, np.zeros((3, 2)), {}, np.array([5, 5, 6], dtype=np.uint64), np.ones(3, dtype=bool))
    if fails:
        with pytest.raises(UserError, match="limit of 1"):
            training_records(data)
    else:
        assert len(training_records(data)) == 3


@pytest.mark.parametrize("method", registry.METHODS)
def test_a_mechanism_and_its_statement_agree_on_who_randomises(method):
    chosen = registry.method_class(method)
    assert chosen.randomises_records == randomises_records(chosen.trust) == (method in registry.LOCAL)
