"""Failures: one sentence, no release in place, and the account never states less than was spent."""

import copy
import errno
import json
import os
import resource
import shutil
from pathlib import Path

import pytest
from walks_park import ENTRY

from privmix import cli
from privmix.pipeline.stages import release
from privmix.privacy.exact import ExactNoise
from privmix.release import make, verify
from privmix.release import synthetic as rows
from privmix.release.account import Account

COMMON = ("release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", "out")


def _nothing_in_place(park):
    return not (park.folder / "out").exists() and not list(park.folder.glob(".out*"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--mechanism", "gird"), "did you mean 'grid'?"),
        (("--mechanism", "bare"), "is not private"),
        (("--epsilon", "-1"), "must be greater than 0"),
        (("--epsilon", "1e-9"), "the request has ε = 1e-09 and δ = "),
        (("--epsilon", "1e9"), "needs an ε from 0.0001 to 10000"),
        (("--out", "/proc/self/x"), "/proc/self/x was not written, and nothing was spent"),
        (("--out", "a" * 300), "File name too long"),
        (("--epsilon", "1.23456789"), "six digits"),
        (("--synthetic", "0"), "at least one synthetic row"),
        (("--configfile", "nowhere.yaml"), "does not exist"),
    ],
)
def test_a_bad_order_is_refused_before_anything_is_spent(park, capsys, more, said):
    assert said in park.refused(capsys, *COMMON, *more)
    assert park.lines == []
    assert _nothing_in_place(park)


@pytest.mark.parametrize("more", [("--seed", "1"), ("--replicates", "2")], ids=["seed", "replicates"])
def test_the_command_and_the_stage_accept_no_seed_and_no_replicates(park, monkeypatch, capsys, more):
    with pytest.raises(SystemExit):
        cli.main([*COMMON, *more])
    assert "unrecognized arguments: " + " ".join(more) in capsys.readouterr().err
    words = [
        *(
            "--mechanism",
            "grid",
            "--parameters",
            '{"method": "noisy_grid"}',
            "--epsilon",
            "1",
            "--delta",
            "0",
        ),
        *("--components", "2", "--entry", "catalog/walks.yaml", "--clean", "data/clean/walks.parquet"),
        *("--raw", "data/raw/walks.raw", "--limit-epsilon", "9", "--limit-delta", "0", "--output", "out"),
    ]
    monkeypatch.setattr("sys.argv", ["release", *words, *more])
    with pytest.raises(SystemExit):
        release.main()
    assert "unrecognized arguments: " + " ".join(more) in capsys.readouterr().err
    assert park.lines == []
    assert _nothing_in_place(park)


def test_an_unknown_dataset_is_refused(park, capsys):
    assert "wlaks" in park.refused(capsys, "release", "wlaks", *COMMON[2:])


def test_bounds_that_the_data_do_not_respect_are_refused(park, capsys):
    columns = copy.deepcopy(ENTRY["columns"])
    columns[1]["upper"] = 1.0
    park.write(entry={"columns": columns})
    said = park.refused(capsys, *COMMON)
    assert "values of 'east' lie outside the public bounds" in said
    assert park.lines == []
    assert _nothing_in_place(park)


def test_a_mechanism_that_cannot_work_fails_in_the_rehearsal_for_free(park, capsys):
    park.write(config={"delta": 0.0})
    said = park.refused(capsys, "release", "walks", "--mechanism", "moments", *COMMON[4:])
    assert "delta" in said
    assert park.lines == []
    assert _nothing_in_place(park)


def test_a_release_is_never_overwritten(park, capsys):
    park.release()
    before = {path.name: path.read_bytes() for path in (park.folder / "out").iterdir()}
    assert "already exists" in park.refused(capsys, *COMMON)
    assert {path.name: path.read_bytes() for path in (park.folder / "out").iterdir()} == before
    assert len(park.lines) == 2


def test_a_release_above_the_limit_is_refused_with_the_sum_and_what_is_left(park, capsys):
    park.write(config={"release": {"limit_epsilon": 1.5, "limit_delta": 1e-5}})
    park.release()
    said = park.refused(capsys, *COMMON[:-1], "other")
    assert "  sum: ε = 2, δ = 0\n" in said
    assert "may be at most ε = 0.5." in said
    assert not (park.folder / "other").exists()
    assert len(park.lines) == 2
    park.release("grid", 0.5, out="other")


