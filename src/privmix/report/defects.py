"""Would the audits notice a mistake? What they said of copies of this package with one planted mistake each.

The mistakes are edits of the sources, and stand in `tests/defects`: the product has none of them. What they show is
true of the code of the audit and says nothing of anybody's records, so that it is measured when that code changes and
not in every run. `python tests/defects/matrix.py` writes `evidence/defects.json`; a test sees that it is of the code as
it is, and the page says so where it is not.
"""

import platform
from dataclasses import dataclass
from importlib import resources

from pydantic import TypeAdapter

from privmix.report.format import three_digits

FILE = resources.files("privmix.report") / "evidence" / "defects.json"


@dataclass(frozen=True)
class Trial:
    """What the audits of one copy said at one seed."""

    finding: str  # of the replay, the first one; empty if it found nothing
    proven: float  # the ε that the game proves at 99 %
    alarm: bool  # whether that is more than the claim


@dataclass(frozen=True)
class PlantedDefect:
    """A mistake, and the trials of the copy that has it; the first of a matrix is the code as it is."""

    name: str
    trials: tuple[Trial, ...]

    @property
    def replayed(self) -> int:
        """In how many trials the replay found something."""
        return sum(bool(trial.finding) for trial in self.trials)

    @property
    def alarmed(self) -> int:
        """In how many trials the game proved more than the claim."""
        return sum(trial.alarm for trial in self.trials)

    @property
    def proven(self) -> str:
        """The least ε that the game has proven in all trials."""
        return three_digits(min(trial.proven for trial in self.trials))

    @property
    def finding(self) -> str:
        """What the replay said first."""
        return next((trial.finding for trial in self.trials if trial.finding), "")


@dataclass(frozen=True)
class DefectMatrix:
    """All planted mistakes in one mechanism, each audited in the same way."""

    method: str
    epsilon: float  # claimed
    replays: int  # runs that a replay looks at
    games: int  # runs of each world that a game plays
    python: str  # syntax trees, and so versions of code, are those of one Python
    code: str
    rows: tuple[PlantedDefect, ...]

    @property
    def as_it_is(self) -> PlantedDefect:
        """The code without any mistake."""
        return self.rows[0]

    @property
    def planted(self) -> tuple[PlantedDefect, ...]:
        """The mistakes."""
        return self.rows[1:]

    def is_outdated(self, code: str) -> bool:
        """Whether the code of the audit, now of version `code`, has changed since, as far as this Python can tell."""
        return self.python == this_python() and self.code != code


def this_python() -> str:
    """The Python whose syntax trees this process has."""
    return ".".join(platform.python_version_tuple()[:2])


def load_matrix() -> DefectMatrix:
    """The matrix as it was measured last."""
    return TypeAdapter(DefectMatrix).validate_json(FILE.read_bytes())
