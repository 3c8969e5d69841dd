"""The models of every ε, to be drawn one beside the other as the reader chooses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privmix.artefacts.fitted import Fitted
from privmix.report import portraits
from privmix.report.figures import Series
from privmix.report.frames import Scores
from privmix.report.outcomes import Material, Outcome
from privmix.report.phrases import count, interval, nats, plain
from privmix.report.portraits import View

BINS = 60


@dataclass(frozen=True)
class Component:
    """A Gaussian in the drawn coordinates and original units: one mean and variance, or two and three."""

    weight: float
    mean: tuple[float, ...]
    covariance: tuple[float, ...]  # the upper triangle
    seen: bool  # whether any of its ellipse is inside the picture


@dataclass(frozen=True)
class Fit:
    """A model and what is said of it, or why there is none."""

    epsilon: float | None
    words: str
    about: str
    unseen: str
    components: tuple[Component, ...]
    failure: str | None


@dataclass(frozen=True)
class Drawn:
    """All models of one mechanism on one dataset, in the order of ε."""

    mechanism: str
    label: str
    colour: str
    fits: tuple[Fit, ...]


@dataclass(frozen=True)
class Explorer:
    """One dataset's models, and the window in which all of them are drawn."""

    dataset: str
    axes: tuple[str, ...]
    limits: tuple[tuple[float, float], ...]
    shape: float  # height by width
    epsilons: tuple[str, ...]
    start: str  # the mechanism that is drawn first: the best at the reference ε
    reference: int  # position of the reference ε
    baseline: Drawn | None  # None where the records are sensitive, or nothing was fitted without privacy
    mechanisms: tuple[Drawn, ...]
    places: tuple[tuple[float, ...], ...]
    cloud: bool
    histogram: tuple[tuple[float, float, float], ...]  # from, to, density; where one coordinate is drawn


def drawn_model(scores: Scores, outcome: Outcome) -> Fitted | None:
    """The model to draw: the best non-private one, otherwise the first replicate, whichever it is."""
    models = outcome.model.models if outcome.model else ()
    baseline = scores.baseline(outcome.dataset)
    if not outcome.private and baseline and baseline.mechanism == outcome.mechanism:
        chosen = [model for model in models if model.replicate == baseline.replicate]
        return chosen[0] if chosen else None
    return models[0] if models else None


def unseen(window: View, model: Fitted) -> str:
    """What of a model its picture does not show."""
    hidden, wider, total = (
        portraits.out_of_view(window, model),
        portraits.wider(window, model),
        len(model.weights),
    )
    if wider == total:
        return f"{'every' if total > 1 else 'its'} ellipse is wider than the picture"
    parts = [f"{hidden} of {count(total, 'centre')} out of view"] if hidden else []
    if wider:
        parts.append(f"{wider} of {count(total, 'ellipse')} wider than the picture")
    return ", ".join(parts)


def explorer(
    scores: Scores,
    dataset: str,
    outcomes: Sequence[Outcome],
    looks: Mapping[str, Series],
    material: Material,
    window: View,
    reference: float | None,
) -> Explorer | None:
    """The models of a dataset, or None where nothing is private."""
    epsilons = sorted({outcome.epsilon for outcome in outcomes if outcome.private})
    if not epsilons or reference is None:
        return None
    mechanisms = []
    for name, look in looks.items():
        own = sorted((o for o in outcomes if o.mechanism == name), key=lambda outcome: outcome.epsilon)
        fits = tuple(_fit(scores, outcome, window) for outcome in own)
        mechanisms.append(Drawn(name, look.label, f"var({look.variable})", fits))
    best = scores.baseline(dataset)
    bare = [o for o in outcomes if not o.private and best and o.mechanism == best.mechanism]
    return Explorer(
        dataset=dataset,
        axes=tuple(portraits.axis_label(axis) for axis in window.axes),
        limits=window.limits,
        shape=window.up / portraits.ACROSS,
        epsilons=tuple(plain(epsilon) for epsilon in epsilons),
        start=_best(scores, [o for o in outcomes if o.epsilon == reference], mechanisms[0].mechanism),
        reference=epsilons.index(reference),
        baseline=Drawn(bare[0].mechanism, bare[0].mechanism, "var(--ink)", (_fit(scores, bare[0], window),))
        if bare
        else None,
        mechanisms=tuple(mechanisms),
        places=tuple(_short(place) for place in material.places[:, window.columns]),
        cloud=len(material.cloud) > 0 and len(window.columns) == 2,
        histogram=_histogram(material, window) if len(window.columns) == 1 else (),
    )


def _best(scores: Scores, outcomes: list[Outcome], otherwise: str) -> str:
    """The mechanism with the best held-out likelihood among those whose ε compares."""
    found = {
        outcome.mechanism: value.mean
        for outcome in outcomes
        if outcome.comparable
        and (value := scores.estimate(outcome.dataset, outcome.mechanism, outcome.epsilon, "holdout_loglik"))
        and not math.isnan(value.mean)
    }
    return max(found, key=found.__getitem__, default=otherwise)


def _fit(scores: Scores, outcome: Outcome, window: View) -> Fit:
    model = drawn_model(scores, outcome)
    gap = scores.estimate(outcome.dataset, outcome.mechanism, outcome.epsilon, "holdout_gap")
    words = f"ε = {plain(outcome.epsilon)}" if outcome.private else "no privacy"
    return Fit(
        epsilon=outcome.epsilon if outcome.private else None,
        words=words + ("" if outcome.comparable else " for nearby places"),
        about=f"mean gap {nats(gap.mean)}, {interval(gap)}" if gap and outcome.private else "",
        unseen=unseen(window, model) if model else "",
        components=_components(model, window) if model else (),
        failure=None if model else outcome.failure or "The model file holds no fitted model.",
    )


def _components(model: Fitted, window: View) -> tuple[Component, ...]:
    means, covariances = portraits.original(window.domain, model, window.columns)
    upper = np.triu_indices(len(window.columns))
    flat = len(window.columns) == 2
    return tuple(
        Component(
            weight=float(f"{weight:.4g}"),
            mean=_short(mean),
            covariance=_short(covariance[upper]),
            seen=not (flat and portraits.covers(window, mean, covariance)),
        )
        for weight, mean, covariance in zip(
            model.weights, means, covariances.reshape(len(means), *[len(window.columns)] * 2), strict=True
        )
    )


def _short(values: np.ndarray) -> tuple[float, ...]:
    """Six digits: finer than any screen."""
    return tuple(float(f"{value:.6g}") for value in values)


def _histogram(material: Material, window: View) -> tuple[tuple[float, float, float], ...]:
    if not len(material.cloud):
        return ()
    heights, edges = np.histogram(material.cloud[:, 0], bins=BINS, range=window.limits[0], density=True)
    return tuple(_short(bar) for bar in zip(edges, edges[1:], heights, strict=False))
