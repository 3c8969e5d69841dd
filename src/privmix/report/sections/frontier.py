"""The frontier section: the gap of each mechanism at each ε, as a picture and as data for scripts."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from privmix.artefacts.domain import Domain
from privmix.report.figures import GRID, INK, MUTED, VARIABLES, Series, drawing, series, spread, svg
from privmix.report.format import count, nats, plain
from privmix.report.knowledge import utility, utility_gain
from privmix.report.methods import MechanismRow, mechanism_rows
from privmix.report.results import Results, estimate, uniform_loglik
from privmix.report.run import Outcome, RunResults
from privmix.report.sections import PageSection

# Sizes in inches
LABEL_HEIGHT = 0.185
LETTER_WIDTH = 0.072
LEFT = 1.3  # width of the numbers at the vertical axis


@dataclass(frozen=True)
class Level:
    """A horizontal line: a model that spends no budget."""

    label: str
    value: float
    colour: str
    dashes: tuple[float, float]


@dataclass(frozen=True)
class FrontierPictures:
    """The picture for wide and for narrow screens, with its caption."""

    wide: Markup
    narrow: Markup
    caption: str


@dataclass(frozen=True)
class FrontierPoint:
    """One mechanism at one ε: its position, and the facts of its tooltip."""

    epsilon: float
    mean: float
    low: float | None
    high: float | None
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FrontierLine:
    """One mechanism of a frontier, with its look."""

    mechanism: str
    label: str
    trust: str
    colour: str
    marker: str
    hollow: bool
    points: tuple[FrontierPoint, ...]


@dataclass(frozen=True)
class FrontierRule:
    """A model that spends no budget."""

    label: str
    value: float
    colour: str
    dashes: str


@dataclass(frozen=True)
class FrontierChart:
    """The frontier of one dataset; without a non-private model, log-likelihoods instead of gaps."""

    dataset: str
    title: str
    gap: bool
    gain: float | None  # nats between 0 % and 100 % utility
    epsilons: tuple[float, ...]
    rules: tuple[FrontierRule, ...]
    lines: tuple[FrontierLine, ...]


@dataclass(frozen=True)
class DatasetFrontier:
    """The frontier of one dataset."""

    name: str
    title: str
    pictures: FrontierPictures | None
    chart: FrontierChart | None  # the same for scripts
    bounded: bool  # whether the level of the public bounds alone is known

    @property
    def mechanisms(self) -> list[str]:
        """The drawn mechanisms."""
        return [line.mechanism for line in self.chart.lines] if self.chart else []


@dataclass(frozen=True)
class FrontierSection(PageSection):
    """The frontiers of every dataset."""

    datasets: tuple[DatasetFrontier, ...]

    @property
    def script_data(self) -> Mapping[str, object]:
        """The charts."""
        return {"charts": [dataset.chart for dataset in self.datasets if dataset.chart]}


def build(run: RunResults, results: Results) -> FrontierSection:
    """Build the section."""
    return FrontierSection(tuple(_dataset(run, results, name) for name in run.settings.datasets))


def _dataset(run: RunResults, results: Results, name: str) -> DatasetFrontier:
    title, outcomes, material = run.entries[name].title, run.of(name), run.materials.get(name)
    looks = {each: look for each, look in series(run.private, run.trust).items() if look.comparable}
    domain = material.domain if material else None
    epsilons = sorted({outcome.epsilon for outcome in outcomes if outcome.private})
    non_private = [outcome.mechanism for outcome in outcomes if not outcome.private]
    mechanisms = {row.name: row for row in mechanism_rows(run)}
    gain = utility_gain(run, results, name)
    return DatasetFrontier(
        name=name,
        title=title,
        pictures=draw_frontier(results, name, domain, looks, epsilons, non_private, gain)
        if epsilons
        else None,
        chart=frontier_chart(
            results, name, title, domain, looks, mechanisms, outcomes, epsilons, non_private, gain
        ),
        bounded=material is not None,
    )


def frontier_chart(
    results: Results,
    dataset: str,
    title: str,
    domain: Domain | None,
    looks: Mapping[str, Series],
    mechanisms: Mapping[str, MechanismRow],
    outcomes: Iterable[Outcome],
    epsilons: list[float],
    non_private: list[str],
    gain: float | None,
) -> FrontierChart | None:
    """Return the numbers of the frontier; None if no private mechanism has a result on the dataset."""
    metric = "holdout_gap" if results.baseline(dataset) else "holdout_loglik"
    lines = []
    made = {(outcome.mechanism, outcome.epsilon): outcome for outcome in outcomes}
    for name, look in looks.items():
        own = [made[name, epsilon] for epsilon in epsilons if (name, epsilon) in made]
        points = [_point(results, outcome, mechanisms[name], metric, gain) for outcome in own]
        line = FrontierLine(
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
        FrontierRule(
            level.label, level.value, f"var({VARIABLES[level.colour]})", " ".join(map(plain, level.dashes))
        )
        for level in reference_levels(results, dataset, domain, non_private, metric)
    )
    return FrontierChart(dataset, title, metric == "holdout_gap", gain, tuple(epsilons), rules, tuple(lines))


def _point(
    results: Results, outcome: Outcome, mechanism: MechanismRow, metric: str, gain: float | None
) -> FrontierPoint | None:
    epsilon = outcome.epsilon
    value = results.estimate(*outcome.key, metric)
    if value is None or not math.isfinite(value.mean):
        return None
    what = "mean gap" if metric == "holdout_gap" else "mean log-likelihood"
    facts = [("ε", plain(epsilon)), ("δ", plain(outcome.claimed_delta)), (what, f"{nats(value.mean)} nats")]
    if value.low is not None and value.high is not None:
        facts.append(("95\u00a0% interval", f"{nats(value.low)} to {nats(value.high)}"))
    if metric == "holdout_gap" and gain:
        facts.append(("utility kept", utility(1 + value.mean / gain)))
    facts.append(("from", count(value.count, "replicate")))
    facts += [("trust", mechanism.trust), ("method", mechanism.method)]
    facts += mechanism.parameters
    return FrontierPoint(epsilon, value.mean, value.low, value.high, tuple(facts))


def draw_frontier(
    results: Results,
    dataset: str,
    domain: Domain | None,
    looks: Mapping[str, Series],
    epsilons: list[float],
    non_private: list[str],
    gain: float | None,
) -> FrontierPictures | None:
    """Draw the frontier; None if no private mechanism has a result on the dataset."""
    metric = "holdout_gap" if results.baseline(dataset) else "holdout_loglik"
    frame = results.frame
    chosen = frame["dataset"].eq(dataset) & frame["metric"].eq(metric) & np.isfinite(frame["value"])
    rows = frame[chosen & frame["mechanism"].isin(list(looks)) & np.isfinite(frame["epsilon"])]
    if rows.empty:
        return None
    drawn = reference_levels(results, dataset, domain, non_private, metric)
    shown = [look for name, look in looks.items() if name in set(rows["mechanism"])]
    label = _description(rows, shown, metric, dataset)
    pictures = {}
    longest = max(
        len(label) for label in [*(look.label for look in shown), *(level.label for level in drawn)]
    )
    crowd = len(shown) + len(drawn)
    for name, width, height, margin in (
        ("wide", 7.9, max(3.9, 1.0 + LABEL_HEIGHT * crowd), 0.3 + LETTER_WIDTH * longest),
        ("narrow", 3.75, 3.0, 0.05),
    ):
        with drawing(width, height) as figure:
            axes = figure.add_axes(
                (LEFT / width, 0.5 / height, (width - LEFT - margin) / width, 1 - 0.8 / height)
            )
            _draw(axes, rows, shown, drawn, epsilons, metric, gain)
            axes.title.set_x(-LEFT / (width - LEFT - margin))
            if name == "wide":
                _direct_labels(axes, rows, shown, drawn, height)
            pictures[name] = svg(figure, f"frontier-{dataset}-{name}", label)
    return FrontierPictures(pictures["wide"], pictures["narrow"], _caption(rows, metric))


def reference_levels(
    results: Results, dataset: str, domain: Domain | None, non_private: list[str], metric: str
) -> list[Level]:
    """Return the lines of models that spend no budget: best non-private, other non-private, public bounds alone."""
    baseline = results.baseline(dataset)
    zero = baseline.holdout_loglik if baseline else 0.0
    found = [Level("best non-private model", 0.0, INK, (1.0, 0.0))] if baseline else []
    for mechanism in non_private:
        value = results.estimate(dataset, mechanism, math.inf, metric)
        if value and math.isfinite(value.mean) and not (baseline and mechanism == baseline.mechanism):
            found.append(Level(f"{mechanism} (no privacy)", value.mean, INK, (5.0, 2.0)))
    if domain is not None:
        found.append(Level("public bounds alone", uniform_loglik(domain) - zero, MUTED, (1.0, 2.0)))
    return found


def _draw(
    axes: Axes,
    rows: pd.DataFrame,
    shown: list[Series],
    levels: list[Level],
    epsilons: list[float],
    metric: str,
    gain: float | None,
) -> None:
    import seaborn

    axes.grid(axis="y")
    for level in levels:
        axes.axhline(level.value, color=level.colour, linewidth=1.1, linestyle=(0, level.dashes))
    for position, look in enumerate(shown):
        part = rows[rows["mechanism"] == look.name]
        # Shift the points sideways so that intervals at one epsilon do not hide each other.
        shift = 1.0 + 0.03 * (position - (len(shown) - 1) / 2) * min(1.0, 8 / len(shown))
        seaborn.lineplot(
            x=part["epsilon"] * shift, y=part["value"], ax=axes, color=look.colour, linewidth=1.7,
            linestyle=look.line, marker=look.marker, markersize=6, markerfacecolor=look.fill,
            markeredgecolor=look.colour, markeredgewidth=1.3, errorbar=_whiskers, err_style="bars",
            err_kws={"elinewidth": 1.1, "zorder": 1.8},
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(min(epsilons) / 1.35, max(epsilons) * 1.35)
    axes.set_xticks(epsilons, [plain(epsilon) for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("ε (smaller protects more)")
    axes.set_ylabel("")
    _scale(axes, rows, levels, metric, gain)
    axes.spines["left"].set_color(GRID)


def _whiskers(values: pd.Series) -> tuple[float, float]:
    summary = estimate(values)
    if summary.low is None or summary.high is None:
        return summary.mean, summary.mean
    return summary.low, summary.high


def _scale(axes: Axes, rows: pd.DataFrame, levels: list[Level], metric: str, gain: float | None) -> None:
    """Scale the vertical axis: gaps over more than a decade get an axis that is logarithmic except near zero."""
    means = rows.groupby(["mechanism", "epsilon"])["value"].mean()
    values = np.array([*means, *(level.value for level in levels)])
    if metric != "holdout_gap":
        _name_axis(axes, "held-out log-likelihood, nats per record")
        return
    _name_axis(axes, "gap, nats per record · utility kept" if gain else "gap, nats per record")
    lost = -values[values < 0]
    worst = float(lost.max()) if len(lost) else 1.0
    nearest = float(lost.min()) if len(lost) else worst
    if worst / nearest < 10:
        axes.yaxis.set_major_formatter(lambda value, _: _tick(value, gain))
        room = 0.08 * (float(values.max()) + worst)
        axes.set_ylim(-worst - room, float(values.max()) + room)
        return
    linear = 10.0 ** math.floor(math.log10(max(nearest, 1e-3)))
    axes.set_yscale("symlog", linthresh=linear, linscale=0.6)
    decades = [linear * 10**step for step in range(math.ceil(math.log10(worst / linear)) + 1)]
    between = [decade * 3 for decade in decades] if len(decades) <= 3 else []
    ticks = [value for value in sorted({*decades, *between}) if value <= worst * 1.6]
    axes.set_yticks([0.0, *(-value for value in ticks)])
    axes.yaxis.set_major_formatter(lambda value, _: _tick(value, gain))
    axes.minorticks_off()
    axes.set_ylim(-worst * 1.5, max(float(values.max()) * 1.5, linear * 0.6))


def _name_axis(axes: Axes, name: str) -> None:
    """Write the name above the axis, not along it, so that it is easy to read."""
    axes.set_title(name, fontsize=10, color=MUTED, pad=8, horizontalalignment="left")


def _tick(gap: float, gain: float | None) -> str:
    """Format a gap and the utility kept; below the public bounds alone, only the gap."""
    number = plain(gap) if gap else "0"
    if not gain or 1 + gap / gain < 0:
        return number
    return f"{number} · {utility(1 + gap / gain)}".replace("over ", ">").replace("less than ", "<")


def _direct_labels(
    axes: Axes, rows: pd.DataFrame, shown: list[Series], levels: list[Level], height: float
) -> None:
    """Write each line's name at its right end, moved apart if lines meet, with a leader to the line."""
    ends = []
    for look in shown:
        part = rows[rows["mechanism"] == look.name]
        last = part["epsilon"].max()
        ends.append((look.label, look.colour, part.loc[part["epsilon"] == last, "value"].mean()))
    ends += [(level.label, level.colour, level.value) for level in levels]
    place = axes.transData + axes.transAxes.inverted()
    wanted = [float(np.clip(place.transform((1.0, value))[1], 0.0, 1.0)) for _, _, value in ends]
    gap = LABEL_HEIGHT / (height * axes.get_position().height)
    for (label, colour, _), start, end in zip(ends, wanted, spread(wanted, gap, 0.0, 1.0), strict=True):
        axes.plot(
            [1.0, 1.03], [start, end], transform=axes.transAxes, color=colour, linewidth=0.8, clip_on=False
        )
        axes.text(1.04, end, label, transform=axes.transAxes, color=colour, va="center", fontsize=9)


