"""Audits of copies of this package with one planted mistake each: does the audit detect a mistake?

The mistakes are edits of the sources in `tests/defects`; the package itself contains none. The outcome depends on the
code of the audit and on no dataset, so it is measured when that code changes and not in every run.
`python tests/defects/matrix.py` writes `evidence/defects.json`. A test checks that the file belongs to the current
code; the page shows a warning if it does not.
"""

import platform
from dataclasses import dataclass
from importlib import resources

from pydantic import TypeAdapter

from privmix.report.format import three_digits

FILE = resources.files("privmix.report") / "evidence" / "defects.json"


@dataclass(frozen=True)
class Trial:
    """The audit of one copy at one seed."""

    finding: str  # first finding of the replay; empty if it found nothing
    proven: float  # lower bound on ε of the game at 99 %
    alarm: bool  # whether the lower bound exceeds the claim


@dataclass(frozen=True)
class PlantedDefect:
    """A mistake and the trials of the copy with it. The first row of a matrix is the unchanged code."""

    name: str
    trials: tuple[Trial, ...]

    @property
    def replayed(self) -> int:
        """Number of trials in which the replay found something."""
        return sum(bool(trial.finding) for trial in self.trials)

    @property
    def alarmed(self) -> int:
        """Number of trials in which the lower bound of the game exceeds the claim."""
        return sum(trial.alarm for trial in self.trials)

    @property
    def proven(self) -> str:
        """Smallest lower bound on ε of all trials."""
        return three_digits(min(trial.proven for trial in self.trials))

    @property
    def finding(self) -> str:
        """First finding of the replay."""
        return next((trial.finding for trial in self.trials if trial.finding), "")


@dataclass(frozen=True)
class DefectMatrix:
    """All planted mistakes in one mechanism, each audited in the same way."""

    method: str
    epsilon: float  # claimed
    replays: int  # runs per replay
    games: int  # runs of each world per game
    python: str  # `code` hashes syntax trees, which depend on the version of Python
    code: str
    rows: tuple[PlantedDefect, ...]

    @property
    def as_it_is(self) -> PlantedDefect:
        """The unchanged code."""
        return self.rows[0]

    @property
    def planted(self) -> tuple[PlantedDefect, ...]:
        """The planted mistakes."""
        return self.rows[1:]

    def is_outdated(self, code: str) -> bool:
        """Tell whether the audit's code, now version `code`, has changed since. False if the Python version differs."""
        return self.python == this_python() and self.code != code


def this_python() -> str:
    """Return the version of Python that runs this process."""
    return ".".join(platform.python_version_tuple()[:2])


def load_matrix() -> DefectMatrix:
    """Load the last measured matrix."""
    return TypeAdapter(DefectMatrix).validate_json(FILE.read_bytes())
