"""Fits to rows that carry additive noise of known shape: post-processing of what a local mechanism reported."""

from typing import Literal

import numpy as np

from privmix.mechanisms import component_choice
from privmix.mechanisms.base import Randomness, Reports, Spec
from privmix.mixture import deconvolve, em
from privmix.mixture.deconvolve import ScaleMixture
from privmix.mixture.observations import observe

Reading = Literal["naive", "aware"]


def report_columns(rows: np.ndarray) -> dict[str, np.ndarray]:
    """One report column per axis."""
    return {f"y{axis}": rows[:, axis] for axis in range(rows.shape[1])}


def fit_rows(reports: Reports, spec: Spec, noise: ScaleMixture, reading: Reading, rng: Randomness) -> em.Fit:
    """`naive` takes the noisy rows for records; `aware` maximises the likelihood through the noise.

    The reports are never clipped: that would bend the noise whose shape `aware` relies on.
    """
    rows = np.column_stack([reports.columns[f"y{axis}"] for axis in range(len(spec.domain.axes))])
    observations = observe(rows)

    def naive(number: int) -> em.Fit:
        # As anyone would who takes the rows at face value: no search for what the noise has buried.
        return em.fit(observations, number, floor=spec.floor, rng=rng.search, starts=2, relocations=0)

    def aware(number: int) -> em.Fit:
        return deconvolve.fit(
            observations,
            number,
            noise,
            lower=spec.domain.lower,
            upper=spec.domain.upper,
            floor=spec.floor,
            rng=rng.search,
        )

    return component_choice.freely(spec, naive if reading == "naive" else aware, records=len(rows))
