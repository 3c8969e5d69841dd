"""`PrivateGaussianMixture`: a differentially private Gaussian mixture with the interface of scikit-learn.

It runs the same code as the pipeline and `privmix release`: the mechanisms of `privmix.mechanisms` on a public
`Domain`, through `privmix.mechanisms.run`.
"""

import math
import numbers
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import CensoredLabels
from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.catalog.entry import Column
from privmix.clean.contribution_bounding import rows_over_limit
from privmix.clean.normalisation import axes_of_columns, clip
from privmix.clean.persons import KEY_BYTES, pseudonymise
from privmix.errors import PrivacyError, PrivacyWarning, UserError
from privmix.estimator_input import (
    Pair,
    check_components,
    check_count,
    check_groups,
    check_number,
    check_parameters,
    describe_features,
    hide_values,
)
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Mechanism, Records
from privmix.mechanisms.run import MechanismJob
from privmix.mechanisms.shared.censored_labels import label_probabilities
from privmix.mixture import kernel
from privmix.mixture.mixed import draw_values
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget
from privmix.privacy.noise import fresh_stream, stream
from privmix.privacy.sensitivity import Relation, Unit

TREE_FEATURES = 3  # up to here `noisy_tree` is the default mechanism, above it is `noisy_moments`
# Part of ε for the number of records, where it is private and `expected_rows` is not given. It loses least on average
# over the simulated mixtures of `benchmarks/record_count.py`, among 0.005, 0.01, 0.02, 0.05 and 0.1.
COUNT_SHARE = 0.01
CHOICE_SHARE = 0.1  # part of ε for the choice among several `n_components`
TOLERATED_OUTSIDE = 0.01  # share of the values of a feature outside its bounds above which `fit` warns


