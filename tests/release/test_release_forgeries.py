"""Forged releases: each forger recomputes the checksums and signs with a key of their own.

With the key of the curator all of them are refused. Without it, those are refused that contradict the folder or the
public plan of the mechanism. The rest is called internally consistent, origin not proven.
"""

import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from making import make_mechanism
from pydantic import ValidationError
from walks_park import Park, points

from privmix import cli
from privmix.artefacts.io import PARQUET_SEAL
from privmix.artefacts.io import seal as seal_file
from privmix.artefacts.private import PrivateInfo, read_private
from privmix.errors import UserError
from privmix.mechanisms.base import Records, Spec, seeded_randomness
from privmix.mechanisms.run import run
from privmix.privacy.accounting import Budget
from privmix.release import (
    closed_files,
    make,
    page,
    pictures,
    public_plan,
    report_files,
    signing,
    synthetic,
    transcripts,
    verify,
)
from privmix.release import folder as folder_form
from privmix.release.folder import (
    CARD,
    CHECKSUMS,
    MODEL,
    PAGE,
    REPORTS,
    SIGNATURE,
    SYNTHETIC_CSV,
    SYNTHETIC_PARQUET,
    ReleasedModel,
    checksums,
    read_release,
)

FORGER = Ed25519PrivateKey.generate()
SECRETS = points(3).tolist()  # true records


def seal(folder: Path) -> None:
    """Write matching checksums and sign them with the key of the forger."""
    local = (folder / REPORTS).exists()
    names = (MODEL, CARD, PAGE, SYNTHETIC_CSV, SYNTHETIC_PARQUET, *((REPORTS,) if local else ()))
    (folder / CHECKSUMS).write_text(checksums(folder, names))
    signing.sign(folder, FORGER)


def edited(edit):
    """Change model.json only."""

    def forge(folder):
        content = json.loads((folder / MODEL).read_text())
        edit(content)
        (folder / MODEL).write_text(written(content))

    return forge


