"""Fits to rows that carry additive noise of known shape: post-processing of what a local mechanism reported."""

from typing import Literal

import numpy as np

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
    if reading == "naive":
        # As anyone would who takes the rows at face value: no search for what the noise has buried.
        return em.fit(
            observations, spec.n_components, floor=spec.floor, rng=rng.search, starts=2, relocations=0
        )
    return deconvolve.fit(
        observations,
        spec.n_components,
        noise,
        lower=spec.domain.lower,
        upper=spec.domain.upper,
        floor=spec.floor,
        rng=rng.search,
    )
