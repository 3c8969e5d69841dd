"""Audit: what attacks on crafted records prove of a mechanism's claim, and whether its runs hold when replayed."""

import argparse
import functools
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from privmix import stages
from privmix.artefacts import BENCHMARK_NOTICE, Audit, Verdict, dumps, write_json
from privmix.errors import MechanismFailure
from privmix.evaluate.audit import crafted
from privmix.evaluate.audit.game import Game, play
from privmix.mechanisms import registry
from privmix.mechanisms.base import Mechanism, Randomness, seeded
from privmix.privacy.accounting import Budget
from privmix.privacy.relation import Relation, Unit

REPLAYS = 3  # runs of each pair
Kind = tuple[Unit, Relation]
Streams = Callable[..., Randomness]


def distinguished(mechanism: Mechanism, kinds: Sequence[Kind]) -> dict[Kind, Kind]:
    """Those of the kinds of neighbours that are not the same to the mechanism, by whom it protects in truth."""
    found: dict[Kind, Kind] = {}
    for kind in kinds:
        neighbours = mechanism.relation(crafted.pairs(mechanism, *kind)[0].spec)
        found.setdefault((neighbours.unit, neighbours.relation), kind)
    return found


def games(
    mechanism: Mechanism, budget: Budget, kinds: Sequence[Kind], runs: int, randomness: Streams
) -> list[Game]:
    """One game for each kind of neighbours that the mechanism distinguishes; their pairs say which, if several."""
    played = distinguished(mechanism, kinds)
    found = []
    for protected, kind in played.items():
        pairs = crafted.pairs(mechanism, *kind)
        if len(played) > 1:
            words = " ".join(protected).replace("_", " ")
            pairs = [replace(pair, name=f"{pair.name}, {words}") for pair in pairs]
        streams = functools.partial(randomness, *protected, "game")
        found.append(play(mechanism, pairs, budget, streams, runs, len(played)))
    return found


def replayed(
    mechanism: Mechanism, budget: Budget, kinds: Sequence[Kind], randomness: Streams
) -> Verdict | None:
    """The replay of a few runs of each kind of neighbours, as one verdict."""
    if importlib.util.find_spec("privmix.evaluate.audit.replay") is None:
        return None
    from privmix.evaluate.audit.replay import replay

    verdicts = [
        replay(
            mechanism,
            crafted.pairs(mechanism, *kind),
            budget,
            functools.partial(randomness, *kind, "replay"),
            REPLAYS,
        )
        for kind in kinds
    ]
    return Verdict(
        runs=sum(verdict.runs for verdict in verdicts),
        releases=sum(verdict.releases for verdict in verdicts),
        used=max(verdict.used for verdict in verdicts),
        findings=list(dict.fromkeys(finding for verdict in verdicts for finding in verdict.findings)),
        noise=verdicts[0].noise,
    )


def audit(
    name: str, parameters: dict[str, Any], budget: Budget, kinds: Sequence[Kind], runs: int, seed: int
) -> Audit:
    """The audit of one mechanism at one budget; `parameters` name its method too."""
    values = dict(parameters)
    method = values.pop("method", "")
    mechanism = registry.build(method, values, where=f"mechanism {name}")

    def randomness(*purpose: str | int) -> Randomness:
        return seeded(seed, "audit", name, dumps(parameters), budget.epsilon, budget.delta, *purpose)

    began = time.process_time()
    common = {"notice": BENCHMARK_NOTICE, "mechanism": name, "method": method, "parameters": values}
    try:
        played = games(mechanism, budget, kinds, runs, randomness)
        verdict = replayed(mechanism, budget, kinds, randomness)
    except MechanismFailure as error:
        said = str(error)
        return Audit(
            **common, epsilon=budget.epsilon, delta=budget.delta, runs=0, bounds=[], replay=None,
            notes=[said], failure=said, seconds=time.process_time() - began,
        )  # fmt: skip
    return Audit(
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
    parser = argparse.ArgumentParser(prog="python -m privmix.stages.audit", description=__doc__)
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
    stages.run("audit", main)
