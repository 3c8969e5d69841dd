"""The transcript of a release: its keys, shapes, lattice and noise, by the public plan, and nothing else.

Every noisy number of a release is a whole number of steps of 2^-20 (`privacy.exact`). Numbers of a benchmark are not,
so a benchmark model that calls itself a release is noticed. Some mechanisms store a number after a division by a
public or measured number; the stored number must be exactly what that division gives.
"""

import base64
import binascii
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privmix.errors import UserError
from privmix.mechanisms.base import Mechanism, Spec
from privmix.mechanisms.central.dp_em import DpEm
from privmix.mechanisms.central.dp_sgd import DpSgd
from privmix.mechanisms.central.noisy_grid import NoisyGrid
from privmix.mechanisms.central.noisy_moments import NoisyMoments
from privmix.mechanisms.central.noisy_tree import NoisyTree, _bisection, root_levels
from privmix.mechanisms.central.output_noise import OutputNoise
from privmix.mechanisms.central.posterior_sample import PosteriorSample
from privmix.mechanisms.central.tree_then_moments import TreeThenMoments
from privmix.mechanisms.shared import joint_moments, marginals, worst_group
from privmix.mechanisms.shared.joint_moments import MomentScheme
from privmix.mechanisms.shared.statistics.budget import CHOICES
from privmix.mechanisms.shared.statistics.estimates import noise_scale
from privmix.mechanisms.shared.statistics.measurement import Measured, number_of_values, option_ranges
from privmix.mechanisms.shared.synopsis import Synopsis
from privmix.mixture import deviation
from privmix.mixture.moments import upper_triangle
from privmix.privacy import sensitivity
from privmix.privacy.accounting import ATTRIBUTE_COUNTS, Budget, gaussian_mu
from privmix.privacy.calibration import equal_shares, noise_multipliers_by_share
from privmix.privacy.exact import STEP
from privmix.privacy.ledger import Laplace
from privmix.privacy.privtree import TreeShape
from privmix.privacy.sensitivity import Neighbours
from privmix.release.folder import MODEL
from privmix.release.noise_evidence import (
    COUNTABLE,
    Deviates,
    Noisy,
    are_moments,
    are_standard,
    are_sums_of_noise,
    check_noise,
    check_total,
    farthest,
    standard_deviates,
    sum_reach,
    total_reach,
)
from privmix.release.public_plan import PublicPlan, moment_stages

SUM_OF_WEIGHTS = 1e-9
ROUNDED = 1e-6  # relative rounding error of an eigenvalue

Entry = dict[str, Any]


def check_transcript(transcript: Sequence[Entry], plan: PublicPlan, *, any_number: bool = False) -> None:
    """Refuse a transcript that the plan does not demand, that is off the lattice, or that lacks its noise.

    `any_number`: whether the number of records may differ from the public one, as in a rehearsal.
    """
    of_mixture = list(_noisy_numbers(plan.entries(transcript), plan))
    of_attributes = (
        [] if plan.attributes is None else [_attribute_counts(plan.attribute_entry(transcript), plan)]
    )
    of_statistics = [] if plan.statistics is None else list(statistic_numbers(transcript[-1], plan))
    check_noise([*of_mixture, *of_attributes, *of_statistics], MODEL)
    every = plan.mechanism.relation(plan.mixture_spec).size_is_public
    if plan.mechanism.relation(plan.spec).size_is_public and not any_number:
        check_total(of_mixture, plan.spec.domain.rows, MODEL, at_most=not every)
        check_total(of_statistics, plan.spec.domain.rows, MODEL)
    _demand(
        are_standard(list(_deviates(of_mixture, plan, known=every and not any_number))),
        "numbers of one set of records",
    )
    for each in of_attributes:
        _check_attribute_sums(each, plan, any_number=any_number)
        if not plan.mixture_spec.all_counted:
            _check_complete_records(of_mixture, each, plan)
        else:
            _check_group_sums(of_mixture, each, plan)


