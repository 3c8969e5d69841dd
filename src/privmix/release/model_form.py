"""The form of a released model that does not depend on its mechanism: texts, domain, columns and mixture."""

import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np

from privmix.catalog.entry import Column
from privmix.clean.normalisation import axes_of_columns
from privmix.errors import UserError
from privmix.release.folder import MODEL, ReleasedModel
from privmix.release.transcripts import numbers

LONGEST_TEXT, MOST_LETTERS = 5000, 100_000  # letters of one text, and of all texts together
# Code points that are drawn as nothing (Unicode: Default_Ignorable_Code_Point), beyond control and format characters
IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
JOINERS = re.compile("(?<=\\w)[\u200c\u200d](?=\\w)")  # Persian and Indic scripts need them between letters


def check_texts(content: Any) -> None:
    """Refuse long texts, and letters that no reader sees."""
    texts = list(_texts(content))
    if max(map(len, texts)) > LONGEST_TEXT or sum(map(len, texts)) > MOST_LETTERS:
        raise UserError(
            f"{MODEL} has a text of more than {LONGEST_TEXT:,} letters, or more than {MOST_LETTERS:,} in all; shorten "
            "the texts of the catalog entry."
        )
    for text in texts:
        visible = JOINERS.sub("", text)
        categories = {unicodedata.category(letter) for letter in visible}
        if IGNORED.search(visible) or categories & {"Cc", "Cf", "Co", "Cs"}:
            raise UserError(f"{MODEL} has invisible letters in a text; remove them from the catalog entry.")


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts at any depth, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(inner)


def check_domain(model: ReleasedModel) -> None:
    """Check that the map into the unit ball follows from the public bounds, and the columns from the domain."""
    domain, made = model.domain, model.synthetic
    try:
        columns = [
            Column(
                name=axis.name,
                description=axis.description,
                type="number",
                unit=axis.unit,
                geographic=axis.geographic,
                lower=axis.lower,
                upper=axis.upper,
                bound_reason="public",
                resolution=axis.resolution,
            )
            for axis in domain.axes
        ]
        derived = axes_of_columns(columns, domain.dataset)
    except (ValueError, ArithmeticError) as error:
        raise UserError(f"{MODEL}: the public bounds of a coordinate are not valid.") from error
    for one, other in zip(derived, domain.axes, strict=True):
        if not all(
            math.isclose(getattr(one, n), getattr(other, n), rel_tol=1e-12) for n in ("centre", "scale")
        ):
            raise UserError(f"{MODEL}: the map into the unit ball does not follow from the public bounds.")
    shared = {share.attribute for share in model.proportions}
    known = {*(axis.name for axis in domain.axes), *shared}
    names = [*made.columns, *made.left_out]
    attributes = {attribute.name for attribute in domain.attributes}
    if set(made.columns) != known or len(set(names)) != len(names) or not attributes <= set(names):
        raise UserError(f"{MODEL}: the columns of the synthetic rows do not follow from the domain.")
    if (model.proportions and not model.local) or not shared <= attributes or len(made.left_out) > 1000:
        raise UserError(f"{MODEL} states shares that its mechanism does not measure.")
    if domain.unit == "record" and domain.persons is not None:
        raise UserError(f"{MODEL} states a number of persons, but protects records.")
    if not 1 <= made.rows <= 2**40:
        raise UserError(f"{MODEL}: {made.rows} synthetic rows are not possible.")


def check_mixtures(model: ReleasedModel) -> None:
    """Check the form of the mixture, and that it is the same in both systems of units."""
    size, d = len(model.normalised.weights), len(model.domain.axes)
    if not 1 <= size <= max(model.components):
        raise UserError(f"{MODEL}: the mixture has {size} components, more than requested, or none.")
    for part in (model.normalised, model.original):
        weights, covariances = numbers(part.weights, size), numbers(part.covariances, size, d, d)
        numbers(part.means, size, d)
        least = np.linalg.eigvalsh(covariances)[:, 0]
        if (weights < 0).any() or abs(weights.sum() - 1) > 1e-9 or not (least > 0).all():
            raise UserError(f"{MODEL}: the mixture is no mixture: check its weights and covariances.")
        if not np.allclose(covariances, covariances.transpose(0, 2, 1), rtol=1e-9, atol=1e-300):
            raise UserError(f"{MODEL}: a covariance of the mixture is not symmetric.")
    axes = model.domain.axes
    centre, scale = (np.array([getattr(axis, name) for axis in axes]) for name in ("centre", "scale"))
    back, original = model.normalised.mixture.restore(centre, scale), model.original.mixture
    width = np.array([axis.upper - axis.lower for axis in axes])
    same = np.array_equal(back.weights, original.weights)
    same = same and bool((np.abs(back.means - original.means) <= 1e-12 * (width + np.abs(centre))).all())
    if not same or not np.allclose(back.covariances, original.covariances, rtol=1e-12, atol=0):
        raise UserError(
            f"{MODEL}: the mixture in original units is not the mixture in the unit ball; do not publish it."
        )
