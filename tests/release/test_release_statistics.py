"""Statistics in a release: what is published, what the card says, and forgeries that `privmix verify` refuses.

Each forger recomputes the checksums and everything that follows from model.json, and signs with a key of their own.
"""

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from walks_park import Park

from privmix.audit import noise_tests
from privmix.errors import UserError
from privmix.privacy.ledger import STATISTIC
from privmix.release import make, signing, verify
from privmix.release.folder import CARD, CHECKSUMS, MODEL, PAGE, ReleasedModel, checksums, read_release

FORGER = Ed25519PrivateKey.generate()
ASKED = [
    {"count": "all"},
    {"count": {"dog": True}},
    {"mean": "east"},
    {"quantile": "north", "q": 0.5},
    {"histogram": "dog"},
    {"histogram": "east", "bins": 4},
    {"top": "dog", "by": "exponential"},
    {"top": "dog", "by": "noisy_max"},
]
PRIVATE_SIZE = {"privacy": {"unit": "record", "relation": "add_remove", "person_column": "who"},
                "expected": {"rows": 300}}  # fmt: skip


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Releases of a pure and a Gaussian mechanism, with a public and with a private number of records."""
    found = {}
    for size, entry in (("public", None), ("private", PRIVATE_SIZE)):
        folder = tmp_path_factory.mktemp(size)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(noise_tests.noise_findings, "__defaults__", (1e-9,))
            patch.chdir(folder)
            park = Park(folder)
            park.write(entry=entry, config={"statistics": ASKED, "statistics_share": 0.5})
            for mechanism in ("grid", "moments", "response"):
                found[size, mechanism] = park.release(mechanism, 1.0, "--synthetic", "20", out=mechanism)
    return found


CENTRAL = [(size, mechanism) for size in ("public", "private") for mechanism in ("grid", "moments")]


@pytest.mark.parametrize("case", CENTRAL)
def test_a_release_holds_all_statistics_with_their_events(released, case):
    model = read_release(released[case])
    assert [each.request.kind for each in model.statistics] == [next(iter(asked)) for asked in ASKED]
    paid = {
        row["label"].removeprefix(STATISTIC)
        for row in model.privacy.ledger
        if row["label"].startswith(STATISTIC)
    }
    assert len(paid) == len(ASKED) + 2 - (case[0] == "public")  # a quantile has three measurements
    assert model.statistics[0].public == (case[0] == "public")
    assert model.privacy.epsilon <= 1 + 1e-6
    assert model.privacy.delta == (0.0 if case[1] == "grid" else 1e-6)
    assert verify.verify(released[case]) == model


@pytest.mark.parametrize("case", CENTRAL)
def test_card_and_page_show_each_statistic_with_its_accuracy(released, case):
    model = read_release(released[case])
    for text in ((released[case] / CARD).read_text(), (released[case] / PAGE).read_text()):
        for each in model.statistics:
            assert each.name in text or each.request.kind == "histogram"
        assert "With 95 % probability" in text
        assert "within ± " in text
        assert " km" in text
        assert "records with dog = yes" in text


def test_a_local_mechanism_says_why_it_has_none(released):
    model = read_release(released["public", "response"])
    assert model.statistics == []
    assert "statistics of the configuration are not measured" in model.notes[-1]
    verify.verify(released["public", "response"])


def forge(folder: Path, place: Path, edit) -> Path:
    """Copy a release, change its model, and write everything that follows from it."""
    copy = Path(shutil.copytree(folder, place / "forged"))
    content = json.loads((copy / MODEL).read_text())
    edit(content)
    make._write_files(ReleasedModel.model_validate_json(json.dumps(content)), copy)
    (copy / CHECKSUMS).write_text(checksums(copy, read_release(copy).files))
    signing.sign(copy, FORGER)
    return copy


def move_value(model):
    model["statistics"][2]["values"][0] += 0.5


def narrow_interval(model):
    model["statistics"][2]["lower"][0] += 0.01


def understate_accuracy(model):
    model["statistics"][1]["accuracy"] = 1.0


def add_digits(model):
    model["statistics"][2]["values"][0] += 1e-12


def remove_event(model):
    rows = model["privacy"]["ledger"]
    model["privacy"]["ledger"] = [row for row in rows if "mean" not in row["label"]]


def remove_all_events_and_requests(model):
    model["privacy"]["ledger"] = [row for row in model["privacy"]["ledger"] if STATISTIC not in row["label"]]
    model["statistics_asked"], model["statistics_share"] = [], None


def add_statistic_without_event(model):
    model["statistics_asked"].append({**model["statistics_asked"][2], "column": "north"})
    model["statistics"].append({**model["statistics"][2], "request": model["statistics_asked"][-1]})
    model["transcript"][-1]["statistics"].append(model["transcript"][-1]["statistics"][2])


def add_published_statistic(model):
    model["statistics"].append(model["statistics"][2])


def change_share(model):
    model["statistics_share"] = 0.4


def publish_count_of_the_winner(model):
    model["transcript"][-1]["statistics"][6] = [1, 212]


def leave_the_lattice(model):
    model["transcript"][-1]["statistics"][2][0] = 0.1


def choose_another_winner(model):
    model["statistics"][6]["chosen"] = "no" if model["statistics"][6]["chosen"] == "yes" else "yes"


def move_a_bracket(model):
    model["transcript"][-1]["statistics"][3][1] = 5000


def invent_a_sum(model):
    model["transcript"][-1]["statistics"][2][0] = 1e6


def count_too_many(model):
    model["transcript"][-1]["statistics"][4] = [1e7, 1e7]


def call_it_public(model):
    model["statistics"][1]["public"] = True


def ask_for_another_column(model):
    model["statistics_asked"][2]["column"] = "north"


FORGERIES = {
    move_value: "statistics do not follow",
    narrow_interval: "statistics do not follow",
    understate_accuracy: "statistics do not follow",
    add_digits: "statistics do not follow",
    remove_event: "ledger is not the one",
    remove_all_events_and_requests: "transcript|ledger|settings",
    add_statistic_without_event: "ledger is not the one",
    add_published_statistic: "statistics do not follow",
    change_share: "ledger is not the one",
    publish_count_of_the_winner: "options of the most frequent dog",
    leave_the_lattice: "off the lattice",
    choose_another_winner: "statistics do not follow",
    move_a_bracket: "options of the 0.5-quantile",
    invent_a_sum: "do not have the noise|sum and a number",
    count_too_many: "do not have the noise|add up to",
    call_it_public: "statistics do not follow",
    ask_for_another_column: "ledger is not the one",
}


@pytest.mark.parametrize("edit", FORGERIES, ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("case", CENTRAL, ids=" ".join)
def test_forged_statistics_are_refused(released, case, edit, tmp_path):
    forged = forge(released[case], tmp_path, edit)
    with pytest.raises(UserError, match=FORGERIES[edit]):
        verify.verify(forged)


def test_a_copy_that_was_not_changed_passes(released, tmp_path):
    verify.verify(forge(released["private", "moments"], tmp_path, lambda model: None))


def test_a_release_of_a_local_mechanism_cannot_gain_statistics(released, tmp_path):
    own = json.loads((released["public", "grid"] / MODEL).read_text())["statistics"][1:2]
    forged = forge(released["public", "response"], tmp_path, lambda model: model.update(statistics=own))
    with pytest.raises(UserError, match="statistics do not follow"):
        verify.verify(forged)


def test_a_paid_choice_of_components_comes_before_the_statistics(park):
    """Their share is of the budget that the choice leaves; verify knows the whole ledger."""
    park.write(
        config={
            "statistics": ASKED,
            "components": "auto",
            "component_choice": {"candidates": [1, 2]},
            "mechanisms": {
                "em": {"method": "dp_em", "noise": "ggg", "composition": "exact", "iterations": 2}
            },
        }
    )
    model = read_release(park.release("em", 1.0, "--synthetic", "20", out="em"))
    labels = [row["label"] for row in model.privacy.ledger]
    assert labels[0] == "number of Gaussians"
    assert labels[-1].startswith(STATISTIC)
    choices = [row["epsilon"] for row in model.privacy.ledger if row["label"].startswith(f"{STATISTIC}most")]
    assert (
        choices == [pytest.approx(0.9 * 0.1 / 7)] * 2
    )  # of ε = 1: 0.9 is left, and seven statistics cost something
    assert model.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
