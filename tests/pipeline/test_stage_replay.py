"""Every private model is replayed as it is made: a failing one is marked, and stops a strict run."""

import json
import sys

import numpy as np
import pytest
from making import clusters, make_domain, write_clean

from privmix.artefacts.io import read_json
from privmix.artefacts.model import ModelFile
from privmix.artefacts.private import read_private
from privmix.audit import replay
from privmix.errors import UserError
from privmix.pipeline.stages import fit, privatise
from privmix.privacy.noise import SeededNoise

ATTRIBUTES = (("colour", ("red", "green", "blue")),)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a stage in this process; gives the path of what it makes."""

    def main(stage, method, *more, rows=600, epsilon=1.0, source=None, **domain):
        clean = tmp_path / "clean.parquet"
        described = make_domain(rows=rows, attributes=ATTRIBUTES, **domain)
        write_clean(clean, described, clusters(rows), codes={"colour": np.arange(rows) % 3})
        output = tmp_path / stage.__name__
        arguments = ["--mechanism", "m", "--parameters", json.dumps({"method": method})]
        arguments += ["--epsilon", str(epsilon), "--delta", "1e-6", "--components", "3", *more]
        arguments += ["--private" if source else "--clean", str(source or clean), "--output", str(output)]
        monkeypatch.setattr(sys, "argv", [stage.__name__, *arguments])
        stage.main()
        return output

    return main


SEEDED = ("--seed", "1", "--replicates", "2")


@pytest.mark.parametrize("method", ["dp_em", "noisy_moments", "noisy_grid", "posterior_sample"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_central_model_carries_its_replay(run, method, relation):
    found = read_json(run(fit, method, *SEEDED, relation=relation), ModelFile).replay
    assert found.findings == []
    assert found.runs == 2
    assert 0 < found.used <= 1.001
    assert len(found.noise) == 32


def test_a_local_model_carries_the_replay_of_its_reports(run):
    private = run(privatise, "randomized_response", *SEEDED)
    info, _ = read_private(private)
    assert info.replay.passed
    assert (info.replay.runs, len(info.replay.noise)) == (replay.LOCAL_RUNS, 256)
    assert (
        read_json(run(fit, "randomized_response", *SEEDED, source=private), ModelFile).replay == info.replay
    )


def test_a_model_without_privacy_has_none(run):
    assert read_json(run(fit, "non_private", "--seed", "1"), ModelFile).replay is None


def _halve(monkeypatch):
    gaussian, laplace = SeededNoise.add_gaussian, SeededNoise.add_laplace
    monkeypatch.setattr(
        SeededNoise, "add_gaussian", lambda own, values, sigma: gaussian(own, values, sigma / 2)
    )
    monkeypatch.setattr(
        SeededNoise, "add_laplace", lambda own, values, scale: laplace(own, values, scale / 2)
    )


@pytest.mark.parametrize(("stage", "method"), [(fit, "dp_em"), (privatise, "laplace_input")])
def test_halved_noise_is_marked_and_stops_a_strict_run(run, monkeypatch, stage, method):
    _halve(monkeypatch)
    path = run(stage, method, *SEEDED)
    found = (read_json(path, ModelFile) if stage is fit else read_private(path)[0]).replay
    assert any("the noise is too small" in sentence for sentence in found.findings)
    path.unlink()
    with pytest.raises(UserError, match=r"^m at ε = 1 on made fails its replay: .*nothing was written"):
        run(stage, method, *SEEDED, "--strict")
    assert not path.exists()


def test_the_sample_is_bounded(monkeypatch):
    """Only the sample is held in memory, whatever the number of records."""
    from privmix.mechanisms.base import Records

    read = []

    def parts():
        for number in range(1000):
            read.append(number)
            yield Records(np.zeros((replay.SAMPLE_ROWS // 3, 2)))

    assert len(replay.first_records(parts())) == replay.SAMPLE_ROWS
    assert len(read) == 4
