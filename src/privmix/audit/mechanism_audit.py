"""The audit of one mechanism at one budget: a game and a replay for each kind of neighbours that it distinguishes."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from privmix.artefacts.privacy_statement import ReplayVerdict
from privmix.audit import crafted_worlds
from privmix.audit.game import GameResult, play_game
from privmix.audit.replay import replay_audit
from privmix.mechanisms.base import Mechanism, Randomness
from privmix.privacy.accounting import Budget
from privmix.privacy.sensitivity import Relation, Unit

RUNS_PER_KIND = 3  # runs of each kind
NeighbourKind = tuple[Unit, Relation]
Streams = Callable[..., Randomness]


def distinct_kinds(
    mechanism: Mechanism, kinds: Sequence[NeighbourKind]
) -> dict[NeighbourKind, NeighbourKind]:
    """Those of the kinds of neighbours that are not the same to the mechanism, by whom it protects in truth."""
    found: dict[NeighbourKind, NeighbourKind] = {}
    for kind in kinds:
        neighbours = mechanism.relation(crafted_worlds.crafted_pairs(mechanism, *kind)[0].spec)
        found.setdefault((neighbours.unit, neighbours.relation), kind)
    return found


def play_games(
    mechanism: Mechanism, budget: Budget, kinds: Sequence[NeighbourKind], runs: int, randomness: Streams
) -> list[GameResult]:
    """One game for each kind of neighbours that the mechanism distinguishes; their pairs say which, if several."""
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
    """The replay of a few runs of each kind of neighbours, as one verdict."""
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
        used=max(verdict.used for verdict in verdicts),
        findings=list(dict.fromkeys(finding for verdict in verdicts for finding in verdict.findings)),
        noise=verdicts[0].noise,
    )
