"""Synthetic rows of other programs (AIM, MST), from the same records, public domain, ε and δ as ours.

The other program runs in its own environment, which `python` starts, with a script `synthesize.py` that reads
`--input` (CSV) and `--domain` (JSON: bounds of numbers, values of categories), takes `--method`, `--epsilon`,
`--delta`, `--rows` and `--seed`, writes `--output` (CSV), and prints a JSON line with `cpu_seconds`. Nothing else here
needs it.
"""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from cases import Case

from privmix.mechanisms.base import Records


@dataclass(frozen=True)
class Peers:
    """The interpreter and the script of other programs."""

    python: Path
    script: Path

    def synthesize(
        self, case: Case, method: str, *, epsilon: float, delta: float, rows: int, seed: int
    ) -> tuple[Records, float]:
        """Return synthetic rows of a method with its default settings, clipped to the public box, and CPU seconds."""
        domain = case.spec.domain
        public: dict[str, dict[str, object]] = {
            axis.name: {"lower": axis.lower, "upper": axis.upper} for axis in domain.axes
        }
        public |= {each.name: {"categories": list(each.values)} for each in domain.attributes}
        table = pd.DataFrame(
            domain.denormalise(case.records.points), columns=[axis.name for axis in domain.axes]
        )
        for each in domain.attributes:
            table[each.name] = np.array(each.values)[case.records.codes[each.name]]
        with tempfile.TemporaryDirectory() as folder:
            given, described, made = (Path(folder, name) for name in ("in.csv", "domain.json", "out.csv"))
            table.to_csv(given, index=False)
            described.write_text(json.dumps(public), encoding="utf-8")
            command = [
                self.python, self.script, "--method", method, "--epsilon", str(epsilon), "--delta", str(delta),
                "--domain", described, "--input", given, "--rows", str(rows), "--seed", str(seed), "--output", made,
            ]  # fmt: skip
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            synthetic = pd.read_csv(made, dtype={each.name: str for each in domain.attributes})
        points = domain.normalise(synthetic[[axis.name for axis in domain.axes]].to_numpy(float))
        codes = {
            each.name: pd.Categorical(synthetic[each.name], categories=each.values).codes.astype(np.int64)
            for each in domain.attributes
        }
        assert len(points) == rows, "the number of rows differs"
        assert all(code.min() >= 0 for code in codes.values()), "a value is outside the public list"
        seconds = json.loads(answer.stdout.strip().splitlines()[-1])["cpu_seconds"]
        return Records(case.spec.inside(points), codes), float(seconds)
