"""Lower bounds on ε that the audit's game proves for every mechanism, their cost, and their error rate.

    python benchmarks/audit.py [--runs 3000] [--repetitions 0] [name ...]

Each mechanism is audited on crafted records, with a record added or removed (local mechanisms: replaced). A repetition
is a complete audit with other noise. Its 95 % bound should exceed the claim in at most 5 of 100 audits, and it should
raise an alarm in at most 1 of 100.
"""

import argparse
import time
from functools import partial

from privmix.audit import crafted_worlds
from privmix.audit.game import GameResult, play_game
from privmix.mechanisms import registry
from privmix.mechanisms.base import seeded_randomness
from privmix.privacy.accounting import Budget

DELTA = 1e-6
EPSILONS = (1.0, 10.0)
MECHANISMS = {
    **{name: (name, {}) for name in registry.METHODS if name not in ("non_private", "planar_laplace")},
    "dp_em (llg, linear)": ("dp_em", {"noise": "llg", "composition": "linear"}),
    "gaussian_input (places alone)": ("gaussian_input", {"attribute_share": 0}),
    "planar_laplace (50 km)": ("planar_laplace", {"within_m": 50_000}),
}


def audited(name: str, epsilon: float, runs: int, number: int) -> tuple[GameResult, float]:
    """Play one game, and return it with its CPU time in seconds."""
    method, parameters = MECHANISMS[name]
    mechanism = registry.build(method, parameters)
    pairs = crafted_worlds.crafted_pairs(mechanism, "record", "add_remove")
    randomness = partial(seeded_randomness, 1, "benchmark", name, epsilon, number)
    began = time.process_time()
    played = play_game(mechanism, pairs, Budget(epsilon, DELTA), randomness, runs)
    return played, time.process_time() - began


def row(name: str, epsilon: float, runs: int, repetitions: int) -> str:
    """Return a row of the table."""
    played, seconds = audited(name, epsilon, runs, 0)
    claim, best = played.claim.epsilon, max(played.bounds, key=lambda bound: bound.lower, default=None)
    proven = "– | – | –" if best is None else f"{best.lower:.3g} | {best.lower / claim:.0%} | {best.theorem}"
    cells = f"| {name} | {claim:.3g} | {proven} | {played.runs} | {seconds:.0f} |"
    if not repetitions:
        return cells
    again = [audited(name, epsilon, runs, number)[0] for number in range(1, 1 + repetitions)]
    wrong, alarms = (
        sum(any(getattr(bound, level) > claim for bound in each.bounds) for each in again)
        for level in ("lower", "alarm")
    )
    return f"{cells} {wrong} | {alarms} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="names of mechanisms; default: all")
    parser.add_argument("--runs", type=int, default=3000, help="runs of each world")
    parser.add_argument("--repetitions", type=int, default=0, help="complete audits, to count wrong bounds")
    given = parser.parse_args()
    more = " above the claim | alarms |" if given.repetitions else ""
    print(f"| mechanism | claimed ε | proven | share | theorem | runs | seconds |{more}")
    print("|---" * (9 if more else 7) + "|")
    for epsilon in EPSILONS:
        for name in given.names or MECHANISMS:
            print(row(name, epsilon, given.runs, given.repetitions), flush=True)


if __name__ == "__main__":
    main()
