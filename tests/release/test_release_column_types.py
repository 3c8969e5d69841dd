"""A release of every type of column: types, lattices, atoms and blanks of the synthetic rows, and its verification."""

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from clinic import ENTRY, HEAD
from walks_park import CONFIG

from privmix import cli
from privmix.release import verify
from privmix.release.folder import read_release

ROWS = 2000


def write_clinic(folder):
    """Write records in which the number of visits decides about blanks and smoking."""
    rng = np.random.default_rng(5)
    ill = rng.random(ROWS) < 0.4
    lines = []
    for sick in ill:
        visits = rng.poisson(12) if sick else 0 if rng.random() < 0.6 else rng.poisson(2)
        day = datetime.date(2020, 1, 1) + datetime.timedelta(days=int(rng.integers(200 if sick else 366)))
        weight = "" if sick and rng.random() < 0.8 else f"{rng.normal(80, 10):.1f}"
        pain = "" if rng.random() < 0.1 else ("none", "some", "much")[rng.binomial(2, 0.8 if sick else 0.1)]
        smokes, ward = ("true" if sick else "false"), "" if rng.random() < 0.2 else "ab"[int(sick)]
        lines.append(f"{min(visits, 30)},{day},{pain},{weight},{smokes},{ward},{'I' if sick else 'II'}")
    (folder / "clinic.csv").write_text(HEAD + "\n".join(lines) + "\n")
    for name in ("config", "catalog"):
        (folder / name).mkdir()
    (folder / "config/config.yaml").write_text(
        yaml.safe_dump({**CONFIG, "datasets": ["clinic"], "components": 4})
    )
    (folder / "catalog/clinic.yaml").write_text(yaml.safe_dump(ENTRY))
    return ill


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_clinic(folder)
        for mechanism in ("moments", "grid", "response"):
            cli.main(["release", "clinic", "--mechanism", mechanism, "--epsilon", "4", "--out", mechanism])
    return folder


@pytest.mark.parametrize("mechanism", ["moments", "grid", "response"])
def test_all_columns_come_back_in_their_types(clinic, mechanism):
    model = verify.verify(clinic / mechanism)
    assert model.synthetic.left_out == ()
    table = pq.read_table(clinic / mechanism / "synthetic.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "visits": "int64", "seen": "date32[day]", "pain": "string", "weight": "double", "smokes": "bool",
        "ward": "string", "grade": "string",
    }  # fmt: skip
    rows = table.to_pandas()
    assert set(rows["visits"]) <= {*range(31), 99}
    dates = rows["seen"].dropna()
    assert dates.between(datetime.date(2020, 1, 1), datetime.date(2020, 12, 31)).all()
    assert set(rows["pain"].dropna()) <= {"none", "some", "much"}
    assert set(rows["grade"]) <= {"I", "II", "III"}
    assert rows["weight"].dropna().between(30, 200).all()
    text = pd.read_csv(clinic / mechanism / "synthetic.csv", dtype=str, keep_default_na=False)
    assert set(text["smokes"]) <= {"true", "false", ""}
    assert (text["weight"] == "").tolist() == rows["weight"].isna().tolist()
    assert text["seen"].tolist() == ["" if day is None else str(day) for day in table["seen"].to_pylist()]
    assert text["visits"].tolist() == [str(number) for number in table["visits"].to_pylist()]


@pytest.mark.parametrize("epsilon", [2, 3])
def test_a_release_that_tries_a_split_by_an_attribute_verifies(clinic, monkeypatch, epsilon):
    """Four coordinates leave no components to spare, so noisy moments tries a split before it grows.

    At ε = 2 there is no wide mixture, and the whole model is derived from the transcript.
    """
    monkeypatch.chdir(clinic)
    config = yaml.safe_load((clinic / "config/config.yaml").read_text())
    config |= {"mechanisms": {"long": {"method": "noisy_moments"}}, "components": 5}
    (clinic / "config/long.yaml").write_text(yaml.safe_dump(config))
    words = ["--mechanism", "long", "--epsilon", str(epsilon), "--configfile", "config/long.yaml"]
    cli.main(["release", "clinic", *words, "--out", f"long-{epsilon}"])
    model = verify.verify(clinic / f"long-{epsilon}")
    counts = [len(entry["counts"]) for entry in model.transcript if entry.get("stage") == "whole"]
    assert counts == [1, 1, 2]


def test_the_card_does_not_say_that_atoms_outside_the_bounds_are_clipped(clinic):
    card = (clinic / "grid/MODEL_CARD.md").read_text()
    [visits] = [line for line in card.splitlines() if line.startswith("- `visits`:")]
    assert "values outside are clipped, except 99, which has a share of its own." in visits
    [seen] = [line for line in card.splitlines() if line.startswith("- `weight`:")]
    assert "values outside are clipped." in seen


def test_blanks_and_atoms_are_in_the_company_of_their_values(clinic):
    raw = pd.read_csv(clinic / "clinic.csv")
    made = pd.read_csv(clinic / "moments/synthetic.csv")
    for table in (raw, made):
        table["blank"] = table["weight"].isna()
    assert made["blank"].mean() == pytest.approx(raw["blank"].mean(), abs=0.08)
    assert (made["visits"] == 0).mean() == pytest.approx((raw["visits"] == 0).mean(), abs=0.1)
    gap = [table.groupby("smokes")["blank"].mean().diff().iloc[-1] for table in (raw, made)]
    assert gap[1] > 0.6 * gap[0] > 0.3


def test_the_card_names_types_and_states(clinic):
    card = (clinic / "moments/MODEL_CARD.md").read_text()
    for phrase in (
        "Public bounds: 0 to 30", "Whole numbers.", "2020-01-01 to 2020-12-31", "Resolution: 1 day",
        "Public values, in their order: none, some and much", "`weight is`", "given and blank",
        "`visits, seen, pain are`",
        "blanks, and values with a share of their own",
    ):  # fmt: skip
        assert phrase in card, phrase


def forged(folder, change):
    content = json.loads((folder / "model.json").read_text())
    change(content["domain"])
    model = read_release(folder)
    return type(model).model_validate({**content})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda domain: domain["axes"][0].update(atoms=[0, 98]), "the types of the columns"),
        (lambda domain: domain["axes"][0].update(lower=-0.7), "bounds of a coordinate"),
        (lambda domain: domain["axes"][2].update(labels=["none", "much"]), "map into the unit ball"),
        (lambda domain: domain["attributes"][0].update(blank=False), "the types of the columns"),
        (lambda domain: domain["attributes"][1].update(boolean=True), "the types of the columns"),
        (lambda domain: domain["attributes"][4].update(state_of=["pain"]), "the types of the columns"),
        (lambda domain: domain["attributes"][4].update(state_of=[]), "the types of the columns"),
        (
            lambda domain: domain["attributes"][4].update(values=["given", "Jane Doe"]),
            "the types of the columns",
        ),
        (lambda domain: domain["attributes"][3].update(sizes=[2, 3, 2]), "the types of the columns"),
    ],
)
def test_a_domain_that_contradicts_its_types_is_refused(clinic, change, sentence):
    from privmix.errors import UserError
    from privmix.release.model_form import check_domain

    with pytest.raises(UserError, match=sentence):
        check_domain(forged(clinic / "moments", change))
