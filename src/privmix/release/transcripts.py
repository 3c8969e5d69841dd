"""The transcript of a release: its keys, shapes and lattice, by the public plan, and nothing else.

Every noisy number of a release is a whole number of steps of 2^-20 (`privacy.exact`). Numbers of a benchmark are not,
so a benchmark model that calls itself a release is noticed. Some mechanisms store a number after a division by a
public or measured number; the division is undone here, up to its rounding error.
"""

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from privmix.errors import UserError
from privmix.mechanisms.base import Spec
from privmix.mechanisms.central.dp_em import DpEm
from privmix.mechanisms.central.dp_sgd import DpSgd
from privmix.mechanisms.central.noisy_grid import NoisyGrid
from privmix.mechanisms.central.noisy_moments import NoisyMoments
from privmix.mechanisms.central.noisy_tree import NoisyTree, _bisection, root_levels
from privmix.mechanisms.central.output_noise import OutputNoise
from privmix.mechanisms.central.posterior_sample import PosteriorSample
from privmix.mechanisms.central.tree_then_moments import TreeThenMoments
from privmix.mechanisms.shared import joint_moments
from privmix.mixture import deviation, gradient
from privmix.mixture.moments import upper_triangle
from privmix.privacy.accounting import Budget
from privmix.privacy.calibration import noise_multipliers_by_share
from privmix.privacy.exact import STEP
from privmix.privacy.privtree import TreeShape
from privmix.release.folder import MODEL
from privmix.release.public_plan import PublicPlan, moment_stages

DIVIDED = 2.0**-10  # of a step: how far a divided and multiplied number may be from the lattice
ROUNDED = 2.0**-49  # relative rounding error of a division and a multiplication
SUM_OF_WEIGHTS = 1e-9

Entry = dict[str, Any]


def check_transcript(transcript: Sequence[Entry], plan: PublicPlan) -> None:
    """Refuse a transcript that the plan does not demand, or that has a number off the lattice."""
    entries = list(transcript)
    if plan.chosen is not None:
        entries = entries[1:]  # `public_plan` has read the choice of the number of components
    mechanism, spec, budget = plan.mechanism, plan.spec, plan.budget
    if mechanism.randomises_records:
        _demand(not entries, "the reports are the only measurements of a local mechanism")
    elif isinstance(mechanism, NoisyGrid):
        _demand(len(entries) == 1, "one measurement")
        _grid(entries[0], mechanism, spec, budget)
    elif isinstance(mechanism, NoisyTree):
        _demand(len(entries) == 1, "one measurement")
        _tree(entries[0], mechanism, spec, budget)
    elif isinstance(mechanism, TreeThenMoments):
        _demand(len(entries) == 1 + mechanism.iterations, "the number of measurements")
        _tree(entries[0], NoisyTree(), spec, Budget(mechanism.tree_share * budget.epsilon, 0.0))
        components = {len(entry["counts"]) for entry in entries[1:] if isinstance(entry.get("counts"), list)}
        _demand(len(components) == 1 and max(components) <= spec.n_components, "the number of components")
        for entry in entries[1:]:
            _moments(entry, {"stage": "moments"}, max(components), spec)
    elif isinstance(mechanism, NoisyMoments):
        stages = moment_stages(mechanism.schedule(spec, budget, mechanism.relation(spec)))
        _demand(len(entries) == len(stages), "the number of measurements")
        for entry, (label, number) in zip(entries, stages, strict=True):
            _moments(entry, {"stage": label}, number, spec)
    elif isinstance(mechanism, DpEm):
        _demand(len(entries) == mechanism.iterations, "the number of iterations")
        size = spec.domain.rows if mechanism.relation(spec).size_is_public else 1
        for number, entry in enumerate(entries):
            _em_iteration(entry, number, spec, size)
    elif isinstance(mechanism, DpSgd):
        _demand(len(entries) == 1 + mechanism.steps, "the number of steps")
        _mixture(_only(entries[0], "start")["start"], spec.n_components, spec)
        for number, entry in enumerate(entries[1:]):
            _demand(_only(entry, "step", "gradient")["step"] == number, "the steps in order")
            length = gradient.size(spec.n_components, len(spec.domain.axes))
            _on_lattice(numbers(entry["gradient"], length))
    elif isinstance(mechanism, OutputNoise):
        _demand(len(entries) == 1, "one sum over blocks")
        _blocks(entries[0], mechanism, spec, budget)
    elif isinstance(mechanism, PosteriorSample):
        _posterior(entries, mechanism, spec)
    else:
        raise UserError(f"{MODEL}: the transcript of {type(mechanism).__name__} has no known form.")


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise UserError(
            f"{MODEL}: the transcript is not the one that the plan of the mechanism demands ({what}); "
            "do not publish it."
        )


