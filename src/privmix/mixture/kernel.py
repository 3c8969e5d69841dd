"""One pass over the data, which turns records and parameters into sufficient statistics.

log N(x; μ, Σ) is linear in φ(x) = [1, x, vech(xxᵀ)]. So a pass is a product of coefficients and features, a softmax,
and a second product with the features. numpy computes them as two matrix products, `kernel_numba` as one compiled
loop over blocks of records. The loop is faster up to `FUSED_DIMENSIONS`, but importing numba takes most of a second.

The rounding error of the log-densities is about 1e-16 ‖x‖²/σ² for the smallest standard deviation σ. Keep records in
the unit ball and σ well above 1e-7 (`em.fit` does both).

The pieces of the records are the same for any number of threads, and their results are added in order. So the result
does not depend on the number of threads.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import islice
from types import ModuleType
from typing import Any, cast

import numpy as np

from privmix.errors import UserError
from privmix.mixture.model import Mixture
from privmix.mixture.moments import (
    Data,
    Moments,
    Observations,
    Parameters,
    observe,
    symmetric_matrix,
    upper_triangle,
)

FUSED_DIMENSIONS = (
    24  # with 200,000 records the loop is faster in 20 dimensions (K = 10), BLAS in 30 (K = 20)
)
PIECE = 65536  # records per task
PARTS = 256  # parts of the records per task, if each part has its own mixture
CELLS = 131072  # numbers in the larger array of one matrix product, so that it stays in the cache
WORTH_IMPORTING = 2_000_000  # records times components; a numpy pass over them takes about 30 ms
GROUP = (
    3  # number of features that the compiled loops process together; features are padded to a multiple of it
)
LOG_TWO_PI = float(np.log(2 * np.pi))
LOG_ZERO = -1e300  # log of a weight of zero; infinity would turn a product into NaN
NO_SPREAD = np.empty((0, 0))  # tells the loops that the records have no spread


def em_pass(
    points: Data | np.ndarray,
    mixture: Mixture,
    weights: np.ndarray | None = None,
    *,
    threads: int | None = None,
) -> Moments:
    """Compute the E-step and the moments in one pass, without an array of records by components.

    Use numpy if the compiled loops are not loaded yet and the pass is too small to be worth their import.
    """
    has_blocks = weights is None and hasattr(points, "blocks")
    data = cast(Data, points) if has_blocks else observe(points, weights)
    loaded = "privmix.mixture.kernel_numba" in sys.modules
    fused = loaded or len(data) * mixture.n_components >= WORTH_IMPORTING
    return _passes([data], Parameters.of([mixture]), threads, fused)[0]


def em_passes(data: Sequence[Data], parameters: Parameters, *, threads: int | None = None) -> Moments:
    """Compute a pass over data m at parameters m for each m, and return the stacked moments.

    This always uses the compiled loops, where they are faster: the caller is expected to make many passes.
    """
    return _passes(data, parameters, threads, fused=True)


def _passes(data: Sequence[Data], parameters: Parameters, threads: int | None, fused: bool) -> Moments:
    m, _, d = parameters.means.shape
    if len(data) != m or any(each.dimensions != d for each in data):
        raise UserError(
            f"each of {m} mixtures in {d} dimensions needs one set of records in {d} dimensions, "
            f"but there are {len(data)} sets in {sorted({each.dimensions for each in data})} dimensions."
        )
    fused = fused and d <= FUSED_DIMENSIONS
    run = numba_kernel().fused_pass if fused else wide_pass
    table = coefficients(parameters)
    statistics, log_likelihood = np.zeros(table.shape), np.zeros(m)

    def task(piece: tuple[int, Observations, int, int]) -> tuple[int, np.ndarray, float]:
        number, block, first, last = piece
        sums = np.zeros(table.shape[1:])
        return number, sums, run(*_arrays(block), table[number], first, last, sums)

    with nullcontext() if fused else _one_blas_thread():
        for number, sums, likelihood in run_tasks(task, pieces(data), threads):
            statistics[number] += sums
            log_likelihood[number] += likelihood
    return _moments(statistics, log_likelihood, d)


def passes_over_parts(
    whole: Observations, ends: np.ndarray, parameters: Parameters, *, threads: int | None = None
) -> Moments:
    """Compute a pass over the records ends[m] to ends[m + 1] at parameters m for each m. m may reach thousands."""
    m, _, d = parameters.means.shape
    if len(ends) != m + 1 or whole.dimensions != d:
        raise UserError(f"{m} mixtures in {d} dimensions need {m} parts of records in {d} dimensions.")
    table = coefficients(parameters)
    statistics, log_likelihood = np.zeros(table.shape), np.zeros(m)
    run = numba_kernel().fused_passes

    def task(first: int) -> None:
        rows = slice(first, first + PARTS)
        run(
            *_arrays(whole),
            ends[first : first + PARTS + 1],
            table[rows],
            statistics[rows],
            log_likelihood[rows],
        )

    deque(run_tasks(task, range(0, m, PARTS), threads), maxlen=0)
    return _moments(statistics, log_likelihood, d)


def mixed_pass(
    points: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    parameters: Parameters,
    shares: np.ndarray,
    *,
    threads: int | None = None,
) -> tuple[Moments, np.ndarray]:
    """Compute a pass over records with attributes: the moments, stacked, and the counts of the values, (K, T).

    `shares` (K, T) are the shares of the values of all attributes side by side; `codes` (n, A) are its columns.
    """
    table, log_shares = coefficients(parameters)[0], np.log(shares)
    statistics, counts, log_likelihood = np.zeros(table.shape), np.zeros(shares.shape), 0.0
    run = numba_kernel().mixed_pass

    def task(first: int) -> tuple[np.ndarray, np.ndarray, float]:
        sums, found, last = np.zeros(table.shape), np.zeros(shares.shape), min(first + PIECE, len(points))
        return sums, found, run(points, codes, weights, table, log_shares, first, last, sums, found)

    for sums, found, likelihood in run_tasks(task, range(0, len(points), PIECE), threads):
        statistics += sums
        counts += found
        log_likelihood += likelihood
    return _moments(statistics[None], np.array([log_likelihood]), points.shape[1]), counts


def _moments(statistics: np.ndarray, log_likelihood: np.ndarray, d: int) -> Moments:
    if not np.isfinite(log_likelihood).all():
        raise UserError(
            "the records are too far from the mixture for floating point; scale both to the unit ball first."
        )
    counts = statistics[..., 0]
    return Moments(
        counts=counts,
        sums=statistics[..., 1 : 1 + d],
        squares=symmetric_matrix(statistics[..., 1 + d : (d + 1) * (d + 2) // 2], d),
        log_likelihood=log_likelihood,
        total_weight=counts.sum(axis=1),
    )


def log_joint(observations: Observations, mixture: Mixture) -> np.ndarray:
    """Compute log(weight × density), (K, n), for a sample or a piece. The array is too large for all the data."""
    joint = np.empty((mixture.n_components, len(observations)))
    points, spread, _ = _arrays(observations)
    numba_kernel().log_joints(points, spread, coefficients(Parameters.of([mixture]))[0], joint)
    return joint


def coefficients(parameters: Parameters) -> np.ndarray:
    """Compute W with log(π_k N_k(x)) = W_k · φ(x), (m, K, p), with p padded with zeros to a multiple of `GROUP`.

    With Σ = LLᵀ and y = (1, x), the exponent -½‖L⁻¹(x - μ)‖² is -½ yᵀGy, where G = BᵀB and B = [-L⁻¹μ, L⁻¹]. The
    upper triangle of G is in the order of φ. It is doubled off the diagonal because φ has each product once.
    """
    m, k, d = parameters.means.shape
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(parameters.covariances))
    except np.linalg.LinAlgError as error:
        raise UserError("a covariance is not positive definite; floor its eigenvalues above zero.") from error
    rows, columns, factor = upper_triangle(d + 1, -0.5, -1.0)
    table = np.zeros((m, k, -(-len(rows) // GROUP) * GROUP))
    affine = np.concatenate([inverse @ -parameters.means[..., None], inverse], axis=-1)
    table[..., : len(rows)] = (np.swapaxes(affine, -1, -2) @ affine)[..., rows, columns] * factor
    with np.errstate(divide="ignore"):
        log_weights = np.maximum(np.log(parameters.weights), LOG_ZERO)
    log_scale = np.log(np.diagonal(inverse, axis1=-2, axis2=-1)).sum(axis=-1)
    table[..., 0] += log_weights + log_scale - 0.5 * d * LOG_TWO_PI
    return table


@cache
def numba_kernel() -> ModuleType:
    """Import and return the compiled loops, `mixture.kernel_numba`. This also imports numba."""
    try:
        from privmix.mixture import kernel_numba as loops
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        raise UserError(
            "numba finds no folder for compiled code: it can write neither to the installed package nor to the "
            "user's cache; set NUMBA_CACHE_DIR to a folder that it can write to."
        ) from error
    return loops


def default_threads() -> int:
    """Return the value of OMP_NUM_THREADS, which Snakemake sets to the `threads` of a rule, or 1 if it is not set."""
    said = os.environ.get("OMP_NUM_THREADS", "1").split(",")[0]
    return max(int(said), 1) if said.isdecimal() else 1


def _arrays(block: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return block.points, NO_SPREAD if block.spread is None else block.spread, block.weights


def pieces(data: Sequence[Data]) -> Iterator[tuple[int, Observations, int, int]]:
    """Iterate over the tasks of a pass: the number of the data, a block of it, and the first row and end of a piece."""
    for number, each in enumerate(data):
        for block in each.blocks():
            for first in range(0, len(block), PIECE):
                yield number, block, first, min(first + PIECE, len(block))


def wide_pass(
    points: np.ndarray,
    spread: np.ndarray,
    weights: np.ndarray,
    table: np.ndarray,
    first: int,
    last: int,
    statistics: np.ndarray,
) -> float:
    """Add the statistics of records first..last to `statistics` (K, p), and return their log-likelihood."""
    d = points.shape[1]
    width = min(max(CELLS // max(table.shape), 128), 4096)
    features = np.zeros((table.shape[1], width))
    features[0] = 1.0
    log_likelihood = 0.0
    for start in range(first, last, width):
        n = min(width, last - start)
        block = features[:, :n]
        places = block[1 : 1 + d]
        places[:] = points[start : start + n].T
        row = 1 + d
        for axis in range(d):
            np.multiply(places[axis], places[axis:], out=block[row : row + d - axis])
            row += d - axis
        if len(spread):
            block[1 + d : row] += spread[start : start + n].T
        joint = table @ block
        peak = joint.max(axis=0)
        joint -= peak
        np.exp(joint, out=joint)
        density = joint.sum(axis=0)
        weight = weights[start : start + n]
        log_likelihood += float(weight @ (peak + np.log(density)))
        joint *= weight / density
        statistics += joint @ block.T
    return log_likelihood


def run_tasks(task: Callable[[Any], Any], tasks: Iterable[Any], threads: int | None) -> Iterator[Any]:
    """Apply a function to each task and yield the results in order. Only a few tasks are in memory at a time."""
    threads = default_threads() if threads is None else threads
    if threads < 1:
        raise UserError(f"threads = {threads} must be at least 1.")
    if threads == 1:
        yield from map(task, tasks)
        return
    tasks, pool = iter(tasks), _pool(threads)
    waiting = deque(pool.submit(task, each) for each in islice(tasks, 2 * threads))
    while waiting:
        yield waiting.popleft().result()
        waiting.extend(pool.submit(task, each) for each in islice(tasks, 1))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="privmix")


@cache
def _thread_controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_blas_thread() -> AbstractContextManager:
    """Limit BLAS to one thread. More slow small products down; our own threads share the pieces instead."""
    return _thread_controller().limit(limits=1, user_api="blas")