def _deviates(measured: Sequence[Noisy], plan: PublicPlan, *, known: bool) -> Iterator[Deviates]:
    """Yield the deviates of each joint measurement. `known`: whether the number of records is public."""
    scheme = moment_scheme(plan.mechanism, plan.mixture_spec)
    sizes = np.array([len(each.values) for each in plan.spec.domain.attributes] if scheme.attributes else [])
    deviations = np.sqrt([1, *sizes]) / [scheme.count, *[scheme.value] * len(sizes)]
    values = iter([each for each in measured if each.kind == "values"])
    for each in measured:
        if each.kind == "counts":
            estimates = [each.values / scheme.count]
            if len(sizes):
                table = next(values).values.reshape(len(each.values), -1) / scheme.value
                estimates += list(np.add.reduceat(table, np.cumsum(sizes) - sizes, axis=1).T)
            # The number of a component is off by a step for each record: a share of the error of all components.
            rounding = (
                each.rounding / len(each.values) / np.array([scheme.count, *[scheme.value] * len(sizes)])
            )
            yield standard_deviates(
                np.array(estimates).T,
                float(np.max(each.scale)) * deviations,
                rounding,
                plan.spec.domain.rows if known else None,
            )


def _check_complete_records(measured: Sequence[Noisy], table: Noisy, plan: PublicPlan) -> None:
    """Check that the counts of the records that have all numbers fit the counts of blanks and atoms.

    A record has all numbers if every attribute of states has its first value. So these records are at most as many as
    the records with one first value, and less by at most the records with another value of another attribute.
    """
    sizes = np.array([len(attribute.values) for attribute in plan.spec.domain.attributes])
    numbers_of = table.values.reshape(-1, int(sizes.sum())).sum(axis=0)  # of all components together
    components, starts = len(table.values) // int(sizes.sum()), np.cumsum(sizes) - sizes
    rounded = components * plan.spec.domain.rows * STEP
    states = [place for place, each in enumerate(plan.spec.domain.attributes) if each.state_of]
    given = {place: numbers_of[starts[place]] for place in states}
    others = {place: numbers_of[starts[place] + 1 : starts[place] + sizes[place]].sum() for place in states}
    for each in measured:
        if each.per_record is None:
            continue
        number, slack = each.values.sum() / each.per_record, total_reach(each) / each.per_record
        for place in states:
            upper = given[place] + sum_reach(table, components, len(states)) + rounded + slack
            away = [other for other in states if other != place]
            lacking = sum(
                others[other] + sum_reach(table, components * int(sizes[other] - 1), len(states)) + rounded
                for other in away
            )
            lower = given[place] - sum_reach(table, components, len(states)) - rounded - lacking - slack
            _demand(bool(lower <= number <= upper), "as many complete records as the table of attributes has")


def _check_group_sums(measured: Sequence[Noisy], table: Noisy, plan: PublicPlan) -> None:
    """Check that each group has as many records in the counts of regions as in the table of attributes."""
    name = plan.mechanism.needed_attribute
    sizes = {each.name: len(each.values) for each in plan.spec.domain.attributes}
    components = len(table.values) // sum(sizes.values())
    totals = table.values.reshape(components, -1).sum(axis=0)
    for each in measured:
        if each.kind == worst_group.LABEL and name is not None:
            start = sum(list(sizes.values())[: list(sizes).index(name)])
            groups = each.values.reshape(-1, sizes[name])
            slack = sum_reach(each, len(groups), sizes[name]) + sum_reach(table, components, sizes[name])
            slack += components * plan.spec.domain.rows * STEP
            apart = np.abs(groups.sum(axis=0) - totals[start : start + sizes[name]])
            _demand(bool((apart <= slack).all()), "groups of the records of the table of attributes")


