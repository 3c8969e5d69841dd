"""The audit of one mechanism at one budget: a game and a replay for each kind of neighbouring datasets."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from privmix.artefacts.audit import AuditFile
from privmix.artefacts.io import compact_json
from privmix.artefacts.privacy_statement import BENCHMARK_NOTICE, ReplayVerdict
from privmix.audit import crafted_worlds
from privmix.audit.game import GameResult, play_game
from privmix.audit.replay import replay_audit
from privmix.errors import MechanismFailure
from privmix.mechanisms import registry
from privmix.mechanisms.base import Mechanism, Randomness, seeded_randomness
from privmix.privacy.accounting import Budget
from privmix.privacy.sensitivity import Relation, Unit

RUNS_PER_KIND = 3
NeighbourKind = tuple[Unit, Relation]
Streams = Callable[..., Randomness]


def distinct_kinds(
    mechanism: Mechanism, kinds: Sequence[NeighbourKind]
) -> dict[NeighbourKind, NeighbourKind]:
    """Return the kinds of neighbours that differ for the mechanism, by the unit and relation that it protects."""
    found: dict[NeighbourKind, NeighbourKind] = {}
    for kind in kinds:
        neighbours = mechanism.relation(crafted_worlds.crafted_pairs(mechanism, *kind)[0].spec)
        found.setdefault((neighbours.unit, neighbours.relation), kind)
    return found


def play_games(
    mechanism: Mechanism, budget: Budget, kinds: Sequence[NeighbourKind], runs: int, randomness: Streams
) -> list[GameResult]:
    """Play one game for each distinct kind of neighbours; if there are several, the names of pairs state the kind."""
    played = distinct_kinds(mechanism, kinds)
    found = []
    for protected, kind in played.items():
        pairs = crafted_worlds.crafted_pairs(mechanism, *kind)
        if len(played) > 1:
            words = " ".join(protected).replace("_", " ")
            pairs = [replace(pair, name=f"{pair.name}, {words}") for pair in pairs]
        streams = functools.partial(randomness, *protected, "game")
        found.append(play_game(mechanism, pairs, budget, streams, runs, len(played)))
    return found


def replay_kinds(
    mechanism: Mechanism, budget: Budget, kinds: Sequence[NeighbourKind], randomness: Streams
) -> ReplayVerdict:
    """Replay a few runs of each kind of neighbours, and merge them into one verdict."""
    verdicts = [
        replay_audit(
            mechanism,
            crafted_worlds.crafted_pairs(mechanism, *kind),
            budget,
            functools.partial(randomness, *kind, "replay"),
            RUNS_PER_KIND,
        )
        for kind in kinds
    ]
    return ReplayVerdict(
        runs=sum(verdict.runs for verdict in verdicts),
        releases=sum(verdict.releases for verdict in verdicts),
        used=max(verdict.used for verdict in verdicts if verdict.used is not None),
        findings=list(dict.fromkeys(finding for verdict in verdicts for finding in verdict.findings)),
        noise=verdicts[0].noise,
    )


def audit_mechanism(
    name: str,
    parameters: dict[str, Any],
    budget: Budget,
    kinds: Sequence[NeighbourKind],
    runs: int,
    seed: int,
) -> AuditFile:
    """Audit one mechanism at one budget; `parameters` include its method."""
    values = dict(parameters)
    method = values.pop("method", "")
    mechanism = registry.build(method, values, where=f"mechanism {name}")

    def randomness(*purpose: str | int) -> Randomness:
        return seeded_randomness(
            seed, "audit", name, compact_json(parameters), budget.epsilon, budget.delta, *purpose
        )

    began = time.process_time()
    common = {
        "notice": BENCHMARK_NOTICE,
        "mechanism": name,
        "method": method,
        "parameters": values,
        "budget_epsilon": budget.epsilon,
        "budget_delta": budget.delta,
    }
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
