"""The audit stage: one file per mechanism and ε, without any dataset; failures are recorded as sentences."""

import json
import subprocess
import sys

import pytest

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.io import read_json
from privmix.audit import mechanism_audit
from privmix.errors import MechanismFailure
from privmix.mechanisms import registry
from privmix.privacy.accounting import Budget

RECORD = ("record", "replace_one")


def _run(path, method, *more):
    command = [sys.executable, "-m", "privmix.pipeline.stages.audit", "--mechanism", "m", "--epsilon", "1"]
    command += ["--delta", "1e-6", "--seed", "1", "--output", str(path), "--kind", *RECORD]
    command += ["--parameters", json.dumps({"method": method}), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_file_says_what_was_claimed_and_proven(tmp_path):
    done = _run(tmp_path / "audit.json", "laplace_input", "--runs", "60")
    assert done.returncode == 0, done.stderr
    audit = read_json(tmp_path / "audit.json", AuditFile)
    assert (audit.mechanism, audit.method, audit.parameters) == ("m", "laplace_input", {})
    assert (audit.epsilon, audit.delta, audit.runs) == (1.0, 0.0, 60)
    assert 0 <= audit.lower <= 1
    assert not audit.alarmed
    assert audit.failure is None


def test_too_few_runs_are_a_sentence_and_no_number():
    audit = mechanism_audit.audit_mechanism("m", {"method": "dp_sgd"}, Budget(1.0, 1e-6), [RECORD], 20, 1)
    assert audit.bounds == []
    assert "20 runs are too few" in audit.notes[0]
    assert audit.epsilon == pytest.approx(1.0)


def test_a_mechanism_that_cannot_work_is_a_sentence(monkeypatch):
    def failing(*given):
        raise MechanismFailure("it needs three coordinates.")

    monkeypatch.setattr(mechanism_audit, "play_game", failing)
    audit = mechanism_audit.audit_mechanism("m", {"method": "dp_em"}, Budget(2.0, 1e-6), [RECORD], 20, 1)
    assert audit.failure == "it needs three coordinates."
    assert audit.notes == [audit.failure]
    assert (audit.epsilon, audit.bounds, audit.replay) == (2.0, [], None)


def test_a_seed_gives_the_same_audit_and_another_setting_other_noise():
    def bounds(parameters):
        return mechanism_audit.audit_mechanism("m", parameters, Budget(1.0, 1e-6), [RECORD], 40, 1).bounds

    first = bounds({"method": "laplace_input"})
    assert first == bounds({"method": "laplace_input"})
    assert first != bounds({"method": "laplace_input", "searches": 2})


def test_kinds_that_a_mechanism_does_not_distinguish_are_played_once():
    asked = [RECORD, ("record", "add_remove"), ("person", "add_remove")]
    local, central = (registry.build(method, {}) for method in ("laplace_input", "dp_em"))
    assert list(mechanism_audit.distinct_kinds(local, asked)) == [RECORD, ("person", "replace_one")]
    assert list(mechanism_audit.distinct_kinds(central, asked)) == asked
    audit = mechanism_audit.audit_mechanism("m", {"method": "laplace_input"}, Budget(3.0, 1e-6), asked, 40, 1)
    assert len(audit.bounds) == 16
    assert {bound.pair.split(", ")[1] for bound in audit.bounds} == {
        "record replace one",
        "person replace one",
    }


def test_a_wrong_kind_is_an_error_and_leaves_no_file(tmp_path):
    done = _run(tmp_path / "audit.json", "no_such_method", "--runs", "60")
    assert done.returncode == 1
    assert "unknown method 'no_such_method'" in done.stderr
    assert not (tmp_path / "audit.json").exists()
