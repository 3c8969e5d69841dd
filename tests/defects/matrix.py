"""Plant each defect in a copy of the sources, audit the copy, and report which test detects it.

    python tests/defects/matrix.py [--seeds 3] [part of a name ...]

The first row is the unchanged code. For every seed, the replay looks at three runs, and one game is played. The matrix
of all defects is stored in `src/privmix/report/evidence/defects.json`, from where the report reads it. Its table is in
the README.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import TypeAdapter

from privmix.pipeline.code_version import audit_code_version
from privmix.report import defects
from privmix.report.defects import DefectMatrix, PlantedDefect, Trial

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "mutation")]

from changes.change import Change  # noqa: E402
from mutate import copied  # noqa: E402
from planted import DEFECTS, METHOD  # noqa: E402
from trial import BUDGET, PLAYED, REPLAYED  # noqa: E402

AS_IT_IS = "none (unchanged code)"
AT_ONCE = 2


def audited(defect: Change | None, seeds: int, folder: Path) -> PlantedDefect:
    """Audit a copy with this defect."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copied(defect, folder)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, str(HERE / "trial.py"), METHOD, "0", str(seeds)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{defect.name if defect else AS_IT_IS}: the audit itself failed.\n{run.stderr}")
    trials = (Trial(**trial) for trial in json.loads(run.stdout))
    return PlantedDefect(defect.name if defect else AS_IT_IS, tuple(trials))


def matrix(seeds: int, wanted: Sequence[str] = ()) -> DefectMatrix:
    """Return a row for the unchanged code, and one for each defect whose name contains a wanted word."""
    chosen = [d for d in DEFECTS if not wanted or any(word in d.name for word in wanted)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        rows = tuple(
            pool.map(
                lambda numbered: audited(numbered[1], seeds, Path(folder, str(numbered[0]))),
                enumerate([None, *chosen]),
            )
        )
    code = audit_code_version(METHOD)
    return DefectMatrix(METHOD, BUDGET.epsilon, REPLAYED, PLAYED, defects.this_python(), code, rows)


def as_table(found: DefectMatrix) -> str:
    """Return the matrix in Markdown."""
    lines = [
        "| planted defect | replay | game "
        f"| ε proven by the game (claimed: {found.epsilon:g}) | what the replay says |",
        "|---|---|---|---|---|",
    ]
    for row in found.rows:
        of = len(row.trials)
        lines.append(
            f"| {row.name} | {row.replayed}/{of} | {row.alarmed}/{of} | {row.proven} | {row.finding} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the matrix; store it if it is complete."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names of defects (default: all)")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    found = matrix(given.seeds, given.names)
    print(as_table(found), end="")
    if not given.names:
        Path(str(defects.FILE)).write_bytes(TypeAdapter(DefectMatrix).dump_json(found, indent=1) + b"\n")
        print(
            f"Stored in {defects.FILE}. If the table has changed, copy it into the README.", file=sys.stderr
        )


if __name__ == "__main__":
    main()
