"""Audit: what attacks on crafted records prove of a mechanism's claim, and whether its runs hold when replayed."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.io import compact_json, write_json
from privmix.artefacts.privacy_statement import BENCHMARK_NOTICE
from privmix.audit.mechanism_audit import NeighbourKind, play_games, replay_kinds
from privmix.errors import MechanismFailure
from privmix.mechanisms import registry
from privmix.mechanisms.base import Randomness, seeded_randomness
from privmix.pipeline import runner
from privmix.privacy.accounting import Budget


def audit(
    name: str,
    parameters: dict[str, Any],
    budget: Budget,
    kinds: Sequence[NeighbourKind],
    runs: int,
    seed: int,
) -> AuditFile:
    """The audit of one mechanism at one budget; `parameters` name its method too."""
    values = dict(parameters)
    method = values.pop("method", "")
    mechanism = registry.build(method, values, where=f"mechanism {name}")

    def randomness(*purpose: str | int) -> Randomness:
        return seeded_randomness(
            seed, "audit", name, compact_json(parameters), budget.epsilon, budget.delta, *purpose
        )

    began = time.process_time()
    common = {"notice": BENCHMARK_NOTICE, "mechanism": name, "method": method, "parameters": values}
    try:
        played = play_games(mechanism, budget, kinds, runs, randomness)
        verdict = replay_kinds(mechanism, budget, kinds, randomness)
    except MechanismFailure as error:
        said = str(error)
        return AuditFile(
            **common, epsilon=budget.epsilon, delta=budget.delta, runs=0, bounds=[], replay=None,
            notes=[said], failure=said, seconds=time.process_time() - began,
        )  # fmt: skip
    return AuditFile(
        **common,
        epsilon=max(game.claim.epsilon for game in played),
        delta=max(game.claim.delta for game in played),
        runs=min(game.runs for game in played),
        bounds=[bound for game in played for bound in game.bounds],
        replay=verdict,
        notes=list(dict.fromkeys(note for game in played for note in game.notes)),
        seconds=time.process_time() - began,
    )


def main() -> None:
    """Audit one mechanism at one epsilon; no record of any dataset is read."""
    parser = argparse.ArgumentParser(prog="python -m privmix.pipeline.stages.audit", description=__doc__)
    parser.add_argument("--mechanism", required=True, help="id of the mechanism in the configuration")
    parser.add_argument(
        "--parameters", required=True, type=json.loads, help="JSON: method and its parameters"
    )
    parser.add_argument("--epsilon", required=True, type=float)
    parser.add_argument("--delta", required=True, type=float)
    parser.add_argument(
        "--kind", required=True, nargs=2, action="append", help="unit and relation that a dataset asks for"
    )
    parser.add_argument("--runs", required=True, type=int, help="runs of each world")
    parser.add_argument("--seed", required=True, type=int, help="master seed of the benchmark")
    parser.add_argument("--output", required=True, type=Path)
    given = parser.parse_args()
    kinds = [tuple(kind) for kind in given.kind]
    budget = Budget(given.epsilon, given.delta)
    write_json(given.output, audit(given.mechanism, given.parameters, budget, kinds, given.runs, given.seed))


if __name__ == "__main__":
    runner.run_stage("audit", main)
