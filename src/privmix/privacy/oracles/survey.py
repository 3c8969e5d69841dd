"""A survey in turns: each person gets one of several questions at random, and answers only that one.

Privacy. A person's turn is drawn from public weights, independently of all data. The person answers the question of
that turn through an ε-LDP oracle. The report is therefore a mixture of channels whose likelihood ratios are at most
e^ε, with the same public weights for every record. The report names its turn, so its ratio is that of one channel:
ε-LDP. A question may depend on the reports of earlier turns. For the person who is asked, the question is fixed in
advance. Later questions depend only on the person's report, which is post-processing (sequentially interactive
protocols in Duchi, Jordan, Wainwright 2018, §2.1). The ledger therefore gets one event, for any number of turns.

Here each report counts as one person's. If a person gives several reports, their channels add up by adaptive
composition, for any turns. People may arrive and answer in parts. The question of a turn is the same for all of them.
`ask` refuses another question, a larger ε, and more answers than there are people of this turn who have not answered.
Only the reports show who has which turn.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from privmix.errors import UserError
from privmix.privacy.ledger import Ledger, RandomizedResponse
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles.base import smallest_uint
from privmix.privacy.oracles.choice import best_for
from privmix.privacy.oracles.generalized import GeneralizedResponse
from privmix.privacy.oracles.local_hashing import LocalHashing

SurveyOracle = GeneralizedResponse | LocalHashing


class Survey:
    """The turns of people, and how many people of each turn have not answered yet."""

    def __init__(
        self, weights: Sequence[float] | np.ndarray, *, epsilon: float, source: NoiseSource, label: str
    ) -> None:
        self._bounds = np.cumsum(weights) / np.sum(weights)
        self._epsilon, self._source, self._label = epsilon, source, label
        self._waiting = np.zeros(
            len(weights), dtype=np.int64
        )  # people of each turn who have not answered yet
        self._asked: dict[int, SurveyOracle] = {}

    def deal(self, people: int, ledger: Ledger) -> np.ndarray:
        """Draw the turn of each person, (people,), and write the cost of one person's report to the ledger."""
        last = len(self._bounds) - 1
        draws = self._source.uniform((people,))
        turns = np.minimum(np.searchsorted(self._bounds, draws, side="right"), last)
        self._waiting += np.bincount(turns, minlength=last + 1)
        ledger.append(RandomizedResponse(self._label, self._epsilon))
        return turns

    def ask(self, turn: int, oracle: SurveyOracle, answers: np.ndarray) -> np.ndarray:
        """Draw the reports of people of this turn from their answers. People of a turn may answer in several calls."""
        if oracle.epsilon > self._epsilon or self._asked.setdefault(turn, oracle) != oracle:
            raise UserError(
                f"survey {self._label!r}: turn {turn} was asked another question before, "
                f"or the question has more than ε = {self._epsilon:g}; ask one question per turn."
            )
        if len(answers) > self._waiting[turn]:
            raise UserError(
                f"survey {self._label!r}: got {len(answers)} answers for turn {turn}, but {self._waiting[turn]} people "
                "of it have not answered yet; each person answers once."
            )
        self._waiting[turn] -= len(answers)
        return oracle.perturb(answers, source=self._source, ledger=Ledger(), label=self._label)


def survey_oracle(categories: int, epsilon: float) -> SurveyOracle:
    """Return the oracle of least variance whose reports are small: GRR for few answers, otherwise OLH."""
    if categories > GeneralizedResponse.most_categories:
        return LocalHashing(categories, epsilon)
    return cast(SurveyOracle, best_for(categories, epsilon, (GeneralizedResponse, LocalHashing)))


def row_type(oracles: Sequence[SurveyOracle]) -> np.dtype:
    """Return one layout for the reports of all turns: the turn, the hash (0 if there is none) and the answer."""
    hashes = [oracle.word for oracle in oracles if isinstance(oracle, LocalHashing)]
    answers = max(
        oracle.buckets if isinstance(oracle, LocalHashing) else oracle.categories for oracle in oracles
    )
    fields = [("turn", smallest_uint(max(len(oracles), 2)))]
    if hashes:
        word = max(hashes, key=lambda word: word.itemsize)
        fields += [("a", word), ("b", word)]
    return np.dtype([*fields, ("answer", smallest_uint(answers))])


def pack_reports(reports: np.ndarray, turn: int, layout: np.dtype) -> np.ndarray:
    """Convert the reports of one turn to the common layout."""
    rows = np.zeros(len(reports), dtype=layout)
    rows["turn"] = turn
    if reports.dtype.names is None:
        rows["answer"] = reports
    else:
        for name in reports.dtype.names:
            rows[name] = reports[name]
    return rows


def unpack_reports(rows: np.ndarray, turn: int, oracle: SurveyOracle) -> np.ndarray:
    """Return the reports of one turn in the layout of its oracle."""
    own = rows[rows["turn"] == turn]
    if isinstance(oracle, GeneralizedResponse):
        return own["answer"]
    reports = np.empty(len(own), dtype=oracle.report)
    for name in oracle.report.names or ():
        reports[name] = own[name]
    return reports
