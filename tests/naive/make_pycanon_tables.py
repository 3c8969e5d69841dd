"""Write `pycanon_tables.json`: 20 random tables with k, l and t as pycanon computes them.

    python tests/naive/make_pycanon_tables.py

pycanon needs an older numpy than Privmix, so this script makes an environment of its own in a temporary folder. Every
sensitive value occurs in its table. pycanon truncates entropy l to a whole number.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PYCANON = "pycanon==1.3.6"
TARGET = Path(__file__).with_name("pycanon_tables.json")


def make_tables() -> list[dict]:
    """Make the tables and let pycanon measure them."""
    import numpy as np
    import pandas as pd
    from pycanon import anonymity

    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows, known, values = int(rng.integers(30, 120)), int(rng.integers(1, 4)), int(rng.integers(2, 7))
        numeric = bool(seed % 2)
        names = [f"q{number}" for number in range(known)]
        table = {name: rng.integers(0, int(rng.integers(2, 4)), rows).tolist() for name in names}
        secret = np.concatenate(
            [np.arange(values), rng.choice(values, rows - values, p=rng.dirichlet(np.ones(values)))]
        )
        table["s"] = secret.tolist() if numeric else [f"value {each}" for each in secret]
        frame = pd.DataFrame(table)
        found.append(
            {
                "table": table,
                "k": int(anonymity.k_anonymity(frame, names)),
                "distinct_l": int(anonymity.l_diversity(frame, names, ["s"])),
                "entropy_l": int(anonymity.entropy_l_diversity(frame, names, ["s"])),
                "t": float(anonymity.t_closeness(frame, names, ["s"])),
            }
        )
    return found


def main() -> None:
    """Run this file again inside the new environment."""
    if sys.argv[1:] == ["--inside"]:
        TARGET.write_text("[\n" + ",\n".join(map(json.dumps, make_tables())) + "\n]\n", encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", PYCANON], check=True)
        subprocess.run([python, __file__, "--inside"], check=True, env={})


if __name__ == "__main__":
    main()