def _only(entry: Entry, *keys: str) -> Entry:
    """Return the entry if it has exactly these keys."""
    extra = sorted(set(entry) - set(keys))
    _demand(not extra, f"a key {extra[0][:40]!r}" if extra else "")
    _demand(tuple(entry) == keys, f"the keys {', '.join(keys)}")
    return entry


def numbers(value: Any, *shape: int) -> np.ndarray:
    """Return nested lists of finite numbers as an array of exactly this shape."""
    _demand(_has_shape(value, shape), f"{' x '.join(map(str, shape))} numbers")
    array = np.array(value, dtype=np.float64)
    _demand(bool(np.isfinite(array).all()), "finite numbers")
    return array


def _has_shape(value: Any, shape: tuple[int, ...]) -> bool:
    if not shape:
        return type(value) in (float, int)
    return isinstance(value, list) and len(value) == shape[0] and all(_has_shape(v, shape[1:]) for v in value)


def _on_lattice(values: np.ndarray, slack: float = 0.0) -> None:
    """Refuse numbers that are not whole steps of the lattice, up to a slack in steps and the rounding of a product."""
    steps = values / STEP
    apart = np.abs(steps - np.rint(steps))
    if not (apart <= slack + (np.abs(steps) * ROUNDED if slack else 0.0)).all():
        raise UserError(
            f"{MODEL}: a noisy number lies off the lattice of 2^-20, so it comes from no release; do not publish it."
        )


def _text_bytes(value: Any) -> bytes:
    """Return base64 text as bytes. Refuse a text that is not the only one for its bytes."""
    try:
        content = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        content = None
    _demand(content is not None and base64.b64encode(content).decode() == value, "base64 text")
    assert content is not None
    return content


def _counts(value: Any, size: int) -> None:
    content = _text_bytes(value)
    _demand(len(content) == 8 * size, f"{size} counts")
    counts = np.frombuffer(content, dtype="<f8")
    _demand(bool(np.isfinite(counts).all()), "finite counts")
    _on_lattice(counts)


def _grid(entry: Entry, mechanism: NoisyGrid, spec: Spec, budget: Budget) -> None:
    _only(entry, "shape", "counts")
    grid = mechanism.grid(spec, budget.epsilon)
    _demand(entry["shape"] == list(grid.shape), f"a grid of {grid.shape}")
    _counts(entry["counts"], grid.cells)


def _tree(entry: Entry, mechanism: NoisyTree, spec: Spec, budget: Budget) -> None:
    _only(entry, "roots", "splits", "counts")
    depth = _bisection(spec).depth
    roots = root_levels(spec, mechanism.relation(spec), mechanism.split(budget)[0], depth)
    _demand(type(entry["roots"]) is int and entry["roots"] == roots, f"{roots} levels of roots")
    shape = check_shape(entry["splits"], roots, depth)
    _counts(entry["counts"], len(shape.leaves()[0]))


def check_shape(value: Any, first: int, depth: int) -> TreeShape:
    """Return the tree of a packed shape. Refuse one that is deeper than allowed or has bits to spare."""
    content = _text_bytes(value)
    _demand(len(content) * 8 >= 1 << first, "a complete tree")
    shape = TreeShape.unpacked(first, value)
    sizes = [1 << first, *(2 * int(split.sum()) for split in shape.splits[:-1])]
    _demand([len(split) for split in shape.splits] == sizes, "a complete tree")
    _demand(first + len(shape.splits) - 1 <= depth, f"a tree of at most {depth} levels")
    _demand(shape.packed() == value, "a tree without spare bits")
    return shape


