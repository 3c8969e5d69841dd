"""The answer section: the best mechanism per dataset and trust model, its utility, and its exposure to attacks."""

import math
from dataclasses import dataclass

from privmix.report.audit_findings import describe_audit, findings
from privmix.report.format import count, interval, listing, nats, plain, rate, three_digits
from privmix.report.goal import PURPOSES, columns_described, describe_choice, goal_metric, goal_score
from privmix.report.group_costs import describe_worst_paid
from privmix.report.guarantee import (
    auc_ceiling,
    describe_guarantee,
    group_privacy,
    protected_noun,
    why_unlimited,
)
from privmix.report.knowledge import (
    Advice,
    Verdict,
    advise,
    indecision,
    knowledge_share,
    thresholds,
    utility,
    utility_range,
    verdict,
)
from privmix.report.results import Estimate, Results
from privmix.report.run import LeftOut, Material, Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.worst_record import attack_tile, broken_claims, describe_attack


@dataclass(frozen=True)
class Tile:
    """One key figure."""

    value: str
    label: str


@dataclass(frozen=True)
class Answer:
    """The answer for one dataset and trust model at the reference epsilon."""

    dataset: str
    trust: str
    epsilon: float
    mechanism: str | None
    verdict: Verdict
    headline: str  # the answer in one sentence
    advice: Advice
    kept: str = ""  # the utility kept, if known
    choice: tuple[str, ...] = ()  # sentences about the choice of a mechanism and of ε
    evidence: tuple[str, ...] = ()  # attack, audit and guarantee in words
    warnings: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()


@dataclass(frozen=True)
class DatasetAnswers:
    """The answers for one dataset."""

    name: str
    title: str
    answers: tuple[Answer, ...]
    material: Material | None
    named: bool  # whether the data identify persons
    left_out: str | None  # which mechanisms are not run on it, and why
    groups: str | None  # the largest real difference between groups of people, in one sentence

    @property
    def cautions(self) -> tuple[str, ...]:
        """Cautions of all answers, each once."""
        return tuple(dict.fromkeys(caution for answer in self.answers for caution in answer.cautions))


@dataclass(frozen=True)
class AnswerSection(PageSection):
    """The answers for every dataset."""

    datasets: tuple[DatasetAnswers, ...]
    unit: str  # what the models protect


def build(run: RunResults, results: Results) -> AnswerSection:
    """Build the section."""
    found = answers(run, results)
    datasets = tuple(
        DatasetAnswers(
            name=name,
            title=run.entries[name].title,
            answers=tuple(answer for answer in found if answer.dataset == name),
            material=run.materials.get(name),
            named=run.entries[name].privacy.person_column is not None,
            left_out=describe_left_out(run, name),
            groups=describe_worst_paid(
                run,
                results,
                name,
                [each.mechanism for each in found if each.dataset == name and each.mechanism],
            ),
        )
        for name in run.settings.datasets
    )
    return AnswerSection(datasets, protected_noun(run))


def describe_left_out(run: RunResults, dataset: str) -> str | None:
    """Describe in one sentence which mechanisms are not run on a dataset; None if all are run."""
    number = len(run.entries[dataset].coordinates)
    limits: dict[int, list[str]] = {}
    for each in run.left_out_of(dataset):
        limits.setdefault(each.max_coordinates or number, []).append(each.mechanism)
    if not limits:
        return None
    if not number:
        names = listing([each.mechanism for each in run.left_out_of(dataset)])
        return f"These mechanisms did not run, because they need coordinates and {dataset} has none: {names}."
    groups = [
        f"{listing(names)} (at most {count(most, 'coordinate')})" for most, names in sorted(limits.items())
    ]
    return f"These mechanisms did not run, because {dataset} has {number} coordinates: {'; '.join(groups)}."


def answers(run: RunResults, results: Results) -> list[Answer]:
    """Return one answer per dataset and trust model, datasets in the order of the configuration.

    Mechanisms that hide a place only among nearby places are left out: their ε does not compare.
    """
    epsilon = run.reference_epsilon
    if epsilon is None:
        return []
    planned = {run.trust[name] for name in run.private} | {each.trust for each in run.left_out}
    trusts = [trust for trust in ("central", "local") if trust in planned]
    return [
        _answer(run, results, dataset, trust, epsilon)
        for dataset in run.settings.datasets
        for trust in trusts
    ]


