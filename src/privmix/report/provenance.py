"""The provenance of a report: commit, packages and machine."""

import contextlib
import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

SHOWN_PACKAGES = (
    "privmix", "snakemake", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "seaborn",
    "pydantic", "dp-accounting",
)  # fmt: skip


@dataclass(frozen=True)
class Provenance:
    """Commit, packages and machine of a report."""

    commit: str
    modified: bool
    python: str
    machine: str
    processor: str  # "" if unknown
    cores: int
    packages: tuple[tuple[str, str], ...]


def _git(*arguments: str) -> str:
    try:
        result = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
        )
    except FileNotFoundError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def _processor() -> str:
    """Return the name of the processor: run times depend on it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor()


def collect_provenance() -> Provenance:
    """Collect the provenance of this process."""
    return Provenance(
        commit=_git("rev-parse", "HEAD") or "unknown",
        modified=bool(_git("status", "--porcelain", "--untracked-files=no")),
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        packages=tuple((name, importlib.metadata.version(name)) for name in SHOWN_PACKAGES),
    )