class PrivateGaussianMixture(DensityMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Gaussian mixture fitted with differential privacy.

    Parameters
    ----------
    n_components : int or sequence of int, default=1
        Number of components. Given several numbers, the model chooses one of them privately.
    epsilon : float, default=1.0
        Privacy budget ε of this fit. Smaller protects more. Every further fit to the same records costs its own ε.
    delta : float, default=1e-6
        Privacy budget δ. Mechanisms with pure ε-DP do not use it.
    bounds : (lower, upper), sequence of (lower, upper), or mapping from feature name to (lower, upper)
        Range of each feature, from public knowledge; one pair serves all features. Required. `fit` clips values
        outside. Never compute the bounds from the records: that would leak them, and no ε would account for it.
    resolution : float, sequence of float, or mapping from feature name to float, default=None
        Smallest scale of interest of each feature, from public knowledge. It is the smallest standard deviation
        of a component. By default a thousandth of the range.
    mechanism : str, default=None
        Name of a registered mechanism, see `privmix.mechanisms.registry.METHODS`. By default `noisy_tree` for up to
        3 features and `noisy_moments` for more.
    mechanism_params : dict, default=None
        Parameters of the mechanism itself, for instance `{"iterations": 5}` for `noisy_moments`.
    unit : {"record", "person"}, default="record"
        What the guarantee protects. "person" needs `fit(X, groups=persons)`.
    relation : {"replace_one", "add_remove"}, default="replace_one"
        How neighbouring datasets differ: one unit is replaced by any other, or is added or removed.
    max_records_per_person : int, default=1
        With unit="person", `fit` uses at most this many records of each person, chosen at random.
    expected_rows : int, default=None
        A publicly known number of records, near the true one. It matters only where the number of records is
        private: for unit="person" or relation="add_remove". There, without it, `fit` spends 1 % of ε to count them.
    geographic : mapping from feature name (or index) to "latitude" or "longitude", default=None
        Features that are geographic coordinates in degrees. Distances are then the same in both directions.
    random_state : int, RandomState instance or None, default=None
        None draws exact noise from the operating system's entropy: use it for everything you publish. Anything
        else draws reproducible noise, for experiments only, and raises a `PrivacyWarning`.

    Attributes
    ----------
    weights_ : ndarray of shape (k,)
        k is `n_components`, or less if the mechanism finds fewer components that the noise does not hide.
    means_ : ndarray of shape (k, n_features)
    covariances_ : ndarray of shape (k, n_features, n_features)
    bounds_ : ndarray of shape (n_features, 2)
    privacy_ : PrivacyStatement
        The guarantee: `epsilon`, `delta`, `unit`, `relation`, and `ledger`, the measurements it is computed from. A
        local mechanism always has relation "replace_one". For `planar_laplace`, `epsilon` is for places at most
        `within_m` metres apart, and `epsilon_anywhere` for any two.
    mechanism_ : str
        Name of the mechanism that ran.
    notes_ : list of str
        Remarks of the mechanism on this fit.
    labels_ : CensoredLabels or None
        The censored labels of a release (`from_release`), for `sample_labels`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X has string column names.

    Notes
    -----
    The fitted model, and everything computed from it without the records, has the guarantee in `privacy_`. Results
    that use the records again do not: `score(X)`, `bic(X)` or `predict(X)` of the training records are exact.

    `privacy_` covers one fit. It does not cover other steps that learn from the records: a `StandardScaler` in a
    `Pipeline` (the estimator needs no scaling), or a `GridSearchCV`, which fits many models to the same records and
    selects one by exact scores.

    A missing or wrong parameter raises a `PrivacyError`, which is a `ValueError`.

    Examples
    --------
    >>> import numpy as np
    >>> from privmix import PrivateGaussianMixture
    >>> X = np.random.default_rng(0).normal([50, 120], [10, 15], size=(20_000, 2))
    >>> model = PrivateGaussianMixture(n_components=2, epsilon=1.0, bounds=[(18, 90), (0, 250)]).fit(X)
    >>> model.means_.shape, model.privacy_.epsilon <= 1.0
    ((2, 2), True)
    """

    weights_: NDArray[np.float64]
    means_: NDArray[np.float64]
    covariances_: NDArray[np.float64]
    bounds_: NDArray[np.float64]
    privacy_: PrivacyStatement
    mechanism_: str
    notes_: list[str]
    labels_: CensoredLabels | None
    n_features_in_: int

    def __init__(
        self,
        n_components: int | Sequence[int] = 1,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Pair | Sequence[Pair] | Mapping[str, Pair] | None = None,
        resolution: float | Sequence[float] | Mapping[str, float] | None = None,
        mechanism: str | None = None,
        mechanism_params: Mapping[str, Any] | None = None,
        unit: Unit = "record",
        relation: Relation = "replace_one",
        max_records_per_person: int = 1,
        expected_rows: int | None = None,
        geographic: Mapping[str | int, str] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.resolution = resolution
        self.mechanism = mechanism
        self.mechanism_params = mechanism_params
        self.unit = unit
        self.relation = relation
        self.max_records_per_person = max_records_per_person
        self.expected_rows = expected_rows
        self.geographic = geographic
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, *, groups: ArrayLike | None = None) -> Self:
        """Fit the mixture to X with the privacy budget (epsilon, delta).

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Numpy array or DataFrame of finite numbers.
        y : ignored
        groups : array-like of shape (n_records,), default=None
            The person behind each record. Required for unit="person", ignored otherwise.
        """
        if self.bounds is None:
            raise PrivacyError(
                "bounds are missing: give the range of each feature from public knowledge, for instance "
                "bounds=[(18, 90), (0, 250)]. Bounds taken from the records would leak them."
            )
        values = self._validate(X, reset=True)
        columns = self._columns()
        job = self._job()
        values, persons = self._bound_contributions(values, groups, job.seed)
        lower, upper = (
            np.array([getattr(column, name) for column in columns]) for name in ("lower", "upper")
        )
        clipped, outside = clip(values, lower, upper)
        self._warn_outside(columns, outside, len(values))
        domain, count_share = self._domain(columns, len(values), persons, job)
        records = Records(domain.normalise(clipped), persons=persons)
        spec = replace(job.spec(domain), count_share=count_share)
        rng = job.randomness(domain, "estimator")
        kernel.numba_kernel()  # before any pass, so that rounding cannot depend on how many records there are
        release = mechanism_run.run(job.mechanism, records, spec, job.budget, rng)
        centre, scale = (
            np.array([getattr(axis, name) for axis in domain.axes]) for name in ("centre", "scale")
        )
        statement = job.privacy_statement(domain, release.claim, release.events)
        if not job.mechanism.private:
            statement = statement.model_copy(update={"mode": "benchmark"})
        self._store(release.mixture.restore(centre, scale), domain, statement, job.method, release.notes)
        return self

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the log density of each row of X, in the units of the features."""
        return self._mixture().log_density(self._check(X))

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the mean log density of the rows of X."""
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each component for each row of X, (n_rows, n_components)."""
        return self._mixture().responsibilities(self._check(X))

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Return the most probable component of each row of X."""
        best: NDArray[np.intp] = self.predict_proba(X).argmax(axis=1)
        return best

    def sample(self, n_samples: int = 1) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Draw synthetic rows from the model, clipped to the bounds, and the component of each.

        This uses the model only and costs no ε. With an integer `random_state` every call returns the same rows.
        """
        mixture = self._mixture()
        if not isinstance(n_samples, numbers.Integral) or n_samples < 1:
            raise ValueError(f"n_samples = {n_samples!r} must be an integer of at least 1.")
        rng = fresh_stream()
        if self.random_state is not None:
            rng = stream(int(check_random_state(self.random_state).randint(2**31)), "sample")
        rows, labels = mixture.sample_with_labels(int(n_samples), rng)
        return np.clip(rows, self.bounds_[:, 0], self.bounds_[:, 1]), labels

    def sample_labels(self, X: ArrayLike) -> NDArray[np.intp]:
        """Draw a censored label for each row of X: its component, or with some probability any component.

        For models that `from_release` loads from a release with `censored_labels`. The limits in `labels_` say how
        much a label tells about an attribute; they hold for one label of each record, so draw it once and keep it.
        """
        if getattr(self, "labels_", None) is None:
            raise UserError(
                "this model has no censored labels; load a release that was made with `censored_labels` in its "
                "configuration, by PrivateGaussianMixture.from_release."
            )
        assert self.labels_ is not None
        inside = np.clip(self._check(X), self.bounds_[:, 0], self.bounds_[:, 1])
        shares = self._mixture().responsibilities(inside)
        chances = label_probabilities(shares, self.weights_, self.labels_.kept)
        labels: NDArray[np.intp] = draw_values(chances.cumsum(axis=1), fresh_stream())
        return labels

    def bic(self, X: ArrayLike) -> float:
        """Return the Bayesian information criterion of the model on X. Lower is better."""
        return self._mixture().bic(self._check(X))

    def aic(self, X: ArrayLike) -> float:
        """Return the Akaike information criterion of the model on X. Lower is better."""
        return self._mixture().aic(self._check(X))

    @classmethod
    def from_release(cls, folder: str | Path, *, signer: str | None = None, verify: bool = True) -> Self:
        """Load the model that `privmix release` made.

        By default the folder is verified first, as by `privmix verify`. With `signer`, the public key of the curator
        in hexadecimal digits or the path of a file with it, the release must also be signed with that key.
        """
        from privmix.release import folder as release_folder
        from privmix.release import verify as verification

        path = Path(folder)
        if signer is not None and not verify:
            raise UserError("signer needs verify=True: an unverified release has no proven origin.")
        released = verification.verify(path, signer) if verify else release_folder.read_release(path)
        axes, mixture = released.domain.axes, released.original.mixture
        model = cls(
            mixture.n_components,
            epsilon=released.privacy.budget_epsilon,
            delta=released.privacy.budget_delta,
            bounds=[(axis.lower, axis.upper) for axis in axes],
            resolution=[axis.resolution for axis in axes],
            mechanism=released.method,
            mechanism_params=dict(released.parameters) or None,
            unit=released.privacy.unit,
            relation=released.privacy.relation,
            max_records_per_person=released.domain.max_records_per_person,
            geographic={axis.name: axis.geographic for axis in axes if axis.geographic} or None,
        )
        model.feature_names_in_ = np.array([axis.name for axis in axes], dtype=object)
        model.n_features_in_ = len(axes)
        model._store(mixture, released.domain, released.privacy, released.method, released.notes)
        model.labels_ = released.labels
        return model

    def _columns(self) -> list[Column]:
        """Return the public description of each feature."""
        numbered = [f"x{number}" for number in range(self.n_features_in_)]
        names = [str(name) for name in getattr(self, "feature_names_in_", numbered)]
        return describe_features(names, self.bounds, self.resolution, self.geographic)

    def _job(self) -> MechanismJob:
        """Return the mechanism at its budget, with checked parameters."""
        method = self.mechanism
        if method is None:
            method = "noisy_tree" if self.n_features_in_ <= TREE_FEATURES else "noisy_moments"
        parameters = check_parameters(self.mechanism_params)
        try:
            built = registry.build(str(method), parameters, where=f"mechanism {method}")
        except UserError as error:
            raise PrivacyError(str(error)) from error
        if built.randomises_records and self.relation == "add_remove":
            _warn(
                f"{method} is a local mechanism: its guarantee is for one unit replaced by any other (replace_one), "
                "not for one added or removed. The number of reports shows how many took part."
            )
        return MechanismJob(
            name=method,
            method=method,
            parameters=parameters,
            mechanism=built,
            budget=self._budget(built),
            components=check_components(self.n_components),
            choice_share=CHOICE_SHARE,
            replicates=1,
            seed=self._seed(),
        )

    def _budget(self, mechanism: Mechanism) -> Budget:
        if not mechanism.private:
            _warn(f"mechanism={self.mechanism!r} has no privacy at all: do not publish this model.")
            return Budget(math.inf, 0.0)
        epsilon, delta = check_number(self.epsilon, "epsilon"), check_number(self.delta, "delta")
        if not epsilon > 0:
            raise PrivacyError(f"epsilon = {self.epsilon!r} must be greater than 0.")
        if not 0 <= delta < 1:
            raise PrivacyError(f"delta = {self.delta!r} must be at least 0 and less than 1.")
        return Budget(epsilon, delta)

    def _seed(self) -> int | None:
        """Return the seed of reproducible noise, or None for exact noise."""
        if self.random_state is None:
            return None
        _warn(
            "random_state makes the noise reproducible: anyone who knows or guesses it can remove the noise. Do not "
            "publish this model; use random_state=None for that."
        )
        if isinstance(self.random_state, numbers.Integral):
            if self.random_state < 0:
                raise PrivacyError(f"random_state = {self.random_state!r} must be at least 0.")
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _bound_contributions(
        self, values: NDArray[np.float64], groups: ArrayLike | None, seed: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.uint64] | None]:
        """Return the records to use, and the pseudonym of the person behind each if persons are protected.

        Which records of a person are used depends on the person's id, on the order of their own records and on a
        random key: never on a value, and never on another person (`clean.contribution_bounding`).
        """
        if self.unit not in get_args(Unit) or self.relation not in get_args(Relation):
            raise PrivacyError(
                f"unit = {self.unit!r} must be 'record' or 'person', and relation = {self.relation!r} 'replace_one' "
                "or 'add_remove'."
            )
        limit = check_count(self.max_records_per_person, "max_records_per_person")
        if self.unit == "record":
            if groups is not None:
                _warn(
                    "groups is ignored: unit='record' protects single records. Use unit='person' for persons."
                )
            return values, None
        ids = check_groups(groups, len(values))
        key = secrets.token_bytes(KEY_BYTES) if seed is None else stream(seed, "persons").bytes(KEY_BYTES)
        persons = pseudonymise(ids, key, "person")
        kept = ~rows_over_limit(persons, pseudonymise(ids, key, "draw"), limit)
        return values[kept], persons[kept]

    def _warn_outside(self, columns: Sequence[Column], outside: NDArray[np.intp], rows: int) -> None:
        many = [c.name for c, count in zip(columns, outside, strict=True) if count > TOLERATED_OUTSIDE * rows]
        if many:
            warnings.warn(
                f"more than {TOLERATED_OUTSIDE:.0%} of the values of {', '.join(map(repr, many))} lie outside the "
                "bounds and are clipped; check the bounds against public knowledge. This message depends on the "
                "records: do not publish it.",
                UserWarning,
                stacklevel=3,
            )

    def _domain(
        self, columns: Sequence[Column], rows: int, persons: NDArray[np.uint64] | None, job: MechanismJob
    ) -> tuple[Domain, float]:
        """Return what is public, and the part of ε for the number of records where it is not.

        The number of records is public if neighbouring datasets have the same number, and in a local mechanism, where
        the number of reports shows.
        """
        known, count_share, people = rows, 0.0, None
        public = self.unit == "record" and self.relation == "replace_one"
        if job.mechanism.randomises_records and persons is not None:
            people = len(np.unique(persons))
            known = people * int(self.max_records_per_person)
        elif self.expected_rows is not None:
            expected = check_count(self.expected_rows, "expected_rows")
            known = rows if public else expected
        elif not public and job.mechanism.private and not job.mechanism.randomises_records:
            known, count_share = 1, COUNT_SHARE
        domain = Domain(
            dataset="X",
            title="",
            axes=axes_of_columns(columns, "X"),
            attributes=(),
            unit=self.unit,
            relation=self.relation,
            max_records_per_person=int(self.max_records_per_person) if self.unit == "person" else 1,
            visibility="sensitive",
            rows=known,
            persons=people,
        )
        return domain, count_share

    def _store(
        self, mixture: Mixture, domain: Domain, statement: PrivacyStatement, method: str, notes: Sequence[str]
    ) -> None:
        """Keep the fitted model. All of it is public or comes from the mechanism."""
        self.weights_, self.means_, self.covariances_ = (
            np.array(part) for part in (mixture.weights, mixture.means, mixture.covariances)
        )
        self.bounds_ = np.array([(axis.lower, axis.upper) for axis in domain.axes])
        self.privacy_, self.mechanism_, self.notes_ = statement, method, list(notes)
        self.labels_ = None

    def _mixture(self) -> Mixture:
        check_is_fitted(self, "weights_")
        return Mixture(self.weights_, self.means_, self.covariances_)

    def _check(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self, "weights_")
        return self._validate(X, reset=False)

    def _validate(self, X: ArrayLike, *, reset: bool) -> NDArray[np.float64]:
        """Return X as an array of finite numbers."""
        if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
            raise ValueError("X has masked values; remove those rows.")
        try:
            checked: NDArray[np.float64] = validate_data(self, X, dtype=np.float64, reset=reset)
        except ValueError as error:
            raise ValueError(hide_values(str(error))) from None
        return checked


def _warn(message: str) -> None:
    """Warn whoever called `fit`."""
    warnings.warn(message, PrivacyWarning, stacklevel=4)
