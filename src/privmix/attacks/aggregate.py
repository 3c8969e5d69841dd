"""Membership from aggregates: published shares of a pool of people tell who is in it (Homer et al. 2008).

x are the yes/no values of a person, f the published shares of the pool, g the shares of a reference of other people.
The likelihood ratio (Sankararaman et al. 2009) is Σ x ln(f/g) + (1 - x) ln((1 - f)/(1 - g)), Homer's statistic
Σ |x - g| - |x - f|. Both are high for members.

A threshold of 0 would be wrong: if reference and pool come from different populations, Homer's statistic is biased, and
people who are not in the pool may look like members. So both scores are calibrated on held-out people, who are from the
population of the pool and neither in the pool nor in the reference. Someone who knows the population only has an AUC of
1/2.
"""

from dataclasses import dataclass

import numpy as np

from privmix.attacks.finding import LEAST_PEOPLE, NotMeasured
from privmix.privacy.hypothesis_testing import AucInterval, auc_with_interval, roc_curve, true_positive_rate

FALSE_ALARMS = 0.01
UNSEEN = 0.01  # people that count for a value that does not occur


@dataclass(frozen=True)
class AggregateMembership:
    """How well published shares tell members from held-out people. Intervals are DeLong's over people (95 %)."""

    members: int
    held_out: int
    shares: int  # number of published shares
    likelihood_ratio: AucInterval
    homer: AucInterval
    roc: tuple[tuple[float, float], ...]  # of the likelihood ratio: false-positive and true-positive rates
    true_positive_rate: (
        float | None
    )  # of the likelihood ratio at 1 % false alarms; None with too few held out

    @property
    def beats_population(self) -> bool:
        """Whether one of the attacks is better than chance: with 95 % each, or 90 % together."""
        return self.likelihood_ratio.low > 0.5 or self.homer.low > 0.5


def attack_by_shares(
    shares: np.ndarray, reference: np.ndarray, members: np.ndarray, held_out: np.ndarray
) -> AggregateMembership | NotMeasured:
    """Guess who is in the pool behind published shares.

    `reference`, `members` and `held_out` have one row of yes/no values per person; no person is in two of them.
    `shares` may be exact, rounded or noisy.
    """
    for name, people in (("pool", members), ("reference", reference), ("held-out group", held_out)):
        if len(people) < LEAST_PEOPLE:
            return NotMeasured(
                "aggregate membership",
                f"This attack needs at least {LEAST_PEOPLE} people in the {name}; there are {len(people)}.",
            )
    published = bound_shares(np.asarray(shares, dtype=float), len(members))
    expected = bound_shares(reference.mean(axis=0), len(reference))
    scores = [likelihood_ratio(people, published, expected) for people in (members, held_out)]
    homer = [homer_statistic(people, published, expected) for people in (members, held_out)]
    return AggregateMembership(
        members=len(members),
        held_out=len(held_out),
        shares=len(published),
        likelihood_ratio=auc_with_interval(scores[0], scores[1]),
        homer=auc_with_interval(homer[0], homer[1]),
        roc=tuple(roc_curve(scores[0], scores[1])),
        true_positive_rate=true_positive_rate(scores[0], scores[1], FALSE_ALARMS),
    )


def likelihood_ratio(people: np.ndarray, shares: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the logarithm of the likelihood ratio of each person."""
    nothing = np.log1p(-shares) - np.log1p(-reference)
    return people @ (np.log(shares / reference) - nothing) + nothing.sum()


def homer_statistic(people: np.ndarray, shares: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return Homer's statistic of each person. For x of 0 or 1, |x - g| - |x - f| = (1 - 2x)(g - f)."""
    away = reference - shares
    return away.sum() - 2 * (people @ away)


def bound_shares(shares: np.ndarray, people: int) -> np.ndarray:
    """Return shares between 0 and 1. A share of 0 is strong evidence but not certain: shares may be rounded."""
    least = UNSEEN / people
    return np.clip(shares, least, 1 - least)


def split_people(people: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a random third of the people each for the pool, the reference, and the held-out group."""
    order = rng.permutation(people)
    third = people // 3
    return order[:third], order[third : people - third], order[people - third :]