def _description(rows: pd.DataFrame, shown: list[Series], metric: str, dataset: str) -> str:
    """Describe the picture for screen readers."""
    parts = []
    for look in shown:
        means = rows[rows["mechanism"] == look.name].groupby("epsilon")["value"].mean()
        points = ", ".join(
            f"{nats(value)} at ε {plain(epsilon)}" for epsilon, value in zip(means.index, means, strict=True)
        )
        parts.append(f"{look.label}: {points}")
    what = "gap to the best non-private model" if metric == "holdout_gap" else "held-out log-likelihood"
    return f"{dataset}: {what} in nats per record against ε. " + "; ".join(parts) + "."


def _caption(rows: pd.DataFrame, metric: str) -> str:
    replicates = int(rows.groupby(["mechanism", "epsilon"])["replicate"].nunique().max())
    if metric == "holdout_gap":
        text = (
            "The gap is the mean log density of held-out records, minus that of the best non-private model. "
            "The utility kept is the gap on another scale: 0\u00a0% is the public bounds alone, 100\u00a0% is the best "
            "non-private model."
        )
    else:
        text = "The run has no non-private model, so there is no gap to show."
    if replicates == 1:
        text += " Each point is one replicate, so there is no interval."
    else:
        text += (
            f" Points are means over {count(replicates, 'replicate')}. Whiskers are Student's 95\u00a0% intervals of "
            "the mean, cut at the edge of the chart. They include the randomness of the mechanism, but not the choice "
            "of the held-out records."
        )
    return text
