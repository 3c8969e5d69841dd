"""The public plan of a release: the mechanism, its settings, and the ledger that it must have at this budget.

A mechanism decides from public values what it measures and with how much noise. So the ledger of a run follows from the
method, its parameters, the domain, the budget and the number of components. Only a private choice of that number
changes the later events, and the transcript states its result. `tests/release/test_release_public_plan.py` compares the
plan of every method with the ledgers of its runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Mechanism, Randomness, Records, Spec
from privmix.mechanisms.central.dp_em import DpEm
from privmix.mechanisms.central.dp_sgd import DpSgd
from privmix.mechanisms.central.noisy_moments import ROUND, NoisyMoments, Schedule
from privmix.mechanisms.central.noisy_tree import NoisyTree
from privmix.mechanisms.central.output_noise import OutputNoise
from privmix.mechanisms.central.posterior_sample import PosteriorSample
from privmix.mechanisms.central.tree_then_moments import TreeThenMoments
from privmix.mechanisms.local.base import LocalMechanism
from privmix.mechanisms.run import MechanismJob
from privmix.mechanisms.shared import attribute_counts, marginals, worst_group
from privmix.mechanisms.shared.attribute_counts import AttributePlan
from privmix.mechanisms.shared.reference import GRID_DIMENSIONS, ROUNDS
from privmix.mechanisms.shared.statistics import budget as statistics_budget
from privmix.mechanisms.shared.statistics.budget import StatisticsPlan
from privmix.mechanisms.shared.statistics.requests import check_requests
from privmix.mechanisms.shared.synopsis_mechanism import SynopsisMechanism
from privmix.privacy.accounting import Budget, gaussian_mu
from privmix.privacy.calibration import equal_shares, noise_multipliers_by_share
from privmix.privacy.exact import ExactNoise, dequantise, quantise
from privmix.privacy.ledger import (
    Decomposition,
    Event,
    Gaussian,
    Laplace,
    SampledGaussian,
    Selection,
)
from privmix.release.folder import MODEL, ReleasedModel

# Limits of releases, so that no plan takes long to calculate. Configurations may ask for more, in benchmarks only.
MOST_EVENTS = 50_000  # of one ledger
MOST_MIXED = 10_000  # of a ledger with Laplace and Gaussian noise that composes by privacy-loss distributions
LEAST_EPSILON, MOST_EPSILON, MOST_DELTA = 1e-4, 1e4, 0.1
MOST_COMPONENTS, MOST_COORDINATES, MOST_RECORDS_PER_PERSON = 4096, 256, 1_000_000
MOST_NUMBER = 1e9  # of a parameter
CHOICE = "number of Gaussians"  # label of the private choice of the number of components


@dataclass(frozen=True)
class PublicPlan:
    """What public values and a private choice of components fix before the first later measurement."""

    job: MechanismJob
    spec: Spec  # with the chosen number of components, if the choice was a measurement
    budget: (
        Budget  # that is left for the mechanism after the choice, without the attributes and the statistics
    )
    chosen: int | None  # the number of components that the choice measured
    events: tuple[Event, ...]  # the whole ledger
    attributes: AttributePlan | None = None  # the measurement of attributes, if there is one
    statistics: StatisticsPlan | None = None  # the measurements of statistics, if there are any

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism with its parameters."""
        return self.job.mechanism

    @property
    def mixture_spec(self) -> Spec:
        """The spec for the mixture. `spec` is for the attributes, which are those of all records."""
        return self.mechanism.mixture_spec(self.spec)

    def entries(self, transcript: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the part of a transcript that the mechanism itself writes."""
        last = len(transcript) - (self.attributes is not None) - (self.statistics is not None)
        return list(transcript[self.chosen is not None : last])

    def attribute_entry(self, transcript: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the entry with the table of attributes."""
        return transcript[-1 - (self.statistics is not None)]


def make_plan(model: ReleasedModel) -> PublicPlan:
    """Return the plan of a released model. Raise a UserError if its settings are not those of a mechanism."""
    job = _job(model)
    spec, budget, chosen = job.spec(model.domain), job.budget, None
    events: list[Event] = []
    chooses = bool(spec.candidates) and not job.mechanism.chooses_components
    _demand(chooses == (model.choice_share is not None), "choice_share")
    if chooses:
        chosen = _chosen_number(model.transcript, spec)
        price = spec.choice_share * budget.epsilon
        events.append(Selection(CHOICE, price))
        spec, budget = spec.with_components(chosen), replace(budget, epsilon=budget.epsilon - price)
    statistics = statistics_budget.make_plan(job.mechanism, spec, budget)
    if statistics is not None:
        budget = statistics.left
    attributes = attribute_counts.make_plan(job.mechanism, spec, budget)
    if attributes is not None:
        budget = attributes.left
    others = (chosen is not None) + (attributes is not None) + (statistics is not None)
    _check_length(job.mechanism, spec, len(model.transcript) - others)
    try:
        events += mechanism_events(job.mechanism, job.mechanism.mixture_spec(spec), budget)
    except (MechanismFailure, ArithmeticError, AssertionError) as error:
        raise UserError(f"{MODEL}: {model.method} cannot run with these settings ({error}).") from error
    if attributes is not None:
        events.append(attributes.event)
    if statistics is not None:
        events += statistics.all_events
    return PublicPlan(job, spec, budget, chosen, tuple(events), attributes, statistics)


def _job(model: ReleasedModel) -> MechanismJob:
    if model.method in registry.METHODS and not registry.method_class(model.method).private:
        raise UserError(
            f"{MODEL} names the method {model.method!r}, which is not private, so no release has it; do not publish it."
        )
    if model.method not in registry.METHODS:
        raise UserError(
            f"{MODEL} names the method {model.method!r}, which this version of Privmix cannot release; "
            "update Privmix."
        )
    numbers = model.components
    _demand(
        0 < len(numbers) <= 64 and all(1 <= number <= MOST_COMPONENTS for number in numbers), "components"
    )
    _demand(len(set(numbers)) == len(numbers), "components")
    _demand(model.choice_share is None or 0 < model.choice_share < 1, "choice_share")
    _demand(len(model.domain.axes) <= MOST_COORDINATES, "domain.axes")
    _demand(1 <= model.domain.rows <= 2**53, "domain.rows")
    stated = [name for each in model.domain.attributes for name in each.state_of]
    _demand(set(stated) <= {axis.name for axis in model.domain.axes}, "domain.attributes")
    _demand(len(set(stated)) == len(stated), "domain.attributes")
    _demand(1 <= model.domain.max_records_per_person <= MOST_RECORDS_PER_PERSON, "domain")
    persons = model.domain.persons
    _demand(persons is None or 1 <= persons <= model.domain.rows, "domain.persons")
    share = model.statistics_share
    _demand((share is None) == (not model.statistics_asked), "statistics_share")
    _demand(share is None or 0 < share < 1, "statistics_share")
    check_requests(model.statistics_asked, model.domain.axes, model.domain.attributes, f"{MODEL}: statistics")
    mechanism = registry.build(model.method, model.parameters, where=f"{MODEL}: parameters")
    _demand(len(model.domain.axes) >= mechanism.min_coordinates, "domain.axes")
    _demand(bool(model.domain.axes or model.domain.attributes), "domain.attributes")
    for key, value in model.parameters.items():
        _demand(_is_plain(_parameter(mechanism, key), value), f"parameters.{key}")
    epsilon, delta = model.privacy.budget_epsilon, model.privacy.budget_delta
    if not (LEAST_EPSILON <= epsilon <= MOST_EPSILON and 0 <= delta <= MOST_DELTA):
        raise UserError(
            f"{MODEL} has the budget ε = {epsilon:g}, δ = {delta:g}; a release has an ε from {LEAST_EPSILON:g} to "
            f"{MOST_EPSILON:g} and a δ of at most {MOST_DELTA:g}."
        )
    return MechanismJob(
        name=model.mechanism,
        method=model.method,
        parameters=model.parameters,
        mechanism=mechanism,
        budget=Budget(epsilon, delta),
        components=model.components,
        choice_share=model.choice_share or 0.5,  # unused if None
        replicates=1,
        seed=None,
        censored={}
        if model.labels is None
        else {each.attribute: each.at_most for each in model.labels.limits},
        statistics=model.statistics_asked,
        statistics_share=share or 0.5,  # unused if None
    )


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise UserError(f"{MODEL}: the value of {what} is not one that Privmix writes; do not publish it.")


def _parameter(mechanism: Mechanism, key: str) -> Any:
    """Return the checked value of a parameter, which a configuration may name by its alias."""
    fields = type(mechanism).__pydantic_fields__
    return getattr(
        mechanism, next(name for name, each in fields.items() if key in (name, each.validation_alias))
    )


def _is_plain(checked: Any, stated: Any) -> bool:
    """Return whether a stated value is the checked one, and not a text or list that was converted to it."""
    if isinstance(checked, bool) or isinstance(stated, bool) or checked is None or isinstance(checked, str):
        return type(checked) is type(stated) and checked == stated
    if not isinstance(stated, int | float) or (isinstance(checked, int) and not isinstance(stated, int)):
        return False
    return checked == stated and abs(stated) <= MOST_NUMBER


def _chosen_number(transcript: Sequence[dict[str, Any]], spec: Spec) -> int:
    first = transcript[0] if transcript else {}
    number = first.get("components")
    if set(first) != {"components"} or type(number) is not int or number not in spec.candidates:
        raise UserError(f"{MODEL}: the transcript does not begin with a choice among the candidates.")
    return number


def mechanism_events(mechanism: Mechanism, spec: Spec, budget: Budget) -> list[Event]:
    """Return the ledger that a mechanism has by its public plan."""
    if isinstance(mechanism, LocalMechanism):
        return _report_events(mechanism, spec, budget)
    if isinstance(mechanism, SynopsisMechanism):
        return _synopsis_events(mechanism, budget)
    if isinstance(mechanism, NoisyMoments):
        for_moments, for_marginals = mechanism.split(budget)
        plan = mechanism.schedule(spec, for_moments, mechanism.relation(spec))
        multiplier = equal_shares(0, plan.releases, for_moments, "exact").noise_multiplier
        last = [] if for_marginals is None else [Gaussian(marginals.LABEL, for_marginals)]
        return [*(Gaussian(label, multiplier) for label, _ in moment_stages(plan)), *last]
    if isinstance(mechanism, TreeThenMoments):
        for_tree = mechanism.tree_share * budget.epsilon
        multiplier = math.sqrt(mechanism.iterations) / gaussian_mu(budget.epsilon - for_tree, budget.delta)
        moments = [Gaussian("moments", multiplier)] * mechanism.iterations
        return [*_tree_events(NoisyTree(), Budget(for_tree, 0.0)), *moments]
    if isinstance(mechanism, DpEm):
        return _em_events(mechanism, spec, budget)
    if isinstance(mechanism, DpSgd):
        for_reference, multiplier = mechanism.noise_multipliers(spec, budget)
        start = [] if for_reference is None else reference_events(spec, for_reference)
        rate = mechanism.rate(spec)
        step = (
            Gaussian("gradient", multiplier) if rate == 1 else SampledGaussian("gradient", multiplier, rate)
        )
        return [*start, *[step] * mechanism.steps]
    if isinstance(mechanism, OutputNoise):
        share = mechanism.reference_share
        for_reference, for_sum = noise_multipliers_by_share([share, 1 - share], budget)
        return [*reference_events(spec, for_reference), Gaussian("sum over blocks", for_sum)]
    if isinstance(mechanism, PosteriorSample):
        for_reference, *multipliers = mechanism.noise_multipliers(budget)
        return [*reference_events(spec, for_reference), *(Gaussian("joint moments", m) for m in multipliers)]
    raise UserError(f"{MODEL}: `privmix verify` does not know the plan of {type(mechanism).__name__}.")


def moment_stages(plan: Schedule) -> list[tuple[str, int]]:
    """Return the label and the number of components of each measurement of `noisy_moments`."""
    stages, components = [("whole", 1)] * (plan.whole - plan.trial) + [("whole", 2)] * plan.trial, 1
    while components < plan.width:
        components += min(components, plan.width - components)
        stages += [("growing", components)] * plan.growing
    if plan.rounds:
        components = 2 * (plan.width // 2)
    stages += [("search", components)] * (ROUND * plan.rounds)
    if plan.width > plan.n_components:
        stages += [("wide", components)] * plan.settling
    return stages + [("refining", plan.n_components)] * plan.refining


def reference_events(spec: Spec, noise_multiplier: float) -> list[Event]:
    """Return the ledger of the private reference."""
    if len(spec.domain.axes) <= GRID_DIMENSIONS:
        return [Gaussian("reference histogram", noise_multiplier)]
    return [Gaussian("reference moments", noise_multiplier * math.sqrt(ROUNDS))] * ROUNDS


def _synopsis_events(mechanism: SynopsisMechanism, budget: Budget) -> list[Event]:
    for_synopsis, for_groups = mechanism.split_groups(budget)
    groups = [Laplace(worst_group.LABEL, for_groups)] if mechanism.worst_of else []
    if isinstance(mechanism, NoisyTree):
        return [*_tree_events(mechanism, for_synopsis), *groups]
    return [Laplace("cell counts", for_synopsis.epsilon), *groups]


def _tree_events(mechanism: NoisyTree, budget: Budget) -> list[Event]:
    for_shape, for_counts = mechanism.split(budget)
    shape = Decomposition("tree", for_shape)
    if mechanism.noise == "laplace":
        return [shape, Laplace("leaf counts", for_counts)]
    return [shape, Gaussian("leaf counts", 1 / gaussian_mu(for_counts, budget.delta))]


def _em_events(mechanism: DpEm, spec: Spec, budget: Budget) -> list[Event]:
    share = mechanism.share(spec.n_components, budget)

    def vector(label: str) -> Event:
        if mechanism.noise == "llg":
            return Laplace(label, share.laplace_epsilon)
        return Gaussian(label, share.noise_multiplier)

    number = spec.n_components
    second = Gaussian("second moments", share.noise_multiplier)
    return [vector("weights"), *[vector("means")] * number, *[second] * number] * mechanism.iterations


def _check_length(mechanism: Mechanism, spec: Spec, entries: int) -> None:
    """Check the number of measurements, and of entries in the transcript, before any noise is calibrated."""
    demanded = entries
    if isinstance(mechanism, DpEm):
        demanded = mechanism.iterations
        mixed = mechanism.noise == "llg" and mechanism.composition == "exact"
        _check_number(demanded * (2 * spec.n_components + 1), MOST_MIXED if mixed else MOST_EVENTS)
    elif isinstance(mechanism, NoisyMoments):
        moments = entries - bool(mechanism.marginal_share)
        demanded = entries if mechanism.iterations in (None, moments) else mechanism.iterations
    elif isinstance(mechanism, SynopsisMechanism):
        demanded = 1 + (mechanism.worst_of is not None)
    elif isinstance(mechanism, TreeThenMoments):
        demanded = 1 + mechanism.iterations
    elif isinstance(mechanism, DpSgd):
        demanded = 1 + mechanism.steps
    elif isinstance(mechanism, PosteriorSample):
        demanded = 2 + mechanism.iterations + mechanism.samples
    _check_number(demanded)
    if entries != demanded:
        raise UserError(
            f"{MODEL}: the transcript is not the one that the plan of the mechanism demands ({demanded:,} entries); "
            "do not publish it."
        )


def _check_number(events: int, most: int = MOST_EVENTS) -> None:
    if events > most:
        raise UserError(f"{MODEL} states {events:,} measurements; a release has at most {most:,}.")


@dataclass(frozen=True)
class _NoNoise(ExactNoise):
    """The lattice of a release without its noise, to write the ledger of a report about a made-up record."""

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return dequantise(quantise(values))

    def add_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return dequantise(quantise(values))

    def add_planar_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return dequantise(quantise(values))


def _report_events(mechanism: LocalMechanism, spec: Spec, budget: Budget) -> list[Event]:
    """Return the cost of the reports of one unit: a made-up record in the middle of the public box reports."""
    domain = spec.domain
    middle = (domain.lower + domain.upper)[None] / 2
    codes = {attribute.name: np.zeros(1, dtype=np.int64) for attribute in domain.attributes}
    record = Records(middle, codes, np.zeros(1, dtype=np.uint64))
    rng = Randomness(_NoNoise(), np.random.Generator(np.random.PCG64(0)))
    return list(next(mechanism.reports([record], spec, budget, rng)).events)
