"""Audit the claim of one mechanism at one budget: play a game on crafted records and replay its runs."""

import argparse
import json
from pathlib import Path

from privmix.artefacts.io import write_json
from privmix.audit.mechanism_audit import audit_mechanism
from privmix.pipeline import runner
from privmix.privacy.accounting import Budget


def main() -> None:
    """Audit one mechanism at one ε. The audit reads no dataset."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.audit", description=__doc__)
    parser.add_argument("--mechanism", required=True, help="id of the mechanism in the configuration")
    parser.add_argument(
        "--parameters", required=True, type=json.loads, help="method and its parameters, as JSON"
    )
    parser.add_argument("--epsilon", required=True, type=float, help="ε of the budget")
    parser.add_argument("--delta", required=True, type=float, help="δ of the budget")
    parser.add_argument(
        "--kind", required=True, nargs=2, action="append", metavar=("UNIT", "RELATION"),
        help="unit and neighbouring relation of a dataset; repeat it for several",
    )  # fmt: skip
    parser.add_argument("--runs", required=True, type=int, help="number of runs in each world")
    parser.add_argument("--seed", required=True, type=int, help="master seed of the benchmark")
    parser.add_argument("--output", required=True, type=Path, help="audit file to write (JSON)")
    given = parser.parse_args()
    kinds = [tuple(kind) for kind in given.kind]
    budget = Budget(given.epsilon, given.delta)
    write_json(
        given.output,
        audit_mechanism(given.mechanism, given.parameters, budget, kinds, given.runs, given.seed),
    )


if __name__ == "__main__":
    runner.run_stage("audit", main)