def _answer(run: RunResults, results: Results, dataset: str, trust: str, epsilon: float) -> Answer:
    tried = [o for o in run.of(dataset) if o.trust == trust and o.epsilon == epsilon]
    left_out = run.left_out_of(dataset, trust)
    metric = "holdout_gap" if results.baseline(dataset) else "holdout_loglik"
    measured = [
        (gap, outcome)
        for outcome in tried
        if (gap := results.estimate(dataset, outcome.mechanism, epsilon, metric)) and not math.isnan(gap.mean)
    ]
    if not measured:
        return _no_answer(run, dataset, trust, epsilon, tried, left_out)
    by = goal_metric(run, results, dataset)
    scored = [
        (score, outcome) for _, outcome in measured if (score := goal_score(results, outcome, by)) is not None
    ]
    if not scored:
        by, scored = metric, measured
    scored.sort(key=lambda pair: (-columns_described(pair[1], by), -pair[0].mean))
    best = scored[0][1]
    gap = next(gap for gap, outcome in measured if outcome is best)
    kept = knowledge_share(run, results, dataset, gap) if metric == "holdout_gap" else None
    broken = (*findings(best), *broken_claims(run, results, best))
    advice = (
        Advice("do not use", "It breaks its own privacy claim.")
        if broken
        else advise(run, results, best, kept)
    )
    undecided = indecision(kept) if kept else None
    return Answer(
        dataset, trust, epsilon, best.mechanism,
        verdict="poor" if broken else verdict(kept),
        headline=_cost(best, gap, kept, metric, _place(run, best, len(measured), len(tried), left_out, by)),
        advice=advice,
        kept=utility(kept.mean) if kept else "",
        choice=_sentences(
            describe_choice(run, results, best, by),
            _interval(gap, metric),
            None if undecided and undecided in advice.next_step else undecided,
            thresholds(run, results, dataset, trust),
            _runner_up(scored),
            _shadow_remark(results, best),
        ),
        evidence=_sentences(
            _attack(run, results, best),
            describe_attack(run, results, best),
            describe_audit(best),
            describe_guarantee(best),
        ),
        warnings=broken,
        cautions=_sentences(group_privacy(run, best)),
        tiles=_tiles(run, results, best, kept),
    )  # fmt: skip


def _sentences(*sentences: str | None) -> tuple[str, ...]:
    return tuple(sentence for sentence in sentences if sentence)


def _tiles(run: RunResults, results: Results, best: Outcome, kept: Estimate | None) -> tuple[Tile, ...]:
    tiles = []
    if kept:
        span = utility_range(kept)
        label = f"utility kept (95\u00a0% interval: {span})" if span else "utility kept"
        tiles.append(Tile(utility(kept.mean), label))
    auc = results.estimate(*best.key, "mia_loss_auc")
    if auc:
        ceiling = _ceiling(run, results, best)
        limit = "" if ceiling is None else f"; limit {rate(ceiling)}"
        limit = "; no limit: persons have several records" if why_unlimited(run, best.dataset) else limit
        tiles.append(Tile(rate(auc.mean), f"AUC of the loss attack on membership (0.5 = guessing{limit})"))
    exposed = attack_tile(run, results, best, auc_ceiling(results, best))
    if exposed:
        tiles.append(Tile(*exposed))
    if best.audit is not None and best.audit.bounds:
        lower, claimed = three_digits(best.audit.lower), three_digits(best.audit.epsilon)
        tiles.append(
            Tile(
                f"ε\u00a0≥\u00a0{lower}",
                "lower bound on ε from the audit game (crafted records, the same for every dataset); "
                f"claim: ε\u00a0=\u00a0{claimed}",
            )
        )
    return tuple(tiles)


def _ceiling(run: RunResults, results: Results, best: Outcome) -> float | None:
    """Return the limit on the expected AUC of the average attack; None if the guarantee does not limit it."""
    return auc_ceiling(results, best) if run.limits_average(best.dataset) else None


def _handled(run: RunResults, dataset: str) -> str:
    """Name what a mechanism must handle to run on a dataset."""
    number = len(run.entries[dataset].coordinates)
    return count(number, "coordinate") if number else "records without coordinates"


