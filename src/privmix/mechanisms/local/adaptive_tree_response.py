"""Adaptive tree response: persons answer in rounds; each round asks for parts that earlier answers made interesting.

Privacy. Each record draws its round from public weights, independently of its values, and answers once: in which part
of that round's partition it lies, through GRR or optimised local hashing, an ε-LDP channel. The first partition is a
function of public values (box, resolution, number of reports, ε). Each later one is computed from the reports of
earlier rounds. For each person, the partition is fixed before the answer, and later partitions see only the report:
post-processing. So the protocol is sequentially interactive and ε-LDP (Duchi, Jordan, Wainwright 2018, §2.1), and the
ledger has one channel for any number of rounds. `privacy.oracles.survey` has the proof and lets no record answer twice.
If a person gives several reports, each with a part of ε, a later one may answer a question that an earlier one helped
to choose. This is adaptive basic composition, as for any measurements of one person. Everything else is
post-processing: averaging over rounds, norm-sub, the fit. A record waits for its round. With many records, its place
and its answered attributes are in a nameless file in the folder of the reports (`shared.report_shuffle`). The system
deletes this file when the process ends, even if it is killed. Like the clean file, it is not part of the release.

A part with few records is asked about as a whole again and again, together with its neighbours. A part with many
records is split further. So no persons are spent on empty levels. The reports name the round. The partitions are stored
beside them and reveal nothing more, because they follow from the reports of earlier rounds.

When to use it: for up to three coordinates, if no curator is trusted with the records, and if persons can answer one
after the other. It is the most accurate local mechanism here. If all must be asked at once, use `tree_response`.

Approximations. As for `tree_response`, including selection: parts are split because earlier estimates of them were
high, and the same estimates enter the average, which is therefore a little too high there and too low elsewhere. The
number of rounds, the first partition and the threshold for a split were chosen by held-out likelihood on the Gowalla
data.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from privmix.mechanisms.base import Records, Spec, mechanism_dataclass
from privmix.mechanisms.local.base import (
    CoordinateReports,
    LocalMechanism,
    Plan,
    decode_reports,
    responses_per_person,
)
from privmix.mechanisms.local.tree_response import MOST_DIMENSIONS, halvings, visible_halvings
from privmix.mechanisms.shared import attributes
from privmix.mechanisms.shared.partitions import Bisection, Partition
from privmix.mechanisms.shared.report_likelihoods import (
    cell_shares,
    spread_points,
    survey_responsibilities,
)
from privmix.mechanisms.shared.report_shuffle import (
    PART,
    Spool,
    as_columns,
    as_rows,
    distribute_rows,
    open_spools,
)
from privmix.mechanisms.shared.share_tree import NodeEstimates, ShareEstimates, fit_shares
from privmix.mixture.model import FitResult, Mixture
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles.base import smallest_uint
from privmix.privacy.oracles.survey import (
    Survey,
    SurveyOracle,
    pack_reports,
    row_type,
    survey_oracle,
    unpack_reports,
)
from privmix.privacy.privtree import TreeShape

FIRST_HALVINGS = 6  # of the first partition, at most
MOST_ROUNDS = 10
WORTH_CUTTING = 1.5  # standard deviations of an empty part's estimated share in one round
LEAST_PART = 2_000  # a part with less than this fraction (1 / LEAST_PART) of the records is not split


@mechanism_dataclass
class AdaptiveTreeResponse(LocalMechanism):
    """`searches`: restarts of the fit, which cost no privacy."""

    max_coordinates: ClassVar[int | None] = MOST_DIMENSIONS

    searches: Annotated[int, Field(ge=1, le=1000)] = 8

    def reports_per_person(self, epsilon: float, limit: int) -> int:
        """Return the number of reports that tells most."""
        return responses_per_person(epsilon, limit)

    def answer_parts(
        self, parts: Iterable[Records], spec: Spec, plan: Plan, source: NoiseSource, folder: Path | None
    ) -> Iterator[tuple[CoordinateReports, Ledger]]:
        """Yield one answer per record, in the round that it drew, with the partition of each round."""
        halving = halvings(spec, "adaptive_tree_response")
        first, rounds = schedule(halving.depth, plan)
        survey = Survey([1.0] * rounds, epsilon=plan.budget.epsilon, source=source, label="round and part")
        ledger = Ledger()
        with open_spools(rounds, folder) as waiting, open_spools(rounds, folder) as answered:
            for records in parts:
                ledger = Ledger()
                turns = survey.deal(len(records), ledger)
                distribute_rows(waiting_rows(records, halving, spec, plan, source, ledger), turns, waiting)
            asked = [Partition.even(first, halving.depth)]
            said: list[ShareEstimates] = []
            for turn in range(rounds):
                if turn:
                    asked.append(next_question(asked, said, split_threshold(rounds, plan)))
                reports = ask(survey, turn, asked[turn], plan, waiting[turn], answered[turn])
                said.append(estimate_shares(asked[turn], reports, plan))
            public = {"partitions": [each.shape.packed() for each in asked]}
            layout = row_type([oracle_of(each, plan) for each in asked])
            for turn in range(rounds):
                for columns in map(as_columns, answered[turn].parts(PART)):
                    rows = pack_reports(columns["part"], turn, layout)
                    yield CoordinateReports({**columns, "part": rows}, public), ledger

    def model(
        self, answers: CoordinateReports, spec: Spec, plan: Plan, rng: np.random.Generator
    ) -> FitResult:
        """Pool the rounds, compute consistent shares of parts that stand out, and fit a mixture to them."""
        halving = halvings(spec, "adaptive_tree_response")
        asked, oracles, rows = read_rounds(answers, halving, plan)
        said = [
            estimate_shares(partition, [unpack_reports(rows, turn, oracle)], plan)
            for turn, (partition, oracle) in enumerate(zip(asked, oracles, strict=True))
        ]
        threshold = split_threshold(len(asked), plan)
        parts, shares, variances = NodeEstimates.pool(asked, said).coarsen(threshold)
        lower, upper = halving.boxes(*parts.nodes)
        fit = fit_shares(
            lower,
            upper,
            shares,
            variances,
            spec,
            noise=threshold / WORTH_CUTTING,
            rng=rng,
            searches=self.searches,
        )
        if threshold >= 1 / 2:
            note = (
                "A part of the public box stands out from the noise only if it holds half of the records: "
                "the mixture is mostly noise."
            )
            return replace(fit, notes=(*fit.notes, note))
        return fit

    def responsibilities(
        self, answers: CoordinateReports, mixture: Mixture, spec: Spec, plan: Plan
    ) -> Iterator[np.ndarray]:
        """Yield P(component | report) through the oracle of the report's round."""
        halving = halvings(spec, "adaptive_tree_response")
        asked, oracles, rows = read_rounds(answers, halving, plan)
        codes = halving.codes(spread_points(mixture, spec))
        known = [
            cell_shares(partition.locate(codes), mixture, oracle)
            for partition, oracle in zip(asked, oracles, strict=True)
        ]
        yield from survey_responsibilities(rows, oracles, known, mixture.weights)


