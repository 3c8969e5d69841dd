"""The oracle of least variance for a question, chosen from public values."""

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
# In the order of preference where variances are equal: small and quick reports first.
ORACLES: tuple[type[Oracle], ...] = tuple(BY_NAME.values())
EQUAL = 1e-9
SMALL = 12  # bytes of a report: the most that local hashing takes


def best_for(k: int, epsilon: float, among: Sequence[type[Oracle]] = ORACLES) -> Oracle:
    """The oracle with the least variance for an empty answer, from public values alone.

    Among all it is GRR where subset selection is GRR too, Hadamard where that equals subset selection (k a power
    of two and ε small), and subset selection elsewhere; its lead over OUE and OLH vanishes as k grows, while its
    reports and its time grow with k, as OUE's do. Among GRR, OUE and OLH it is
    GRR exactly where k < 3 e^ε + 2 (Wang, Blocki, Li, Jha 2017).
    """
    if not among:
        raise UserError("best_for: no oracle to choose among; give at least one.")
    return _least([oracle(k, epsilon) for oracle in among])


def small_for(k: int, epsilon: float) -> Oracle:
    """The oracle with the least variance among those whose report takes at most SMALL bytes.

    That is the best of all up to 96 answers. Above it subset selection and OUE are left out, whose reports and time
    grow with k. Local hashing, GRR and Hadamard have up to 6 % more variance than the best of all, and up to 21 % where
    k is between 3 e^ε and 10 e^ε.
    """
    oracles = [oracle(k, epsilon) for oracle in ORACLES]
    return _least([oracle for oracle in oracles if oracle.report.itemsize <= SMALL])


def _least(oracles: Sequence[Oracle]) -> Oracle:
    least = min(oracle.variance(1, 0.0) for oracle in oracles)
    return next(oracle for oracle in oracles if oracle.variance(1, 0.0) <= least * (1 + EQUAL))
