"""Compare the results of two runs, cell by cell: did a change of the code change a number?

    python benchmarks/compare_results.py BEFORE/results.csv AFTER/results.csv [--renamed OLD=NEW ...]

Rows are matched by dataset, mechanism, method, replicate, metric and epsilon. Values must be equal to the last bit.
Timings (`seconds_*`) differ between runs and are left out. Differences in other columns, such as delta, are listed.
The exit status is 1 if a value differs or a row is missing.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

KEY = ["dataset", "mechanism", "method", "epsilon", "replicate", "metric"]


def read(path: Path, renamed: dict[str, str]) -> pd.DataFrame:
    """Read the results without timings. Cells stay text, exactly as written."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    rows["metric"] = rows["metric"].replace(renamed)
    rows = rows[~rows["metric"].str.startswith("seconds_")]
    if rows.duplicated(KEY).any():
        raise SystemExit(f"{path}: two rows for {rows[rows.duplicated(KEY)].iloc[0][KEY].to_dict()}")
    return rows.set_index(KEY).sort_index()


def main() -> int:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--renamed", nargs="*", default=[], metavar="OLD=NEW", help="metrics with a new name")
    given = parser.parse_args()
    before = read(given.before, dict(pair.split("=") for pair in given.renamed))
    after = read(given.after, {})
    missing, added = before.index.difference(after.index), after.index.difference(before.index)
    common = before.index.intersection(after.index)
    print(f"{len(common)} rows in both, {len(missing)} only before, {len(added)} only after")
    for column in before.columns:
        one, other = before.loc[common, column], after.loc[common, column]
        differs = one != other
        print(f"{column}: {int(differs.sum())} cells differ")
        changed = pd.DataFrame({"before": one[differs], "after": other[differs]}).reset_index()
        if len(changed):
            print(changed.groupby(["mechanism", "before", "after"]).size().head(40).to_string())
    wrong = (before.loc[common, "value"] != after.loc[common, "value"]).any()
    return int(wrong or len(missing) > 0 or len(added) > 0)


if __name__ == "__main__":
    sys.exit(main())