def read_rounds(
    answers: CoordinateReports, halving: Bisection, plan: Plan
) -> tuple[list[Partition], list[SurveyOracle], np.ndarray]:
    """Return the partition and the oracle of each round, and the reports of all rounds."""
    asked = [Partition(TreeShape.unpacked(0, text), halving.depth) for text in answers.asked["partitions"]]
    oracles = [oracle_of(partition, plan) for partition in asked]
    return asked, oracles, decode_reports(answers.columns["part"], row_type(oracles))


def waiting_rows(
    records: Records, halving: Bisection, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
) -> np.ndarray:
    """Return the rows that wait for a round: the finest code of each record, and its answered attributes."""
    codes = halving.codes(spec.inside(records.points)).astype(smallest_uint(1 << halving.depth))
    others = attributes.answer(records.codes, spec.domain, plan.attribute_epsilon, source, ledger)
    return as_rows({"code": codes, **others})


def ask(
    survey: Survey, turn: int, partition: Partition, plan: Plan, waiting: Spool, answered: Spool
) -> Iterator[np.ndarray]:
    """Yield the reports of the records that wait for this round, and store them in `answered`."""
    for rows in waiting.parts(PART):
        columns = as_columns(rows)
        part = partition.locate(columns.pop("code"))
        reports = survey.ask(turn, oracle_of(partition, plan), part)
        answered.add(as_rows({"part": reports, **columns}))
        yield reports


def schedule(deepest: int, plan: Plan) -> tuple[int, int]:
    """Return the halvings of the first partition and the number of rounds: fewer of both with more noise."""
    visible = visible_halvings(plan)
    first = int(np.clip(round(visible) - 2, 1, min(FIRST_HALVINGS, deepest)))
    return first, int(np.clip(round(visible) + 2, 1, MOST_ROUNDS))


def split_threshold(rounds: int, plan: Plan) -> float:
    """Return the share above which a part is split, from public values."""
    noise = survey_oracle(1 << 20, plan.budget.epsilon).cell_deviation(max(plan.reports / rounds, 1.0))
    return min(max(WORTH_CUTTING * noise, 1 / LEAST_PART), 1 / 2)


def oracle_of(partition: Partition, plan: Plan) -> SurveyOracle:
    """Return the oracle that asks for the part of a partition."""
    return survey_oracle(len(partition), plan.budget.epsilon)


def estimate_shares(partition: Partition, reports: Iterable[np.ndarray], plan: Plan) -> ShareEstimates:
    """Estimate the shares of the parts from the reports of one round, which may come in several arrays."""
    oracle, number = oracle_of(partition, plan), 0
    support = np.zeros(len(partition), dtype=np.int64)
    for some in reports:
        support += oracle.support(some)
        number += len(some)
    return ShareEstimates.from_support(oracle, support, number, plan.per_person)


def next_question(asked: list[Partition], said: list[ShareEstimates], threshold: float) -> Partition:
    """Return the partition of the next round from earlier estimates; the first one again if there are no reports."""
    if not any(each.reports for each in said):
        return asked[0]
    return NodeEstimates.pool(asked, said).next_partition(threshold)