def written(content):
    """Return the text of a model, as Privmix writes it if it can."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    try:
        return ReleasedModel.model_validate_json(text).model_dump_json(indent=1)
    except ValidationError:
        return text


def rebuilt(edit):
    """Change model.json, and write the card, the page and the synthetic rows that it gives."""

    def forge(folder):
        content = json.loads((folder / MODEL).read_text())
        edit(content)
        make._write_files(ReleasedModel.model_validate_json(json.dumps(content)), folder)

    return forge


def replaced(name, before, after):
    """Change the text of one file."""

    def forge(folder):
        text = (folder / name).read_text()
        assert before in text
        (folder / name).write_text(text.replace(before, after, 1))

    return forge


def _with(**changes):
    return lambda model: model.update(changes)


def _privacy(**changes):
    return lambda model: model["privacy"].update(changes)


def _values(*values, **changes):
    return lambda model: model["domain"]["attributes"][0].update(values=list(values), **changes)


def _halve_epsilon(model):
    model["privacy"].update(epsilon=0.5, budget_epsilon=0.5)
    for row in model["privacy"]["ledger"]:
        row["epsilon"] /= 2


def _more_noise_in_the_ledger(model):
    """The claim fits the ledger, but the ledger does not fit the budget."""
    [row] = [row for row in model["privacy"]["ledger"] if row["label"] == "refining"]
    row["noise_multiplier"] *= 2
    events = verify.from_rows(model["privacy"]["ledger"])
    model["privacy"]["epsilon"] = verify.compose_run(events, 1e-6, "exact").epsilon


def _fewer_events(model):
    [row] = [row for row in model["privacy"]["ledger"] if row["label"] == "refining"]
    row["count"] -= 1
    events = verify.from_rows(model["privacy"]["ledger"])
    model["privacy"]["epsilon"] = verify.compose_run(events, 1e-6, "exact").epsilon


def _other_weights(model):
    for units in ("normalised", "original"):
        weights = model[units]["weights"]
        weights[:] = (
            [1.0] if len(weights) == 1 else [weights[0] / 2, *weights[1:-1], weights[-1] + weights[0] / 2]
        )
    _other_means(model)


def _other_means(model):
    for units in ("normalised", "original"):
        model[units]["means"][0] = [value / 2 for value in model[units]["means"][0]]


def _true_rows(folder):
    """Synthetic rows that are true records, in both files."""
    model = read_release(folder)
    rows = points(model.synthetic.rows)
    table = pa.table({"east": rows[:, 0], "north": rows[:, 1]})
    pq.write_table(table, folder / SYNTHETIC_PARQUET, compression="none")
    lines = [f"{east!r},{north!r}" for east, north in rows.tolist()]
    (folder / SYNTHETIC_CSV).write_text("\n".join(["east,north", *lines]) + "\n")


def _one_row(folder):
    lines = (folder / SYNTHETIC_CSV).read_text().splitlines()
    lines[7] = ",".join(map(repr, SECRETS[0]))
    (folder / SYNTHETIC_CSV).write_text("\n".join(lines) + "\n")


def _more_rows(folder):
    with (folder / SYNTHETIC_CSV).open("a") as stream:
        stream.write(",".join(map(repr, SECRETS[0])) + "\n")


def _parquet(change, name=SYNTHETIC_PARQUET):
    """Change the table of a Parquet file."""

    def forge(folder):
        pq.write_table(change(pq.ParquetFile(folder / name).read()), folder / name, compression="none")

    return forge


def _reworded(edit):
    """Change the text of model.json in a way that Privmix would write otherwise."""

    def forge(folder):
        content = json.loads((folder / MODEL).read_text())
        edit(content)
        (folder / MODEL).write_text(json.dumps(content, indent=1, ensure_ascii=False))

    return forge


def _other_writer(folder):
    content = (folder / SYNTHETIC_PARQUET).read_bytes()
    version = pa.cpp_version.encode()
    other = version[:-1] + bytes([version[-1] ^ 1])
    assert content.count(b"version " + version) == 1
    (folder / SYNTHETIC_PARQUET).write_bytes(content.replace(b"version " + version, b"version " + other))


def _damaged_page(folder):
    content = bytearray((folder / REPORTS).read_bytes())
    content[4:24] = b"\xff" * 20
    (folder / REPORTS).write_bytes(content)
    seal_file(folder / REPORTS)


def _huge_footer(folder):
    content = (folder / SYNTHETIC_PARQUET).read_bytes()
    (folder / SYNTHETIC_PARQUET).write_bytes(content[:-8] + (1 << 30).to_bytes(4, "little") + content[-4:])


def _reports(change=lambda table: table, metadata=None):
    """Write the reports again with changed columns or metadata, as Privmix writes them."""

    def forge(folder):
        path = folder / REPORTS
        table = change(pq.ParquetFile(path).read())
        info = json.loads(table.schema.metadata[b"privmix"])
        if metadata:
            metadata(info)
        info["reports"] = [table.num_rows]
        text = PrivateInfo.model_validate(info).model_dump_json().encode()
        schema = pa.schema(list(table.schema))
        names = [field.name for field in schema if field.type == pa.uint8()]
        with pq.ParquetWriter(path, schema, compression="none", use_dictionary=names or False) as writer:
            writer.write_table(pa.table(table.columns, schema=schema))
            writer.add_key_value_metadata({b"privmix": text, **PARQUET_SEAL})
        seal_file(path)

    return forge


def _first_row(table, name, value):
    values = table[name].combine_chunks()
    values = pa.concat_arrays([pa.array([value], type=values.type), values[1:]])
    return table.set_column(table.column_names.index(name), name, values)


def _with_field_metadata(schema):
    return schema.set(0, schema.field(0).with_metadata({"rows": str(SECRETS)}))


def _gap(folder):
    """Put bytes between the columns and the footer of a Parquet file."""
    content = (folder / SYNTHETIC_PARQUET).read_bytes()
    length = struct.unpack("<I", content[-8:-4])[0]
    body, footer = content[: -8 - length], content[-8 - length :]
    (folder / SYNTHETIC_PARQUET).write_bytes(body + json.dumps(SECRETS).encode() + footer)


def _first_digit(folder):
    text = (folder / PAGE).read_text()
    digit = re.search(r'class="rows" d="M\d*(\d)', text).start(1)
    (folder / PAGE).write_text(text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :])


def _other_points(folder):
    """The picture of true records instead of synthetic rows."""
    model = read_release(folder)
    own = next(synthetic.sample_parts(model, page.POINTS))
    drawn = pictures.draw_model(model, np.column_stack([own["east"], own["north"]]))
    forged = pictures.draw_model(model, points(page.POINTS))
    replaced(PAGE, drawn, forged)(folder)


def _seeded(folder):
    """A benchmark model whose labels are those of a release: its ledger and its form are right."""
    model = json.loads((folder / MODEL).read_text())
    domain = read_release(folder).domain
    mechanism = make_mechanism("noisy_moments", **model["parameters"])
    records = Records(domain.normalise(points(300)), {"dog": np.arange(300) % 2})
    made = run(mechanism, records, Spec(domain, 2), Budget(1.0, 1e-6), seeded_randomness(1, "x"))
    model["shares"] = {name: values.tolist() for name, values in made.shares.items()}
    model["transcript"] = made.transcript
    model["normalised"] = make.Gaussians.of(made.mixture).model_dump()
    scale = [axis.scale for axis in domain.axes]
    model["original"] = make.Gaussians.of(made.mixture.restore(np.zeros(2), np.array(scale))).model_dump()
    model["notes"] = made.notes
    make._write_files(ReleasedModel.model_validate_json(json.dumps(model)), folder)


def _without_shares(model):
    model["shares"].clear()
    model["synthetic"]["columns"].remove("dog")
    model["synthetic"]["left_out"].append("dog")


def _off_the_lattice(model):
    model["transcript"][0]["sums"][0][0] += SECRETS[0][0] * 1e-6


def _other_share(model):
    model["proportions"][0]["estimate"] += 0.1


def _longer_counts(model):
    entry = model["transcript"][0]
    entry["counts"] = base64.b64encode(base64.b64decode(entry["counts"]) + b"\0" * 8).decode()


def _link(folder):
    shutil.move(folder / MODEL, folder.parent / "elsewhere.json")
    (folder / MODEL).symlink_to(folder.parent / "elsewhere.json")


def _pipe(folder):
    (folder / CARD).unlink()
    os.mkfifo(folder / CARD)


def _huge(folder):
    with (folder / MODEL).open("ab") as stream:
        stream.truncate(1 << 40)  # a sparse file


def _many_events(model):
    model["privacy"]["ledger"][0]["count"] = 10**12


def _many_rows(model):
    model["synthetic"]["rows"] = 10**11


def _many_steps(model):
    model["parameters"]["iterations"] = 10**12


def _with_values(*values):
    def edit(model):
        attribute = model["domain"]["attributes"][0]
        attribute["values"] = list(values)
        model["shares"]["dog"] = [[1.0, *[0.0] * (len(values) - 1)] for _ in model["shares"]["dog"]]

    return edit


def _bomb(**parts):
    """Write a few megabytes of values of the wrong type."""

    def forge(folder):
        content = json.loads((folder / MODEL).read_text())
        for path, value in parts.items():
            *outer, last = path.split("__")
            place = content
            for key in outer:
                place = place[key]
            place[last] = value
        (folder / MODEL).write_text(json.dumps(content, separators=(",", ":")))

    return forge


BOMBS = {
    "axes": _bomb(domain__axes=[{}] * 2_000_000),
    "fewer axes": _bomb(domain__axes=[{}] * 19_000),
    "values of an attribute": _bomb(domain__attributes=[{"values": [0] * 190_000}]),
    "proportions": _bomb(proportions=[0] * 4_900_000),
    "shares": _bomb(shares={"dog": [[0]] * 900_000}),
    "keys of shares": _bomb(shares={str(number): [["x"]] for number in range(10_000)}),
    "entries of the transcript": _bomb(transcript=[[[]]] * 300_000),
    "numbers of the transcript": _bomb(transcript=[{"counts": [0.5] * 4_900_000}]),
}

PEAK = """
import resource, sys
from pathlib import Path
from privmix.errors import UserError
from privmix.release import verify
try:
    verify.verify(Path(sys.argv[1]), *sys.argv[2:])
