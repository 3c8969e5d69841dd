"""Values that follow from the transcript: the mixture of some mechanisms, and all notes.

The mixture follows if no random search lies between the last measurement and the model: `dp_em`, `dp_sgd`,
`output_noise`, `posterior_sample` with `released: mean`, and `noisy_moments` without a wide mixture. With a wide
mixture, a search finds the start of the last measurements. The weights follow from these measurements whatever the
start is, and shares of attributes that took part lie within a radius of what they imply. The mixtures of the other
mechanisms come from searches with randomness that is not published. They are checked by their form only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from privmix.artefacts.statistics import Statistic
from privmix.errors import UserError
from privmix.mechanisms.base import Spec, project_to_box
from privmix.mechanisms.central import dp_em, dp_sgd, noisy_moments, output_noise
from privmix.mechanisms.central.dp_em import DpEm
from privmix.mechanisms.central.dp_sgd import DpSgd
from privmix.mechanisms.central.noisy_moments import NoisyMoments
from privmix.mechanisms.central.noisy_tree import NoisyTree
from privmix.mechanisms.central.output_noise import LEAST_VARIANCE, OutputNoise
from privmix.mechanisms.central.posterior_sample import NoisyPosterior, PosteriorSample
from privmix.mechanisms.central.tree_then_moments import TreeThenMoments
from privmix.mechanisms.local import adaptive_tree_response, tree_response
from privmix.mechanisms.local.base import LocalMechanism
from privmix.mechanisms.shared import attribute_counts, censored_labels, component_choice, worst_group
from privmix.mechanisms.shared.joint_attributes import JointAttributes
from privmix.mechanisms.shared.joint_moments import (
    AnyModel,
    MomentMeasurement,
    Refinement,
    average_mixtures,
    component_counts,
    m_step,
    share_limits,
)
from privmix.mechanisms.shared.statistics import estimates, rounding
from privmix.mechanisms.shared.statistics.budget import no_statistics_note
from privmix.mechanisms.shared.synopsis_mechanism import SynopsisMechanism
from privmix.mixture import deviation
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.mixed_search import heavy_components
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Moments, Prior, estimate
from privmix.privacy import noise
from privmix.privacy.accounting import Budget
from privmix.privacy.calibration import equal_shares, noise_multipliers_by_share
from privmix.privacy.exact import ExactNoise
from privmix.privacy.ledger import Ledger
from privmix.release.folder import DECIMALS, MODEL, ReleasedModel, Table, round_shares
from privmix.release.public_plan import PublicPlan
from privmix.release.transcripts import attribute_table, measured_statistics, moment_scheme

TOLERANCE = 1e-6  # relative, and 1e-9 absolute in the unit ball: the same computation on another machine
WHOLE = r"(\d{1,6})"

Entry = dict[str, Any]
Derived = Literal["mixture", "weights", "nothing"]  # what of a mixture follows from the transcript


def derive_mixture(model: ReleasedModel, plan: PublicPlan) -> Mixture | None:
    """Return the mixture in the unit ball that the transcript implies, or None if a random search lies between."""
    entries = plan.entries(model.transcript)
    mechanism, spec, budget = plan.mechanism, plan.mixture_spec, plan.budget
    if isinstance(mechanism, DpEm):
        return _em_mixture(mechanism, entries, spec, budget)
    if isinstance(mechanism, DpSgd):
        return _climb(mechanism, entries, spec, budget).gaussians
    if isinstance(mechanism, OutputNoise):
        return _moved_reference(mechanism, entries[0], spec, budget)
    if isinstance(mechanism, PosteriorSample) and mechanism.released == "mean":
        return _posterior(mechanism, entries, spec, budget).mean
    if isinstance(mechanism, NoisyMoments):
        scheduled = _scheduled_mixture(mechanism, entries, spec, budget)
        return None if scheduled is None else scheduled.gaussians
    return None


def check_mixture(model: ReleasedModel, plan: PublicPlan) -> Derived:
    """Compare the released mixture, or its weights, with what the transcript implies. Return what it implies."""
    with np.errstate(all="ignore"):
        derived = derive_mixture(model, plan)
        last = None if derived is not None else _last_measurements(model, plan)
    if derived is not None:
        for name in ("weights", "means", "covariances"):
            _compare_part(model, name, getattr(derived, name))
        return "mixture"
    if last is not None:
        _compare_part(model, "weights", last.weights)
        return "weights"
    return "nothing"


def _compare_part(model: ReleasedModel, name: str, derived: np.ndarray) -> None:
    stated = np.array(getattr(model.normalised, name))
    if stated.shape != derived.shape or not np.allclose(stated, derived, rtol=TOLERANCE, atol=1e-9):
        raise UserError(
            f"{MODEL}: the {name} of the mixture do not follow from the transcript; do not publish it."
        )


def check_shares(model: ReleasedModel, plan: PublicPlan) -> None:
    """Compare the shares of attributes with those that the measured table, or the measurements together, imply."""
    if isinstance(plan.mechanism, NoisyMoments | JointAttributes) and plan.mechanism.takes_part(plan.spec):
        _check_joint_shares(model, plan)
        return
    if plan.attributes is None:
        if not plan.spec.domain.axes:
            _demand_all_attributes(model, plan)
        return
    table, neighbours = (
        attribute_table(plan.attribute_entry(model.transcript), plan),
        plan.mechanism.relation(plan.spec),
    )
    weights = np.array(model.normalised.weights)
    derived = {}
    if len(table) == len(weights):
        derived = attribute_counts.estimate_shares(
            table,
            weights,
            plan.spec.domain,
            plan.spec.domain.rows if neighbours.size_is_public else None,
            plan.attributes.deviation(plan.spec, neighbours),
        )
    _compare_shares(model, derived)


def check_labels(model: ReleasedModel, plan: PublicPlan) -> None:
    """Compare the censored labels with those that the measured table implies."""
    if model.labels is None:
        return
    labels, wanted = model.labels, plan.spec.censored
    follow = plan.attributes is not None and len(wanted) == len(labels.limits) > 0
    follow = follow and not plan.spec.domain.states
    if follow and plan.attributes is not None:
        neighbours = plan.mechanism.relation(plan.spec)
        bounds = censored_labels.bound_all(
            attribute_table(plan.attribute_entry(model.transcript), plan),
            np.array(model.normalised.weights),
            plan.spec.domain,
            wanted,
            plan.attributes.law(plan.spec, neighbours),
            plan.spec.domain.rows if neighbours.size_is_public else None,
        )
        derived = censored_labels.choose(bounds, wanted).kept
        near = 1.5 / censored_labels.STEPS  # of κ, and one unit of the last digit of a limit
        follow = 0 <= labels.kept <= 1 and abs(derived - labels.kept) < near
        for each in labels.limits:
            limit = censored_labels.state_limit(bounds[each.attribute], labels.kept)
            follow = follow and abs(limit - each.limit) < 1.5 * 10.0**-censored_labels.DECIMALS
            follow = follow and each.at_most > 0 and each.limit <= each.at_most
    if not follow:
        raise UserError(f"{MODEL}: the censored labels do not follow from the transcript; do not publish it.")


def _check_joint_shares(model: ReleasedModel, plan: PublicPlan) -> None:
    """Compare shares that took part in the clustering. After a random search, some are known up to a radius."""
    with np.errstate(all="ignore"):
        derived = _joint_shares(plan, plan.entries(model.transcript))
        last = None if derived is not None else _last_measurements(model, plan)
    if derived is not None:
        _compare_shares(model, derived)
        return
    _demand_all_attributes(model, plan)
    for name, (places, radius) in ({} if last is None else last.shares).items():
        stated = np.array(model.shares[name])
        rounded = 1.5 * 10.0**-DECIMALS * np.sqrt(places.shape[1])
        _demand_shares(
            stated.shape == places.shape
            and bool((np.linalg.norm(stated - places, axis=1) <= radius * (1 + TOLERANCE) + rounded).all())
        )


def _joint_shares(plan: PublicPlan, entries: Sequence[Entry]) -> Mapping[str, np.ndarray] | None:
    """Return the shares that the transcript implies, or None if a random search or draw lies between."""
    mechanism, spec, budget = plan.mechanism, plan.spec, plan.budget
    if isinstance(mechanism, DpSgd):
        return _climb(mechanism, entries, spec, budget).shares
    if isinstance(mechanism, PosteriorSample):
        belief = _posterior(mechanism, entries, spec, budget)
        return belief.mean_shares if mechanism.released == "mean" else None
    assert isinstance(mechanism, NoisyMoments)
    scheduled = _scheduled_mixture(mechanism, entries, spec, budget)
    return None if scheduled is None else scheduled.shares


def _compare_shares(model: ReleasedModel, derived: Mapping[str, np.ndarray]) -> None:
    _demand_shares(are_rounded(model.shares, derived, DECIMALS))


def _demand_all_attributes(model: ReleasedModel, plan: PublicPlan) -> None:
    """Check the attributes of shares that a random search made. `model_form` checks that they are distributions."""
    _demand_shares(list(model.shares) == [attribute.name for attribute in plan.spec.domain.attributes])


def _demand_shares(follow: bool) -> None:
    if not follow:
        raise UserError(
            f"{MODEL}: the shares of attributes do not follow from the transcript; do not publish it."
        )


def are_rounded(stated: Mapping[str, Table], derived: Mapping[str, np.ndarray], decimals: int) -> bool:
    """Return whether stated shares are the derived ones, rounded, up to one unit of the last digit."""
    near = 1.5 * 10.0**-decimals
    return list(stated) == list(derived) and all(
        np.shape(stated[name]) == own.shape
        and bool((np.abs(np.array(stated[name]) - round_shares(own.tolist(), decimals)) < near).all())
        for name, own in derived.items()
    )


def _from_values(values: Entry) -> Mixture:
    return Mixture(*(np.array(values[name]) for name in ("weights", "means", "covariances")))


def _em_curator(mechanism: DpEm, spec: Spec, budget: Budget) -> dp_em._Curator:
    return dp_em._Curator(
        laplace=mechanism.noise == "llg",
        share=mechanism.share(spec.n_components, budget),
        neighbours=mechanism.relation(spec),
        rows=spec.domain.rows,
        source=ExactNoise(),
        ledger=Ledger(),
    )


def _em_mixture(mechanism: DpEm, entries: Sequence[Entry], spec: Spec, budget: Budget) -> Mixture:
    counts, sums, squares = (np.array(entries[-1][name]) for name in ("counts", "sums", "squares"))
    last = Moments(counts, sums, squares, float("nan"), counts.sum())
    fitted = estimate(last, floor=spec.floor, prior=Prior())
    return dp_em._project_to_box(fitted, spec, _em_curator(mechanism, spec, budget).noise_variance(counts))


def _climb(mechanism: DpSgd, entries: Sequence[Entry], spec: Spec, budget: Budget) -> MixedMixture:
    model = mechanism.with_shares(_from_values(entries[0]["start"]), spec)
    size, deviated = mechanism.rate(spec) * spec.domain.rows, mechanism.deviation(spec, budget)
    for step, entry in enumerate(entries[1:]):
        model = mechanism.climb(model, np.array(entry["gradient"]) / size, step, deviated, spec)
    return model if isinstance(model, MixedMixture) else MixedMixture(model)


def _shrunk_sum(
    mechanism: OutputNoise, entry: Entry, spec: Spec, budget: Budget
) -> tuple[np.ndarray, np.ndarray]:
    share, blocks = mechanism.reference_share, entry["blocks"]
    for_sum = noise_multipliers_by_share([share, 1 - share], budget)[1]
    return output_noise.shrink(np.array(entry["sum"]) / blocks, for_sum * 2 * mechanism.radius / blocks)


def _moved_reference(mechanism: OutputNoise, entry: Entry, spec: Spec, budget: Budget) -> Mixture:
    shrunk, _ = _shrunk_sum(mechanism, entry, spec, budget)
    about = _from_values(entry["reference"])
    weights, means, covariances = deviation.apply_deviation(about, shrunk, LEAST_VARIANCE)
    return project_to_box(weights, means, covariances, spec)


def _measured(entry: Entry, spec: Spec, mechanism: Any, noise_multiplier: float) -> MomentMeasurement:
    """Return a joint measurement as the mechanism had it, with the deviations of its noise."""
    counts, sums, squares = (np.array(entry[name]) for name in ("counts", "sums", "squares"))
    shape, neighbours = moment_scheme(mechanism, spec), mechanism.relation(spec)
    values = np.array(entry["attributes"]) if shape.attributes else None
    size = shape.size(len(sums), sums.shape[1], 0 if values is None else values.shape[1])
    reach = noise.with_rounding(
        shape.sensitivity(neighbours), size, 2, neighbours=neighbours, source=ExactNoise()
    )
    drawn = noise_multiplier * reach
    deviations = (drawn / shape.count, drawn / shape.total, drawn / shape.square)
    return MomentMeasurement(counts, sums, squares, *deviations, values, drawn / shape.value)


def _posterior(
    mechanism: PosteriorSample, entries: Sequence[Entry], spec: Spec, budget: Budget
) -> NoisyPosterior:
    mixture = about = mechanism.with_shares(_from_values(entries[0]["reference"]), spec)
    multipliers = mechanism.noise_multipliers(budget)[1:]
    for entry, multiplier in zip(entries[1:], multipliers, strict=False):
        about, released = mixture, _measured(entry, spec, mechanism, multiplier)
        mixture = m_step(about, released, spec, mechanism.relation(spec))
    return NoisyPosterior(about, released, spec)


def _scheduled_mixture(
    mechanism: NoisyMoments, entries: Sequence[Entry], spec: Spec, budget: Budget
) -> MixedMixture | None:
    neighbours = mechanism.relation(spec)
    plan = mechanism.schedule(spec, budget, neighbours)
    if plan.width > plan.n_components or mechanism.marginal_share:
        return None
    multiplier = equal_shares(0, plan.releases, budget, "exact").noise_multiplier
    waiting = iter(entries)

    def run(start: AnyModel, iterations: int, label: str) -> Refinement[AnyModel]:
        mixture = start
        iterates: list[AnyModel] = []
        for _ in range(iterations):
            released = _measured(next(waiting), spec, mechanism, multiplier)
            mixture = m_step(mixture, released, spec, neighbours, hold=noisy_moments.holds(label))
            iterates.append(mixture)
        kept = iterates[iterations // 2 :] or [start]
        return Refinement(average_mixtures(kept, spec), iterates, [])

    return mechanism.carry_out(run, plan, spec, multiplier, np.random.Generator(np.random.PCG64(0)))


@dataclass(frozen=True)
class _LastMeasurements:
    """What the last measurements imply for every start: the weights, and for shares a place and a radius."""

    weights: np.ndarray  # (K,)
    shares: dict[str, tuple[np.ndarray, np.ndarray]]  # attribute -> places (K, V), radii (K,)


def _last_measurements(model: ReleasedModel, plan: PublicPlan) -> _LastMeasurements | None:
    """Return what follows from the last measurements of `noisy_moments` after a random search; None if there is none.

    The result is the average of the later half of the iterates, without components that are nearly empty.
    """
    mechanism, spec = plan.mechanism, plan.mixture_spec
    if not isinstance(mechanism, NoisyMoments) or mechanism.marginal_share:
        return None
    neighbours = mechanism.relation(spec)
    schedule = mechanism.schedule(spec, plan.budget, neighbours)
    if not schedule.refining:
        return None
    multiplier = equal_shares(0, schedule.releases, plan.budget, "exact").noise_multiplier
    entries = plan.entries(model.transcript)[-schedule.refining :][schedule.refining // 2 :]
    measured = [_measured(entry, spec, mechanism, multiplier) for entry in entries]
    counts = [component_counts(each, spec, neighbours) for each in measured]
    weights = np.mean([own / own.sum() for own in counts], axis=0)
    if not mechanism.takes_part(spec):
        return _LastMeasurements(weights, {})
    kept = heavy_components(weights, mechanism.empty_weight(spec, multiplier))
    sizes = {each.name: len(each.values) for each in spec.domain.attributes}
    limits = [share_limits(sizes, each, own) for each, own in zip(measured, counts, strict=True)]
    return _LastMeasurements(
        weights[kept] / weights[kept].sum(),
        {
            name: (
                np.mean([each[name][0] for each in limits], axis=0)[kept],
                np.mean([each[name][1] for each in limits], axis=0)[kept],
            )
            for name in sizes
        },
    )


def check_statistics(model: ReleasedModel, plan: PublicPlan) -> None:
    """Compare values, intervals and accuracies of all statistics with those that the transcript implies."""
    derived: list[Statistic] = []
    if plan.statistics is not None:
        measured = measured_statistics(model.transcript[-1], plan)
        neighbours = plan.mechanism.relation(plan.spec)
        derived = estimates.publish(measured, plan.statistics, plan.spec, neighbours)
    same = len(model.statistics) == len(derived) and all(
        _is_same_statistic(one, other, rounding.last_digit(other.request, plan.spec.domain))
        for one, other in zip(model.statistics, derived, strict=True)
    )
    if not same:
        raise UserError(f"{MODEL}: the statistics do not follow from the transcript; do not publish it.")


def _is_same_statistic(stated: Statistic, derived: Statistic, unit: Decimal) -> bool:
    """Return whether two statistics agree, up to two units of the last published digit (`rounding`)."""
    named = ("request", "chosen", "public")
    if any(getattr(stated, name) != getattr(derived, name) for name in named):
        return False
    one, other = ([*each.values, *each.lower, *each.upper, each.accuracy] for each in (stated, derived))
    lengths = [[len(part) for part in (each.values, each.lower, each.upper)] for each in (stated, derived)]
    if lengths[0] != lengths[1]:
        return False
    near = 2.5 * float(unit)
    return all(
        abs(a - b) <= near and str(a) == str(rounding.rounded(a, unit))
        for a, b in zip(one, other, strict=True)
    )


def check_notes(model: ReleasedModel, plan: PublicPlan) -> None:
    """Refuse a note that the mechanism does not write, or that the transcript does not support."""
    exact, forms = set(_exact_notes(model, plan)), [re.compile(form) for form in _note_forms(model, plan)]
    own = list(model.notes)
    if plan.spec.statistics and plan.statistics is None:
        _demand(own[-1:] == [no_statistics_note(plan.mechanism)], "the note on statistics is not at the end")
        own = own[:-1]
    if isinstance(plan.mechanism, LocalMechanism):
        remarks = report_remarks(plan)
        _demand(own[len(own) - len(remarks) :] == remarks, "the remarks on the reports are not at the end")
        own = own[: len(own) - len(remarks)]
    used: set[int] = set()
    stated = set()
    for note in own:
        fits = [number for number, form in enumerate(forms) if _fits(form, note, plan)]
        _demand(note in exact or any(number not in used for number in fits), repr(note[:60]))
        used.update(fits)
        _demand(note not in stated, "a note occurs twice")
        stated.add(note)
    missing = exact - stated
    _demand(not missing, f"the note {min(missing, default='')[:60]!r} is missing")


def report_remarks(plan: PublicPlan) -> list[str]:
    """Return the remarks that a file of reports states."""
    mechanism = plan.mechanism
    assert isinstance(mechanism, LocalMechanism)
    return mechanism.remarks(plan.events, plan.spec, mechanism.plan(plan.spec, plan.budget))


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise UserError(f"{MODEL}: the notes are not those of the mechanism ({what}); do not publish it.")


def _fits(form: re.Pattern[str], note: str, plan: PublicPlan) -> bool:
    """Return whether the note has the form. A number of components is at most that of the plan."""
    found, most = form.fullmatch(note), plan.mechanism.most_components(plan.spec)
    return found is not None and all(int(number) <= most for number in found.groups())


def _exact_notes(model: ReleasedModel, plan: PublicPlan) -> Iterator[str]:
    """Yield the notes that must be there, word for word."""
    entries = plan.entries(model.transcript)
    mechanism, spec, budget = plan.mechanism, plan.mixture_spec, plan.budget
    asked = plan.job.spec(model.domain)
    listed = asked if asked.candidates else spec
    if listed.candidates:
        yield listed.choice_note(len(model.original.weights) if plan.chosen is None else plan.chosen)
    if plan.chosen is not None:
        price = asked.choice_share * plan.job.budget.epsilon
        if component_choice.expected_loss(asked, price) > component_choice.LARGEST_LOSS / 2:
            number = component_choice.block_count(asked)
            yield (
                f"This choice is nearly random: {number} {'block' if number == 1 else 'blocks'} of records cannot "
                f"tell the candidates apart at ε = {price:g}."
            )
    if isinstance(mechanism, DpEm):
        if _em_curator(mechanism, spec, budget).count_noise() > spec.domain.rows / spec.n_components:
            yield dp_em.MOSTLY_NOISE
    elif isinstance(mechanism, DpSgd):
        yield from dp_sgd._notes(mechanism.deviation(spec, budget), spec)
    elif isinstance(mechanism, NoisyMoments):
        neighbours = mechanism.relation(spec)
        for_moments, _ = mechanism.split(budget)
        schedule = mechanism.schedule(spec, for_moments, neighbours)
        each = mechanism.loss(spec, schedule.n_components, for_moments, neighbours)
        yield from noisy_moments._notes(schedule, spec, schedule.releases * each)
        yield from mechanism.table_note(len(model.original.weights))
    elif isinstance(mechanism, OutputNoise):
        _, factors = _shrunk_sum(mechanism, entries[0], spec, budget)
        yield from output_noise._notes(factors, entries[0]["blocks"])
    elif isinstance(mechanism, PosteriorSample):
        yield from _posterior(mechanism, entries, spec, budget).notes()
    elif isinstance(mechanism, SynopsisMechanism):
        for_synopsis, for_groups = mechanism.split_groups(budget)
        synopsis = mechanism.replay(entries[0], spec, for_synopsis)
        yield from synopsis.notes(spec)
        if mechanism.worst_of is not None:
            yield from mechanism.replay_groups(entries[1]["groups"], synopsis, spec, for_groups).notes()
    elif isinstance(mechanism, TreeThenMoments):
        for_tree = Budget(mechanism.tree_share * budget.epsilon, 0.0)
        yield from NoisyTree().replay(entries[0], spec, for_tree).notes(spec)
    elif isinstance(mechanism, adaptive_tree_response.AdaptiveTreeResponse):
        per_report = mechanism.plan(spec, budget)
        halving = tree_response.halvings(spec, model.method)
        _, rounds = adaptive_tree_response.schedule(halving.depth, per_report)
        if adaptive_tree_response.split_threshold(rounds, per_report) >= 1 / 2:
            yield (
                "A part of the public box stands out from the noise only if it holds half of the records: "
                "the mixture is mostly noise."
            )


def _note_forms(model: ReleasedModel, plan: PublicPlan) -> Iterator[str]:
    """Yield the forms of notes that depend on a random search or on many reports, with their numbers left open."""
    used = len(model.original.weights)
    yield r"EM stopped after \d{1,5} iterations before it converged\."
    yield rf"{WHOLE} of {used} components are empty\."
    yield rf"{WHOLE} of {used} components are as narrow as the floor allows\."
    if isinstance(plan.mechanism, SynopsisMechanism) and plan.mechanism.worst_of is not None:
        number = r"[+-]\d{1,4}\.\d{3}"
        yield re.escape(worst_group.COST_NOTE).replace(r"\{:\+\.3f\}", number)
    if not isinstance(plan.mechanism, LocalMechanism):
        return
    yield rf"the reports support {used} of {WHOLE} components through this noise\."
    yield rf"{WHOLE} of {used} means were moved into the public box\."
    yield (
        rf"{WHOLE} of {used} components were wider than the public box allows and were narrowed; they mostly "
        r"describe noise\."
    )
    yield rf"Because of the noise, the reports support {used} of the {WHOLE} requested components\."
    yield (
        rf"Because of the noise, the reports support {used} of the {WHOLE} requested components\. More components "
        r"would only fit the noise\."
    )
    yield r"No part of the public box stands out from the noise: the mixture is mostly noise\."
    yield r"The noise in the \d{1,6} counts is as large as the counts: the mixture is mostly noise\."
    yield (
        rf"Only {WHOLE} of the \d{{1,6}} {plan.spec.parts} have a positive noisy count, so the mixture has "
        rf"{used} of the {WHOLE} requested components\."
    )
