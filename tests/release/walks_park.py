"""A small dataset, walks in a park, with its catalog entry and configuration, and the command line in its folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

from privmix import cli

ROWS = 300
ENTRY = {
    "name": "walks",
    "title": "Walks",
    "description": "Where some people walked.",
    "licence": {"spdx": "CC0-1.0"},
    "source": {"kind": "file", "path": "walks.csv"},
    "reader": {"format": "csv"},
    "columns": [
        {"name": "who", "description": "Walker", "type": "identifier"},
        *(
            {
                "name": name, "description": name, "type": "number", "unit": "km", "lower": -5, "upper": 5,
                "bound_reason": "The park is that large.", "resolution": 0.01,
            }
            for name in ("east", "north")
        ),
        {"name": "dog", "description": "With a dog", "type": "category", "values": ["no", "yes"]},
    ],
    "coordinates": ["east", "north"],
    "attributes": ["dog"],
    "privacy": {"unit": "record", "relation": "replace_one", "person_column": "who"},
}  # fmt: skip
CONFIG = {
    "catalog_dirs": ["catalog"],
    "datasets": ["walks"],
    "mechanisms": {
        "grid": {"method": "noisy_grid", "searches": 1},
        "moments": {"method": "noisy_moments", "iterations": 3},
        "response": {"method": "randomized_response", "searches": 1},
        "laplace": {"method": "laplace_input", "fit": "naive"},
        "bare": {"method": "non_private"},
    },
    "epsilons": [1],
    "components": 2,
    "release": {"limit_epsilon": 50.0, "limit_delta": 1e-4},
}


def people(number: int) -> list[str]:
    """Return ids that do not occur elsewhere by chance."""
    return [f"walker-{9_000_000 + 17 * each}-{each % 7}x" for each in range(number)]


def points(number: int, seed: int = 3) -> np.ndarray:
    """Return two clusters, rounded to six digits as in a file."""
    generator = np.random.Generator(np.random.PCG64(seed))
    centres = np.array([[-2.0, 1.0], [2.5, -1.5]])[generator.integers(2, size=number)]
    return np.round(centres + generator.normal(0, 0.5, (number, 2)), 6)


@dataclass(frozen=True)
class Park:
    """The folder in which the commands are run."""

    folder: Path

    def write(self, *, entry: dict | None = None, config: dict | None = None, rows: int = ROWS) -> None:
        """Write the files, with these changes."""
        (self.folder / "config").mkdir(exist_ok=True)
        (self.folder / "catalog").mkdir(exist_ok=True)
        (self.folder / "config/config.yaml").write_text(yaml.safe_dump({**CONFIG, **(config or {})}))
        (self.folder / "catalog/walks.yaml").write_text(yaml.safe_dump({**ENTRY, **(entry or {})}))
        lines = [
            f"{who},{east:.6f},{north:.6f},{('no', 'yes')[number % 3 == 0]}"
            for number, (who, (east, north)) in enumerate(zip(people(rows), points(rows), strict=True))
        ]
        (self.folder / "walks.csv").write_text("who,east,north,dog\n" + "\n".join(lines) + "\n")

    def release(self, mechanism: str = "grid", epsilon: float = 1.0, *more: str, out: str = "out") -> Path:
        """`privmix release`, in this process."""
        words = ["release", "walks", "--mechanism", mechanism, "--epsilon", str(epsilon), "--out", out, *more]
        cli.main(words)
        return self.folder / out

    def refused(self, capsys: pytest.CaptureFixture, *words: str) -> str:
        """Run a command that fails and return its error message."""
        with pytest.raises(SystemExit) as end:
            cli.main(list(words))
        sentence = str(end.value)
        assert sentence.startswith("privmix ")
        assert "Traceback" not in sentence
        return sentence

    @property
    def accounts(self) -> list[Path]:
        """The file of the spending account, if there is one."""
        return sorted((self.folder / "releases/.spending").glob("*.jsonl"))

    @property
    def lines(self) -> list[str]:
        """The lines of the account."""
        return self.accounts[0].read_text().splitlines() if self.accounts else []