except UserError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, str(error)[:300])
"""


def _more_digits(folder):
    """Hide a record behind the last digit of a share. The rest of the text stays as Privmix writes it."""
    text = (folder / MODEL).read_text()
    row = json.loads(text)["shares"]["dog"][0]
    before = '"shares": {\n  "dog": [\n   [\n    ' + repr(row[0])
    assert text.count(before) == 1
    (folder / MODEL).write_text(text.replace(before, before.replace(repr(row[0]), repr(row[0] + 4.17e-10))))


FORGERIES = {
    # The claim and the ledger.
    "half of ε in claim, ledger, budget and card": ("grid", rebuilt(_halve_epsilon), "cells of"),
    "half of ε in the claim": ("grid", rebuilt(_privacy(epsilon=0.5)), "its ledger adds up to"),
    "more noise in the ledger than by plan": ("moments", rebuilt(_more_noise_in_the_ledger), "public plan"),
    "an event less": ("moments", rebuilt(_fewer_events), "public plan"),
    "no event": ("moments", rebuilt(_privacy(ledger=[])), "no ledger"),
    "an event of another label": (
        "grid", rebuilt(lambda m: m["privacy"]["ledger"][0].update(label="x" * 9)), "public plan",
    ),
    "a key in an event": (
        "grid", edited(lambda m: m["privacy"]["ledger"][0].update(note=str(SECRETS))), "public plan",
    ),
    "another accountant": ("grid", rebuilt(_privacy(accountant="exact")), "accountant"),
    "another δ": ("grid", rebuilt(_privacy(delta=1e-9)), "its ledger adds up to"),
    "record called person": ("grid", rebuilt(_privacy(unit="person")), "unit = person"),
    "replace_one called add_remove": ("grid", rebuilt(_privacy(relation="add_remove")), "relation"),
    "central called distance": ("laplace", rebuilt(_privacy(trust="distance")), "trust"),
    "another method": ("grid", rebuilt(_with(method="noisy_tree")), "public plan"),
    "more components requested": ("moments", rebuilt(_with(components=[40])), "notes"),
    "another notice": ("grid", rebuilt(_with(notice="Records of all walkers.")), "another notice"),
    "a method without privacy": (
        "grid", edited(_with(method="non_private", parameters={})), "'non_private', which is not private",
    ),
    "a zero with a sign in the claim": ("grid", edited(_privacy(delta=-0.0)), "signs of zeros"),
    "a zero with a sign in the budget": ("grid", edited(_privacy(budget_delta=-0.0)), "signs of zeros"),
    "a zero with a sign in the metadata of reports": (
        "response", _reports(metadata=lambda info: info["privacy"].update(delta=-0.0)), "the same guarantee",
    ),
    "reports in the order of their answers": (
        "response", _reports(lambda table: table.sort_by("a_dog")), "the random order of",
    ),
    "noisy rows in the order of an answer": (
        "laplace", _reports(lambda table: table.sort_by("a_dog")), "the random order of 'a_dog'",
    ),
    "another version": ("grid", rebuilt(_with(version="0.0.9")), "made by Privmix 0.0.9"),
    # The model.
    "a weight in one system of units": (
        "response", rebuilt(lambda m: m["original"]["means"][0].reverse()), "in original units",
    ),
    "weights and means in both systems of units": ("moments", rebuilt(_other_weights), "follow from the transcript"),
    "a benchmark model called a release": ("moments", _seeded, "off the lattice"),
    "a number off the lattice": ("moments", rebuilt(_off_the_lattice), "off the lattice"),
    "another map into the unit ball": (
        "grid", rebuilt(lambda m: m["domain"]["axes"][0].update(scale=0.1)), "the unit ball",
    ),
    "other shares in a component": (
        "grid", rebuilt(lambda m: m["shares"]["dog"][0].reverse()), "do not follow from",
    ),
    "other shares in a component of reports": (
        "response", rebuilt(lambda m: m["shares"]["dog"].__setitem__(0, [0.12345, 0.87655])), "do not follow from",
    ),
    "no shares of an attribute": ("grid", rebuilt(_without_shares), "do not follow from"),
    "other shares of a joint clustering": (
        "moments", rebuilt(lambda m: m["shares"]["dog"][0].reverse()), "do not follow from",
    ),
    "no shares of a joint clustering": ("moments", rebuilt(_without_shares), "do not follow from"),
    "no counts of values": ("moments", rebuilt(lambda m: m["transcript"][0].pop("attributes")), "demands"),
    "other counts of values": (
        "moments",
        rebuilt(lambda m: m["transcript"][0]["attributes"][0].reverse()),
        "follow from the transcript",
    ),
    "shares that are no distribution": (
        "grid", rebuilt(lambda m: m["shares"].update(dog=[[0.5, 0.6] for _ in m["shares"]["dog"]])), "no distribution",
    ),
    "no table of attributes": ("grid", rebuilt(lambda m: m["transcript"].pop()), "demands"),
    "other shares of an attribute": (
        "response", rebuilt(_other_share), "do not follow from",
    ),
    # Values that no column has.
    "a value twice": ("grid", rebuilt(_with_values("no", "no")), "values of an attribute"),
    "values without letters": ("grid", rebuilt(_with_values("", " ")), "values of an attribute"),
    "one value": ("grid", rebuilt(_with_values("no")), "values of an attribute"),
    "a column without a name": (
        "grid", edited(lambda m: m["synthetic"]["left_out"].append("")), "without letters",
    ),
    # Room for records in model.json.
    "records in digits of shares": ("grid", _more_digits, "written as"),
    "records in digits of shares of reports": ("response", _more_digits, "written as"),
    "a note that the reports do not support": (
        "response",
        rebuilt(lambda m: m["notes"].insert(0, "No part of the public box stands out from the noise: the mixture is "
        "mostly noise.")),
        "notes in model.json do not follow",
    ),
    "records in the transcript": (
        "moments", edited(lambda m: m["transcript"][0].update(rows=SECRETS)), "the transcript is not",
    ),
    "an entry more in the transcript": (
        "moments", edited(lambda m: m["transcript"].append(m["transcript"][0])), "the transcript is not",
    ),
    "more counts than cells": ("grid", rebuilt(_longer_counts), "the transcript is not"),
    "records in a transcript that must be empty": (
        "response", rebuilt(lambda m: m["transcript"].append({"rows": SECRETS})), "the transcript is not",
    ),
    "records in a note": ("grid", rebuilt(lambda m: m["notes"].append(str(SECRETS))), "the notes are not"),
    "a note twice": ("moments", rebuilt(lambda m: m["notes"].append(m["notes"][0])), "the notes are not"),
    "no notes": ("moments", rebuilt(lambda m: m["notes"].clear()), "the notes are not"),
    "records in the parameters": ("grid", rebuilt(lambda m: m["parameters"].update(rows=str(SECRETS))), "rows"),
    "a parameter as text": ("grid", rebuilt(lambda m: m["parameters"].update(searches="1")), "parameters.searches"),
    "a key twice": ("grid", replaced(MODEL, ' "made":', ' "made": "2001-01-01",\n "made":'), "written as"),
    "records in spaces": ("grid", replaced(MODEL, '\n "made":', '\n\t "made":'), "written as"),
    "records in digits": ("grid", replaced(MODEL, '"lower": -5.0', '"lower": -5.000417'), "unit ball"),
    "digits that change nothing": ("grid", replaced(MODEL, '"lower": -5.0', '"lower": -5.00'), "written as"),
    "a number as text": ("grid", _reworded(lambda m: m["domain"]["axes"][0].update(lower="-5.0417")), "written as"),
    "padded text as number": ("grid", _reworded(lambda m: m["domain"].update(rows="300" + " " * 99)), "written as"),
    "another order of keys": ("grid", _reworded(lambda m: m.update(made=m.pop("made"))), "written as"),
    "another notation": ("grid", replaced(MODEL, '"lower": -5.0', '"lower": -0.5e1'), "written as"),
    "true instead of one": (
        "grid", _reworded(lambda m: m["domain"].update(max_records_per_person=True)), "written as|not the",
    ),
    "a letter that is drawn as nothing": (
        "grid", rebuilt(lambda m: m["about"].update(citation="a\U000e0101b")), "invisible",
    ),
    "a second promise in a name": (
        "grid", rebuilt(lambda m: m["synthetic"]["left_out"].append("x\n\n## Promise\n\n- all")), "invisible",
    ),
    "records as categories": (
        "grid", rebuilt(lambda m: m["domain"]["attributes"][0].update(values=[str(n) * 9 for n in range(9000)])),
        "100,000",
    ),
    "a date to come": ("grid", rebuilt(_with(made="2999-01-01")), "the date"),
    "persons of a release of records": ("grid", rebuilt(lambda m: m["domain"].update(persons=417)), "states a number"),
    "an invisible letter": ("grid", rebuilt(lambda m: m["about"].update(citation="a\u200bb")), "invisible"),
    "a very long text": ("grid", rebuilt(lambda m: m["about"].update(citation="a" * 6000)), "6,000|5,000"),
    # Other files.
    "true records as synthetic rows": ("grid", _true_rows, "the synthetic rows are not"),
    "one true record in the CSV file": ("grid", _one_row, "the synthetic rows are not"),
    "a row more in the CSV file": ("grid", _more_rows, "the synthetic rows are not"),
    "one true record in the Parquet file": (
        "grid", _parquet(lambda table: _first_row(table, "east", SECRETS[0][0])), "the synthetic rows are not",
    ),
    "a row order of its own": ("grid", _parquet(lambda table: table.slice(1)), "rows"),
    "a column more": ("grid", _parquet(lambda table: table.append_column("x0", table["east"])), "the columns"),
    "metadata of a Parquet file": (
        "grid", _parquet(lambda table: table.replace_schema_metadata({"rows": str(SECRETS)})), "metadata",
    ),
    "metadata of a column": (
        "grid", _parquet(lambda table: table.cast(_with_field_metadata(table.schema))), "metadata|rows are not",
    ),
    "bytes between the columns of a Parquet file": ("grid", _gap, "no column"),
    "a comment in the page": ("grid", replaced(PAGE, "</body>", f"<!-- {SECRETS} -->\n</body>"), "is not the page"),
    "a comment in the picture": ("grid", replaced(PAGE, "</g>\n", f"</g>\n<!-- {SECRETS} -->"), "is not the page"),
    "a script in the picture": ("grid", replaced(PAGE, "</g>\n", "</g>\n<script>alert(1)</script>"), "is not the page"),
    "an event handler in the picture": (
        "grid", replaced(PAGE, '<svg class="model"', '<svg onload="alert(1)" class="model"'), "is not the page",
    ),
    "a picture of another server": (
        "grid", replaced(PAGE, "</g>\n", '</g>\n<image href="https://example.org/a.png"/>'), "is not the page",
    ),
    "an element more in the picture": (
        "grid", replaced(PAGE, "</g>\n", f"</g>\n<text>{SECRETS[0]}</text>"), "is not the page",
    ),
    "a changed digit in the picture": ("grid", _first_digit, "is not the page"),
    "a bitmap after the picture": (
        "grid", replaced(PAGE, "</svg>", '</svg><img src="data:image/png;base64,iVBORw0KGgo=">'), "is not the page",
    ),
    "another security policy": ("grid", replaced(PAGE, "default-src 'none'", "default-src *"), "is not the page"),
    "a picture of true records": ("grid", _other_points, "is not the page"),
    "a card that promises more": ("grid", replaced(CARD, "ε = 1,", "ε = 0.1,"), "is not the card"),
    "a comment in the card": ("grid", replaced(CARD, "\n\n", f"\n\n<!-- {SECRETS} -->\n\n"), "is not the card"),
    "a line more in the checksums": (
        "grid", lambda folder: (folder / CHECKSUMS).open("a").write("# " + str(SECRETS)), "checksums",
    ),
    # Reports.
    "a column more of reports": (
        "response", _reports(lambda t: t.append_column("x0", pa.array(points(t.num_rows)[:, 0]))), "the columns",
    ),
    "a report less": ("response", _reports(lambda table: table.slice(1)), "300 reports"),
    "an answer that cannot be": ("response", _reports(lambda t: _first_row(t, "a_dog", 7)), "an answer of"),
    "a bit more in a report": (
        "response", _reports(lambda t: _first_row(t, "cell", b"\xff" * t["cell"].type.byte_width)), "a report",
    ),
    "a true row among the reports": (
        "laplace", _reports(lambda t: _first_row(t, "y0", SECRETS[0][0] / 7)), "the lattice",
    ),
    "records in the notes of the reports": (
        "response", _reports(metadata=lambda info: info["notes"].append(str(SECRETS))), "same guarantee",
    ),
    "records in the questions": (
        "response", _reports(metadata=lambda info: info["asked"][0].update(rows=SECRETS)), "did not ask",
    ),
    "reports of another guarantee": (
        "response", _reports(metadata=lambda info: info["privacy"].update(epsilon=0.1)), "same guarantee",
    ),
    "a Parquet file of another library": ("grid", _other_writer, "was not written by pyarrow"),
    "a damaged page of the reports": ("response", _damaged_page, "demands|read|bytes"),
    "a huge footer": ("grid", _huge_footer, "a footer of"),
    # Folders that attack the reader.
    "a link": ("grid", _link, "is a link"),
    "a pipe": ("grid", _pipe, "is a link, a folder or a device"),
    "a huge file": ("grid", _huge, "bytes"),
    "a huge count": ("moments", edited(_many_events), "public plan"),
    "a huge number of rows": ("grid", edited(_many_rows), "do not hold"),
    "values of another type": (
        "moments", edited(lambda m: m["privacy"].update(ledger=[{"kind": 1}])), "public plan|no release",
    ),
    "a domain of no width": (
        "grid", edited(lambda m: m["domain"]["axes"][0].update(lower=5.0)), "not valid|unit ball",
    ),
    "a huge number of iterations": ("moments", edited(_many_steps), "at most|parameters.iterations"),
    "a huge number of searches": (
        "grid", rebuilt(lambda m: m["parameters"].update(searches=10**9)), "searches",
    ),
    "a share of a choice that was not made": ("grid", rebuilt(_with(choice_share=0.25)), "choice_share"),
    "a blank that is no space": ("grid", rebuilt(lambda m: m["about"].update(citation="a\u2800b")), "invisible"),
    "joiners between Latin letters": (
        "grid", rebuilt(lambda m: m["about"].update(citation="a\u200db\u200cc")), "invisible",
    ),
    "a code point without a letter": ("grid", rebuilt(lambda m: m["about"].update(citation="a\u0378b")), "invisible"),
    "a pile of marks": ("grid", rebuilt(lambda m: m["about"].update(citation="a" + 9 * "\u0301")), "invisible"),
    "a value of blanks": ("grid", edited(_values("no", "  ")), "values of an attribute"),
    "an empty value": ("grid", edited(_values("no", "")), "values of an attribute"),
    "a value called blank beside blanks": (
        "grid", edited(_values("no", "blank", "blank", blank=True)), "values of an attribute",
    ),
    "blanks of a value called model": (
        "grid", edited(_values("no", "model", "blank", blank=True)), "attributes do not follow",
    ),
    "a boolean of other values": ("grid", edited(_values("no", "yes", boolean=True)), "attributes do not follow"),
    "a date that is a latitude": (
        "grid", edited(lambda m: m["domain"]["axes"][0].update(geographic="latitude", kind="date")), "not valid",
    ),
    "thousands of columns left out": (
        "grid", edited(lambda m: m["synthetic"]["left_out"].extend(f"c{n}" for n in range(3000))), "3,001 columns",
    ),
    "records of a person at record level": (
        "grid", rebuilt(lambda m: m["domain"].update(max_records_per_person=7)), "protects records",
    ),
}  # fmt: skip

# These invent noisy numbers or public texts, and everything else follows from them.
UNNOTICED = {
    "another description of the data": (
        "grid",
        rebuilt(lambda m: m["about"].update(description=str(SECRETS))),
    ),
    "another title": ("grid", rebuilt(lambda m: m["domain"].update(title="Runs"))),
    "another mixture that a search may have found": ("grid", rebuilt(_other_means)),
    "another seed of the synthetic rows": ("grid", rebuilt(lambda m: m["synthetic"].update(seed="0" * 32))),
    "another date": ("grid", rebuilt(_with(made="2026-01-01"))),
    "other public bounds of nothing": ("grid", rebuilt(lambda m: m["domain"].update(visibility="public"))),
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Releases of four kinds and the public key of their curator."""
    from privmix.audit import noise_tests

    folder = tmp_path_factory.mktemp("originals")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_tests.noise_findings, "__defaults__", (1e-9,))
        patch.chdir(folder)
        park = Park(folder)
        park.write()
        kinds = ("grid", "moments", "response", "laplace")
        made = {kind: park.release(kind, 1.0, "--synthetic", "500", out=kind) for kind in kinds}
    return made, folder / "releases/.signing/key.pub"


