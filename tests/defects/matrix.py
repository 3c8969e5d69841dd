"""Plant each defect in a copy of the sources, audit the copy, and print which test has noticed what.

    python tests/defects/matrix.py [--seeds 3] [--output reports/defects.md] [part of a name ...]

The first row is the code as it is. Of the replay three runs are looked at, of the game one is played, for every seed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "mutation")]

from changes.change import Change  # noqa: E402
from mutate import copied  # noqa: E402
from planted import DEFECTS, METHOD  # noqa: E402

AS_IT_IS = "none: the code as it is"
AT_ONCE = 2


@dataclass(frozen=True)
class Row:
    """What the audits of one copy have said, seed by seed."""

    name: str
    trials: list[dict]

    def noticed(self, test: str) -> int:
        """In how many of the trials that test has noticed something."""
        return sum(bool(trial[test]) for trial in self.trials)

    @property
    def first_finding(self) -> str:
        """What the replay said first, without numbers' details."""
        return next(
            (trial["findings"][0].partition(";")[0] for trial in self.trials if trial["findings"]), ""
        )

    @property
    def proven(self) -> float:
        """The least ε that the game has proven at 99 % in all trials."""
        return min(trial["proven"] for trial in self.trials)


def audited(defect: Change | None, seeds: int, folder: Path) -> Row:
    """The audits of a copy with that defect."""
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
    return Row(defect.name if defect else AS_IT_IS, json.loads(run.stdout))


def matrix(seeds: int, wanted: Sequence[str] = ()) -> list[Row]:
    """A row for the code as it is, and one for each defect whose name contains a wanted word."""
    chosen = [d for d in DEFECTS if not wanted or any(word in d.name for word in wanted)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        return list(
            pool.map(
                lambda numbered: audited(numbered[1], seeds, Path(folder, str(numbered[0]))),
                enumerate([None, *chosen]),
            )
        )


def as_table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| planted defect | replay | game | ε proven by the game (claimed: 1) | what the replay says |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        of = len(row.trials)
        lines.append(
            f"| {row.name} | {row.noticed('findings')}/{of} | {row.noticed('alarm')}/{of} | {row.proven:.2f} "
            f"| {row.first_finding} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the matrix, and write it where it is wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names of defects; all unless told")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="a file to write the table to")
    given = parser.parse_args()
    table = as_table(matrix(given.seeds, given.names))
    print(table, end="")
    if given.output:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
