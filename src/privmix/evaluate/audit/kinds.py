"""The audit of one mechanism at one budget: a game and a replay for each kind of neighbours that it distinguishes."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from privmix.artefacts.verdict import Verdict
from privmix.evaluate.audit import crafted
from privmix.evaluate.audit.game import Game, play
from privmix.evaluate.audit.replay import replay
from privmix.mechanisms.base import Mechanism, Randomness
from privmix.privacy.accounting import Budget
from privmix.privacy.relation import Relation, Unit

REPLAYS = 3  # runs of each kind
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


def replayed(mechanism: Mechanism, budget: Budget, kinds: Sequence[Kind], randomness: Streams) -> Verdict:
    """The replay of a few runs of each kind of neighbours, as one verdict."""
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
