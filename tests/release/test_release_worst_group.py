"""A release that aims at the worst group: its plan, its transcript, its notes, and `privmix verify`."""

import base64
import copy
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from making import make_domain
from walks_park import CONFIG

from privmix import cli
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness
from privmix.mechanisms.shared import attribute_counts
from privmix.privacy.accounting import Budget
from privmix.privacy.ledger import to_rows
from privmix.release import derived_values, make, signing, transcripts, verify
from privmix.release.folder import (
    CARD,
    CHECKSUMS,
    MODEL,
    PAGE,
    SYNTHETIC_CSV,
    SYNTHETIC_PARQUET,
    ReleasedModel,
    checksums,
)
from privmix.release.public_plan import PublicPlan, mechanism_events

BUDGET = Budget(4.0, 0.0)
ROWS = 20_000
PAIRS = [
    (method, relation)
    for method in ("noisy_tree", "noisy_grid")
    for relation in ("replace_one", "add_remove")
]


def make_plan(method, relation):
    spec = Spec(make_domain(rows=ROWS, relation=relation, attributes=[("dog", ("no", "yes", "both"))]), 2)
    parameters = {"searches": 1, "worst_of": "dog"}
    mechanism = registry.build(method, parameters)
    attributes = attribute_counts.make_plan(mechanism, spec, BUDGET)
    job = mechanism_run.MechanismJob("made", method, parameters, mechanism, BUDGET, (2,), 0.1, 1, None)
    return PublicPlan(job, spec, attributes.left, None, (), attributes)


def make_records():
    rng = np.random.default_rng(1)
    side = rng.integers(2, size=ROWS)
    points = np.clip(0.25 * (2 * side[:, None] - 1) + rng.normal(0, 0.06, (ROWS, 2)), -0.5, 0.5)
    return Records(points, {"dog": np.where(rng.random(ROWS) < 0.8, side, 2)})


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def released(request):
    plan = make_plan(*request.param)
    return plan, mechanism_run.run(plan.mechanism, make_records(), plan.spec, BUDGET, exact_randomness())


def forged(release, edit):
    transcript = copy.deepcopy(release.transcript)
    table = np.frombuffer(base64.b64decode(transcript[1]["groups"]), dtype="<f8").reshape(-1, 3)
    transcript[1]["groups"] = base64.b64encode(edit(table).astype("<f8").tobytes()).decode()
    return transcript


def test_the_plan_is_the_ledger_of_a_run(released):
    plan, release = released
    planned = [*mechanism_events(plan.mechanism, plan.mixture_spec, plan.budget), plan.attributes.event]
    assert to_rows(planned) == to_rows(release.events)
    assert [event.label for event in release.events][-2:] == ["group counts", "attribute counts"]


def test_an_honest_transcript_passes_and_its_notes_follow(released):
    plan, release = released
    transcripts.check_transcript(release.transcript, plan)
    model = SimpleNamespace(transcript=release.transcript, domain=plan.spec.domain)
    notes = derived_values._exact_notes(model, plan)
    (cost,) = [note for note in release.notes if note.startswith("In the noisy counts")]
    assert list(notes) == [note for note in release.notes if "component" not in note and note != cost]
    forms = list(derived_values._note_forms(SimpleNamespace(original=release.mixture), plan))
    assert sum(re.fullmatch(form, cost) is not None for form in forms) == 1
    assert any("aims at the worst of these groups of dog" in note for note in release.notes)


def _moved(table):
    """Move 200 members of the first group from each of four regions to one region. All numbers stay plausible."""
    order, edited = np.argsort(-table[:, 0]), table.copy()
    edited[order[:4], 0] -= 200.0
    edited[order[-1], 0] += 800.0
    return edited


EDITS = {
    "no noise": np.rint,
    "another number of records": lambda table: np.rint(0.5 * table) + 0.3 * table,
    "other groups": lambda table: (
        table[:, [1, 0, 2]] if abs(table[:, 0].sum() - table[:, 1].sum()) > 4000 else table[:, [2, 1, 0]]
    ),
    "records in another region": _moved,
    "a region too few": lambda table: table[1:],
    "a number off the lattice": lambda table: table + 1e-8,
}


@pytest.mark.parametrize("name", EDITS)
def test_an_altered_table_of_groups_is_refused(released, name):
    plan, release = released
    with pytest.raises(UserError, match=r"do not publish it"):
        transcripts.check_transcript(forged(release, EDITS[name]), plan)


def test_a_missing_or_additional_measurement_is_refused(released):
    plan, release = released
    for transcript in (
        [release.transcript[0], release.transcript[2]],
        [*release.transcript[:2], release.transcript[1], release.transcript[2]],
    ):
        with pytest.raises(UserError, match="the number of measurements"):
            transcripts.check_transcript(transcript, plan)


def test_a_release_is_verified_and_an_altered_one_refused(park, capsys):
    """The whole way: `privmix release`, `privmix verify`, and two forgeries whose other files agree with them."""
    fair = {"method": "noisy_tree", "searches": 1, "worst_of": "dog"}
    park.write(config={"mechanisms": {**CONFIG["mechanisms"], "fair": fair}})
    folder = park.release("fair", 2.0)
    cli.main(["verify", str(folder)])
    original = (folder / MODEL).read_text()
    for change, said in (
        (lambda model: model["parameters"].update(worst_of="cat"), "no attribute"),
        (lambda model: model["parameters"].pop("worst_of"), "do not publish it|public plan"),
        (lambda model: model["notes"].append("The worst group is fine."), "notes"),
    ):
        content = json.loads(original)
        change(content)
        make._write_files(ReleasedModel.model_validate_json(json.dumps(content)), folder)
        names = (MODEL, CARD, PAGE, SYNTHETIC_CSV, SYNTHETIC_PARQUET)
        (folder / CHECKSUMS).write_text(checksums(folder, names))
        signing.sign(folder, Ed25519PrivateKey.generate())
        with pytest.raises(UserError, match=said):
            verify.verify(folder)