def _noisy_numbers(entries: list[Entry], plan: PublicPlan) -> Iterator[Noisy]:
    """Check the form of all entries, and yield their noisy numbers."""
    mechanism, spec, budget = plan.mechanism, plan.mixture_spec, plan.budget
    if mechanism.randomises_records:
        _demand(not entries, "the reports are the only measurements of a local mechanism")
    elif isinstance(mechanism, NoisyGrid | NoisyTree):
        yield from _synopsis(entries, mechanism, spec, budget)
    elif isinstance(mechanism, TreeThenMoments):
        _demand(len(entries) == 1 + mechanism.iterations, "the number of measurements")
        for_tree = mechanism.tree_share * budget.epsilon
        yield _tree(entries[0], NoisyTree(), spec, Budget(for_tree, 0.0))
        components = {len(entry["counts"]) for entry in entries[1:] if isinstance(entry.get("counts"), list)}
        _demand(len(components) == 1 and max(components) <= spec.n_components, "the number of components")
        multiplier = math.sqrt(mechanism.iterations) / gaussian_mu(budget.epsilon - for_tree, budget.delta)
        for entry in entries[1:]:
            yield from _moments(entry, {"stage": "moments"}, max(components), mechanism, spec, multiplier)
    elif isinstance(mechanism, NoisyMoments):
        for_moments, for_marginals = mechanism.split(budget)
        schedule = mechanism.schedule(spec, for_moments, mechanism.relation(spec))
        stages = moment_stages(schedule)
        _demand(len(entries) == len(stages) + (for_marginals is not None), "the number of measurements")
        multiplier = equal_shares(0, schedule.releases, for_moments, "exact").noise_multiplier
        for entry, (label, number) in zip(entries, stages, strict=False):
            yield from _moments(entry, {"stage": label}, number, mechanism, spec, multiplier)
        if for_marginals is not None:
            yield from _marginals(entries[-1], mechanism, spec, for_marginals)
    elif isinstance(mechanism, DpEm):
        _demand(len(entries) == mechanism.iterations, "the number of iterations")
        for number, entry in enumerate(entries):
            yield from _em_iteration(entry, number, mechanism, spec, budget)
    elif isinstance(mechanism, DpSgd):
        yield from _gradients(entries, mechanism, spec, budget)
    elif isinstance(mechanism, OutputNoise):
        _demand(len(entries) == 1, "one sum over blocks")
        yield _blocks(entries[0], mechanism, spec, budget)
    elif isinstance(mechanism, PosteriorSample):
        yield from _posterior(entries, mechanism, spec, budget)
    else:
        raise UserError(f"{MODEL}: the transcript of {type(mechanism).__name__} has no known form.")


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise UserError(
            f"{MODEL}: the transcript is not the one that the plan of the mechanism demands ({what}); "
            "do not publish it."
        )


def _only(entry: Entry, *keys: str) -> Entry:
    """Return the entry if it has exactly these keys."""
    extra = sorted(set(entry) - set(keys))
    _demand(not extra, f"a key {extra[0][:40]!r}" if extra else "")
    _demand(tuple(entry) == keys, f"the keys {', '.join(keys)}")
    return entry


def numbers(value: Any, *shape: int) -> np.ndarray:
    """Return nested lists of finite numbers as an array of exactly this shape."""
    _demand(_has_shape(value, shape), f"{' x '.join(map(str, shape))} numbers")
    array = np.array(value, dtype=np.float64).reshape(shape)  # lists without numbers lose the last axis
    _demand(bool(np.isfinite(array).all()), "finite numbers")
    return array


def _has_shape(value: Any, shape: tuple[int, ...]) -> bool:
    if not shape:
        return type(value) is float
    return isinstance(value, list) and len(value) == shape[0] and all(_has_shape(v, shape[1:]) for v in value)


def _on_lattice(values: np.ndarray) -> np.ndarray:
    """Return numbers that are whole steps of the lattice. Refuse others, and zeros with a sign."""
    steps = values / STEP
    _demand_lattice(bool((steps == np.rint(steps)).all()))
    _demand_lattice(not np.signbit(values[values == 0]).any())
    return values


def _measured(stored: np.ndarray, times: np.ndarray | float, *divisors: np.ndarray | float) -> np.ndarray:
    """Return numbers as they were measured. Refuse one that is not a whole step times or over these numbers."""
    undivided = stored / times * math.prod(divisors)
    steps = np.rint(undivided / STEP)
    again = steps * STEP * times
    for divisor in divisors:
        again = again / divisor
    _demand_lattice(bool(((again == stored) | (np.abs(steps) > COUNTABLE)).all()))
    _demand_lattice(not np.signbit(stored[stored == 0]).any())
    return steps * STEP


def _demand_lattice(holds: bool) -> None:
    if not holds:
        raise UserError(
            f"{MODEL}: a noisy number lies off the lattice of 2^-20, so it comes from no release; do not publish it."
        )


def _text_bytes(value: Any) -> bytes:
    """Return base64 text as bytes. Refuse a text that is not the only one for its bytes."""
    try:
        content = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        content = None
    _demand(content is not None and base64.b64encode(content).decode() == value, "base64 text")
    assert content is not None
    return content


def _counts(value: Any, size: int) -> np.ndarray:
    content = _text_bytes(value)
    _demand(len(content) == 8 * size, f"{size} counts")
    counts = np.frombuffer(content, dtype="<f8")
    _demand(bool(np.isfinite(counts).all()), "finite counts")
    return _on_lattice(counts)


