"""A survey in turns: each person gets one of several questions at random, and answers only that one.

Privacy. A person's turn is drawn from public weights, independently of all data, and the person answers that turn's
question through an ε-LDP oracle. The report is therefore a mixture, with the same public weights for every record,
of channels whose likelihood ratios are at most e^ε; and it names its turn, so the ratio of a report is that of one
channel: ε-LDP. A question may depend on the reports of earlier turns: for the person who is asked, it is a question
fixed in advance, and later questions see only the person's report, which is post-processing (sequentially
interactive protocols in Duchi, Jordan, Wainwright 2018, §2.1). The ledger therefore gets one event, whatever the
number of turns. Here each report counts as one person's; if a person gives several, their channels add up by
adaptive composition, whichever turns they got. People may arrive and answer part by part: the question of a turn is
the same for all of them, and `ask` refuses another question, a larger ε, and more answers than there are people
whose turn it is and who have not answered. Only the reports tell who has which turn.
"""

from collections.abc import Sequence

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
    """The turns that people are dealt, and who of them may still answer."""

    def __init__(self, weights: Sequence[float], *, epsilon: float, source: NoiseSource, label: str) -> None:
        self._bounds = np.cumsum(weights) / np.sum(weights)
        self._epsilon, self._source, self._label = epsilon, source, label
        self._waiting = np.zeros(len(weights), dtype=np.int64)  # people of each turn who have not answered
        self._asked: dict[int, SurveyOracle] = {}

    def deal(self, people: int, ledger: Ledger) -> np.ndarray:
        """The turn of each of so many people, (people,); the ledger gets what the report of one of them costs."""
        last = len(self._bounds) - 1
        draws = self._source.uniform((people,))
        turns = np.minimum(np.searchsorted(self._bounds, draws, side="right"), last)
        self._waiting += np.bincount(turns, minlength=last + 1)
        ledger.append(RandomizedResponse(self._label, self._epsilon))
        return turns

    def ask(self, turn: int, oracle: SurveyOracle, answers: np.ndarray) -> np.ndarray:
        """The reports of people whose turn it is and who have these answers: all of them, or some after others."""
        if oracle.epsilon > self._epsilon or self._asked.setdefault(turn, oracle) != oracle:
            raise UserError(
                f"survey {self._label!r}: turn {turn} was asked something else before, "
                f"or with more than ε = {self._epsilon:g}; each turn has one question."
            )
        if len(answers) > self._waiting[turn]:
            raise UserError(
                f"survey {self._label!r}: {len(answers)} answers of turn {turn}, but {self._waiting[turn]} people "
                "still have it; each person answers once."
            )
        self._waiting[turn] -= len(answers)
        return oracle.perturb(answers, source=self._source, ledger=Ledger(), label=self._label)


def survey_oracle(categories: int, epsilon: float) -> SurveyOracle:
    """The oracle of least variance whose reports are small: GRR for few answers, else OLH."""
    if categories > GeneralizedResponse.most_categories:
        return LocalHashing(categories, epsilon)
    return best_for(categories, epsilon, (GeneralizedResponse, LocalHashing))


def row_type(oracles: Sequence[SurveyOracle]) -> np.dtype:
    """One layout for the reports of all turns: the turn, the hash (0 where there is none) and the answer."""
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
    """Reports of one turn in the layout of all."""
    rows = np.zeros(len(reports), dtype=layout)
    rows["turn"] = turn
    if reports.dtype.names is None:
        rows["answer"] = reports
    else:
        for name in reports.dtype.names:
            rows[name] = reports[name]
    return rows


def unpack_reports(rows: np.ndarray, turn: int, oracle: SurveyOracle) -> np.ndarray:
    """The reports of one turn, as its oracle made them."""
    own = rows[rows["turn"] == turn]
    if isinstance(oracle, GeneralizedResponse):
        return own["answer"]
    reports = np.empty(len(own), dtype=oracle.report)
    for name in oracle.report.names:
        reports[name] = own[name]
    return reports
