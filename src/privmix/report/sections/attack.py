"""The attack section: results of membership and attribute attacks, and the limits that the guarantee sets."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup

from privmix.attacks.limits import swap_guarantee, tpr_ceiling
from privmix.report.attacker_view import AttackerView, describe_view
from privmix.report.audit_findings import findings
from privmix.report.figures import FORBIDDEN, INK, MUTED, Series, drawing, series, svg
from privmix.report.format import compact, distance, listing, percent, plain, plus_minus, rate
from privmix.report.guarantee import auc_ceiling, why_unlimited
from privmix.report.results import Results
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.worst_record import broken_claims, reach

TPR_METRIC = "mia_loss_tpr_at_fpr_"
OTHERS = {"rmia": "RMIA", "learned": "learned", "lira_offline": "LiRA offline"}
LOWEST = 1e-4  # smallest false-positive rate that a ROC shows
_NAMES = {"loss": "the loss attack", "LiRA": "LiRA"}


@dataclass(frozen=True)
class AttackRow:
    """The attacks on one mechanism at one epsilon, and the limits on their expected results."""

    mechanism: str
    trust: str
    epsilon: float
    score: float  # mean AUC of the loss attack
    auc: str
    coordinates: str  # AUC of the loss attack on the coordinates alone
    ceiling: str | None  # None if the guarantee does not limit the attack
    rates: tuple[tuple[str, str | None], ...]  # reached and allowed, per false-positive rate
    worst: str
    worst_ceiling: str | None
    away: str
    broken: bool


@dataclass(frozen=True)
class ShadowRow:
    """The shadow-model attacks on one mechanism at one epsilon; one ceiling limits every AUC."""

    mechanism: str
    epsilon: float
    average: str  # AUC of LiRA
    lira: str  # the same with its interval
    coordinates: str  # AUC of LiRA on the coordinates alone
    p99: str
    worst: str
    chance: str  # the worst record stays below this if nothing leaks
    beyond_chance: bool
    others: tuple[str, ...]  # the AUC of each of `OTHERS`
    rates: tuple[str, ...]  # LiRA's true-positive rate at each false-positive rate
    ceiling: str | None  # None if the guarantee does not limit the attack


@dataclass(frozen=True)
class AttributeRow:
    """The success rate of guessing a missing coordinate, or a missing category."""

    mechanism: str
    epsilon: float
    members: str
    others: str
    baseline: str
    advantage: str


@dataclass(frozen=True)
class DatasetAttacks:
    """The attacks on one dataset."""

    name: str
    title: str
    person: str | None  # the most exposed person
    limited: bool  # whether the guarantee limits the average attack
    unlimited: bool  # whether it does not, because persons have several records
    remarks: tuple[str, ...]  # limits of the attacks on this dataset
    rates: tuple[str, ...]  # false-positive rates
    rows: tuple[AttackRow, ...]  # at the reported ε and without privacy: most exposed first
    others: tuple[AttackRow, ...]  # at every other ε
    roc: Markup | None
    shadow_coverage: str
    shadows: tuple[ShadowRow, ...]
    shadow_roc: Markup | None
    view: AttackerView | None  # None without a private model
    coordinates_alone: (
        bool  # whether attacks also ran on the coordinates alone, because models have attributes
    )
    attributes: tuple[AttributeRow, ...]
    single: bool  # whether the only coordinate is guessed from the attributes
    categories: tuple[AttributeRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class AttackSection(PageSection):
    """The attacks on every dataset."""

    datasets: tuple[DatasetAttacks, ...]
    others: tuple[str, ...]  # shadow-model attacks other than LiRA


def build(run: RunResults, results: Results) -> AttackSection:
    """Build the section."""
    datasets = tuple(_dataset(run, results, name) for name in run.settings.datasets)
    return AttackSection(datasets, tuple(OTHERS.values()))


def _dataset(run: RunResults, results: Results, name: str) -> DatasetAttacks:
    outcomes, reference, looks = run.of(name), run.reference_epsilon, series(run.private, run.trust)
    private = any(outcome.private for outcome in outcomes)
    shown = [o for o in outcomes if o.comparable and (not o.private or o.epsilon == reference)]
    limited, widest = run.limits_average(name), _widest_limit(results, shown)
    rates, material = false_positive_rates(results, name), run.materials.get(name)
    rows = attack_rows(run, results, name)
    return DatasetAttacks(
        name=name,
        title=run.entries[name].title,
        person=run.worst_person(name),
        limited=limited,
        unlimited=private and why_unlimited(run, name) is not None,
        remarks=tuple(
            filter(None, (reach(run, results, name), why_unlimited(run, name) if private else None))
        ),
        rates=tuple(rates),
        rows=tuple(
            sorted((row for row in rows if row.epsilon in (math.inf, reference)), key=_most_exposed_first)
        ),
        others=tuple(row for row in rows if row.epsilon not in (math.inf, reference)),
        roc=draw_roc(name, shown, looks, reference, widest if limited else None)
        if private and reference
        else None,
        shadow_coverage=shadow_coverage(run, results, name),
        shadows=tuple(shadow_rows(run, results, name, rates)),
        shadow_roc=draw_roc(name, shown, looks, reference, widest, "LiRA") if private and reference else None,
        view=describe_view(results, outcomes, looks, reference, widest, rates, limits_average=limited)
        if reference and widest
        else None,
        coordinates_alone="mia_loss_coordinates_auc" in results.metrics(name),
        attributes=tuple(attribute_rows(run, results, name, "attribute")),
        single=len(run.entries[name].coordinates) == 1,
        categories=tuple(attribute_rows(run, results, name, "category")),
        notes=_notes(outcomes, shows_counts=material is None or material.shows_counts),
    )


def false_positive_rates(results: Results, dataset: str) -> list[str]:
    """Return the false-positive rates of the measured attacks on a dataset, as in the names of the metrics."""
    found = [
        name.removeprefix(TPR_METRIC) for name in results.metrics(dataset) if name.startswith(TPR_METRIC)
    ]
    return sorted(found, key=float)


def attack_rows(run: RunResults, results: Results, dataset: str) -> list[AttackRow]:
    """Return one row per mechanism and comparable epsilon with a measured attack."""
    fprs = false_positive_rates(results, dataset)
    return [
        _attack_row(run, results, outcome, fprs)
        for outcome in run.of(dataset)
        if outcome.comparable and results.values(*outcome.key, "mia_loss_auc")
    ]


def _most_exposed_first(row: AttackRow) -> tuple[bool, float]:
    """Return the sort key: the non-private models are the reference and come first."""
    return math.isfinite(row.epsilon), -row.score


def _attack_row(run: RunResults, results: Results, outcome: Outcome, fprs: list[str]) -> AttackRow:
    key = outcome.key
    claim = (outcome.epsilon, outcome.claimed_delta, results.relation(*key))
    ceiling = rate(auc_ceiling(results, outcome)) if outcome.private else None
    limited = outcome.private and run.limits_average(outcome.dataset)
    reached = []
    for fpr in fprs:
        tpr = results.estimate(*key, TPR_METRIC + fpr)
        allowed = percent(float(tpr_ceiling(float(fpr), *swap_guarantee(*claim)))) if limited else None
        reached.append((percent(tpr.mean) if tpr else "–", allowed))
    worst = results.values(*key, "mia_worst_record_auc")
    low = results.values(*key, "mia_worst_record_auc_low")
    high = results.values(*key, "mia_worst_record_auc_high")
    away = results.values(*key, "worst_record_distance_km")
    steps = results.values(*key, "worst_record_distance_resolutions")
    return AttackRow(
        mechanism=outcome.mechanism,
        trust=outcome.trust,
        epsilon=outcome.epsilon,
        score=float(np.mean(results.values(*key, "mia_loss_auc"))),
        auc=plus_minus(results.estimate(*key, "mia_loss_auc"), rate),
        coordinates=plus_minus(results.estimate(*key, "mia_loss_coordinates_auc"), rate),
        ceiling=ceiling if limited else None,
        rates=tuple(reached),
        worst=(rate(worst[0]) + (f" [{rate(low[0])}, {rate(high[0])}]" if low and high else ""))
        if worst
        else "–",
        worst_ceiling=ceiling,
        away=compact(distance(min(away))) if away else f"{min(steps):.3g} resolutions" if steps else "–",
        broken=bool(findings(outcome) or broken_claims(run, results, outcome)),
    )


def shadow_rows(run: RunResults, results: Results, dataset: str, rates: Sequence[str]) -> list[ShadowRow]:
    """Return one row per mechanism and epsilon that was attacked with shadow models."""
    return [
        _shadow_row(results, outcome, rates)
        for outcome in _outcomes_with(run, results, dataset, "mia_lira_auc")
    ]


def _shadow_row(results: Results, outcome: Outcome, rates: Sequence[str]) -> ShadowRow:
    key = outcome.key

    def cell(metric: str, form: Callable[[float], str] = rate) -> str:
        values = results.values(*key, metric)
        return form(values[0]) if values else "–"

    worst, chance = (results.values(*key, f"mia_lira_worst_record_{name}") for name in ("auc", "chance"))
    return ShadowRow(
        mechanism=outcome.mechanism,
        epsilon=outcome.epsilon,
        average=cell("mia_lira_auc"),
        lira=f"{cell('mia_lira_auc')} [{cell('mia_lira_auc_low')}, {cell('mia_lira_auc_high')}]",
        coordinates=cell("mia_lira_coordinates_auc"),
        others=tuple(cell(f"mia_{name}_auc") for name in OTHERS),
        rates=tuple(cell(f"mia_lira_tpr_at_fpr_{fpr}", percent) for fpr in rates),
        p99=cell("mia_lira_p99_record_auc"),
        worst=cell("mia_lira_worst_record_auc"),
        chance=cell("mia_lira_worst_record_chance"),
        beyond_chance=bool(worst and chance) and worst[0] > chance[0],
        ceiling=rate(auc_ceiling(results, outcome)) if outcome.private else None,
    )


def attribute_rows(
    run: RunResults, results: Results, dataset: str, guessed: Literal["attribute", "category"]
) -> list[AttributeRow]:
    """Return one row per mechanism and epsilon with a measured inference of coordinates or of categories."""
    return [
        _attribute_row(results, outcome, guessed)
        for outcome in _outcomes_with(run, results, dataset, f"{guessed}_advantage")
    ]


def _attribute_row(results: Results, outcome: Outcome, guessed: str) -> AttributeRow:
    key = outcome.key

    def cell(metric: str) -> str:
        return percent(results.values(*key, f"{guessed}_{metric}")[0])

    return AttributeRow(
        mechanism=outcome.mechanism,
        epsilon=outcome.epsilon,
        members=cell("members_hit_rate"),
        others=cell("others_hit_rate"),
        baseline=cell("baseline_hit_rate"),
        advantage=f"{cell('advantage')} [{cell('advantage_low')}, {cell('advantage_high')}]",
    )


def shadow_coverage(run: RunResults, results: Results, dataset: str) -> str:
    """Tell which models were attacked with shadow models."""
    done = _outcomes_with(run, results, dataset, "mia_lira_auc")
    if not done:
        return "No shadow-model attack ran on this dataset. To run one, set evaluation.shadows."
    targets: dict[str, list[str]] = {}
    for outcome in done:
        at = targets.setdefault(outcome.mechanism, [])
        at += [plain(outcome.epsilon)] if outcome.private else []
    words = listing([name + (f" at ε = {', '.join(at)}" if at else "") for name, at in targets.items()])
    made = [outcome for outcome in run.of(dataset) if outcome.failure is None]
    only = "" if len(done) == len(made) else "only "
    return f"Shadow-model attacks ran {only}on {words}."


def _outcomes_with(run: RunResults, results: Results, dataset: str, metric: str) -> list[Outcome]:
    return [outcome for outcome in run.of(dataset) if results.values(*outcome.key, metric)]


def draw_roc(
    dataset: str,
    outcomes: list[Outcome],
    looks: Mapping[str, Series],
    epsilon: float,
    limit: tuple[float, float] | None,
    attack: Literal["loss", "LiRA"] = "loss",
) -> Markup | None:
    """Draw the log-log ROC of the models at `epsilon` and of the non-private models; None if there is no curve.

    `limit` is the (epsilon, delta) between two datasets in which two people swap places, or None.
    """
    infos = [(outcome, outcome.scores_info) for outcome in outcomes if outcome.scores_info is not None]
    drawn = [(outcome, info.roc if attack == "loss" else info.lira_roc) for outcome, info in infos]
    curves = [(outcome, _above_zero(points)) for outcome, points in drawn if len(points) > 1]
    curves = [(outcome, curve) for outcome, curve in curves if len(curve)]
    if not curves:
        return None
    finest = min(float(curve[:, 0].min()) for _, curve in curves)
    start = max(LOWEST, 10.0 ** np.floor(np.log10(finest)))
    with drawing(4.3, 4.0) as figure:
        axes = figure.add_axes((0.17, 0.13, 0.81, 0.85))
        x = np.geomspace(start, 1, 200)
        if limit:
            ceiling = tpr_ceiling(x, *limit)
            axes.fill_between(x, ceiling, 1, color=FORBIDDEN, linewidth=0)
            axes.plot(x, ceiling, color=MUTED, linewidth=1.0)
            axes.text(
                0.03, 0.97, f"above the limit at ε = {plain(epsilon)}", transform=axes.transAxes, va="top",
                fontsize=9, color=INK,
            )  # fmt: skip
        axes.plot(x, x, color=MUTED, linewidth=1.0, linestyle=":")
        for outcome, curve in curves:
            look = looks.get(outcome.mechanism)
            axes.plot(
                *curve.T, color=look.colour if look else INK, linewidth=1.4, linestyle=look.line if look else "-",
                label=look.label if look else outcome.mechanism,
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlim=(start, 1), ylim=(start, 1))
        ticks = 10.0 ** np.arange(np.log10(start).round(), 1)
        words = [percent(tick) for tick in ticks]
        axes.set_xticks(ticks, words)
        axes.set_yticks(ticks, words)
        axes.set_xlabel("false-positive rate")
        axes.set_ylabel("true-positive rate")
        axes.minorticks_off()
        axes.text(
            0.97, 0.04, "dotted: guessing", transform=axes.transAxes, ha="right", fontsize=9, color=MUTED
        )
        names = ", ".join(outcome.mechanism for outcome, _ in curves)
        region = ", with the region that ε allows in expectation" if limit else ""
        label = f"{dataset}: ROC of {_NAMES[attack]}, both axes logarithmic, for {names}{region}."
        return svg(figure, f"roc-{attack.lower()}-{dataset}", label)


def _above_zero(points: list[tuple[float, float]]) -> np.ndarray:
    """Return the part of a ROC that logarithmic axes can show."""
    curve = np.array(points, dtype=float)
    return curve[(curve[:, 0] > 0) & (curve[:, 1] > 0)]


def _widest_limit(results: Results, shown: list[Outcome]) -> tuple[float, float] | None:
    """Return the widest (epsilon, delta) of the private models; None if no model is private."""
    made = [o for o in shown if o.private and o.failure is None]
    claims = [(o.epsilon, o.claimed_delta, results.relation(*o.key)) for o in made]
    return max((swap_guarantee(*claim) for claim in claims), default=None)


def _notes(outcomes: list[Outcome], *, shows_counts: bool) -> tuple[str, ...]:
    """Collect the notes of mechanisms and attacks, each once, with the mechanisms and epsilons that it is about.

    Notes of attacks may contain counts of records; notes of mechanisms contain only public values.
    """
    remarks: dict[str, dict[str, dict[float, None]]] = {}
    for outcome in outcomes:
        said = list(outcome.scores_info.notes) if outcome.scores_info and shows_counts else []
        for model in outcome.model.models if outcome.model else ():
            said += model.notes
        for note in said:
            remarks.setdefault(note.rstrip("."), {}).setdefault(outcome.mechanism, {})[outcome.epsilon] = None
    every = {outcome.mechanism for outcome in outcomes if outcome.failure is None}
    return tuple(
        f"All mechanisms: {note}." if every <= set(about) else f"{_mechanisms_at(about)}: {note}."
        for note, about in remarks.items()
    )


def _mechanisms_at(remarked: dict[str, dict[float, None]]) -> str:
    return listing(
        [
            name + (f" (ε = {', '.join(map(plain, epsilons))})" if math.inf not in epsilons else "")
            for name, epsilons in remarked.items()
        ]
    )
