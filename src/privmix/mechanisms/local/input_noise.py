"""Local mechanisms that add noise of a known distribution to each record, and the fits to such rows.

The fit is post-processing of the reports.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from privmix.artefacts.domain import Domain
from privmix.mechanisms.base import Spec, best_fit, mechanism_dataclass
from privmix.mechanisms.local.base import CoordinateReports, LocalMechanism, Plan
from privmix.mixture import deconvolution, em
from privmix.mixture.deconvolution import ScaleMixture, noisy_joint
from privmix.mixture.kernel import log_joint
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import observe
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource

FitMode = Literal["naive", "aware"]
BLOCK = 1 << 13  # rows at a time; each takes a number for every component and scale of the noise


@mechanism_dataclass
class InputNoise(LocalMechanism):
    """`fit`: naive (fits the noisy rows) or aware (likelihood through the noise); `searches`: restarts of the fit."""

    fit_mode: Annotated[FitMode, Field(validation_alias="fit")] = "aware"
    searches: Annotated[int, Field(ge=1, le=1000)] = 3

    def perturb(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> np.ndarray:
        """Add noise to the rows. The ledger gets the cost of one row."""
        raise NotImplementedError

    def noise_scales(self, spec: Spec, plan: Plan) -> ScaleMixture:
        """Return the distribution of that noise, from public values."""
        raise NotImplementedError

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> CoordinateReports:
        """Return the noisy rows as reports."""
        return report_columns(self.perturb(points, spec, plan, source, ledger))

    def model(
        self, answers: CoordinateReports, spec: Spec, plan: Plan, rng: np.random.Generator
    ) -> FitResult:
        """Fit a mixture to the rows, or to the records behind them."""
        return fit_rows(answers, spec, self.noise_scales(spec, plan), self.fit_mode, rng, self.searches)

    def responsibilities(
        self, answers: CoordinateReports, mixture: Mixture, spec: Spec, plan: Plan
    ) -> Iterator[np.ndarray]:
        """Yield P(component | row). A naive fit describes the noisy rows, so it sees no noise here either."""
        noise = self.noise_scales(spec, plan)
        for first in range(0, len(answers), BLOCK):
            block = {name: values[first : first + BLOCK] for name, values in answers.columns.items()}
            some = observe(report_rows(CoordinateReports(block), spec))
            joint = (
                log_joint(some, mixture) if self.fit_mode == "naive" else noisy_joint(some, mixture, noise)
            )
            shares = np.exp(joint - joint.max(axis=0))
            yield (shares / shares.sum(axis=0)).T


def diameter(domain: Domain) -> float:
    """Return the L2 diameter of the public box."""
    return float(np.linalg.norm(domain.upper - domain.lower))


def report_columns(rows: np.ndarray) -> CoordinateReports:
    """Return one column per axis, in single precision. The rounding is far below the noise, and is post-processing."""
    return CoordinateReports({f"y{axis}": rows[:, axis].astype(np.float32) for axis in range(rows.shape[1])})


def report_rows(answers: CoordinateReports, spec: Spec) -> np.ndarray:
    """Return the noisy rows, (n, d), from their columns."""
    axes = range(len(spec.domain.axes))
    return np.column_stack([answers.columns[f"y{axis}"] for axis in axes]).astype(np.float64)


def fit_rows(
    answers: CoordinateReports,
    spec: Spec,
    noise: ScaleMixture,
    reading: FitMode,
    rng: np.random.Generator,
    searches: int,
) -> FitResult:
    """Fit a mixture: `naive` treats the noisy rows as records; `aware` maximises the likelihood through the noise.

    The reports are never clipped: clipping would change the noise distribution on which `aware` relies.
    """
    rows = report_rows(answers, spec)
    observations = observe(rows)

    def naive(number: int) -> FitResult:
        # A plain fit that takes the rows at face value: no search for structure below the noise.
        return em.fit(observations, number, floor=spec.floor, rng=rng, starts=2, relocations=0)

    def aware(number: int) -> FitResult:
        return deconvolution.fit(
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
    # No more components than reports.
    return best_fit(spec, lambda number: read(min(number, len(rows))), records=len(rows))
