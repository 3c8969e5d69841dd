"""The findings depend on the mechanism, and not on the position of a person's records."""

import numpy as np
import pytest
from making import LOCAL, clusters, make_mechanism, make_spec

from privmix.audit import replay
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.privacy.accounting import Budget


@pytest.mark.parametrize("method", LOCAL)
def test_people_with_several_records_pass_in_the_order_of_any_pseudonyms(method):
    """Pseudonyms are hashes: the person with the largest one may be anywhere in the file."""
    people = np.random.default_rng(5).integers(2**63, size=100, dtype=np.uint64)
    records = Records(clusters(300), {"night": np.arange(300) % 2}, np.repeat(people, 3))
    spec = make_spec(rows=300, unit="person", max_records=4, attributes=(("night", ("no", "yes")),))
    found = replay.audit_local_mechanism(
        make_mechanism(method),
        records,
        spec,
        Budget(1.0, 1e-6),
        lambda number: seeded_randomness(1, method, number),
    )
    assert found.findings == []
