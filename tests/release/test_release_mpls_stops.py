"""Run the commands of the README: publish the police stops of Minneapolis at ε = 1."""

import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privmix.artefacts.clean import read_clean
from privmix.mixture import em
from privmix.release import folder as release_folder
from privmix.release.folder import read_release

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
NATS = 0.1


def readme_commands() -> list[list[str]]:
    """The commands of the section, as they stand there."""
    section = (ROOT / "README.md").read_text().split("\n## Publish\n")[1].split("\n## ")[0]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]
    return [shlex.split(line, comments=True) for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> tuple[Path, float]:
    """The release folder that the README's commands make, and the CPU seconds that the first took."""
    folder = tmp_path_factory.mktemp("published")
    for part in ("config", "data/catalog"):
        shutil.copytree(ROOT / part, folder / part)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    seconds = []
    commands = readme_commands()
    assert [command[:2] for command in commands] == [["privmix", "release"], ["privmix", "verify"]]
    for command in commands:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert result.returncode == 0, result.stderr
        assert "ε = 1, δ = 0" in result.stdout
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return folder, seconds[0]


@pytest.mark.slow
def test_it_takes_less_than_a_minute(published):
    assert published[1] <= SECONDS


@pytest.mark.slow
def test_a_model_of_the_synthetic_data_is_as_good_as_the_released_one(published):
    """Both scored on the held-out stops of the benchmark split; a release holds nothing out, and has seen them."""
    folder, _ = published
    release = folder / "releases/mpls_stops/noisy_tree/eps-1"
    model = read_release(release)
    frame = pd.read_parquet(release / release_folder.SYNTHETIC_PARQUET)
    assert len(frame) == 50_000
    assert list(frame.columns) == ["lat", "long", "problem", "race", "gender"]
    synthetic = model.domain.normalise(frame[["lat", "long"]].to_numpy())
    rng = np.random.Generator(np.random.PCG64(1))
    searches = [em.fit(synthetic, 10, floor=model.domain.resolution**2, rng=rng) for _ in range(3)]
    fitted = max(searches, key=lambda fit: fit.log_likelihood)
    clean = read_clean(folder / "data/clean/mpls_stops.parquet")
    held_out = clean.points[~clean.train]
    assert len(held_out) > 2000
    released = model.normalised.mixture.log_density(held_out).mean()
    own = fitted.mixture.log_density(held_out).mean()
    print(f"released {released:.4f}, own model of the synthetic data {own:.4f} nats")
    assert abs(own - released) <= NATS


@pytest.mark.slow
def test_no_stop_of_the_source_is_among_the_synthetic_rows(published):
    """Not one pair of coordinates of 51,920; single numbers neither, beyond the public bounds."""
    folder, _ = published
    release = folder / "releases/mpls_stops/noisy_tree/eps-1"
    raw = pd.read_csv(folder / "data/raw/mpls_stops.raw", usecols=["lat", "long"])
    bounds = {axis.name: (axis.lower, axis.upper) for axis in read_release(release).domain.axes}
    for path in (release / release_folder.SYNTHETIC_CSV, release / release_folder.SYNTHETIC_PARQUET):
        frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
        assert frame.merge(raw.drop_duplicates(), on=["lat", "long"]).empty
        for name in ("lat", "long"):
            inside = frame[name][~frame[name].isin(bounds[name])]
            assert not inside.isin(raw[name]).any()
    content = b"".join(path.read_bytes() for path in release.iterdir())
    pairs = {f"{lat},{long}" for lat, long in raw.itertuples(index=False)}
    lines = content.decode(errors="replace").splitlines()
    assert not {",".join(line.split(",")[:2]) for line in lines} & pairs
