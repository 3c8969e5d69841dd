"""A survey in turns: each person is dealt one of several questions at random, and answers that one alone.

Privacy. The turn of a person is drawn from public weights by a draw of its own that no data enters, and the person
answers that turn's question through an ε-LDP oracle. The report is so a mixture, with the same public weights for
every record, of channels of which each has likelihood ratios of at most e^ε; and it names its turn, so the ratio of
a report is that of one channel: ε-LDP. A question may depend on the reports of earlier turns: for whoever
is asked it is a question fixed beforehand, and later questions see of them nothing but their report, which is
post-processing (sequentially interactive protocols in Duchi, Jordan, Wainwright 2018, §2.1). So the ledger gets one
channel, whatever the number of turns. Here each report counts as one person's; where somebody gives several, their
channels add up by adaptive composition, whichever turns they were dealt. `ask` refuses a turn that was asked before.
Who has which turn stays in here until the rows are made.
"""

from collections.abc import Callable, Sequence

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import NoiseSource
from privmix.privacy.response.choice import best_for
from privmix.privacy.response.generalized import GeneralizedResponse
from privmix.privacy.response.local_hashing import LocalHashing
from privmix.privacy.response.packing import smallest

Questioner = GeneralizedResponse | LocalHashing


class Survey:
    """The turns of so many people, and the answers of each turn once it is asked."""

    def __init__(
        self,
        weights: Sequence[float],
        people: int,
        *,
        epsilon: float,
        source: NoiseSource,
        ledger: Ledger,
        label: str,
    ) -> None:
        bounds = np.cumsum(weights) / np.sum(weights)
        self._turns = np.minimum(
            np.searchsorted(bounds, source.uniform((people,)), side="right"), len(bounds) - 1
        )
        self._epsilon, self._source, self._label = epsilon, source, label
        self._asked: dict[int, tuple[Questioner, np.ndarray]] = {}
        ledger.append(RandomizedResponse(label, epsilon))

    def ask(
        self,
        turn: int,
        oracle: Questioner,
        codes: np.ndarray,
        answer: Callable[[np.ndarray], np.ndarray] = lambda own: own,
    ) -> np.ndarray:
        """The reports of the people whose turn it is, of the `answer` that their codes have.

        `codes` are everybody's, and those of the others stay unread.
        """
        if turn in self._asked or oracle.epsilon > self._epsilon:
            raise UserError(
                f"survey {self._label!r}: turn {turn} was asked before, or with more than ε = {self._epsilon:g}; "
                "each person answers once."
            )
        if len(codes) != len(self._turns):
            raise UserError(
                f"survey {self._label!r}: {len(codes)} answers are not those of {len(self._turns)} people."
            )
        own = answer(codes[self._turns == turn])
        reports = oracle.perturb(own, source=self._source, ledger=Ledger(), label=self._label)
        self._asked[turn] = oracle, reports
        return reports

    def rows(self) -> np.ndarray:
        """Everybody's report in one layout, in the order of the people."""
        layout = row_type([oracle for oracle, _ in self._asked.values()])
        rows = np.zeros(len(self._turns), dtype=layout)
        for turn, (_, reports) in self._asked.items():
            rows[self._turns == turn] = packed(reports, turn, layout)
        return rows


def questioner(categories: int, epsilon: float) -> Questioner:
    """The oracle of least variance whose reports are small: GRR for few answers, else OLH."""
    if categories > GeneralizedResponse.most_categories:
        return LocalHashing(categories, epsilon)
    return best_for(categories, epsilon, (GeneralizedResponse, LocalHashing))


def row_type(oracles: Sequence[Questioner]) -> np.dtype:
    """One layout for the reports of all turns: the turn, the hash (0 where there is none) and the answer."""
    hashes = [oracle.word for oracle in oracles if isinstance(oracle, LocalHashing)]
    answers = max(
        oracle.buckets if isinstance(oracle, LocalHashing) else oracle.categories for oracle in oracles
    )
    fields = [("turn", smallest(max(len(oracles), 2)))]
    if hashes:
        word = max(hashes, key=lambda word: word.itemsize)
        fields += [("a", word), ("b", word)]
    return np.dtype([*fields, ("answer", smallest(answers))])


def packed(reports: np.ndarray, turn: int, layout: np.dtype) -> np.ndarray:
    """Reports of one turn in the layout of all."""
    rows = np.zeros(len(reports), dtype=layout)
    rows["turn"] = turn
    if reports.dtype.names is None:
        rows["answer"] = reports
    else:
        for name in reports.dtype.names:
            rows[name] = reports[name]
    return rows


def unpacked(rows: np.ndarray, turn: int, oracle: Questioner) -> np.ndarray:
    """The reports of one turn, as its oracle made them."""
    own = rows[rows["turn"] == turn]
    if isinstance(oracle, GeneralizedResponse):
        return own["answer"]
    reports = np.empty(len(own), dtype=oracle.report)
    for name in oracle.report.names:
        reports[name] = own[name]
    return reports