@pytest.fixture
def forged(originals, tmp_path):
    """Return a function that forges a copy of a release, and seals it."""

    def forge(kind, change):
        folder = Path(shutil.copytree(originals[0][kind], tmp_path / "forged"))
        change(folder)
        if all(path.is_file() and path.stat().st_size < 1 << 30 for path in folder.iterdir()):
            written = (folder / CHECKSUMS).read_text()
            if written == (originals[0][kind] / CHECKSUMS).read_text():
                seal(folder)
            signing.sign(folder, FORGER)
        return folder

    return forge


@pytest.mark.parametrize("kind", ["grid", "moments", "response", "laplace"])
def test_an_unchanged_release_passes_with_and_without_the_key(originals, kind):
    folders, key = originals
    assert verify.inspect(folders[kind]).summary == verify.NOT_PROVEN
    assert verify.inspect(folders[kind], str(key)).origin_proven
    assert verify.inspect(folders[kind], key.read_text().split()[1]).origin_proven
    assert verify.inspect(folders[kind], key.read_text().split()[1].upper()).origin_proven


def test_a_file_with_the_name_of_a_key_is_not_read(originals, tmp_path, monkeypatch):
    folders, key = originals
    honest = key.read_text().split()[1].upper()
    monkeypatch.chdir(tmp_path)
    (tmp_path / honest).write_text("ed25519 " + "ab" * 32)
    assert verify.inspect(folders["grid"], honest).origin_proven


