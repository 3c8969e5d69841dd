"""Mechanisms of one measurement, so small that they can be audited hundreds of times; their claims are tight."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privmix.mechanisms.base import Mechanism, Release
from privmix.mixture.model import Mixture
from privmix.privacy import noise
from privmix.privacy.accounting import claim, gaussian_mu
from privmix.privacy.ledger import Ledger
from privmix.privacy.oracles import GeneralizedResponse


@dataclass(frozen=True)
class Counting(Mechanism):
    """Measures the number of records, with Gaussian or Laplace noise; or the answer of each record."""

    kind: str = "gaussian"
    leak: bool = False  # the exact number is in the notes
    accountant: ClassVar[str] = "exact"

    def fit(self, view, spec, budget, rng):
        ledger, count = Ledger(), np.array([float(len(view))])
        common = {"source": rng.noise, "ledger": ledger, "label": "count"}
        if self.kind == "gaussian":
            noise_multiplier = 1 / gaussian_mu(budget.epsilon, budget.delta)
            noise.gaussian(count, sensitivity=1.0, noise_multiplier=noise_multiplier, **common)
        elif self.kind == "laplace":
            noise.laplace(count, sensitivity=1.0, epsilon=budget.epsilon, **common)
        else:
            GeneralizedResponse(2, budget.epsilon).perturb(view.codes["answer"], **common)
        mixture = Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
        notes = [f"{len(view)} records"] if self.leak else []
        return Release(mixture, ledger.events, claim(ledger.events, budget, self.accountant), notes=notes)


@dataclass(frozen=True)
class Louder:
    """A source whose noise is `times` as large as requested."""

    source: object
    times: float

    def __getattr__(self, name):
        return getattr(self.source, name)

    def add_gaussian(self, values, sigma):
        return self.source.add_gaussian(values, sigma * self.times)

    def add_laplace(self, values, scale):
        return self.source.add_laplace(values, scale * self.times)


class Stuck:
    """A source whose Gaussian noise is the same number every time, in units of the requested scale."""

    def __init__(self, source):
        self.source = source
        self.drawn = source.add_gaussian(np.zeros(1), 1.0)[0]

    def __getattr__(self, name):
        return getattr(self.source, name)

    def add_gaussian(self, values, sigma):
        return values + sigma * self.drawn
