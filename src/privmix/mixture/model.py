"""A Gaussian mixture as a value: parameters, density, samples, criteria, units, and conversion to scikit-learn."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from privmix.errors import UserError

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

BLOCK = 4096  # rows per step, so that a block of distances stays in the cache
ROUNDING = 1e-9  # weights whose sum differs from 1 by less are renormalised; a larger difference is an error


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of K components in d dimensions. The constructor checks all values.

    d may be 0: such a mixture has only weights, for records that have attributes but no coordinates.
    """

    weights: np.ndarray  # (K,) non-negative, sum 1
    means: np.ndarray  # (K, d)
    covariances: np.ndarray  # (K, d, d) symmetric positive definite
    cholesky: np.ndarray = field(init=False, repr=False)  # (K, d, d) lower factors of the covariances

    def __post_init__(self) -> None:
        weights, means, covariances = (
            np.array(part, dtype=np.float64, order="C")
            for part in (self.weights, self.means, self.covariances)
        )
        k = len(weights) if weights.ndim == 1 else 0
        d = means.shape[1] if means.ndim == 2 else 0
        if means.shape == (k, 0) and covariances.shape == (
            k,
            0,
        ):  # nested lists without numbers lose the last axis
            covariances = covariances.reshape(k, 0, 0)
        if k < 1 or means.shape != (k, d) or covariances.shape != (k, d, d):
            raise UserError(
                "a mixture needs weights (K,), means (K, d) and covariances (K, d, d) with K >= 1, "
                f"but has {weights.shape}, {means.shape} and {covariances.shape}; pass arrays of those shapes."
            )
        for name, part in (("weights", weights), ("means", means), ("covariances", covariances)):
            if not np.isfinite(part).all():
                raise UserError(f"the {name} of a mixture must be finite numbers; remove NaN and infinity.")
        total = weights.sum()
        if weights.min() < 0 or abs(total - 1) > ROUNDING:
            raise UserError(
                f"the weights of a mixture must be non-negative and sum to 1, but sum to {total:.12g} with "
                f"smallest {weights.min():.6g}; normalise them."
            )
        covariances = _symmetrise(covariances)
        for name, part in (
            ("weights", weights / total),
            ("means", means),
            ("covariances", covariances),
            ("cholesky", _cholesky(covariances)),
        ):
            part.setflags(write=False)
            object.__setattr__(self, name, part)

    @property
    def n_components(self) -> int:
        """Number of components, K."""
        return len(self.weights)

    @property
    def dimensions(self) -> int:
        """Number of coordinates, d."""
        return self.means.shape[1]

    def n_parameters(self, covariance: str = "full") -> int:
        """Count the free parameters: K - 1 weights, K means, and full, diagonal or tied covariances."""
        k, d = self.means.shape
        counts = {"full": k * d * (d + 1) // 2, "diagonal": k * d, "tied": d * (d + 1) // 2}
        if covariance not in counts:
            raise UserError(f"covariance must be one of {', '.join(counts)}, but is {covariance!r}.")
        return k - 1 + k * d + counts[covariance]

    def marginal(self, present: np.ndarray) -> Self:
        """Return the mixture of some of the coordinates, given as a boolean mask (d,)."""
        return type(self)(self.weights, self.means[:, present], self.covariances[:, present][:, :, present])

    def log_density(self, points: np.ndarray, absent: np.ndarray | None = None) -> np.ndarray:
        """Compute log p(x) for each point, (n,). It is -inf, never NaN, if the density underflows.

        `absent` (n, d): coordinates that a point lacks. Its density is that of its other coordinates.
        """
        if absent is not None:
            density = np.empty(len(points))
            for present, rows in split_patterns(absent):
                density[rows] = self.marginal(present).log_density(points[np.ix_(rows, present)])
            return density
        points = self._check_points(points)
        density = np.empty(len(points))
        for first in range(0, len(points), BLOCK):
            joint = self._log_joint(points[first : first + BLOCK])
            peak = joint.max(axis=0)
            peak[peak == -np.inf] = 0.0
            with np.errstate(divide="ignore"):
                density[first : first + BLOCK] = peak + np.log(np.exp(joint - peak).sum(axis=0))
        return density

    def responsibilities(self, points: np.ndarray, absent: np.ndarray | None = None) -> np.ndarray:
        """Compute P(component | x), (n, K). Where every density underflows to zero, return the weights.

        `absent` (n, d): coordinates that a point lacks. They tell nothing about its component.
        """
        shares = np.empty((len(points), self.n_components))
        if absent is not None:
            for present, rows in split_patterns(absent):
                shares[rows] = self.marginal(present).responsibilities(points[np.ix_(rows, present)])
            return shares
        points = self._check_points(points)
        for first in range(0, len(points), BLOCK):
            joint = self._log_joint(points[first : first + BLOCK])
            lost = joint.max(axis=0) == -np.inf
            with np.errstate(divide="ignore"):
                joint[:, lost] = np.log(self.weights)[:, None]
            share = np.exp(joint - joint.max(axis=0))
            shares[first : first + BLOCK] = (share / share.sum(axis=0)).T
        return shares

    def log_joint(self, points: np.ndarray, absent: np.ndarray | None = None) -> np.ndarray:
        """Compute log(weight × density) of each component at each point, (n, K).

        `absent` (n, d): coordinates that a point lacks. The densities are those of its other coordinates.
        """
        joint = np.empty((len(points), self.n_components))
        if absent is not None:
            for present, rows in split_patterns(absent):
                joint[rows] = self.marginal(present).log_joint(points[np.ix_(rows, present)])
            return joint
        points = self._check_points(points)
        for first in range(0, len(points), BLOCK):
            joint[first : first + BLOCK] = self._log_joint(points[first : first + BLOCK]).T
        return joint

    def bic(self, points: np.ndarray, weights: np.ndarray | None = None, covariance: str = "full") -> float:
        """Compute the Bayesian information criterion (Schwarz 1978), -2 log L + p log n; lower is better.

        n is the total weight.
        """
        log_likelihood, total = self._log_likelihood(points, weights)
        return -2 * log_likelihood + self.n_parameters(covariance) * float(np.log(total))

    def aic(self, points: np.ndarray, weights: np.ndarray | None = None, covariance: str = "full") -> float:
        """Compute Akaike's information criterion (1974), -2 log L + 2 p; lower is better."""
        return -2 * self._log_likelihood(points, weights)[0] + 2 * self.n_parameters(covariance)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n independent points, (n, d), in random order."""
        return self.sample_with_labels(n, rng)[0]

    def sample_with_labels(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw n points, (n, d), in random order, and the component of each, (n,)."""
        labels = rng.choice(self.n_components, size=n, p=self.weights)
        standard = rng.standard_normal((n, self.dimensions))
        return self.means[labels] + np.einsum("nij,nj->ni", self.cholesky[labels], standard), labels

    def restore(self, centre: np.ndarray, scale: np.ndarray) -> Self:
        """Convert a mixture of x = (v - centre) * scale to the mixture of v. Both arguments are per coordinate."""
        centre, scale = self._axes(centre, scale)
        return type(self)(
            self.weights, self.means / scale + centre, self.covariances / np.outer(scale, scale)
        )

    def normalise(self, centre: np.ndarray, scale: np.ndarray) -> Self:
        """Convert a mixture of v to the mixture of x = (v - centre) * scale."""
        centre, scale = self._axes(centre, scale)
        return type(self)(
            self.weights, (self.means - centre) * scale, self.covariances * np.outer(scale, scale)
        )

    def to_sklearn(self) -> "GaussianMixture":
        """Return a fitted scikit-learn estimator with these parameters."""
        from sklearn.mixture import GaussianMixture

        model = GaussianMixture(n_components=self.n_components, covariance_type="full")
        model.weights_, model.means_, model.covariances_ = (
            part.copy() for part in (self.weights, self.means, self.covariances)
        )
        # scikit-learn uses an upper triangular factor with precision = U U', so U is the transpose of L⁻¹.
        model.precisions_cholesky_ = np.swapaxes(np.linalg.inv(self.cholesky), 1, 2).copy()
        model.precisions_ = model.precisions_cholesky_ @ np.swapaxes(model.precisions_cholesky_, 1, 2)
        model.converged_, model.n_iter_, model.n_features_in_ = True, 0, self.dimensions
        model.lower_bound_ = np.nan  # unknown without the data
        return model

    @classmethod
    def from_sklearn(cls, model: "GaussianMixture") -> Self:
        """Return the mixture of a fitted scikit-learn estimator of any covariance type."""
        if not hasattr(model, "covariances_"):
            raise UserError("the scikit-learn mixture is not fitted; call its fit method first.")
        k, d = model.means_.shape
        covariances = np.asarray(model.covariances_)
        if model.covariance_type == "spherical":
            covariances = covariances[:, None, None] * np.eye(d)
        elif model.covariance_type == "diag":
            covariances = covariances[:, :, None] * np.eye(d)
        elif model.covariance_type == "tied":
            covariances = np.broadcast_to(covariances, (k, d, d))
        return cls(model.weights_, model.means_, covariances)

    def _check_points(self, points: np.ndarray) -> np.ndarray:
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.dimensions:
            raise UserError(
                f"points must have shape (n, {self.dimensions}) for this mixture, but have {points.shape}."
            )
        if not np.isfinite(points).all():
            raise UserError("points must be finite numbers; remove the rows with NaN or infinity.")
        return points

    def _axes(self, centre: np.ndarray, scale: np.ndarray) -> list[np.ndarray]:
        axes = [np.asarray(part, dtype=np.float64) for part in (centre, scale)]
        if any(part.shape not in ((), (self.dimensions,)) for part in axes):
            raise UserError(
                f"centre and scale must be numbers or have shape ({self.dimensions},) for this mixture, but have "
                f"shapes {axes[0].shape} and {axes[1].shape}."
            )
        if not all(np.isfinite(part).all() for part in axes) or (axes[1] == 0).any():
            raise UserError(
                f"centre and scale must be finite, and scale must not be 0, but they are {centre} and {scale}."
            )
        return [np.broadcast_to(part, (self.dimensions,)) for part in axes]

    def _log_likelihood(self, points: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
        """Compute Σ w log p(x) and Σ w. Skip points of weight zero, whose density may underflow."""
        density = self.log_density(points)
        weights = np.ones(len(density)) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights.shape != density.shape or not np.isfinite(weights).all() or (weights < 0).any():
            raise UserError(
                f"{len(density)} points need {len(density)} finite weights >= 0; correct the weights."
            )
        if not weights.sum() > 0:
            raise UserError("a criterion needs data, but no point has a positive weight; check the weights.")
        counted = weights > 0
        return float(weights[counted] @ density[counted]), float(weights.sum())

    def _log_joint(self, points: np.ndarray) -> np.ndarray:
        """Compute log(weight × density), (K, n), from the Cholesky factor of each covariance."""
        inverse = np.linalg.inv(self.cholesky)
        joint = np.empty((self.n_components, len(points)))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for k in range(self.n_components):
                standard = (points - self.means[k]) @ inverse[k].T
                joint[k] = -0.5 * np.square(standard).sum(axis=1)
            joint[np.isnan(joint)] = -np.inf  # infinity minus infinity: the distance overflows
            determinant = np.log(np.diagonal(self.cholesky, axis1=1, axis2=2)).sum(axis=1)
            constant = np.log(self.weights) - determinant - 0.5 * self.dimensions * np.log(2 * np.pi)
        return joint + constant[:, None]


def split_patterns(absent: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return each pattern of `absent`, (n, d): which coordinates are present, (d,), and the rows where that is so."""
    labels = np.zeros(len(absent), dtype=np.int64)
    for column in absent.T:
        if column.any():
            labels = np.unique(2 * labels + column, return_inverse=True)[1]
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [(~absent[rows[0]], rows) for rows in groups if len(rows)]


@dataclass(frozen=True)
class FitResult:
    """A fitted mixture, with its likelihood and the state of EM at the end."""

    mixture: Mixture
    log_likelihood: float  # mean per unit of weight
    objective: float  # the maximised value: the log-likelihood plus the log prior, per unit of weight
    iterations: int  # EM iterations on all the data; each is one pass
    converged: bool
    notes: tuple[str, ...] = ()


def _symmetrise(covariances: np.ndarray) -> np.ndarray:
    """Remove asymmetry from rounding by averaging. Raise an error if the asymmetry is larger than that."""
    mirrored = covariances.transpose(0, 2, 1)
    if (covariances == mirrored).all():  # the usual case, and fast: EM makes a mixture in every iteration
        return covariances
    largest = np.abs(covariances).max(axis=(1, 2), keepdims=True)
    if (np.abs(covariances - mirrored) > ROUNDING * largest).any():
        raise UserError("the covariances of a mixture must be symmetric; average each with its transpose.")
    return 0.5 * covariances + 0.5 * mirrored


def _cholesky(covariances: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError as error:
        smallest = np.linalg.eigvalsh(covariances)[:, 0]
        raise UserError(
            f"covariance {smallest.argmin()} of the mixture is not positive definite (smallest eigenvalue "
            f"{smallest.min():.3g}); floor its eigenvalues above zero."
        ) from error