@pytest.mark.parametrize("signer", ["nowhere.pub", "ab" * 31, "https://example.org/key.pub", "."])
def test_a_signer_that_is_no_key_is_explained(originals, signer):
    with pytest.raises(UserError, match="give the public key of the curator"):
        verify.verify(originals[0]["grid"], signer)


def test_a_message_cannot_control_the_terminal(originals, tmp_path, capsys):
    folder = Path(shutil.copytree(originals[0]["grid"], tmp_path / "copy"))
    (folder / "\x1b[2K\rfine").touch()
    with pytest.raises(SystemExit) as refused:
        cli.main(["verify", str(folder)])
    assert r"\x1b[2K\rfine" in str(refused.value.code)
    assert "\x1b" not in str(refused.value.code) + capsys.readouterr().err


def test_the_name_of_a_folder_cannot_print_a_verdict(originals, tmp_path, capsys):
    name = "walks\n✓ other\x1b[2K\u202e\u200b: signed by the curator" + 90 * " " + "x"
    folder = Path(shutil.copytree(originals[0]["grid"], tmp_path / name))
    cli.main(["verify", str(folder)])
    said = capsys.readouterr().out
    assert not set(said) & {"\x1b", "\u202e", "\u200b"}
    assert r"walks\n✓ other\x1b[2K\u202e\u200b: signed" in said
    assert said.count("✓ other") == said.count(r"walks\n✓ other") == 2
    assert 3 * " " + "x" not in said
    (folder / SIGNATURE).unlink()
    with pytest.raises(UserError, match=r"walks\\n✓ other\\x1b\[2K") as refused:
        verify.verify(folder)
    assert str(refused.value).isprintable()


