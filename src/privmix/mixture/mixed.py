"""A mixture over coordinates and attributes: density, conditionals, marginals, and samples.

A component has a Gaussian over the coordinates and a distribution over the values of each attribute. Given the
component, coordinates and attributes are independent: p(x, c) = Σ_k π_k N(x; μ_k, Σ_k) Π_a θ_ka(c_a).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from privmix.errors import UserError
from privmix.mixture.model import ROUNDING, Mixture

Codes = Mapping[str, np.ndarray]  # attribute -> (n,) codes of its values


@dataclass(frozen=True, eq=False)
class MixedMixture:
    """A Gaussian mixture whose components also have shares of the values of each attribute.

    scikit-learn has no such mixture. `gaussians.to_sklearn()` converts the part over the coordinates.
    """

    gaussians: Mixture
    shares: Mapping[str, np.ndarray] = field(default_factory=dict)  # attribute -> (K, V), rows sum to 1

    def __post_init__(self) -> None:
        checked = {}
        for name, given in self.shares.items():
            shares = np.array(given, dtype=np.float64)
            if shares.ndim != 2 or len(shares) != self.gaussians.n_components or not shares.size:
                raise UserError(
                    f"the shares of attribute {name!r} need the shape ({self.gaussians.n_components}, V), one row "
                    f"per component, but have {shares.shape}."
                )
            totals = shares.sum(axis=1, keepdims=True)
            if not np.isfinite(shares).all() or shares.min() < 0 or (np.abs(totals - 1) > ROUNDING).any():
                raise UserError(
                    f"the shares of attribute {name!r} must be non-negative and sum to 1 in each component."
                )
            shares /= totals
            shares.setflags(write=False)
            checked[name] = shares
        object.__setattr__(self, "shares", checked)

    @property
    def n_components(self) -> int:
        """Number of components, K."""
        return self.gaussians.n_components

    def log_density(self, points: np.ndarray, codes: Codes, absent: np.ndarray | None = None) -> np.ndarray:
        """Compute log p(x, c) for each record, (n,), over the attributes in `codes`; -inf where it underflows.

        `absent` (n, d): coordinates that a record lacks. Its density is that of its other values.
        """
        joint = self._log_joint(points, codes, absent)
        peak = joint.max(axis=1)
        peak[peak == -np.inf] = 0.0
        with np.errstate(divide="ignore"):
            return np.asarray(peak + np.log(np.exp(joint - peak[:, None]).sum(axis=1)))

    def responsibilities(
        self, points: np.ndarray, codes: Codes, absent: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute P(component | x, c), (n, K). Where every density underflows, return the weights.

        `absent` (n, d): coordinates that a record lacks. They tell nothing about its component.
        """
        joint = self._log_joint(points, codes, absent)
        lost = joint.max(axis=1) == -np.inf
        with np.errstate(divide="ignore"):
            joint[lost] = np.log(self.gaussians.weights)
        shares = np.exp(joint - joint.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def conditional(
        self, name: str, points: np.ndarray, codes: Codes, absent: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute P(value | x, other attributes), (n, V): what the rest of a record tells about this attribute."""
        others = {other: values for other, values in codes.items() if other != name}
        return np.asarray(self.responsibilities(points, others, absent) @ self.shares[name])

    def marginal(self, name: str) -> np.ndarray:
        """Compute the share of each value of an attribute, (V,)."""
        return np.asarray(self.gaussians.weights @ self.shares[name])

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Draw n independent records in random order: points, (n, d), and the codes of each attribute, (n,)."""
        points, labels = self.gaussians.sample_with_labels(n, rng)
        codes = {}
        for name, shares in self.shares.items():
            codes[name] = draw_values(np.cumsum(shares, axis=1)[labels], rng)
        return points, codes

    def restore(self, centre: np.ndarray, scale: np.ndarray) -> Self:
        """Convert a mixture of x = (v - centre) * scale to the mixture of v."""
        return type(self)(self.gaussians.restore(centre, scale), self.shares)

    def _log_joint(self, points: np.ndarray, codes: Codes, absent: np.ndarray | None) -> np.ndarray:
        """Compute log(π_k N(x; k) Π_a θ_ka(c_a)), (n, K)."""
        joint = self.gaussians.log_joint(points, absent)
        with np.errstate(divide="ignore"):
            for name, values in codes.items():
                if name not in self.shares:
                    raise UserError(f"the mixture has no attribute {name!r}.")
                joint += np.log(self.shares[name]).T[values]
        return joint


def draw_values(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a value for each row of cumulative shares, (n, V)."""
    drawn = (rng.random((len(cumulative), 1)) * cumulative[:, -1:] >= cumulative).sum(axis=1)
    return np.minimum(drawn, cumulative.shape[1] - 1)
