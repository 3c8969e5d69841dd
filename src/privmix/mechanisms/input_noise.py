"""Fits to rows that carry additive noise of known shape: post-processing of what a local mechanism reported."""

from typing import Literal

import numpy as np

from privmix.mechanisms import component_choice
from privmix.mechanisms.base import Spec
from privmix.mechanisms.local import Answers
from privmix.mixture import deconvolve, em
from privmix.mixture.observations import observe
from privmix.mixture.scale_mixture import ScaleMixture

Reading = Literal["naive", "aware"]


def noisy_rows(rows: np.ndarray) -> Answers:
    """One column per axis, in single precision: what it rounds off lies far below the noise, and is gone for all."""
    return Answers({f"y{axis}": rows[:, axis].astype(np.float32) for axis in range(rows.shape[1])})


def fit_rows(
    answers: Answers,
    spec: Spec,
    noise: ScaleMixture,
    reading: Reading,
    rng: np.random.Generator,
    searches: int,
) -> em.Fit:
    """`naive` takes the noisy rows for records; `aware` maximises the likelihood through the noise.

    The reports are never clipped: that would bend the noise whose shape `aware` relies on.
    """
    axes = range(len(spec.domain.axes))
    rows = np.column_stack([answers.columns[f"y{axis}"] for axis in axes]).astype(np.float64)
    observations = observe(rows)

    def naive(number: int) -> em.Fit:
        # As anyone would who takes the rows at face value: no search for what the noise has buried.
        return em.fit(observations, number, floor=spec.floor, rng=rng, starts=2, relocations=0)

    def aware(number: int) -> em.Fit:
        return deconvolve.fit(
            observations,
            number,
            noise,
            lower=spec.domain.lower,
            upper=spec.domain.upper,
            floor=spec.floor,
            rng=rng,
            searches=searches,
        )

    read = naive if reading == "naive" else aware
    # No more Gaussians than reports.
    return component_choice.freely(spec, lambda number: read(min(number, len(rows))), records=len(rows))
