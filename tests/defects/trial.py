"""Audit a method of the sources on PYTHONPATH, and print the findings as JSON.

    python tests/defects/trial.py METHOD FIRST-SEED NUMBER-OF-SEEDS

Crafted records, ε = 1: three replayed runs and one game for every seed.
"""

import json
import sys

from privmix.audit import crafted_worlds
from privmix.audit.game import play_game
from privmix.audit.replay import replay_audit
from privmix.mechanisms import base
from privmix.mechanisms.registry import build
from privmix.privacy.accounting import Budget

BUDGET = Budget(1.0, 1e-6)
REPLAYED, PLAYED = 3, 1200


def audited(method: str, seed: int) -> dict[str, object]:
    """Return the findings of the replay and the game for one seed."""
    mechanism = build(method, {})
    pairs = crafted_worlds.crafted_pairs(mechanism, "record", "add_remove")
    verdict = replay_audit(
        mechanism, pairs, BUDGET, lambda number: base.seeded_randomness(seed, "replay", number), REPLAYED
    )
    game = play_game(
        mechanism, pairs, BUDGET, lambda number: base.seeded_randomness(seed, "game", number), PLAYED
    )
    worst = max(game.bounds, key=lambda bound: bound.alarm)
    return {
        "finding": next((finding.partition(";")[0] for finding in verdict.findings), ""),
        "proven": worst.alarm,
        "alarm": worst.alarm > game.claim.epsilon,
    }


if __name__ == "__main__":
    method, first, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps([audited(method, seed) for seed in range(first, first + number)]))