def attribute_table(entry: Entry, plan: PublicPlan) -> np.ndarray:
    """Return the table of components by values, which `attribute_counts` measures."""
    values = sum(len(attribute.values) for attribute in plan.spec.domain.attributes)
    content = _text_bytes(_only(entry, "attributes")["attributes"])
    components, rest = divmod(len(content), 8 * values)
    _demand(
        rest == 0 and 1 <= components <= plan.mechanism.most_components(plan.spec),
        "counts of each component and value",
    )
    return _counts(entry["attributes"], components * values).reshape(components, values)


def _attribute_counts(entry: Entry, plan: PublicPlan) -> Noisy:
    assert plan.attributes is not None
    table, neighbours = attribute_table(entry, plan), plan.mechanism.relation(plan.spec)
    scale = plan.attributes.deviation(plan.spec, neighbours)
    number = len(plan.spec.domain.attributes)
    most = number * most_records(plan.spec, neighbours)
    if isinstance(plan.attributes.event, Laplace):
        scale /= math.sqrt(2)
        return Noisy(ATTRIBUTE_COUNTS, table.ravel(), scale, "laplace", False, 0.0, most, float(number))
    return Noisy(ATTRIBUTE_COUNTS, table.ravel(), scale, "gaussian", False, 0.0, most, float(number))


def measured_statistics(entry: Entry, plan: PublicPlan) -> list[Measured]:
    """Return what was measured of each statistic: noisy numbers on the lattice, or options that exist."""
    assert plan.statistics is not None
    asked, neighbours = plan.spec.statistics, plan.mechanism.relation(plan.spec)
    found = _only(entry, "statistics")["statistics"]
    _demand(isinstance(found, list) and len(found) == len(asked), f"{len(asked)} statistics")
    for request, events, own in zip(asked, plan.statistics.events, found, strict=True):
        if not events:
            _demand(own == [], "no measurement of a public number")
        elif request.kind in CHOICES:
            allowed = option_ranges(request, plan.spec.domain)
            fits = isinstance(own, list) and len(own) == len(allowed)
            _demand(
                fits
                and all(
                    type(option) is int and option in each for option, each in zip(own, allowed, strict=True)
                ),
                f"options of the {request.name}",
            )
        else:
            _on_lattice(numbers(own, number_of_values(request, neighbours, plan.spec.domain)))
    return list(found)


def statistic_numbers(entry: Entry, plan: PublicPlan) -> Iterator[Noisy]:
    """Yield the noisy numbers of the statistics."""
    assert plan.statistics is not None
    domain, neighbours = plan.spec.domain, plan.mechanism.relation(plan.spec)
    most = most_records(plan.spec, neighbours)
    measured = measured_statistics(entry, plan)
    for request, events, own in zip(plan.spec.statistics, plan.statistics.events, measured, strict=True):
        if not events or request.kind in CHOICES:
            continue
        scale = noise_scale(request, events[0], domain, neighbours)
        law: Any = "laplace" if isinstance(events[0], Laplace) else "gaussian"
        values, kind = np.array(own, dtype=np.float64), events[0].label
        if request.kind != "mean":
            each = 1.0 if request.kind == "histogram" else None
            yield Noisy(kind, values, scale, law, False, 0.0, most, each, whole=True)
            continue
        rounding = STEP * most
        total = Noisy(f"{kind}: sum", values[:1], scale, law, False, -most - rounding, most + rounding)
        yield total
        if len(values) > 1:
            number = Noisy(f"{kind}: number", values[1:], scale, law, False, 0.0, most, whole=True)
            slack = sum_reach(total, 1, 2) + sum_reach(number, 1, 2) + rounding
            _demand(bool(abs(values[0]) <= values[1] + slack), "a sum and a number of the same records")
            yield number


def _check_attribute_sums(measured: Noisy, plan: PublicPlan, *, any_number: bool) -> None:
    """Check that the counts of each attribute add up to the same records: those of a component, and all records."""
    sizes = np.array([len(attribute.values) for attribute in plan.spec.domain.attributes])
    table = measured.values.reshape(-1, int(sizes.sum()))
    components, rows = len(table), plan.spec.domain.rows
    sums = np.add.reduceat(table, np.cumsum(sizes) - sizes, axis=1)
    first = int(sizes.argmin())  # has the least noise
    public = plan.mechanism.relation(plan.spec).size_is_public and not any_number
    # The responsibilities of a record are rounded, so they add up to 1 only up to a step for each.
    rounded = components * rows * STEP
    if public:
        slack = sum_reach(measured, table.size, 1) + len(sizes) * rounded
        _demand(abs(table.sum() - len(sizes) * rows) <= slack, f"counts of {rows:,} records")
    for number, size in enumerate(sizes):
        if public:
            slack = sum_reach(measured, components * size, len(sizes)) + rounded
            _demand(abs(sums[:, number].sum() - rows) <= slack, f"counts of {rows:,} records")
        if number != first:
            apart = sums[:, number] - sums[:, first]
            same = are_sums_of_noise(apart, measured, int(size + sizes[first]))
            _demand(same, "attributes of the same records")


