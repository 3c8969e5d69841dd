"""The page: every part of the answer put in order, and rendered into one self-contained HTML file."""

import math
from dataclasses import dataclass

import yaml
from markupsafe import Markup

from privmix.evaluate.limits import swap
from privmix.report import attacks, defects, download, explorer, ledger_view, live, phrases, portraits, tables
from privmix.report.alarm import reach
from privmix.report.answer import Answer
from privmix.report.audits import audit_rows, failing
from privmix.report.environment import environment
from privmix.report.exposure import unlimited, worst_person
from privmix.report.figures import INK, Series, series
from privmix.report.frames import Scores
from privmix.report.frontier import Frontier, frontier
from privmix.report.guarantee import protected_unit
from privmix.report.knowledge import BADGES, MEANINGS
from privmix.report.methods import mechanism_rows, method_cards
from privmix.report.nearby import NearbyRow, nearby_rows
from privmix.report.outcomes import Material, Outcome, Run
from privmix.report.proportions import Proportions, proportions
from privmix.report.proven import proven
from privmix.report.roc import roc
from privmix.report.together import together


@dataclass(frozen=True)
class Panel:
    """One model's picture, or why there is none."""

    mechanism: str
    look: Series | None
    epsilon: float
    picture: Markup | None
    gap: str
    unseen: str
    failure: str | None


@dataclass(frozen=True)
class Portraits:
    """The small multiples of one dataset."""

    panels: tuple[Panel, ...]
    bitmap: str | None
    records: int
    flat: bool  # whether two coordinates are drawn, not one
    projected: bool
    explorer: explorer.Explorer | None  # the models of every ε, for scripts


@dataclass(frozen=True)
class Chapter:
    """Everything that the page says of one dataset."""

    name: str
    title: str
    description: str
    answers: tuple[Answer, ...]
    frontier: Frontier | None
    chart: live.Chart | None  # the same for scripts
    portraits: Portraits | None
    person: str | None
    limited: bool  # whether the guarantee limits the average attack
    remarks: tuple[str, ...]  # what the attacks cannot show here
    roc: Markup | None
    nearby: tuple[NearbyRow, ...]  # models that hide a place among nearby ones alone
    attack: tuple[tables.AttackRow, ...]
    shadow_roc: Markup | None
    shadows: tuple[attacks.ShadowRow, ...]
    shadowed: str  # on whom attacks with shadow models were run
    attributes: tuple[attacks.AttributeRow, ...]
    rates: tuple[str, ...]
    results: tuple[tables.ResultRow, ...]
    proportions: Proportions | None
    ledgers: tuple[ledger_view.LedgerView, ...]
    together: tuple[str, ...]  # what it costs to publish these models together
    material: Material | None
    notes: tuple[str, ...]


def render(
    run: Run,
    scores: Scores,
    found: list[Answer],
    csv: download.Attached,
    parquet: download.Attached,
    catalog: str | None = None,
) -> str:
    """The whole page as HTML; `csv` and `parquet` are the results, `catalog` the relative address of its page."""
    looks = series(run.private, run.trust)
    compared = {name: look for name, look in looks.items() if look.comparable}
    made = environment()
    made.globals.update(exp=lambda x: math.exp(min(x, 700.0)))
    chapters = [chapter(run, scores, name, looks, found) for name in run.settings.datasets]
    return made.get_template("page.html").render(
        run=run,
        chapters=chapters,
        looks=looks,
        compared=compared,
        reference=run.reference_epsilon,
        epsilons=sorted({outcome.epsilon for outcome in run.outcomes if outcome.private}),
        trusts=[trust for trust in phrases.TRUST if trust in {look.trust for look in looks.values()}],
        failed=sum(outcome.failure is not None for outcome in run.outcomes),
        failures=tables.failure_rows(run),
        audits=audit_rows(run),
        failing=failing(run),
        defects=defects.measured(),
        proven=proven(run, compared),
        mechanisms=mechanism_rows(run),
        methods=method_cards(),
        unit=protected_unit(run),
        others=list(attacks.OTHERS.values()),
        badges=BADGES,
        meanings=MEANINGS,
        configuration=yaml.safe_dump(dict(run.configuration), sort_keys=False, allow_unicode=True),
        csv=csv,
        parquet=parquet,
        catalog=catalog,
        libraries=live.libraries(),
        data=live.embedded(
            {
                "charts": [part.chart for part in chapters if part.chart],
                "explorers": [
                    part.portraits.explorer for part in chapters if part.portraits and part.portraits.explorer
                ],
                "header": download.header(),
                "rows": {part.name: download.lines(part.name, part.results) for part in chapters},
                "files": {"csv": csv, "parquet": parquet},
            }
        ),
    )


