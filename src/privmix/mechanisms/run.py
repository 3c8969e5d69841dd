"""Run a mechanism: the fit stage runs it once, attacks and audits run it many times.

`MechanismJob` is one mechanism at one budget, with its seed. The pipeline and a release both run such jobs.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.io import compact_json
from privmix.artefacts.privacy_statement import BENCHMARK_NOTICE, RELEASE_NOTICE, PrivacyStatement
from privmix.artefacts.statistics import StatisticRequest
from privmix.errors import MechanismFailure
from privmix.mechanisms.base import (
    Mechanism,
    Randomness,
    Records,
    Release,
    Reports,
    Spec,
    exact_randomness,
    seeded_randomness,
)
from privmix.mechanisms.shared import attribute_counts, censored_labels, component_choice
from privmix.mechanisms.shared.statistics import budget as statistics_budget
from privmix.mechanisms.shared.statistics import estimates, measurement
from privmix.privacy import noise
from privmix.privacy.accounting import Budget, Claim, account, claim_distance
from privmix.privacy.ledger import Event, Ledger, to_rows

NO_LABELS = (
    "There are no censored labels: their limit needs the noisy table of components by values of attributes, which this "
    "mechanism does not measure with these settings."
)


def fit(
    mechanism: Mechanism, view: Records | Reports, spec: Spec, budget: Budget, rng: Randomness
) -> Release:
    """Fit the mechanism. First count the records and choose the number of components, if the spec asks for it.

    A part of the budget pays for the count, and for the choice unless the mechanism chooses itself.
    """
    check_coordinates(mechanism, type(mechanism).__name__, spec.domain)
    if spec.count_share:
        assert isinstance(view, Records), "the number of reports is public"
        return _count_then_fit(mechanism, view, spec, budget, rng)
    if not spec.candidates or mechanism.chooses_components:
        return _fit_then_measure(mechanism, view, spec, budget, rng)
    assert isinstance(view, Records), "local mechanisms choose the number of components themselves"
    ledger, price = Ledger(), spec.choice_share * budget.epsilon
    chosen = component_choice.choose_components(
        view.complete(spec.domain),
        spec,
        mechanism.relation(spec),
        epsilon=price,
        source=rng.noise,
        search=rng.search,
        ledger=ledger,
    )
    rest = replace(budget, epsilon=budget.epsilon - price)
    release = _fit_then_measure(mechanism, view, spec.with_components(chosen.number), rest, rng)
    return _prepend(release, ledger, {"components": chosen.number}, chosen.notes)


def check_coordinates(mechanism: Mechanism, name: str, domain: Domain) -> None:
    """Refuse a dataset without coordinates if the mechanism needs some; name one of the same trust that does not."""
    if len(domain.axes) < mechanism.min_coordinates:
        other = "randomized_response" if mechanism.randomises_records else "noisy_grid"
        raise MechanismFailure(
            f"{name} needs coordinates, but {domain.dataset} has attributes only; use `{other}` instead."
        )


def _fit_then_measure(
    mechanism: Mechanism, view: Records | Reports, spec: Spec, budget: Budget, rng: Randomness
) -> Release:
    """Fit the mixture and its attributes, then measure the statistics of all records with their own part."""
    if not spec.statistics:
        return _fit_then_count(mechanism, view, spec, budget, rng)
    plan, neighbours = statistics_budget.make_plan(mechanism, spec, budget), mechanism.relation(spec)
    if plan is None:
        release = _fit_then_count(mechanism, view, spec, budget, rng)
        return replace(release, notes=[*release.notes, statistics_budget.no_statistics_note(mechanism)])
    assert isinstance(view, Records), "reports are spent on their answers"
    release, ledger = _fit_then_count(mechanism, view, spec, plan.left, rng), Ledger()
    measured = measurement.measure(view, plan, spec, neighbours, rng.noise, ledger)
    return replace(
        release,
        events=[*release.events, *ledger.events],
        claim=plan.add_to(release.claim, budget),
        transcript=[*release.transcript, {"statistics": measured}],
        statistics=estimates.publish(measured, plan, spec, neighbours),
    )


def _fit_then_count(
    mechanism: Mechanism, view: Records | Reports, spec: Spec, budget: Budget, rng: Randomness
) -> Release:
    """Fit the mixture, then measure the attributes of a central mechanism with the rest of the budget.

    Unless the mechanism completes records, the mixture sees the complete records only, whose number is private. The
    attributes are those of all records. One of them may be the state that tells which records are complete.
    """
    plan, own = attribute_counts.make_plan(mechanism, spec, budget), mechanism.mixture_spec(spec)
    seen = view.complete(spec.domain) if isinstance(view, Records) and not own.all_counted else view
    if plan is None:
        release = mechanism.fit(seen, own, budget, rng)
        return replace(release, notes=[*release.notes, NO_LABELS]) if spec.censored else release
    assert isinstance(view, Records), "reports have answers about attributes"
    release, ledger, neighbours = (
        mechanism.fit(seen, own, plan.left, rng),
        Ledger(),
        mechanism.relation(spec),
    )
    table = attribute_counts.measure(view, release.mixture, plan, spec, neighbours, rng.noise, ledger)
    rows = spec.domain.rows if neighbours.size_is_public else None
    weights, deviation = release.mixture.weights, plan.deviation(spec, neighbours)
    labels = None
    if spec.censored:
        law = plan.law(spec, neighbours)
        bounds = censored_labels.bound_all(table, weights, spec.domain, spec.censored, law, rows)
        labels = censored_labels.choose(bounds, spec.censored)
    return replace(
        release,
        events=[*release.events, *ledger.events],
        claim=plan.add_to(release.claim, budget),
        transcript=[*release.transcript, {"attributes": attribute_counts.to_text(table)}],
        shares=attribute_counts.estimate_shares(table, weights, spec.domain, rows, deviation),
        labels=labels,
    )


def _count_then_fit(
    mechanism: Mechanism, records: Records, spec: Spec, budget: Budget, rng: Randomness
) -> Release:
    """Spend `count_share` of ε on a noisy count of the records, and the rest on the mechanism.

    One unit changes the number of records by at most m = `Neighbours.records`: by m when it is added or removed, and
    by less when it is replaced. So m/ε Laplace noise on the count is ε-DP (Dwork, McSherry, Nissim, Smith 2006,
    Theorem 1). The mechanism sees the noisy count only, and the two costs add up (basic composition).
    """
    ledger, count_epsilon = Ledger(), spec.count_share * budget.epsilon
    rows = noise.record_count(
        len(records),
        sensitivity=float(mechanism.relation(spec).records),
        epsilon=count_epsilon,
        source=rng.noise,
        ledger=ledger,
        label="number of records",
    )
    rest = replace(budget, epsilon=budget.epsilon - count_epsilon)
    release = fit(mechanism, records, spec.with_rows(rows), rest, rng)
    return _prepend(release, ledger, {"rows": rows}, ())


def _prepend(release: Release, ledger: Ledger, result: dict[str, Any], notes: Sequence[str]) -> Release:
    """Return the release with an earlier pure measurement in its ledger, its claim and its transcript."""
    first = account(ledger.events, 0.0, "linear").epsilon
    return replace(
        release,
        events=[*ledger.events, *release.events],
        claim=Claim(first + release.claim.epsilon, release.claim.delta),
        transcript=[result, *release.transcript],
        notes=[*notes, *release.notes],
    )


def run(mechanism: Mechanism, records: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
    """Run the whole mechanism in memory."""
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
    """Run the whole mechanism on each subset of the records, given as a boolean mask.

    Attacks with many models use this function. Each subset has its own randomness. Subsets that are fitted together
    share the randomness of the first.
    """
    if mechanism.fits_together and subsets:
        return mechanism.fit_many(records, subsets, mechanism.mixture_spec(spec), rngs[0])
    return [
        run(mechanism, records.select(np.flatnonzero(mask)), spec, budget, rng)
        for mask, rng in zip(subsets, rngs, strict=True)
    ]


@dataclass(frozen=True)
class MechanismJob:
    """One mechanism at one budget."""

    name: str
    method: str
    parameters: dict[str, Any]
    mechanism: Mechanism
    budget: Budget
    components: tuple[int, ...]  # one number, or the candidates
    choice_share: float
    replicates: int
    seed: int | None  # None for a release
    censored: Mapping[str, float] = field(default_factory=dict)  # attribute -> most nats of a label
    statistics: tuple[StatisticRequest, ...] = ()
    statistics_share: float = 0.1

    @property
    def release(self) -> bool:
        """Whether the result may be published: no seed, one replicate."""
        return self.seed is None

    def description(self, domain: Domain) -> str:
        """Return the job as a phrase for messages."""
        return f"{self.name} at ε = {self.budget.epsilon:g} on {domain.dataset}"

    def spec(self, domain: Domain) -> Spec:
        """Return the public values that the mechanism may use."""
        check_coordinates(self.mechanism, self.method, domain)
        names = {attribute.name for attribute in domain.attributes}
        spec = Spec(
            domain,
            max(self.components),
            censored={name: most for name, most in self.censored.items() if name in names},
            statistics=self.statistics,
            statistics_share=self.statistics_share,
        )
        if len(self.components) == 1:
            return spec
        return replace(spec, candidates=self.components, choice_share=self.choice_share)

    def randomness(self, domain: Domain, *purpose: str | int) -> Randomness:
        """Return the stream of a benchmark for this purpose. No two jobs, budgets or settings share noise.

        Without a seed it is exact noise from the operating system, and the purpose does not matter.
        """
        if self.seed is None:
            return exact_randomness()
        settings = compact_json({"method": self.method, **self.parameters})
        budget = (self.budget.epsilon, self.budget.delta)
        public = (domain.unit, domain.relation, domain.max_records_per_person, domain.rows)
        spec: tuple[str | int | float, ...] = (*self.components, self.choice_share, *public)
        if self.statistics:  # they leave less budget for the model, so its noise must be fresh
            asked = compact_json([request.model_dump() for request in self.statistics])
            spec = (*spec, asked, self.statistics_share)
        return seeded_randomness(self.seed, domain.dataset, self.name, settings, *budget, *spec, *purpose)

    def fit_replicates(
        self, domain: Domain, views: Sequence[Records | Reports], rngs: Sequence[Randomness]
    ) -> tuple[list[FittedModel], list[Release]]:
        """Fit each replicate. Return the models in stored form, and the releases."""
        models, releases, spec = [], [], self.spec(domain)
        for replicate, (view, rng) in enumerate(zip(views, rngs, strict=True)):
            began = time.perf_counter()
            releases.append(fit(self.mechanism, view, spec, self.budget, rng))
            models.append(releases[-1].to_artefact(replicate, time.perf_counter() - began))
        return models, releases

    def header(
        self, domain: Domain, claim: Claim, events: Sequence[Event], *, failed: bool = False
    ) -> dict[str, Any]:
        """Return the fields that every file of this job has: those of `MechanismFile`."""
        return {
            "notice": RELEASE_NOTICE if self.release else BENCHMARK_NOTICE,
            "domain": domain,
            "mechanism": self.name,
            "method": self.method,
            "parameters": self.parameters,
            "privacy": self.privacy_statement(domain, claim, events, failed=failed),
        }

    def privacy_statement(
        self, domain: Domain, claim: Claim, events: Sequence[Event], *, failed: bool = False
    ) -> PrivacyStatement:
        """Return the privacy statement of a file of this job; for a failed run, with the requested relation."""
        spec = self.spec(domain)
        neighbours = spec.neighbours if failed else self.mechanism.relation(spec)
        within_m = claim_distance(events)
        return PrivacyStatement(
            budget_epsilon=self.budget.epsilon,
            budget_delta=self.budget.delta,
            epsilon=claim.epsilon,
            delta=claim.delta,
            unit=neighbours.unit,
            relation=neighbours.relation,
            trust=self.mechanism.trust,
            within_m=within_m,
            epsilon_anywhere=None
            if within_m is None
            else account(events, claim.delta, self.mechanism.accountant).epsilon,
            mode="release" if self.release else "benchmark",
            accountant=self.mechanism.accountant,
            ledger=to_rows(events),
        )
