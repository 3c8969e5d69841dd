"""What the page's scripts show: the numbers of its tables and pictures, once more, as JSON inside the page."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import resources

from markupsafe import Markup

from privmix.artefacts.domain import Domain
from privmix.report.figures import VARIABLES, Series
from privmix.report.frames import Scores
from privmix.report.frontier import levels
from privmix.report.methods import MechanismRow
from privmix.report.outcomes import Outcome
from privmix.report.phrases import count, nats, percent, plain

LIBRARIES = ("d3.min.js", "plot.umd.min.js")  # in the order in which they need each other


@dataclass(frozen=True)
class Point:
    """One mechanism at one ε: where it is drawn, and what is said of it."""

    epsilon: float
    mean: float
    low: float | None
    high: float | None
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Line:
    """One mechanism of a frontier, in the looks that it has everywhere."""

    mechanism: str
    label: str
    trust: str
    colour: str
    marker: str
    hollow: bool
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Rule:
    """A model that spends no budget."""

    label: str
    value: float
    colour: str
    dashes: str


@dataclass(frozen=True)
class Chart:
    """The frontier of one dataset; without a non-private model, log-likelihoods instead of gaps."""

    dataset: str
    title: str
    gap: bool
    epsilons: tuple[float, ...]
    rules: tuple[Rule, ...]
    lines: tuple[Line, ...]


def chart(
    scores: Scores,
    outcomes: Iterable[Outcome],
    dataset: str,
    title: str,
    domain: Domain | None,
    looks: Mapping[str, Series],
    mechanisms: Mapping[str, MechanismRow],
    epsilons: list[float],
    non_private: list[str],
) -> Chart | None:
    """The frontier's numbers, or None when no private mechanism has a result on the dataset."""
    metric = "holdout_gap" if scores.baseline(dataset) else "holdout_loglik"
    made = {(outcome.mechanism, outcome.epsilon): outcome for outcome in outcomes}
    lines = []
    for name, look in looks.items():
        own = [made[name, epsilon] for epsilon in epsilons if (name, epsilon) in made]
        points = [_point(scores, outcome, mechanisms[name], metric) for outcome in own]
        line = Line(
            mechanism=name,
            label=look.label,
            trust=look.trust,
            colour=f"var({look.variable})",
            marker=look.marker,
            hollow=look.local,
            points=tuple(point for point in points if point),
        )
        if line.points:
            lines.append(line)
    if not lines:
        return None
    rules = tuple(
        Rule(level.label, level.value, f"var({VARIABLES[level.colour]})", " ".join(map(plain, level.dashes)))
        for level in levels(scores, dataset, domain, non_private, metric)
    )
    return Chart(dataset, title, metric == "holdout_gap", tuple(epsilons), rules, tuple(lines))


def _point(scores: Scores, outcome: Outcome, mechanism: MechanismRow, metric: str) -> Point | None:
    epsilon = outcome.epsilon
    value = scores.estimate(outcome.dataset, outcome.mechanism, epsilon, metric)
    if value is None or not math.isfinite(value.mean):
        return None
    what = "mean gap" if metric == "holdout_gap" else "mean log-likelihood"
    facts = [("ε", plain(epsilon)), ("δ", plain(outcome.claimed_delta)), (what, f"{nats(value.mean)} nats")]
    if value.low is not None and value.high is not None:
        facts.append(("95\u00a0% interval", f"{nats(value.low)} to {nats(value.high)}"))
    if metric == "holdout_gap":
        facts.append(("density kept", percent(math.exp(min(value.mean, 700.0)))))
    facts.append(("from", count(value.count, "replicate")))
    facts += [("trust", mechanism.trust), ("method", mechanism.method)]
    facts += mechanism.parameters
    return Point(epsilon, value.mean, value.low, value.high, tuple(facts))


def embedded(parts: Mapping[str, object]) -> Markup:
    """Dataclasses as JSON that may stand inside a script element; a number that is not finite is an error."""
    text = json.dumps(parts, default=asdict, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def libraries() -> list[Markup]:
    """The chart libraries as they came from their makers (`vendor/fetch`), to stand inside script elements."""
    folder = resources.files("privmix.report") / "vendor"
    return [Markup((folder / name).read_text(encoding="utf-8")) for name in LIBRARIES]
