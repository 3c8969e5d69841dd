"""`privmix verify` accepts the output of `privmix release` and refuses every change or addition."""

import getpass
import json
import platform
import shutil

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from making import clusters, make_domain, write_clean
from test_release_forgeries import written

from privmix import cli
from privmix.errors import UserError
from privmix.privacy.accounting import Budget
from privmix.privacy.calibration import equal_shares
from privmix.privacy.ledger import (
    Decomposition,
    Gaussian,
    Laplace,
    RandomizedResponse,
    SampledGaussian,
    Selection,
    to_rows,
)
from privmix.release import folder as release_folder
from privmix.release import second_accountant, signing, traces, verify


def _sealed(folder):
    """Write matching checksums and a signature, as a forger would."""
    none = (release_folder.CHECKSUMS, release_folder.SIGNATURE)
    files = tuple(path.name for path in folder.iterdir() if path.name not in none)
    (folder / release_folder.CHECKSUMS).write_text(release_folder.checksums(folder, files))
    signing.sign(folder, Ed25519PrivateKey.generate())


def _edited(folder, edit):
    """Change the model and write matching checksums."""
    path = folder / release_folder.MODEL
    model = json.loads(path.read_text())
    edit(model)
    path.write_text(written(model))
    _sealed(folder)
    return folder


def _says(folder):
    with pytest.raises(UserError) as refusal:
        verify.verify(folder)
    return str(refusal.value)


@pytest.mark.parametrize("mechanism", ["grid", "moments", "response"])
def test_a_release_passes(released, mechanism, capsys):
    cli.main(["verify", str(released[mechanism])])
    said = capsys.readouterr().out
    assert "internally consistent; origin not proven" in " ".join(said.split())
    assert "ε = 1, δ = " in said


def test_the_mark_that_snakemake_leaves_is_no_part_of_it_and_does_no_harm(copied):
    (copied / release_folder.TIMESTAMP).touch()
    verify.verify(copied)
    (copied / release_folder.TIMESTAMP).write_text("2026-01-01")
    assert "is not part of the release" in _says(copied)


@pytest.mark.parametrize("name", [release_folder.MODEL, release_folder.CARD, release_folder.SYNTHETIC_CSV])
def test_a_changed_byte_is_noticed(copied, name):
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content.replace(b"1", b"2", 1))
    assert "checksum differs" in _says(copied) or "not the model" in _says(copied)


@pytest.mark.parametrize("kind", ["grid", "response"])
def test_every_flipped_bit_is_noticed(released, tmp_path, kind):
    folder = shutil.copytree(released[kind], tmp_path / "copy")
    rng = np.random.default_rng(1)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for bit in rng.integers(8 * len(content), size=20).tolist():
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            assert _says(folder), f"bit {bit} of {path.name}"
        path.write_bytes(content)
    verify.verify(folder)


@pytest.mark.parametrize("name", [release_folder.CARD, release_folder.CHECKSUMS, release_folder.MODEL])
def test_a_missing_file_is_noticed(copied, name):
    (copied / name).unlink()
    assert name in _says(copied)


def test_an_extra_file_is_noticed(copied):
    (copied / "witness.npz").write_bytes(b"exact sums")
    assert "witness.npz is not part of the release" in _says(copied)


def _claims_less(model):
    model["privacy"]["epsilon"] = 0.5


def _understates_its_ledger(model):
    """A claim that fits its ledger by our theorem, had the theorem been the wrong one."""
    rows = to_rows([Gaussian("sum", 1.0)] * 10)
    model["privacy"].update(ledger=list(rows), accountant="exact", epsilon=1.0, delta=1e-6, budget_delta=1e-6)


@pytest.mark.parametrize("edit", [_claims_less, _understates_its_ledger])
def test_a_claim_that_the_ledger_does_not_carry_is_refused(copied, edit, monkeypatch):
    monkeypatch.setattr(verify, "_check_ledger", lambda *arguments: None)
    assert "but its ledger adds up to" in _says(_edited(copied, edit))


def test_a_ledger_that_the_plan_does_not_demand_is_refused(copied):
    assert "public plan" in _says(_edited(copied, _understates_its_ledger))


def test_a_ledger_that_only_the_second_accountant_sees_through_is_refused(copied, monkeypatch):
    """Our accountant is made to believe the claim; the second one does not."""
    from privmix.privacy.accounting import Claim

    folder = _edited(copied, _understates_its_ledger)
    monkeypatch.setattr(verify, "_check_ledger", lambda *arguments: None)
    monkeypatch.setattr(verify, "compose_run", lambda *arguments: Claim(1.0, 1e-6))
    assert f"the second accountant ({second_accountant.NAME}) finds at least ε = " in _says(folder)