@pytest.mark.parametrize("spoil", ["edit", "cut", "behead", "garbage", "swap"])
def test_an_account_that_was_altered_stops_everything(park, capsys, spoil):
    park.release(out="one")
    park.release(out="two")
    [path] = park.accounts
    lines = path.read_text().splitlines(keepends=True)
    if spoil == "edit":
        path.write_text("".join([lines[0], lines[1].replace('"epsilon": 1.0', '"epsilon": 0.1'), *lines[2:]]))
    elif spoil == "cut":
        path.write_text("".join(lines[:2]))
    elif spoil == "behead":
        (park.folder / "data/.spending-head").unlink()
    elif spoil == "garbage":
        path.write_text("".join([*lines, "no entry\n"]))
    else:
        path.write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))
    assert "was altered" in park.refused(capsys, *COMMON)
    assert _nothing_in_place(park)


def test_the_last_line_cannot_be_edited_either(park, capsys):
    park.release(out="one")
    [path] = park.accounts
    path.write_text(path.read_text().replace('"delta": 0.0', '"delta": 0'))
    assert "was altered" in park.refused(capsys, *COMMON)


def test_an_account_that_cannot_be_opened_stops_everything(park, capsys):
    park.release(out="one")
    [path] = park.accounts
    path.unlink()
    path.mkdir()
    assert "cannot be opened" in park.refused(capsys, *COMMON)
    assert _nothing_in_place(park)


def test_an_incomplete_last_line_is_dropped(park):
    park.release(out="one")
    [path] = park.accounts
    whole = path.read_text()
    path.write_text(whole + '{"entry": "int')
    park.release(out="two")
    assert len(park.lines) == 4
    assert path.read_text().startswith(whole)


def _full(*arguments, **named):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _full_at_the_second_time(original):
    """Return a function that fails at its second call; the first is the rehearsal."""
    calls = []

    def called(*arguments):
        calls.append(arguments)
        return original(*arguments) if len(calls) == 1 else _full()

    return called


@pytest.mark.parametrize("name", ["write_model", "checksums"])
def test_a_full_disk_in_the_rehearsal_costs_nothing(park, capsys, monkeypatch, name):
    monkeypatch.setattr(make, name, _full)
    assert "No space left" in park.refused(capsys, *COMMON)
    assert _nothing_in_place(park)
    assert park.lines == []


@pytest.mark.parametrize("kilobytes", [0, 1, 4, 16])
def test_a_limit_on_file_sizes_costs_nothing(park, capsys, kilobytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, before[1]))
    try:
        said = park.refused(capsys, *COMMON)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "File too large" in said
    assert "nothing was spent" in said
    assert _nothing_in_place(park)
    assert park.lines == []


def test_an_account_that_cannot_be_written_draws_no_noise(park, capsys, monkeypatch):
    drawn, original = [], make.run_central
    monkeypatch.setattr(make, "run_central", lambda *arguments: drawn.append(1) or original(*arguments))
    monkeypatch.setattr(Account, "_store", _full)
    assert "out was not written, and no noise was drawn" in park.refused(capsys, *COMMON)
    assert len(drawn) == 1  # the rehearsal
    assert park.lines == []


def test_a_release_that_cannot_get_its_name_counts_as_spent(park, capsys, monkeypatch):
    monkeypatch.setattr(Path, "rename", _full)
    assert "out was not written, and its noise counts as spent" in park.refused(capsys, *COMMON)
    assert len(park.lines) == 2


def test_only_the_folder_of_a_rehearsal_says_so_in_its_name(park, monkeypatch):
    """A kill leaves this folder. It looks like a release, but its records are made up."""
    names, original = [], make.signing.sign
    monkeypatch.setattr(
        make.signing, "sign", lambda place, key: names.append(place.name) or original(place, key)
    )
    park.release()
    assert [name.split(".")[1:3] for name in names] == [["out", "rehearsal"], ["out", names[1].split(".")[2]]]
    assert "rehearsal" not in names[1]


def _usage(free):
    """Return a `disk_usage` with this many free bytes on each disk, by the name of the folder."""
    return lambda place: shutil._ntuple_diskusage(10**12, 0, free.get(Path(place).name, 10**12))


@pytest.mark.parametrize("full", ["releases", ".spending"])
def test_too_little_space_is_refused_before_the_noise_and_costs_nothing(park, capsys, monkeypatch, full):
    (park.folder / "releases/.spending").mkdir(parents=True)
    drawn, original = [], make.run_central
    monkeypatch.setattr(make, "run_central", lambda *arguments: drawn.append(1) or original(*arguments))
    monkeypatch.setattr(shutil, "disk_usage", _usage({full: 10**6}))
    said = park.refused(capsys, *COMMON[:-1], "releases/walks")
    assert f"{full} has 1.0 MB free" in said
    assert "nothing was spent" in said
    assert len(drawn) == 1  # the rehearsal
    assert park.lines == []
    assert not (park.folder / "releases/walks").exists()