def _no_answer(
    run: RunResults, dataset: str, trust: str, epsilon: float, tried: list[Outcome], left_out: list[LeftOut]
) -> Answer:
    handled = _handled(run, dataset)
    advice = Advice("no result", f"Add a {trust} mechanism that can handle {handled}.")
    if tried:
        advice = Advice("no result", "See the reason under “Results”.")
    if len(tried) == 1:
        headline = f"The only {trust} mechanism, {tried[0].mechanism}, has no result at ε = {plain(epsilon)}."
    elif tried:
        headline = f"None of the {len(tried)} {trust} mechanisms has a result at ε = {plain(epsilon)}."
    elif left_out:
        headline = f"No {trust} mechanism of this run can handle {handled}."
    else:
        headline = f"No {trust} mechanism was run on this dataset."
    return Answer(dataset, trust, epsilon, None, "none", headline, advice)


def _place(
    run: RunResults, best: Outcome, measured: int, tried: int, left_out: list[LeftOut], by: str
) -> str:
    """Describe the mechanisms among which `best` is the best, and for what; `by` is the metric that decides."""
    purpose = PURPOSES[run.settings.goal] if by.startswith("table_") else ""
    failed = tried - measured
    reasons = [f"{failed} failed"] if failed else []
    if left_out:
        reasons.append(f"{len(left_out)} cannot handle {_handled(run, best.dataset)}")
    others = f" ({', '.join(reasons)})" if reasons else ""
    if measured == 1:
        return f"the only {best.trust} mechanism{' that ran' if reasons else ''}{others}"
    return (
        f"the best{purpose} of the {measured} {best.trust} mechanisms{' that ran' if reasons else ''}{others}"
    )


def _cost(best: Outcome, gap: Estimate, kept: Estimate | None, metric: str, place: str) -> str:
    start = f"At ε = {plain(best.epsilon)}, {best.mechanism}"
    if metric == "holdout_loglik":
        return (
            f"{start} reaches a held-out log-likelihood of {nats(gap.mean)} nats per record; this run has no "
            f"non-private model to compare it with. It is {place}."
        )
    if not math.isfinite(gap.mean):
        return f"{start} gives some held-out records no density at all. It is {place}."
    keeps = (
        f"keeps {utility(kept.mean)} of the utility"
        if kept
        else "is compared with the best non-private model"
    )
    return f"{start} {keeps} (gap: {nats(gap.mean)} nats per record). It is {place}."


def _interval(gap: Estimate, metric: str) -> str | None:
    if not math.isfinite(gap.mean):
        return None
    what = "Gap to the best non-private model" if metric == "holdout_gap" else "Held-out log-likelihood"
    return f"{what}: {nats(gap.mean)} nats per record ({interval(gap)})."


def _shadow_remark(results: Results, best: Outcome) -> str | None:
    if results.values(*best.key, "mia_lira_auc"):
        return None
    return (
        f"No shadow-model attack ran on {best.mechanism}. These attacks are stronger than the loss attack. "
        "To run them, set `evaluation.shadow_mechanisms`."
    )


def _runner_up(measured: list[tuple[Estimate, Outcome]]) -> str | None:
    gap, best = measured[0]
    if gap.low is None:
        return None
    close = [outcome for other, outcome in measured[1:] if other.mean >= gap.low]
    if not close:
        return None
    verb = "is" if len(close) == 1 else "are"
    sentence = f"{listing([each.mechanism for each in close])} {verb} as good as {best.mechanism} within its interval"
    deltas = [each.claimed_delta for each in (best, *close)]
    return (
        f"{sentence}; {best.mechanism} alone has δ = 0."
        if not deltas[0] and all(deltas[1:])
        else f"{sentence}."
    )


def _attack(run: RunResults, results: Results, best: Outcome) -> str | None:
    auc = results.estimate(*best.key, "mia_loss_auc")
    if auc is None:
        return None
    sentence = f"The loss attack reaches AUC {rate(auc.mean)} (0.5 = guessing"
    baseline = results.baseline(best.dataset)
    if baseline:
        bare = results.estimate(best.dataset, baseline.mechanism, math.inf, "mia_loss_auc")
        sentence += f"; non-private: {rate(bare.mean)}" if bare else ""
    ceiling = _ceiling(run, results, best)
    if ceiling is None:
        why = " ε hardly limits it: ε protects one record, and persons here have several records."
        return f"{sentence}).{why if why_unlimited(run, best.dataset) else ''}"
    unit = run.materials[best.dataset].info.domain.unit
    sentence += f"). In expectation, no attack on a single {unit} can exceed {rate(ceiling)}"
    nameless = run.entries[best.dataset].privacy.person_column is None
    sentence += "; a person with several records is protected less." if nameless else "."
    if auc.mean > ceiling:
        sentence += " A value above this limit can come from the choice of the held-out records."
    return sentence
