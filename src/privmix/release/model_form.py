"""The form of a released model that does not depend on its mechanism: texts, domain, columns and mixture."""

import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.clean.normalisation import (
    attribute_column,
    axes_of_columns,
    axis_column,
    column_attribute,
    state_attributes,
)
from privmix.errors import UserError
from privmix.mechanisms.base import Spec
from privmix.release.folder import MODEL, Gaussians, ReleasedModel
from privmix.release.transcripts import check_components, numbers, widest_variance

LONGEST_TEXT, MOST_LETTERS = 5000, 100_000  # letters of one text, and of all texts together
# Code points that are drawn as nothing (Unicode: Default_Ignorable_Code_Point), beyond control and format characters
IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u2028\u2029\u205f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffe\uffff\U00016fe4\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Letters of the scripts that need joiners: Arabic, Syriac, N'Ko, Indic, Khmer, Mongolian
JOINING = "\u0600-\u07ff\u08a0-\u08ff\u0900-\u0dff\u1780-\u18af\ua840-\ua87f\ua8e0-\ua8ff"
JOINERS = re.compile(f"(?<=[{JOINING}])[\u200c\u200d](?=[{JOINING}])")
MOST_MARKS = 4  # on one letter
MOST_LEFT_OUT = 1000  # columns of the source that are not in the release


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
        kinds = [unicodedata.category(letter) for letter in visible]
        marks = "".join("m" if kind in ("Mn", "Me") else " " for kind in kinds)
        if (
            IGNORED.search(visible)
            or set(kinds) & {"Cc", "Cf", "Cn", "Co", "Cs"}
            or "m" * (MOST_MARKS + 1) in marks
        ):
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
        derived = axes_of_columns([axis_column(axis) for axis in domain.axes], domain.dataset)
    except (ValueError, ArithmeticError) as error:
        raise UserError(f"{MODEL}: the public bounds of a coordinate are not valid.") from error
    for one, other in zip(derived, domain.axes, strict=True):
        moved = other.model_copy(update={"centre": one.centre, "scale": one.scale})
        if one != moved or not all(
            math.isclose(getattr(one, n), getattr(other, n), rel_tol=1e-12) for n in ("centre", "scale")
        ):
            raise UserError(f"{MODEL}: the map into the unit ball does not follow from the public bounds.")
    _check_attributes(domain)
    if not all(name.strip() for name in (domain.title, *made.columns, *made.left_out)):
        raise UserError(f"{MODEL} has a title or a name of a column without letters; do not publish it.")
    shared = {share.attribute for share in model.proportions}
    attributes = {attribute.name for attribute in domain.attributes}
    states = {state.name for state in domain.states.values()}
    known = {*(axis.name for axis in domain.axes), *model.shares} - states
    names = [*made.columns, *made.left_out]
    if set(made.columns) != known or len(set(names)) != len(names) or not attributes <= {*names, *states}:
        raise UserError(f"{MODEL}: the columns of the synthetic rows do not follow from the domain.")
    strange = bool(model.proportions) and (not model.local or shared != set(model.shares))
    if strange or not set(model.shares) <= attributes:
        raise UserError(f"{MODEL} states shares that its mechanism does not measure.")
    if len(made.left_out) > MOST_LEFT_OUT:
        raise UserError(
            f"{MODEL} lists {len(made.left_out):,} columns that were left out; a release lists at most "
            f"{MOST_LEFT_OUT:,}, so remove columns that the model does not use from the catalog entry."
        )
    if domain.unit == "record" and (domain.persons is not None or domain.max_records_per_person != 1):
        raise UserError(f"{MODEL} states a number of persons or of their records, but protects records.")
    if not 1 <= made.rows <= 2**40:
        raise UserError(f"{MODEL}: {made.rows} synthetic rows are not possible.")


def _check_attributes(domain: Domain) -> None:
    """Check that the attributes are those of columns of a catalog entry, and then the states of the coordinates."""
    plain = [each for each in domain.attributes if not each.state_of]
    try:
        derived = [column_attribute(attribute_column(each)) for each in plain]
    except ValueError as error:  # of pydantic too
        raise UserError(
            f"{MODEL}: the values of an attribute are not those of a column of a catalog entry; do not publish it."
        ) from error
    if [*derived, *state_attributes(domain.axes)] != list(domain.attributes):
        raise UserError(f"{MODEL}: the attributes do not follow from the types of the columns.")


def check_mixtures(model: ReleasedModel, most: int) -> None:
    """Check the form of the mixture: what every mechanism guarantees, and the same mixture in both systems of units.

    `most`: the largest number of components that the plan of its mechanism allows.

    A naive fit to noisy reports, and DP-EM, may give components that are wider than the public box.
    """
    size, d = len(model.normalised.weights), len(model.domain.axes)
    if not 1 <= size <= most:
        raise UserError(
            f"{MODEL}: the mixture has {size} components, more than its mechanism can have, or none."
        )
    spec = Spec(model.domain, size)
    weights, means = numbers(model.normalised.weights, size), numbers(model.normalised.means, size, d)
    covariances = numbers(model.normalised.covariances, size, d, d)
    check_components(weights, covariances, spec.floor)
    for attribute in model.domain.attributes:
        if attribute.name in model.shares:
            shares = numbers(model.shares[attribute.name], size, len(attribute.values))
            if shares.min() < 0 or not np.allclose(shares.sum(axis=1), 1, rtol=0, atol=1e-9):
                raise UserError(
                    f"{MODEL}: the shares of {attribute.name!r} are no distribution; do not publish it."
                )
    naive = model.local and model.parameters.get("fit") == "naive"
    slack = 1e-9 * (spec.domain.upper - spec.domain.lower)
    inside = (means >= spec.domain.lower - slack) & (means <= spec.domain.upper + slack)
    if not (naive or inside.all()):
        raise UserError(f"{MODEL}: a mean of the mixture lies outside the public box; do not publish it.")
    widest = 1.0 if model.method == "dp_em" or not d else widest_variance(spec)
    if d and not naive and np.linalg.eigvalsh(covariances).max() > widest * (1 + 1e-6):
        raise UserError(f"{MODEL}: a component is wider than the public box; do not publish it.")
    axes = model.domain.axes
    centre, scale = (np.array([getattr(axis, name) for axis in axes]) for name in ("centre", "scale"))
    back = Gaussians.of(model.normalised.mixture.restore(centre, scale))
    # A mixture divides its weights by their sum, which changes the last digit once more.
    same = np.allclose(model.original.weights, back.weights, rtol=1e-14, atol=0)
    if not same or (model.original.means, model.original.covariances) != (back.means, back.covariances):
        raise UserError(
            f"{MODEL}: the mixture in original units is not the mixture in the unit ball; do not publish it."
        )