def _synopsis(
    entries: list[Entry], mechanism: NoisyGrid | NoisyTree, spec: Spec, budget: Budget
) -> Iterator[Noisy]:
    """Check the counts of the parts, and those of regions by groups if the mechanism measures them."""
    _demand(len(entries) == 1 + (mechanism.worst_of is not None), "the number of measurements")
    for_synopsis, for_groups = mechanism.split_groups(budget)
    if isinstance(mechanism, NoisyGrid):
        parts = _grid(entries[0], mechanism, spec, for_synopsis)
    else:
        parts = _tree(entries[0], mechanism, spec, for_synopsis)
    yield parts
    if mechanism.worst_of is not None:
        synopsis = mechanism.replay(entries[0], spec, for_synopsis)
        yield _groups(entries[1], parts, mechanism, synopsis, spec, for_groups)


def _groups(
    entry: Entry,
    parts: Noisy,
    mechanism: NoisyGrid | NoisyTree,
    synopsis: Synopsis,
    spec: Spec,
    epsilon: float,
) -> Noisy:
    """Check the counts of regions by groups. Those of a region add up to the records of its parts, up to the noise."""
    regions, groups = mechanism.group_shape(synopsis, spec, epsilon)
    counts = _counts(_only(entry, "groups")["groups"], regions * groups)
    neighbours = mechanism.relation(spec)
    scale = sensitivity.counts(neighbours).l1 / epsilon
    most = most_records(spec, neighbours)
    table = Noisy(worst_group.LABEL, counts, scale, "laplace", False, 0.0, most, 1.0, whole=True)
    region = worst_group.cut_regions(synopsis.lower, synopsis.upper, synopsis.weights(), regions)
    by_groups, by_parts = counts.reshape(regions, groups).sum(axis=1), np.bincount(region, parts.values)
    sizes = np.bincount(region)
    for number in range(regions):
        slack = sum_reach(table, groups, regions) + sum_reach(parts, int(sizes[number]), regions)
        _demand(abs(by_groups[number] - by_parts[number]) <= slack, "groups of the records of each region")
    return table


def _grid(entry: Entry, mechanism: NoisyGrid, spec: Spec, budget: Budget) -> Noisy:
    _only(entry, "shape", "counts")
    shape = mechanism.cell_shape(spec, budget.epsilon)
    _demand(entry["shape"] == list(shape), f"cells of {shape}")
    reach = sensitivity.counts(mechanism.relation(spec)).l1
    counts = _counts(entry["counts"], math.prod(shape))
    most = most_records(spec, mechanism.relation(spec))
    return Noisy("cell counts", counts, reach / budget.epsilon, "laplace", False, 0.0, most, 1.0, whole=True)