@pytest.mark.parametrize("mechanism", ["grid", "response"])
def test_the_estimate_of_the_space_is_above_the_size_of_the_release(park, monkeypatch, mechanism):
    park.write(rows=20_000)
    needed = []
    monkeypatch.setattr(make.folder, "check_space", lambda place, number: needed.append(number))
    out = park.release(mechanism, 1.0, "--synthetic", "200000")
    size = sum(path.stat().st_size for path in out.iterdir())
    assert 1.5 * size < needed[0] - make.folder.LEAST_SPACE < 20 * size


def test_a_catalog_entry_with_a_time_of_day_is_refused_for_free(park, capsys):
    park.write(entry={"description": "Walks from 12:34:56 on."})
    assert "a time of day" in park.refused(capsys, *COMMON)
    assert _nothing_in_place(park)
    assert park.lines == []


@pytest.mark.parametrize(
    ("module", "name"), [(rows, "write_rows"), (make, "write_model"), (make, "checksums")]
)
def test_a_full_disk_after_the_noise_leaves_no_release_and_counts_as_spent(
    park, capsys, monkeypatch, module, name
):
    monkeypatch.setattr(module, name, _full_at_the_second_time(getattr(module, name)))
    said = park.refused(capsys, *COMMON)
    assert "No space left" in said
    assert "counts as spent" in said
    assert _nothing_in_place(park)
    assert [json.loads(line)["entry"] for line in park.lines] == ["intent"]
    assert json.loads(park.lines[0])["epsilon"] == 1.0


def test_a_full_disk_under_the_account_stops_before_the_noise(park, capsys, monkeypatch):
    drawn, original = [], make.run_central
    monkeypatch.setattr(make, "run_central", lambda *arguments: drawn.append(1) or original(*arguments))
    monkeypatch.setattr(os, "pwrite", _full)
    assert "No space left" in park.refused(capsys, *COMMON)
    assert len(drawn) == 1  # the rehearsal
    assert park.lines == []
    assert _nothing_in_place(park)


def test_a_release_that_fails_verification_is_not_put_in_place(park, capsys, monkeypatch):
    calls, original = [], rows.write_rows

    def spoiled(model, parquet, text):
        original(model, parquet, text)
        calls.append(text)
        if len(calls) == 2:  # the first is the rehearsal
            text.write_text(text.read_text() + "1.0,2.0\n")

    monkeypatch.setattr(rows, "write_rows", spoiled)
    assert "the synthetic rows are not" in park.refused(capsys, *COMMON)
    assert _nothing_in_place(park)
    assert len(park.lines) == 1


@pytest.mark.parametrize(("mechanism", "kind"), [("grid", "central"), ("laplace", "local")])
@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda draw, values, scale: draw(values, scale / 5), "the noise is too small"),
        (lambda draw, values, scale: draw(values, scale) + 1e-9, "not whole steps"),
    ],
    ids=["a fifth of the noise", "off the lattice"],
)
def test_a_sampler_that_does_not_draw_what_it_claims_ends_a_release(
    park, capsys, monkeypatch, mechanism, kind, spoil, found
):
    """The sampler is spoiled after the rehearsal, so the run itself must notice."""
    original, runs = ExactNoise.add_laplace, []
    real = getattr(make, f"run_{kind}")

    def spoiled(self, values, scale):
        draw = lambda *drawn: original(self, *drawn)  # noqa: E731
        return spoil(draw, values, scale) if len(runs) > 1 else draw(values, scale)

    monkeypatch.setattr(make, f"run_{kind}", lambda *arguments: runs.append(1) or real(*arguments))
    monkeypatch.setattr(ExactNoise, "add_laplace", spoiled)
    said = park.refused(capsys, "release", "walks", "--mechanism", mechanism, *COMMON[4:])
    assert "fails the replay" in said
    assert found in said
    assert _nothing_in_place(park)
    assert [json.loads(line)["entry"] for line in park.lines] == ["intent"]


def test_a_clean_file_of_another_entry_is_made_again(park):
    park.release(out="one")
    columns = copy.deepcopy(ENTRY["columns"])
    columns[1]["upper"] = 6.0
    park.write(entry={"columns": columns})
    park.release(out="two")
    assert verify.verify(Path("two")).domain.axes[0].upper == 6.0
    assert len(park.lines) == 4  # the same records, whatever their bounds: one account