SPOILED = {
    "mode": (lambda model: model["privacy"].update(mode="benchmark"), "the mode 'benchmark'"),
    "seed": (lambda model: model["parameters"].update(seed=7), "key 'seed'"),
    "statistic": (lambda model: model["transcript"][0].update(statistic=[1.0]), "key 'statistic'"),
    "seconds": (lambda model: model["transcript"][0].update(seconds=1.0), "key 'seconds'"),
    "replay": (lambda model: model.update(replay={"used": 0.3}), "replay: extra inputs"),
    "counts": (lambda model: model.update(counts={"train": 285}), "counts: extra inputs"),
    "path": (lambda model: model["notes"].append("from /ho" + "me/someone/a.csv"), "a path of a machine"),
    "minute": (lambda model: model["notes"].append("made at 2026-01-02T03:04"), "a time of day"),
    "second": (lambda model: model["notes"].append("until 12:34:56"), "a time of day"),
    "said seed": (lambda model: model["notes"].append("seed = 12345"), "a seed"),
    "units": (lambda model: model["original"]["means"][0].reverse(), "in original units is not"),
    "rows": (lambda model: model["synthetic"].update(rows=499), "the synthetic rows are not"),
    "no ledger": (lambda model: model["privacy"].update(ledger=[]), "no ledger"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_forbidden_content_is_refused_even_with_matching_checksums(copied, what):
    edit, said = SPOILED[what]
    assert said in _says(_edited(copied, edit))


def test_the_maker_refuses_its_own_names_and_a_reader_does_not(released, monkeypatch):
    text = (released["grid"] / release_folder.MODEL).read_text()
    monkeypatch.setattr(platform, "node", lambda: "component")
    monkeypatch.setattr(getpass, "getuser", lambda: "mixture")
    verify.verify(released["grid"])
    with pytest.raises(UserError, match="the name of this machine"):
        traces.check_own_names(text.replace('"notes": [', '"notes": ["of mixture", '))


def test_a_card_that_promises_more_is_refused(copied):
    text = (copied / release_folder.CARD).read_text()
    (copied / release_folder.CARD).write_text(text.replace("ε = 1,", "ε = 0.1,"))
    _sealed(copied)
    assert "is not the card" in _says(copied)


def test_benchmark_files_are_refused_by_name(tmp_path, monkeypatch, capsys):
    """Both kinds of file, as the pipeline's own stages make them."""
    from privmix.pipeline.stages import fit, privatise

    write_clean(tmp_path / "clean.parquet", make_domain(rows=500), clusters(500))
    common = ["--epsilon", "1", "--delta", "1e-6", "--components", "2", "--seed", "1"]
    job = ["--mechanism", "m", "--clean", str(tmp_path / "clean.parquet"), *common]
    for stage, method, output in (
        (fit, "noisy_grid", "model.json"),
        (privatise, "laplace_input", "r.parquet"),
    ):
        words = [*job, "--parameters", json.dumps({"method": method}), "--output", str(tmp_path / output)]
        monkeypatch.setattr("sys.argv", ["stage", *words])
        stage.main()
        with pytest.raises(SystemExit, match="is a benchmark file: its noise comes from a known seed"):
            cli.main(["verify", str(tmp_path / output)])
    with pytest.raises(SystemExit, match="benchmark file"):
        cli.main(["verify", str(tmp_path)])


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_a_path_without_a_release_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "privmix release" in _says(tmp_path / path)


LEDGERS = [
    ([Gaussian("a", 20.0)] * 40, "exact", 1e-6),
    ([Decomposition("tree", 0.5), Laplace("counts", 0.5)], "linear", 0.0),
    ([Decomposition("tree", 0.4), Laplace("counts", 0.4), *[Gaussian("m", 30.0)] * 2], "split", 1e-6),
    ([Laplace("w", 0.01)] * 60 + [Gaussian("s", 200.0)] * 50, "zcdp", 1e-6),
    ([Gaussian("start", 12.0), *[SampledGaussian("g", 1.5, 0.01)] * 200], "exact", 1e-6),
    ([Selection("K", 0.1), *[Gaussian("m", 30.0)] * 12], "exact", 1e-6),
]


@pytest.mark.parametrize(("events", "theorem", "delta"), LEDGERS)
def test_the_two_accountants_agree_where_ours_is_tight_and_theirs_is_never_larger(events, theorem, delta):
    ours = verify.compose_run(list(events), delta, theorem).epsilon
    theirs = second_accountant.epsilon(events, delta)
    assert theirs <= ours * (1 + second_accountant.TOLERANCE)
    if theorem == "exact" and not isinstance(events[0], Selection):
        assert theirs >= ours * (1 - 5e-3)


def test_the_second_accountant_notices_a_claim_that_is_too_small_by_one_percent():
    for epsilon in (0.1, 1.0, 8.0):
        share = equal_shares(0, 30, Budget(epsilon, 1e-6), "exact")
        theirs = second_accountant.epsilon([Gaussian("", share.noise_multiplier)] * 30, 1e-6)
        assert theirs > 0.99 * epsilon * (1 + second_accountant.TOLERANCE)
        assert theirs < epsilon * (1 + second_accountant.TOLERANCE)


def test_the_epsilon_of_a_component_choice_is_added():
    mixed = [Selection("K", 0.1), Gaussian("m", 5.0)]
    alone = verify.compose_run([Gaussian("m", 5.0)], 1e-6, "exact").epsilon
    assert verify.compose_run(mixed, 1e-6, "exact").epsilon == pytest.approx(0.1 + alone)


@pytest.mark.parametrize("attributes", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [1.3, 2.6, 3.1, 3.9, 5.2, 5.7])
def test_the_second_accountant_refuses_no_right_claim_of_reports(epsilon, attributes):
    """A report of places at 0.8 ε and of some attributes, whose ε add up without a δ."""
    events = [RandomizedResponse("place", 0.8 * epsilon)]
    events += [RandomizedResponse(f"a{n}", 0.2 * epsilon / attributes) for n in range(attributes)]
    assert second_accountant.exceeds(events, 0.0, epsilon) is None
    assert second_accountant.exceeds(events, 0.0, 0.95 * epsilon) > 0.95 * epsilon