def small_order_keys():
    """Return the encodings of the eight points of small order (RFC 7748, section 7), also with y above p."""
    eight = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
    other = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
    numbers = [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18]
    points = [bytes.fromhex(eight), bytes.fromhex(other), *(each.to_bytes(32, "little") for each in numbers)]
    return [each.hex() for one in points for each in (one, one[:31] + bytes([one[31] ^ 128]))]


@pytest.mark.parametrize("key", small_order_keys())
def test_a_key_for_which_anyone_can_sign_is_refused(forged, key):
    """For the neutral point, the signature (R, S) = (neutral point, 0) fits every message."""

    def sign(folder):
        signature = "01" + 31 * "00" + 32 * "00"
        (folder / SIGNATURE).write_text(f"ed25519 {key} {signature}\n")

    folder = forged("grid", lambda folder: None)
    sign(folder)
    with pytest.raises(UserError, match="small order"):
        verify.verify(folder)
    with pytest.raises(UserError, match="small order"):
        verify.verify(folder, key)


def test_no_zero_of_a_release_has_a_sign(originals):
    model = read_release(originals[0]["grid"])
    signed = model.model_copy(
        update={
            "shares": {"dog": [[-0.0, 1.0], [-10.0, -0.5]]},
            "about": model.about.model_copy(update={"caveats": ("-0.0,", "x: -0.0")}),
        }
    )
    text = folder_form.model_text(signed)
    assert json.loads(text)["about"]["caveats"] == ["-0.0,", "x: -0.0"]
    assert str(json.loads(text)["shares"]["dog"]) == "[[0.0, 1.0], [-10.0, -0.5]]"