def _moments(entry: Entry, first: Entry, components: int, spec: Spec) -> None:
    """Check one joint measurement: its parts are whole steps times the weights of `joint_moments.scheme`."""
    _only(entry, *first, "counts", "sums", "squares")
    for key, value in first.items():
        _demand(type(entry[key]) is type(value) and entry[key] == value, f"{key} = {value}")
    d = len(spec.domain.axes)
    scheme = joint_moments.scheme(d)
    rows, columns, factor = upper_triangle(d)
    squares = _symmetric(entry["squares"], components, d)
    _on_lattice(numbers(entry["counts"], components) * scheme.count, DIVIDED)
    _on_lattice(numbers(entry["sums"], components, d) * scheme.total, DIVIDED)
    _on_lattice(squares[:, rows, columns] * scheme.square * factor, DIVIDED)


def _symmetric(value: Any, components: int, d: int) -> np.ndarray:
    matrices = numbers(value, components, d, d)
    _demand(bool((matrices == matrices.transpose(0, 2, 1)).all()), "symmetric matrices")
    return matrices


def _em_iteration(entry: Entry, number: int, spec: Spec, size: int) -> None:
    _demand(
        _only(entry, "iteration", "counts", "sums", "squares")["iteration"] == number, "iterations in order"
    )
    k, d = spec.n_components, len(spec.domain.axes)
    counts = numbers(entry["counts"], k)
    _demand(bool((counts >= 1).all()), "counts of at least 1")
    sums, squares = numbers(entry["sums"], k, d), _symmetric(entry["squares"], k, d)
    _on_lattice(counts[counts > 1] / size, DIVIDED)
    _on_lattice(sums / counts[:, None], DIVIDED)
    _on_lattice(squares / counts[:, None, None], DIVIDED)


def _mixture(value: Any, components: int, spec: Spec) -> None:
    """Check a mixture that follows from measurements: shapes, weights, means in the public box, symmetric matrices."""
    _demand(isinstance(value, dict), "a mixture")
    _only(value, "weights", "means", "covariances")
    d = len(spec.domain.axes)
    weights = numbers(value["weights"], components)
    means = numbers(value["means"], components, d)
    covariances = numbers(value["covariances"], components, d, d)
    _demand(bool((weights >= 0).all()) and math.isclose(weights.sum(), 1, abs_tol=SUM_OF_WEIGHTS), "weights")
    _demand(np.allclose(covariances, covariances.transpose(0, 2, 1), rtol=1e-9, atol=1e-15), "covariances")
    _inside(means, spec)


def _inside(places: np.ndarray, spec: Spec) -> None:
    slack = 1e-9 * (spec.domain.upper - spec.domain.lower)
    held = (places >= spec.domain.lower - slack) & (places <= spec.domain.upper + slack)
    _demand(bool(held.all()), "means in the public box")


def _blocks(entry: Entry, mechanism: OutputNoise, spec: Spec, budget: Budget) -> None:
    _only(entry, "reference", "blocks", "sum")
    _mixture(entry["reference"], spec.n_components, spec)
    share = mechanism.reference_share
    blocks = mechanism.number_of_blocks(spec, noise_multipliers_by_share([share, 1 - share], budget)[1])
    _demand(type(entry["blocks"]) is int and entry["blocks"] == blocks, f"{blocks} blocks")
    size = deviation.component_size(len(spec.domain.axes))
    _on_lattice(numbers(entry["sum"], spec.n_components, size))


def _posterior(entries: list[Entry], mechanism: PosteriorSample, spec: Spec) -> None:
    k, d = spec.n_components, len(spec.domain.axes)
    _demand(len(entries) == 2 + mechanism.iterations + mechanism.samples, "the number of entries")
    _mixture(_only(entries[0], "reference")["reference"], k, spec)
    for number in range(mechanism.iterations):
        _moments(entries[1 + number], {"iteration": number}, k, spec)
    intervals = _only(entries[1 + mechanism.iterations], "intervals")["intervals"]
    _demand(isinstance(intervals, list) and len(intervals) == k, "an interval of each component")
    for component, interval in enumerate(intervals):
        _demand(isinstance(interval, dict), "an interval")
        _demand(
            _only(interval, "component", "lower", "upper")["component"] == component, "components in order"
        )
        lower, upper = numbers(interval["lower"], d), numbers(interval["upper"], d)
        _demand(bool((lower <= upper).all()), "lower ends below upper ends")
        _inside(np.array([lower, upper]), spec)
    for entry in entries[2 + mechanism.iterations :]:
        _mixture(_only(entry, "draw")["draw"], k, spec)
