"""Checks of what a caller gives to `PrivateGaussianMixture`. No message shows a value of X or of groups."""

import math
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from privmix.catalog.entry import Column
from privmix.errors import PrivacyError

STEPS = 1000  # default resolution: this many steps between the bounds of a feature
FINEST = 1e-9  # smallest resolution, as a share of the range
NARROWEST = 1e-9  # smallest range of a feature, as a share of its largest bound
LARGEST_BOUND = 1e100

Pair = tuple[float, float]
Geographic = Literal["latitude", "longitude"]


def describe_features(names: Sequence[str], bounds: Any, resolution: Any, geographic: Any) -> list[Column]:
    """Return the public description of each feature."""
    pairs = _per_feature(bounds, names, "bounds", pair=True)
    steps = [None] * len(names)
    if resolution is not None:
        steps = _per_feature(resolution, names, "resolution", pair=False)
    kinds = _check_geographic(geographic, names)
    columns = []
    for name, pair, step in zip(names, pairs, steps, strict=True):
        lower, upper = _check_pair(name, pair)
        width = upper - lower
        fine = width / STEPS if step is None else check_number(step, f"resolution of {name!r}")
        if not FINEST * width <= fine <= width:
            raise PrivacyError(
                f"resolution of {name!r} = {fine:g} must be greater than 0, at least {FINEST:g} of the range of its "
                "bounds, and at most the range."
            )
        columns.append(
            Column(
                name=name,
                description="",
                type="number",
                geographic=kinds.get(name),
                lower=lower,
                upper=upper,
                bound_reason="stated by the caller",
                resolution=fine,
            )
        )
    return columns


def check_number(value: Any, what: str) -> float:
    """Return a finite number."""
    try:
        number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise PrivacyError(f"{what} = {value!r} must be a finite number.")
    return number


def check_count(value: Any, what: str) -> int:
    """Return a whole number of at least 1."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise PrivacyError(f"{what} = {value!r} must be an integer of at least 1.")
    return int(value)


def check_components(given: Any) -> tuple[int, ...]:
    """Return the number of components, or the numbers to choose from."""
    several = [given] if isinstance(given, numbers.Integral) or np.ndim(given) == 0 else list(given)
    if not several:
        raise PrivacyError("n_components is empty; give an integer of at least 1, or several of them.")
    return tuple(sorted({check_count(number, "n_components") for number in several}))


def check_parameters(given: Any) -> dict[str, Any]:
    """Return the parameters of a mechanism as plain values."""
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(key, str) for key in given)):
        raise PrivacyError(f"mechanism_params = {given!r} must be a dictionary with names as keys.")
    return {
        key: value.item() if isinstance(value, np.generic) else value for key, value in (given or {}).items()
    }


def check_groups(groups: Any, rows: int) -> pa.Array:
    """Return the person of each record as text."""
    if groups is None:
        raise PrivacyError("unit='person' needs the person behind each record: call fit(X, groups=persons).")
    given = np.asarray(groups)
    if given.shape != (rows,):
        raise PrivacyError(
            f"groups must have shape ({rows},), one person for each record; got {given.shape}."
        )
    masked = isinstance(groups, np.ma.MaskedArray) and np.ma.getmaskarray(groups).any()
    if masked or pd.isna(given).any():
        raise PrivacyError("groups must name the person of every record; some are missing.")
    ids = given.tolist()
    if len({type(each) for each in ids}) > 1:
        raise PrivacyError(
            "groups mixes types, so that one person could have several ids; use one type, for instance text."
        )
    if given.dtype.kind == "f" or isinstance(ids[0], float):
        ids = [each + 0.0 for each in ids]  # -0.0 and 0.0 are one person
    return pa.array([str(each) for each in ids], pa.string())


def hide_values(message: str) -> str:
    """Return an error message of scikit-learn without the values of X that it may quote."""
    if message.startswith("The feature names"):
        return message
    first = message.split("\n")[0]
    if first.startswith("Expected 2D array"):
        return "Expected 2D array of shape (records, features). Reshape your data."
    return re.sub(
        r"(could not convert string to float|invalid literal)[^:]*:.*",
        r"\1: X must hold numbers only.",
        first,
    )


def _per_feature(given: Any, names: Sequence[str], what: str, *, pair: bool) -> list[Any]:
    """Return the value of each feature: from a mapping by name, from a sequence, or the same for all."""
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        extra = [str(name) for name in given if name not in names]
        if missing or extra:
            raise PrivacyError(
                f"{what} must name every feature of X and no other; missing: {', '.join(missing) or 'none'}, "
                f"unknown: {', '.join(extra) or 'none'}."
            )
        return [given[name] for name in names]
    if not isinstance(given, str | pd.DataFrame):
        try:
            depth = np.ndim(given)
        except ValueError:  # pairs of different lengths
            depth = -1
        if depth == int(pair):
            return [given] * len(names)
        if depth == int(pair) + 1 and len(given) == len(names):
            return list(given)
    one = "one pair (lower, upper)" if pair else "one number"
    raise PrivacyError(
        f"{what} must be {one} for all features, one for each of the {len(names)} features of X, or a dictionary by "
        "feature name."
    )


def _check_pair(name: str, given: Any) -> Pair:
    if np.ndim(given) != 1 or len(given) != 2:
        raise PrivacyError(f"bounds of {name!r} = {given!r} must be a pair (lower, upper).")
    lower, upper = (check_number(value, f"bounds of {name!r}") for value in given)
    if not lower < upper:
        raise PrivacyError(f"bounds of {name!r} = ({lower:g}, {upper:g}): lower must be less than upper.")
    largest = max(abs(lower), abs(upper))
    if largest > LARGEST_BOUND or upper - lower < max(largest * NARROWEST, 1 / LARGEST_BOUND):
        raise PrivacyError(
            f"bounds of {name!r} = ({lower:g}, {upper:g}) are too large or too close together for floating-point "
            "numbers; change the unit or the origin of the feature."
        )
    return lower, upper


def _check_geographic(given: Any, names: Sequence[str]) -> dict[str, Geographic]:
    """Return which features are a latitude or a longitude."""
    if given is not None and not isinstance(given, Mapping):
        raise PrivacyError(
            f"geographic = {given!r} must be a dictionary from features to 'latitude' or 'longitude'."
        )
    kinds: dict[str, Geographic] = {}
    for feature, kind in (given or {}).items():
        number = int(feature) if isinstance(feature, numbers.Integral) else -1
        name = names[number] if 0 <= number < len(names) else feature
        if name not in names or kind not in ("latitude", "longitude"):
            raise PrivacyError(
                f"geographic = {given!r} must map features of X ({', '.join(names)}) to 'latitude' or 'longitude'."
            )
        kinds[str(name)] = "latitude" if kind == "latitude" else "longitude"
    return kinds
