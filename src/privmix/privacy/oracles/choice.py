"""The choice of an oracle: the one of least variance for a question, from public values."""

from collections.abc import Sequence

from privmix.errors import UserError
from privmix.privacy.oracles.base import Oracle
from privmix.privacy.oracles.generalized import GeneralizedResponse
from privmix.privacy.oracles.hadamard import HadamardResponse
from privmix.privacy.oracles.local_hashing import LocalHashing
from privmix.privacy.oracles.subset import SubsetSelection
from privmix.privacy.oracles.unary import UnaryEncoding

BY_NAME: dict[str, type[Oracle]] = {
    "grr": GeneralizedResponse,
    "hadamard": HadamardResponse,
    "olh": LocalHashing,
    "oue": UnaryEncoding,
    "subset": SubsetSelection,
}
# In the order of preference for equal variances: small and quick reports first.
ORACLES: tuple[type[Oracle], ...] = tuple(BY_NAME.values())
EQUAL = 1e-9
SMALL = 12  # bytes of a report: the largest report of local hashing


def best_for(k: int, epsilon: float, among: Sequence[type[Oracle]] = ORACLES) -> Oracle:
    """Return the oracle with the least variance for an empty answer, from public values alone.

    Among all oracles this is GRR if subset selection equals GRR, Hadamard if it equals subset selection (k a power of
    two and ε small), and otherwise subset selection. The advantage of subset selection over OUE and OLH vanishes as k
    grows, while its reports and its time grow with k, like those of OUE. Among GRR, OUE and OLH it is GRR exactly if
    k < 3 e^ε + 2 (Wang, Blocki, Li, Jha 2017).
    """
    if not among:
        raise UserError("best_for: `among` is empty; give at least one oracle.")
    return _least([oracle(k, epsilon) for oracle in among])


def small_for(k: int, epsilon: float) -> Oracle:
    """Return the oracle with the least variance among those whose report takes at most SMALL bytes.

    Up to 96 answers it is the best of all oracles. Above 96, subset selection and OUE are left out, because their
    reports and time grow with k. Local hashing, GRR and Hadamard have up to 6 % more variance than the best of all, and
    up to 21 % more if k is between 3 e^ε and 10 e^ε.
    """
    oracles = [oracle(k, epsilon) for oracle in ORACLES]
    return _least([oracle for oracle in oracles if oracle.report.itemsize <= SMALL])


def _least(oracles: Sequence[Oracle]) -> Oracle:
    least = min(oracle.variance(1, 0.0) for oracle in oracles)
    return next(oracle for oracle in oracles if oracle.variance(1, 0.0) <= least * (1 + EQUAL))
