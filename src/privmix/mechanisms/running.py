"""Running a mechanism: what the fit stage does once, and what attacks and audits repeat."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privmix.mechanisms import component_choice
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec
from privmix.privacy.accounting import Budget, after_choice
from privmix.privacy.ledger import Ledger


def fit(
    mechanism: Mechanism, view: Records | Reports, spec: Spec, budget: Budget, rng: Randomness
) -> Release:
    """The mechanism's release; the number of Gaussians is chosen first, from its budget, where that is asked for."""
    if not spec.candidates or mechanism.chooses_components:
        return mechanism.fit(view, spec, budget, rng)
    ledger, price = Ledger(), spec.choice_share * budget.epsilon
    chosen = component_choice.choose(
        view,
        spec,
        mechanism.relation(spec),
        epsilon=price,
        source=rng.noise,
        search=rng.search,
        ledger=ledger,
    )
    rest = replace(budget, epsilon=budget.epsilon - price)
    release = mechanism.fit(view, spec.with_components(chosen.number), rest, rng)
    return replace(
        release,
        events=[*ledger.events, *release.events],
        claim=after_choice(ledger.events, release.claim),
        transcript=[{"components": chosen.number}, *release.transcript],
        notes=[*chosen.notes, *release.notes],
    )


def run(mechanism: Mechanism, records: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
    """The whole mechanism in memory."""
    if mechanism.randomises_records:
        return fit(mechanism, mechanism.privatise(records, spec, budget, rng), spec, budget, rng)
    return fit(mechanism, records, spec, budget, rng)


def run_many(
    mechanism: Mechanism,
    records: Records,
    subsets: Sequence[np.ndarray],
    spec: Spec,
    budget: Budget,
    rngs: Sequence[Randomness],
) -> list[Release]:
    """The whole mechanism for each subset of the records, a boolean mask: what attacks with many models run.

    Each subset has randomness of its own; subsets that are fitted together share that of the first.
    """
    if mechanism.fits_together and subsets:
        return mechanism.fit_many(records, subsets, spec, rngs[0])
    return [
        run(mechanism, records.taken(np.flatnonzero(mask)), spec, budget, rng)
        for mask, rng in zip(subsets, rngs, strict=True)
    ]
