"""The models section: fitted models over the records, side by side, and an explorer for every ε."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from privmix.artefacts.fitted_model import FittedModel
from privmix.report import model_plot
from privmix.report.figures import INK, Series, series
from privmix.report.format import count, nats, plain
from privmix.report.knowledge import utility, utility_gain
from privmix.report.plot_window import (
    ACROSS,
    PlotWindow,
    axis_label,
    centres_outside,
    covers,
    ellipses_around,
    original_units,
    plot_window,
)
from privmix.report.results import Results
from privmix.report.run import Material, Outcome, RunResults
from privmix.report.sections import PageSection

BINS = 60


@dataclass(frozen=True)
class Component:
    """A component in the drawn coordinates and original units: 1 mean and 1 variance, or 2 and 3 numbers."""

    weight: float
    mean: tuple[float, ...]
    covariance: tuple[float, ...]  # the upper triangle
    seen: bool  # whether any of its ellipse is inside the picture


@dataclass(frozen=True)
class ExplorerFit:
    """A model and its description, or why there is none."""

    epsilon: float | None
    words: str
    about: str
    unseen: str
    components: tuple[Component, ...]
    failure: str | None


@dataclass(frozen=True)
class ExplorerMechanism:
    """All models of one mechanism on one dataset, in the order of ε."""

    mechanism: str
    label: str
    colour: str
    fits: tuple[ExplorerFit, ...]


@dataclass(frozen=True)
class Explorer:
    """The models of one dataset, and the window in which they are drawn."""

    dataset: str
    axes: tuple[str, ...]
    limits: tuple[tuple[float, float], ...]
    shape: float  # height / width
    epsilons: tuple[str, ...]
    start: str  # mechanism shown first: the best at the reference ε
    reference: int  # index of the reference ε
    baseline: ExplorerMechanism | None  # None if the records are sensitive or there is no non-private model
    mechanisms: tuple[ExplorerMechanism, ...]
    places: tuple[tuple[float, ...], ...]
    cloud: bool
    histogram: tuple[tuple[float, float, float], ...]  # from, to, density; empty if two coordinates are drawn


@dataclass(frozen=True)
class Panel:
    """The picture of one model, or why there is none."""

    mechanism: str
    look: Series | None
    epsilon: float
    picture: Markup | None
    kept: str  # utility in words
    unseen: str
    failure: str | None


@dataclass(frozen=True)
class ModelPictures:
    """The small multiples of one dataset."""

    panels: tuple[Panel, ...]
    bitmap: str | None
    records: int
    flat: bool  # whether two coordinates are drawn
    projected: bool
    explorer: Explorer | None  # the models of every ε, for scripts


@dataclass(frozen=True)
class DatasetModels:
    """The models of one dataset, and what the page may show of its records."""

    name: str
    title: str
    pictures: ModelPictures | None
    material: Material | None
    person: str | None  # the most exposed person


@dataclass(frozen=True)
class ModelsSection(PageSection):
    """The models of every dataset."""

    datasets: tuple[DatasetModels, ...]

    @property
    def script_data(self) -> Mapping[str, object]:
        """The explorers."""
        shown = [dataset.pictures for dataset in self.datasets if dataset.pictures]
        return {"explorers": [pictures.explorer for pictures in shown if pictures.explorer]}


def build(run: RunResults, results: Results) -> ModelsSection:
    """Build the section."""
    looks, reference = series(run.private, run.trust), run.reference_epsilon
    datasets = []
    for name in run.settings.datasets:
        material = run.materials.get(name)
        pictures = (
            model_pictures(
                results, name, run.of(name), looks, material, reference, utility_gain(run, results, name)
            )
            if material and material.domain.axes
            else None
        )
        person = run.worst_person(name)
        datasets.append(DatasetModels(name, run.entries[name].title, pictures, material, person))
    return ModelsSection(tuple(datasets))


def model_pictures(
    results: Results,
    dataset: str,
    outcomes: list[Outcome],
    looks: dict[str, Series],
    material: Material,
    reference: float | None,
    gain: float | None,
) -> ModelPictures | None:
    """Draw the models of a dataset at the reference epsilon; None if there is no model. `gain`: see `utility_gain`."""
    if material.domain.visibility == "sensitive":  # a component of a non-private model may reveal a person
        outcomes = [outcome for outcome in outcomes if outcome.private]
    shown = [outcome for outcome in outcomes if not outcome.private or outcome.epsilon == reference]
    drawn = [(outcome, model_to_draw(results, outcome)) for outcome in shown]
    models = [model for _, model in drawn if model]
    if not models:
        return None
    window = plot_window(material, models)
    bitmap = model_plot.draw_records(window, material)
    panels = []
    for outcome, model in drawn:
        look = looks.get(outcome.mechanism)
        words = f"ε = {plain(outcome.epsilon)}" if outcome.private else "no privacy"
        words += "" if outcome.comparable else " for nearby places"
        picture, unseen = None, ""
        if model:
            unseen = describe_hidden(window, model)
            label = (
                f"{dataset}: the {count(len(model.weights), 'component')} of {outcome.mechanism}, {words}."
            )
            picture = model_plot.draw_model(
                window, material, model, look.colour if look else INK,
                f"portrait-{dataset}-{outcome.mechanism}", label, f"cloud-{dataset}" if bitmap else None,
            )  # fmt: skip
        panels.append(
            Panel(
                mechanism=outcome.mechanism,
                look=look,
                epsilon=outcome.epsilon,
                picture=picture,
                kept=describe_utility(results, outcome, gain),
                unseen=unseen,
                failure=outcome.failure or (None if model else "The model file holds no fitted model."),
            )
        )
    dimensions = len(material.info.domain.axes)
    seen = build_explorer(results, dataset, outcomes, looks, material, window, reference, gain)
    return ModelPictures(tuple(panels), bitmap, len(material.cloud), dimensions > 1, dimensions > 2, seen)


def model_to_draw(results: Results, outcome: Outcome) -> FittedModel | None:
    """Return the model to draw: the best replicate of the baseline, otherwise the first replicate."""
    models = outcome.model.models if outcome.model else ()
    baseline = results.baseline(outcome.dataset)
    if not outcome.private and baseline and baseline.mechanism == outcome.mechanism:
        chosen = [model for model in models if model.replicate == baseline.replicate]
        return chosen[0] if chosen else None
    return models[0] if models else None


def describe_hidden(window: PlotWindow, model: FittedModel) -> str:
    """Describe the parts of a model that its picture does not show."""
    hidden, wider, total = (
        centres_outside(window, model),
        ellipses_around(window, model),
        len(model.weights),
    )
    if wider == total:
        return f"{'every' if total > 1 else 'the'} ellipse is wider than the picture"
    parts = [f"{hidden} of {count(total, 'centre')} out of view"] if hidden else []
    if wider:
        parts.append(f"{wider} of {count(total, 'ellipse')} wider than the picture")
    return ", ".join(parts)


def build_explorer(
    results: Results,
    dataset: str,
    outcomes: Sequence[Outcome],
    looks: Mapping[str, Series],
    material: Material,
    window: PlotWindow,
    reference: float | None,
    gain: float | None,
) -> Explorer | None:
    """Build the explorer of a dataset; None if no model is private."""
    epsilons = sorted({outcome.epsilon for outcome in outcomes if outcome.private})
    if not epsilons or reference is None:
        return None
    mechanisms = []
    for name, look in looks.items():
        own = sorted((o for o in outcomes if o.mechanism == name), key=lambda outcome: outcome.epsilon)
        fits = tuple(_fit(results, outcome, window, gain) for outcome in own)
        if not fits:
            continue
        mechanisms.append(ExplorerMechanism(name, look.label, f"var({look.variable})", fits))
    best = results.baseline(dataset)
    bare = [o for o in outcomes if not o.private and best and o.mechanism == best.mechanism]
    baseline = None
    if bare:
        name = bare[0].mechanism
        baseline = ExplorerMechanism(name, name, "var(--ink)", (_fit(results, bare[0], window, gain),))
    return Explorer(
        dataset=dataset,
        axes=tuple(axis_label(axis) for axis in window.axes),
        limits=window.limits,
        shape=window.up / ACROSS,
        epsilons=tuple(plain(epsilon) for epsilon in epsilons),
        start=_best(results, [o for o in outcomes if o.epsilon == reference], mechanisms[0].mechanism),
        reference=epsilons.index(reference),
        baseline=baseline,
        mechanisms=tuple(mechanisms),
        places=tuple(_short(place) for place in material.places[:, window.columns]),
        cloud=len(material.cloud) > 0 and len(window.columns) == 2,
        histogram=_histogram(material, window) if len(window.columns) == 1 else (),
    )


def _best(results: Results, outcomes: list[Outcome], otherwise: str) -> str:
    """Return the mechanism with the best held-out likelihood among those with a comparable ε."""
    found = {
        outcome.mechanism: value.mean
        for outcome in outcomes
        if outcome.comparable
        and (value := results.estimate(*outcome.key, "holdout_loglik"))
        and not math.isnan(value.mean)
    }
    return max(found, key=found.__getitem__, default=otherwise)


def describe_utility(results: Results, outcome: Outcome, gain: float | None) -> str:
    """Describe the utility that a private mechanism keeps, and its gap; empty if there is no gap."""
    gap = results.estimate(*outcome.key, "holdout_gap")
    if not gap or not outcome.private:
        return ""
    if gain is None:
        return f"gap {nats(gap.mean)} nats per record"
    return f"{utility(1 + gap.mean / gain)} utility kept (gap {nats(gap.mean)} nats per record)"


def _fit(results: Results, outcome: Outcome, window: PlotWindow, gain: float | None) -> ExplorerFit:
    model = model_to_draw(results, outcome)
    words = f"ε = {plain(outcome.epsilon)}" if outcome.private else "no privacy"
    return ExplorerFit(
        epsilon=outcome.epsilon if outcome.private else None,
        words=words + ("" if outcome.comparable else " for nearby places"),
        about=describe_utility(results, outcome, gain),
        unseen=describe_hidden(window, model) if model else "",
        components=_components(model, window) if model else (),
        failure=None if model else outcome.failure or "The model file holds no fitted model.",
    )


def _components(model: FittedModel, window: PlotWindow) -> tuple[Component, ...]:
    means, covariances = original_units(window.domain, model, window.columns)
    upper = np.triu_indices(len(window.columns))
    flat = len(window.columns) == 2
    return tuple(
        Component(
            weight=float(f"{weight:.4g}"),
            mean=_short(mean),
            covariance=_short(covariance[upper]),
            seen=not (flat and covers(window, mean, covariance)),
        )
        for weight, mean, covariance in zip(
            model.weights, means, covariances.reshape(len(means), *[len(window.columns)] * 2), strict=True
        )
    )


def _short(values: np.ndarray) -> tuple[float, ...]:
    """Round to six digits, which is finer than any screen."""
    return tuple(float(f"{value:.6g}") for value in values)


def _histogram(material: Material, window: PlotWindow) -> tuple[tuple[float, float, float], ...]:
    if not len(material.cloud):
        return ()
    heights, edges = np.histogram(material.cloud[:, 0], bins=BINS, range=window.limits[0], density=True)
    left, right, height = (_short(values) for values in (edges[:-1], edges[1:], heights))
    return tuple(zip(left, right, height, strict=True))