def test_a_long_text_of_splits_is_refused_before_it_is_decoded():
    text = "q" * 60_000_000
    tracemalloc.start()
    try:
        for leaves in (None, 1000):
            with pytest.raises(UserError, match="as many leaves"):
                transcripts.check_shape(text, 2, 20, leaves)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_traces_are_searched_only_in_short_texts(originals, forged, monkeypatch):
    """A search in a long text of a transcript takes long, and its form leaves no room for a trace."""
    searched = []
    monkeypatch.setattr(verify, "check_traces", searched.append)
    verify.verify(originals[0]["grid"])
    model = read_release(originals[0]["grid"])
    assert searched[0].count(model.about.description) == 1
    assert model.transcript[0]["counts"] not in searched[0]
    for long in ({"method": "/" * 10**6}, {"version": "/" * 10**6}, {"parameters": {"x": "/" * 10**6}}):
        with pytest.raises(UserError, match="a text of more than"):
            verify._check_form(originals[0]["grid"], _written_to(originals, long, monkeypatch))
    assert len(searched) == 1


def _written_to(originals, changes, monkeypatch):
    model = read_release(originals[0]["grid"]).model_copy(update=changes)
    monkeypatch.setattr(verify, "read_text", lambda path, most: folder_form.model_text(model))
    return model


def test_reports_that_do_not_fit_into_memory_are_refused():
    report_files.check_memory(6_400_000, 20)
    with pytest.raises(UserError, match="too much memory"):
        report_files.check_memory(250 << 20, 3)
    with pytest.raises(UserError, match="too much memory"):
        report_files.check_memory(1_000_000, 4096)


def test_metadata_that_end_the_process_are_refused(originals, monkeypatch):
    """pyarrow calls `abort` for some metadata of columns, so they are read in another process first."""
    monkeypatch.setattr(closed_files, "READ_CHUNKS", "import os; os.abort()")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        verify.verify(originals[0]["response"])
    verify.verify(originals[0]["grid"])  # its only Parquet file follows from the model


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_that_contradicts_the_folder_or_the_plan_is_refused(forged, originals, name):
    kind, change, said = FORGERIES[name]
    folder = forged(kind, change)
    with pytest.raises(UserError, match=said):
        verify.verify(folder)
    with pytest.raises(UserError):
        verify.verify(folder, str(originals[1]))


@pytest.mark.parametrize("name", UNNOTICED)
def test_a_consistent_forgery_needs_the_key_of_the_curator(forged, originals, name):
    folder = forged(*UNNOTICED[name])
    verdict = verify.inspect(folder)
    assert not verdict.origin_proven
    assert verdict.summary == "internally consistent; origin not proven"
    with pytest.raises(UserError, match="does not come from the signer"):
        verify.verify(folder, str(originals[1]))


def test_there_are_no_more_persons_than_records(originals):
    model = read_release(originals[0]["grid"])

    def job(persons):
        domain = model.domain.model_copy(update={"unit": "person", "persons": persons})
        return public_plan._job(model.model_copy(update={"domain": domain}))

    assert job(model.domain.rows)
    with pytest.raises(UserError, match=r"domain\.persons"):
        job(model.domain.rows + 1)


def test_the_command_promises_no_more_than_it_checked(originals, capsys):
    folders, key = originals
    cli.main(["verify", str(folders["grid"])])
    said = " ".join(capsys.readouterr().out.split())
    assert "internally consistent; origin not proven" in said
    assert "valid release" not in said
    assert "Not checked: the mixture comes from a random search" in said
    cli.main(["verify", str(folders["moments"])])
    said = " ".join(capsys.readouterr().out.split())
    derived = "The shares of attributes follow from the transcript" in said
    assert derived != ("the mixture and the shares of attributes come from a random search" in said)
    cli.main(["verify", str(folders["grid"]), "--signer", str(key)])
    said = " ".join(capsys.readouterr().out.split())
    assert f"signed by {key.read_text().split()[1]}" in said
    assert "not proven" not in said


def test_a_signature_of_another_folder_is_refused(originals, tmp_path):
    folder = Path(shutil.copytree(originals[0]["grid"], tmp_path / "copy"))
    shutil.copy(originals[0]["moments"] / SIGNATURE, folder / SIGNATURE)
    with pytest.raises(UserError, match="changed after it was signed"):
        verify.verify(folder)
    (folder / SIGNATURE).unlink()
    with pytest.raises(UserError, match="signature is missing"):
        verify.verify(folder)


def test_a_release_of_the_first_format_is_explained(forged):
    def older(model):
        for key in ("format", "about", "components", "choice_share"):
            del model[key]
        del model["synthetic"]["seed"]

    with pytest.raises(UserError, match="Format 1 has no signature and no seed"):
        verify.verify(forged("grid", edited(older)))