def _tree(entry: Entry, mechanism: NoisyTree, spec: Spec, budget: Budget) -> Noisy:
    _only(entry, "roots", "splits", "counts")
    depth = _bisection(spec).depth
    roots = root_levels(spec, mechanism.relation(spec), mechanism.split(budget)[0], depth)
    _demand(type(entry["roots"]) is int and entry["roots"] == roots, f"{roots} levels of roots")
    shape = check_shape(entry["splits"], roots, depth, len(_text_bytes(entry["counts"])) // 8)
    counts = _counts(entry["counts"], len(shape.leaves()[0]))
    deviation = mechanism.deviation(mechanism.relation(spec), budget)
    most = most_records(spec, mechanism.relation(spec))
    if mechanism.noise == "laplace":
        return Noisy(
            "leaf counts", counts, deviation / math.sqrt(2), "laplace", False, 0.0, most, 1.0, whole=True
        )
    return Noisy("leaf counts", counts, deviation, "gaussian", False, 0.0, most, 1.0, whole=True)


def check_shape(value: Any, first: int, depth: int, leaves: int | None = None) -> TreeShape:
    """Return the tree of a packed shape. Refuse one that is deeper than allowed or has bits to spare.

    It has one bit for each node: 2 L - R for L leaves and R roots. A longer text is refused before it is decoded.
    """
    bits = 2 << depth if leaves is None else 2 * leaves - (1 << first)
    _demand(isinstance(value, str) and len(value) <= 4 * (bits // 24 + 1), "a tree with as many leaves")
    content = _text_bytes(value)
    _demand(len(content) * 8 >= 1 << first, "a complete tree")
    shape = TreeShape.unpacked(first, value)
    sizes = [1 << first, *(2 * int(split.sum()) for split in shape.splits[:-1])]
    _demand([len(split) for split in shape.splits] == sizes, "a complete tree")
    _demand(first + len(shape.splits) - 1 <= depth, f"a tree of at most {depth} levels")
    _demand(shape.packed() == value, "a tree without spare bits")
    return shape


def moment_scheme(mechanism: Mechanism, spec: Spec) -> MomentScheme:
    """Return the weights of a joint measurement, with attributes if they take part in it."""
    if isinstance(mechanism, NoisyMoments | PosteriorSample):
        return mechanism.scheme(spec)
    return joint_moments.scheme(len(spec.domain.axes))


def most_records(spec: Spec, neighbours: Neighbours) -> float:
    """Return the largest number of records that contribute: all if their number is public, else far more."""
    return float(spec.domain.rows) * (1 if replace(neighbours, all_counted=True).size_is_public else 1000)


def _moments(
    entry: Entry, first: Entry, components: int, mechanism: Mechanism, spec: Spec, multiplier: float
) -> Iterator[Noisy]:
    """Check one joint measurement: its parts are whole steps over the weights of `joint_moments.scheme`."""
    scheme, neighbours = moment_scheme(mechanism, spec), mechanism.relation(spec)
    reach, records = scheme.sensitivity(neighbours), most_records(spec, neighbours)
    sigma = multiplier * reach
    _only(entry, *first, "counts", "sums", "squares", *(["attributes"] if scheme.attributes else []))
    for key, value in first.items():
        _demand(type(entry[key]) is type(value) and entry[key] == value, f"{key} = {value}")
    d = len(spec.domain.axes)
    rows, columns, factor = upper_triangle(d)
    squares = _symmetric(entry["squares"], components, d)
    triangles = _measured(squares[:, rows, columns], 1.0, factor, scheme.square)
    counts = _measured(numbers(entry["counts"], components), 1.0, scheme.count)
    yield Noisy(
        "counts",
        counts,
        sigma,
        least=0.0,
        most=scheme.count * records,
        per_record=scheme.count,
        rounding=components * STEP * records,
    )
    most = reach * records  # no record adds more than the sensitivity to a number
    sums = _measured(numbers(entry["sums"], components, d), 1.0, scheme.total)
    slack = farthest(sigma, components * (1 + d + d * d)) + STEP * records  # each record's share is rounded
    _demand(
        are_moments(
            (counts + slack) / scheme.count,
            (np.abs(sums) - slack) / scheme.total,
            squares,
            slack / scheme.square,
            scheme.radius**2 + scheme.absent,
        ),
        "moments of one set of records",
    )
    yield Noisy("sums", sums.ravel(), sigma, least=-most, most=most)
    yield Noisy("squares", triangles[:, rows == columns].ravel(), sigma, least=0.0, most=most)
    if d > 1:
        yield Noisy("products", triangles[:, rows != columns].ravel(), sigma, least=-most, most=most)
    if scheme.attributes:
        yield _values(entry["attributes"], counts / scheme.count, scheme, spec, sigma, records)


def _values(
    value: Any, counts: np.ndarray, scheme: MomentScheme, spec: Spec, sigma: float, records: float
) -> Noisy:
    """Check the counts of values of a joint measurement. Those of each attribute add up to the component's count."""
    sizes = [len(attribute.values) for attribute in spec.domain.attributes]
    table = numbers(value, len(counts), sum(sizes))
    values = _measured(table, 1.0, scheme.value)
    for size, own in zip(sizes, np.split(table, np.cumsum(sizes)[:-1], axis=1), strict=True):
        apart = sigma * math.hypot(1 / scheme.count, math.sqrt(size) / scheme.value)
        slack = farthest(apart, len(counts)) + (size + 1) * STEP * records / min(scheme.count, scheme.value)
        _demand(bool((np.abs(own.sum(axis=1) - counts) <= slack).all()), "moments of one set of records")
    each = scheme.attributes * scheme.value
    rounding = scheme.attributes * len(counts) * STEP * records
    return Noisy(
        "values", values.ravel(), sigma, least=0.0, most=each * records, per_record=each, rounding=rounding
    )


def _marginals(entry: Entry, mechanism: NoisyMoments, spec: Spec, multiplier: float) -> Iterator[Noisy]:
    """Check the counts of each column. Every record has a value in a column without blanks."""
    columns, neighbours = mechanism.columns(spec, multiplier), mechanism.relation(spec)
    table = _counts(_only(entry, "marginals")["marginals"], sum(columns.sizes))
    sigma = multiplier * marginals.reach(len(columns.sizes), neighbours)
    most = most_records(spec, neighbours)
    complete = []
    for number, counts in enumerate(columns.split(table)):
        has_all = number not in spec.domain.states
        complete += [counts.sum()] if has_all else []
        yield Noisy(
            marginals.LABEL,
            counts,
            sigma,
            least=0.0,
            most=most,
            per_record=1.0 if has_all else None,
            whole=True,
        )
    slack = farthest(sigma * math.sqrt(2 * max(columns.sizes)), len(columns.sizes) ** 2)
    _demand(not complete or np.ptp(complete) <= slack, "columns of the same records")


def _symmetric(value: Any, components: int, d: int) -> np.ndarray:
    matrices = numbers(value, components, d, d)
    _demand(bool((matrices == matrices.transpose(0, 2, 1)).all()), "symmetric matrices")
    return matrices


def _em_iteration(entry: Entry, number: int, mechanism: DpEm, spec: Spec, budget: Budget) -> Iterator[Noisy]:
    """Check one iteration. A count is at least 1, so counts do not show their noise; means and moments do."""
    _demand(
        _only(entry, "iteration", "counts", "sums", "squares")["iteration"] == number, "iterations in order"
    )
    k, d = spec.n_components, len(spec.domain.axes)
    share, neighbours = mechanism.share(k, budget), mechanism.relation(spec)
    counts = numbers(entry["counts"], k)
    _demand(bool((counts >= 1).all()), "counts of at least 1")
    _measured(counts[counts > 1], float(spec.domain.rows if neighbours.size_is_public else 1))
    means = _measured(numbers(entry["sums"], k, d), counts[:, None])
    reach, each = sensitivity.sums(neighbours, dimensions=d), np.repeat(1 / counts, d)
    if mechanism.noise == "llg":
        yield Noisy("means", means.ravel(), reach.l1 / share.laplace_epsilon * each, "laplace")
    else:
        yield Noisy("means", means.ravel(), reach.l2 * share.noise_multiplier * each)
    upper = np.triu_indices(d)
    seconds = _measured(_symmetric(entry["squares"], k, d), counts[:, None, None])[:, upper[0], upper[1]]
    deviation = sensitivity.second_moments(neighbours) * share.noise_multiplier
    yield Noisy("second moments", seconds.ravel(), deviation * np.repeat(1 / counts, seconds.shape[1]))


def _gradients(entries: list[Entry], mechanism: DpSgd, spec: Spec, budget: Budget) -> Iterator[Noisy]:
    _demand(len(entries) == 1 + mechanism.steps, "the number of steps")
    _mixture(_only(entries[0], "start")["start"], spec.n_components, spec, _start_floor(spec))
    sigma = mechanism.noise_multipliers(spec, budget)[1] * mechanism.reach(spec)
    length = mechanism.size(spec)
    most = mechanism.norm(spec) * most_records(spec, mechanism.relation(spec))
    for number, entry in enumerate(entries[1:]):
        _demand(_only(entry, "step", "gradient")["step"] == number, "the steps in order")
        yield Noisy(
            "gradients", _on_lattice(numbers(entry["gradient"], length)), sigma, least=-most, most=most
        )


def _mixture(value: Any, components: int, spec: Spec, floor: np.ndarray) -> None:
    """Check a mixture that follows from measurements."""
    _demand(isinstance(value, dict), "a mixture")
    _only(value, "weights", "means", "covariances")
    d = len(spec.domain.axes)
    weights = numbers(value["weights"], components)
    means = numbers(value["means"], components, d)
    covariances = numbers(value["covariances"], components, d, d)
    check_components(weights, covariances, floor)
    _inside(means, spec)
    _demand(bool((np.linalg.eigvalsh(covariances) <= widest_variance(spec)).all()), "covariances")


def check_components(weights: np.ndarray, covariances: np.ndarray, floor: np.ndarray) -> None:
    """Check weights that sum to 1, and symmetric covariances of at least the floor in every direction."""
    _demand(bool((weights >= 0).all()) and math.isclose(weights.sum(), 1, abs_tol=SUM_OF_WEIGHTS), "weights")
    _demand(bool((covariances == covariances.transpose(0, 2, 1)).all()), "symmetric covariances")
    if not len(floor):
        return
    root = np.sqrt(floor)
    least = np.linalg.eigvalsh(covariances / (root[:, None] * root))[:, 0]
    _demand(bool((least >= 1 - ROUNDED).all()), "covariances of at least the public floor")


def widest_variance(spec: Spec) -> float:
    """Return the largest variance of a component that `project_to_box` allows, with its rounding error."""
    half = (spec.domain.upper - spec.domain.lower) / 2
    return max(float(half @ half), float(spec.floor.max())) * (1 + ROUNDED)


def _start_floor(spec: Spec) -> np.ndarray:
    """Return the floor of a mixture that may be the public start, whose components may be narrower than the floor."""
    side = spec.domain.upper - spec.domain.lower
    return np.minimum(spec.floor, (side / spec.n_components ** (1 / len(side)) / 2) ** 2)


def _inside(places: np.ndarray, spec: Spec) -> None:
    slack = 1e-9 * (spec.domain.upper - spec.domain.lower)
    held = (places >= spec.domain.lower - slack) & (places <= spec.domain.upper + slack)
    _demand(bool(held.all()), "means in the public box")


def _blocks(entry: Entry, mechanism: OutputNoise, spec: Spec, budget: Budget) -> Noisy:
    _only(entry, "reference", "blocks", "sum")
    _mixture(entry["reference"], spec.n_components, spec, _start_floor(spec))
    share = mechanism.reference_share
    multiplier = noise_multipliers_by_share([share, 1 - share], budget)[1]
    blocks = mechanism.number_of_blocks(spec, multiplier)
    _demand(type(entry["blocks"]) is int and entry["blocks"] == blocks, f"{blocks} blocks")
    size = deviation.component_size(len(spec.domain.axes))
    total = _on_lattice(numbers(entry["sum"], spec.n_components, size))
    most = blocks * mechanism.radius
    return Noisy("sums over blocks", total.ravel(), multiplier * 2 * mechanism.radius, least=-most, most=most)


def _posterior(
    entries: list[Entry], mechanism: PosteriorSample, spec: Spec, budget: Budget
) -> Iterator[Noisy]:
    k, d = spec.n_components, len(spec.domain.axes)
    _demand(len(entries) == 2 + mechanism.iterations + mechanism.samples, "the number of entries")
    _mixture(_only(entries[0], "reference")["reference"], k, spec, _start_floor(spec))
    for number, multiplier in enumerate(mechanism.noise_multipliers(budget)[1:]):
        yield from _moments(entries[1 + number], {"iteration": number}, k, mechanism, spec, multiplier)
    intervals = _only(entries[1 + mechanism.iterations], "intervals")["intervals"]
    _demand(isinstance(intervals, list) and len(intervals) == k, "an interval of each component")
    for component, interval in enumerate(intervals):
        _demand(isinstance(interval, dict), "an interval")
        _demand(
            _only(interval, "component", "lower", "upper")["component"] == component, "components in order"
        )
        lower, upper = numbers(interval["lower"], d), numbers(interval["upper"], d)
        _demand(bool((lower <= upper).all()), "lower ends below upper ends")
        _inside(np.array([lower, upper]), spec)
    for entry in entries[2 + mechanism.iterations :]:
        _draw(_only(entry, "draw")["draw"], k, mechanism, spec)


def _draw(value: Any, components: int, mechanism: PosteriorSample, spec: Spec) -> None:
    """Check drawn parameters: a mixture, and shares of the values of attributes that take part."""
    _demand(isinstance(value, dict), "a mixture")
    if mechanism.takes_part(spec):
        _only(value, "weights", "means", "covariances", "shares")
        _demand(isinstance(value["shares"], dict), "shares")
        _only(value["shares"], *(attribute.name for attribute in spec.domain.attributes))
        for attribute in spec.domain.attributes:
            shares = numbers(value["shares"][attribute.name], components, len(attribute.values))
            whole = np.abs(shares.sum(axis=1) - 1) <= SUM_OF_WEIGHTS
            _demand(bool((shares >= 0).all() and whole.all()), "shares that add up to 1")
        value = {key: each for key, each in value.items() if key != "shares"}
    _mixture(value, components, spec, spec.floor)