def chapter(run: Run, scores: Scores, name: str, looks: dict[str, Series], found: list[Answer]) -> Chapter:
    """One dataset's share of every section."""
    material = run.materials.get(name)
    domain = material.info.domain if material else None
    outcomes = run.of(name)
    epsilons = sorted({outcome.epsilon for outcome in outcomes if outcome.private})
    non_private = [outcome.mechanism for outcome in outcomes if not outcome.private]
    shown = [o for o in outcomes if not o.private or o.epsilon == run.reference_epsilon]
    compared = [outcome for outcome in shown if outcome.comparable]
    lines = {look_name: look for look_name, look in looks.items() if look.comparable}
    views = [ledger_view.view(outcome) for outcome in outcomes]
    rates = tables.false_positive_rates(scores, name)
    return Chapter(
        name=name,
        title=run.entries[name].title,
        description=run.entries[name].description,
        answers=tuple(answer for answer in found if answer.dataset == name),
        frontier=frontier(scores, name, domain, lines, epsilons, non_private) if epsilons else None,
        chart=live.chart(
            scores,
            outcomes,
            name,
            run.entries[name].title,
            domain,
            lines,
            {row.name: row for row in mechanism_rows(run)},
            epsilons,
            non_private,
        ),
        portraits=_portraits(scores, name, outcomes, looks, material, run.reference_epsilon)
        if material
        else None,
        person=worst_person(run, name),
        limited=run.limits_average(name),
        remarks=tuple(filter(None, (reach(run, scores, name), unlimited(run, name) if epsilons else None))),
        roc=roc(
            name,
            compared,
            looks,
            run.reference_epsilon,
            _limit(scores, compared) if run.limits_average(name) else None,
        )
        if epsilons
        else None,
        nearby=tuple(nearby_rows(run, scores, name)),
        attack=tuple(tables.attack_rows(run, scores, name)),
        shadow_roc=roc(name, compared, looks, run.reference_epsilon, _limit(scores, compared), "LiRA")
        if epsilons
        else None,
        shadows=tuple(attacks.shadow_rows(run, scores, name, rates)),
        shadowed=attacks.run_on(run, scores, name),
        attributes=tuple(attacks.attribute_rows(run, scores, name)),
        rates=tuple(rates),
        results=tuple(tables.result_rows(run, scores, name)),
        proportions=proportions(run, name),
        ledgers=tuple(view for view in views if view),
        together=together(run, name),
        material=material,
        notes=_notes(outcomes, counts_are_told=material is None or material.counts_are_told),
    )


def _limit(scores: Scores, shown: list[Outcome]) -> tuple[float, float] | None:
    """The widest region that any of the private models allows; None where nothing is private."""
    made = [o for o in shown if o.private and o.failure is None]
    relations = [scores.relation(o.dataset, o.mechanism, o.epsilon) for o in made]
    limits = (swap(o.epsilon, o.claimed_delta, held) for o, held in zip(made, relations, strict=True))
    return max(limits, default=None)


def _notes(outcomes: list[Outcome], *, counts_are_told: bool) -> tuple[str, ...]:
    """What mechanisms and attacks remarked, each once, with the mechanisms and epsilons that it concerns.

    Attacks remark on numbers of records, mechanisms only on what is public.
    """
    remarks: dict[str, dict[str, dict[float, None]]] = {}
    for outcome in outcomes:
        said = list(outcome.scores_info.notes) if outcome.scores_info and counts_are_told else []
        for model in outcome.model.models if outcome.model else ():
            said += model.notes
        for note in said:
            remarks.setdefault(note.rstrip("."), {}).setdefault(outcome.mechanism, {})[outcome.epsilon] = None
    everyone = {outcome.mechanism for outcome in outcomes if outcome.failure is None}
    return tuple(
        f"All: {note}." if everyone <= set(whom) else f"{_whom(whom)}: {note}."
        for note, whom in remarks.items()
    )


def _whom(remarked: dict[str, dict[float, None]]) -> str:
    return phrases.listing(
        [
            name + (f" (ε = {', '.join(map(phrases.plain, epsilons))})" if math.inf not in epsilons else "")
            for name, epsilons in remarked.items()
        ]
    )


def _portraits(
    scores: Scores,
    dataset: str,
    outcomes: list[Outcome],
    looks: dict[str, Series],
    material: Material,
    reference: float | None,
) -> Portraits | None:
    if (
        material.domain.visibility == "sensitive"
    ):  # a non-private model may sit on a person: it tells of records
        outcomes = [outcome for outcome in outcomes if outcome.private]
    shown = [outcome for outcome in outcomes if not outcome.private or outcome.epsilon == reference]
    drawn = [(outcome, explorer.drawn_model(scores, outcome)) for outcome in shown]
    models = [model for _, model in drawn if model]
    if not models:
        return None
    window = portraits.view(material, models)
    bitmap = portraits.cloud(window, material)
    panels = []
    for outcome, model in drawn:
        look = looks.get(outcome.mechanism)
        words = f"ε = {phrases.plain(outcome.epsilon)}" if outcome.private else "no privacy"
        words += "" if outcome.comparable else " for nearby places"
        gap = scores.estimate(dataset, outcome.mechanism, outcome.epsilon, "holdout_gap")
        picture, unseen = None, ""
        if model:
            unseen = explorer.unseen(window, model)
            label = f"{dataset}: the {phrases.count(len(model.weights), 'component')} of {outcome.mechanism}, {words}."
            picture = portraits.panel(
                window, material, model, look.colour if look else INK,
                f"portrait-{dataset}-{outcome.mechanism}", label, f"cloud-{dataset}" if bitmap else None,
            )  # fmt: skip
        panels.append(
            Panel(
                mechanism=outcome.mechanism,
                look=look,
                epsilon=outcome.epsilon,
                picture=picture,
                gap=f"mean gap {phrases.nats(gap.mean)}" if gap and outcome.private else "",
                unseen=unseen,
                failure=outcome.failure or (None if model else "The model file holds no fitted model."),
            )
        )
    dimensions = len(material.info.domain.axes)
    seen = explorer.explorer(scores, dataset, outcomes, looks, material, window, reference)
    return Portraits(tuple(panels), bitmap, len(material.cloud), dimensions > 1, dimensions > 2, seen)