@pytest.mark.parametrize(
    "name", ["a huge count", "a huge number of rows", "a huge number of iterations", "a huge file"]
)
def test_a_hostile_folder_needs_little_memory(forged, name):
    kind, change, _ = FORGERIES[name]
    folder = forged(kind, change)
    tracemalloc.start()
    try:
        with pytest.raises(UserError):
            verify.verify(folder)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_values_of_the_wrong_type_need_little_memory(forged, name):
    folder = forged("grid", BOMBS[name])
    done = subprocess.run([sys.executable, "-c", PEAK, folder], capture_output=True, text=True, timeout=120)
    assert int(done.stdout.split()[0]) < 1000, done.stdout + done.stderr


def test_the_metadata_of_reports_have_few_values():
    content = json.dumps({"domain": {"axes": [{}] * 100_000}}).encode()
    with pytest.raises(UserError, match="100,002 objects"):
        closed_files.check_json(content, "the metadata of reports")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": ' + "[" * 100_000, "{", "\udcff"])
def test_other_json_is_refused(text):
    with pytest.raises(UserError, match=r"a key occurs twice|cannot be read as JSON"):
        closed_files.check_json(text.encode(errors="surrogateescape"), MODEL)


def test_a_local_model_whose_shares_take_long_is_refused_at_once(originals):
    model = read_release(originals[0]["response"])
    own = SimpleNamespace(attribute_epsilon=1.0)
    report_files.check_work(300, model, own)
    wide = model.model_copy(update={"normalised": SimpleNamespace(weights=[1 / 3000] * 3000)})
    with pytest.raises(UserError, match="would take too long"):
        report_files.check_work(300, wide, own)
    with pytest.raises(UserError, match="would take too long"):
        report_files.check_work(10**12, model, own)
    report_files.check_work(10**12, wide, SimpleNamespace(attribute_epsilon=0.0))


def test_shares_are_rounded_and_add_up_to_one():
    rng = np.random.default_rng(3)
    for size in (1, 2, 7, 300):
        for decimals in (5, 6):
            rows = rng.dirichlet(np.full(size, 0.1), 50)
            rounded = np.array(folder_form.round_shares(rows.tolist(), decimals))
            assert np.allclose(rounded.sum(axis=1), 1, rtol=0, atol=1e-12)
            assert np.abs(rounded - rows).max() < 1.01 * 10.0**-decimals
            assert folder_form.round_shares(rounded.tolist(), decimals) == rounded.tolist()
            assert all(len(str(round(each * 10**decimals, 3))) < 11 for each in rounded.ravel())


def test_a_name_cannot_print_a_line_of_its_own(forged, capsys):
    title = "Walks" + " " * 200 + "✓ signed by the curator"
    folder = forged("grid", rebuilt(lambda m: m["domain"].update(title=title)))
    cli.main(["verify", str(folder)])
    assert "Walks ✓ signed" in " ".join(capsys.readouterr().out.split("\n"))


def test_verify_prints_on_a_terminal_without_unicode(originals):
    command = [sys.executable, "-m", "privmix.cli", "verify", originals[0]["grid"]]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "internally consistent" in done.stdout


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are UTF-8 there")
@pytest.mark.parametrize("kind", ["grid", "response"])
def test_a_folder_whose_name_is_not_utf8_passes(originals, tmp_path, kind, capsys):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    shutil.copytree(originals[0][kind], folder)
    cli.main(["verify", str(folder)])
    assert "internally consistent" in capsys.readouterr().out


def test_with_a_signer_nothing_is_parsed_before_the_signature(originals, forged, monkeypatch):
    folder = forged("grid", BOMBS["fewer axes"])
    monkeypatch.setattr(verify, "read_release", lambda folder: pytest.fail("model.json was parsed"))
    with pytest.raises(UserError, match="does not come from the signer"):
        verify.verify(folder, str(originals[1]))


def test_the_signing_key_is_for_the_owner_only(originals):
    key = originals[1].with_name("key")
    assert key.stat().st_mode & 0o777 == 0o600
    copy = originals[1].parent.parent / "other"
    shutil.copytree(originals[1].parent, copy)
    (copy / "key").chmod(0o644)
    with pytest.raises(UserError, match="chmod 600"):
        signing.load_or_create_key(copy)


def test_reports_and_their_rewritten_file_are_equal(originals, tmp_path):
    """The power twin of the forged reports: a file written again without a change passes."""
    folder = Path(shutil.copytree(originals[0]["response"], tmp_path / "copy"))
    _reports()(folder)
    seal(folder)
    verify.verify(folder)
    assert read_private(folder / REPORTS)[0].seconds == []


@pytest.mark.parametrize(
    ("method", "parameters", "follows"),
    [
        ("dp_sgd", {"steps": 5}, True),
        ("posterior_sample", {}, True),
        ("posterior_sample", {"released": "draw"}, False),
    ],
)
def test_shares_of_a_joint_clustering_follow_from_the_transcript(park, method, parameters, follows):
    """Shares that took part in the clustering; after a draw from the posterior only their form is known."""
    park.write(config={"mechanisms": {"joint": {"method": method, **parameters}}})
    folder = park.release("joint", 1.0)
    found = " ".join(verify.inspect(folder).checks)
    assert ("shares of attributes follow from the transcript" in found) == follows
    model = json.loads((folder / MODEL).read_text())
    assert not any("attributes" in entry and len(entry) == 1 for entry in model["transcript"])
    rebuilt(lambda m: m["shares"]["dog"][0].reverse())(folder)
    seal(folder)
    if follows:
        with pytest.raises(UserError, match="shares of attributes do not follow"):
            verify.verify(folder)
    else:
        verify.verify(folder)
    rebuilt(_without_shares)(folder)
    seal(folder)
    with pytest.raises(UserError, match="shares of attributes do not follow"):
        verify.verify(folder)
