"""The contract of a local mechanism: each record is randomised on its own, and the fit sees only the reports.

Privacy. A report answers for one record: its coordinates through the mechanism's own channel, with a part of ε, and
each of its attributes through randomised response, with an equal share of the rest. All channels are independent given
the record, so the report is ε-LDP (or (ε, δ)-LDP) by basic composition. Another report depends on that record at most
through this report, if a later question uses earlier answers: post-processing. If a person is the unit, every person
gives the same public number j of reports at (ε/j, δ/j), each of a record drawn from their own. For any drawn records,
the reports of that person add up to (ε, δ) by basic composition (adaptive, if one report helped to choose the question
of another), and a mixture over draws keeps the bound (joint convexity). The number of records of a person is not
visible anywhere. So a unit can be replaced by any other (replace-one), and the number of units, which anyone can count,
is public. The fit is post-processing.

`collect` and `write_reports` process the records part by part. The reports come out in a uniformly random order
(`shared.report_shuffle`), so the order of the rows carries no information.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from privmix.artefacts.domain import Domain
from privmix.artefacts.privacy_statement import Trust
from privmix.artefacts.private import PrivateWriter
from privmix.errors import UserError
from privmix.mechanisms.base import (
    Mechanism,
    Randomness,
    Records,
    Release,
    Reports,
    Spec,
    mechanism_dataclass,
)
from privmix.mechanisms.shared import attributes
from privmix.mechanisms.shared.contribution_sampling import sample_records
from privmix.mechanisms.shared.report_shuffle import Shuffler, open_shuffler
from privmix.mixture.model import FitResult, Mixture
from privmix.privacy.accounting import Budget, claim
from privmix.privacy.ledger import Event, Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.sensitivity import Neighbours


@dataclass(frozen=True)
class Plan:
    """The budget of one report, from public values only."""

    budget: Budget  # for the coordinates
    attribute_epsilon: float  # for each attribute; 0 if no attribute is reported
    per_person: int  # reports of each unit
    reports: int  # expected number of reports


@dataclass(frozen=True)
class CoordinateReports:
    """The reports about coordinates: one row per report."""

    columns: Mapping[str, np.ndarray]
    # Public: the questions, if earlier answers decided them.
    asked: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


@mechanism_dataclass
class LocalMechanism(Mechanism):
    """`attribute_share`: the part of ε for all attributes together, if the dataset has attributes."""

    trust: ClassVar[Trust] = "local"
    randomises_records: ClassVar[bool] = True
    chooses_components: ClassVar[bool] = True

    attribute_share: Annotated[float, Field(ge=0, lt=1)] = 0.2

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> CoordinateReports:
        """Return the answer of each point, which depends on no other point. The ledger gets the cost of one answer."""
        raise NotImplementedError

    def answer_parts(
        self, parts: Iterable[Records], spec: Spec, plan: Plan, source: NoiseSource, folder: Path | None
    ) -> Iterator[tuple[CoordinateReports, Ledger]]:
        """Yield the answers of all records, including attributes, with the cost of one record's answers, part by part.

        A mechanism whose questions depend on earlier answers overrides this method instead of `answer`. Records that
        wait for their question wait in nameless files in the folder, or in memory without a folder.
        """
        for records in parts:
            ledger = Ledger()
            answers = self.answer(spec.inside(records.points), spec, plan, source, ledger)
            others = attributes.answer(records.codes, spec.domain, plan.attribute_epsilon, source, ledger)
            yield replace(answers, columns={**answers.columns, **others}), ledger

    def model(
        self, answers: CoordinateReports, spec: Spec, plan: Plan, rng: np.random.Generator
    ) -> FitResult:
        """Fit the mixture behind the answers. Their order carries no information. Post-processing."""
        raise NotImplementedError

    def responsibilities(
        self, answers: CoordinateReports, mixture: Mixture, spec: Spec, plan: Plan
    ) -> Iterator[np.ndarray]:
        """Yield P(component | answer) through the channel, (rows, K), block by block, in order. Post-processing."""
        raise NotImplementedError

    def reports_per_person(self, epsilon: float, limit: int) -> int:
        """Return the number of reports of a person with at most `limit` records: a public rule."""
        return 1

    def remarks(self, events: Sequence[Event], spec: Spec, plan: Plan) -> list[str]:
        """Return notes for readers on how the reports were made and what they protect, from public values only."""
        domain, remarks = spec.domain, []
        if domain.unit == "person" and plan.per_person == 1:
            remarks.append("Each person gave one report, about a record drawn at random from their own.")
        elif domain.unit == "person":
            remarks.append(
                f"Each person gave {plan.per_person} reports, at ε/{plan.per_person} each, "
                "about records drawn at random from their own."
            )
        if domain.relation == "add_remove":
            remarks.append(
                "Anyone who receives the reports can count them. So the guarantee covers the replacement of one "
                f"{domain.unit} by another; it does not hide whether a {domain.unit} took part."
            )
        return remarks

    def relation(self, spec: Spec) -> Neighbours:
        """Return the replace-one relation: any unit may be replaced by another."""
        return Neighbours(spec.domain.unit, "replace_one", spec.domain.max_records_per_person)

    def plan(self, spec: Spec, budget: Budget) -> Plan:
        """Return the budget of each report."""
        each = 1
        if spec.domain.unit == "person":
            each = self.reports_per_person(budget.epsilon, spec.domain.max_records_per_person)
        epsilon, delta = budget.epsilon / each, budget.delta / each
        asked = len(spec.domain.attributes) if self.attribute_share else 0
        share = self.attribute_share if asked else 0.0
        return Plan(
            budget=Budget(epsilon * (1 - share), delta),
            attribute_epsilon=epsilon * share / asked if asked else 0.0,
            per_person=each,
            reports=each * expected_units(spec.domain),
        )

    def reports(
        self,
        parts: Iterable[Records],
        spec: Spec,
        budget: Budget,
        rng: Randomness,
        folder: Path | None = None,
    ) -> Iterator[Reports]:
        """Yield the reports of the records of all parts, still in order; `collect` shuffles them."""
        plan = self.plan(spec, budget)
        if spec.domain.unit == "person":
            parts = sample_records(parts, plan.per_person, source=rng.noise)
        for answers, ledger in self.answer_parts(parts, spec, plan, rng.noise, folder):
            events = ledger.events * plan.per_person
            yield Reports(answers.columns, events, claim(events, budget, self.accountant), answers.asked)

    def privatise(self, records: Records, spec: Spec, budget: Budget, rng: Randomness) -> Reports:
        """Return the reports of these records, in memory."""
        parts = list(self.reports([records], spec, budget, rng))
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
        return replace(parts[0], columns=columns)

    def fit(self, view: Reports, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Fit a mixture to the answers, and estimate the shares of the attributes' values, also in each component."""
        check_not_empty(view, spec)
        plan = self.plan(spec, budget)
        own = {
            name: values for name, values in view.columns.items() if not name.startswith(attributes.PREFIX)
        }
        answers = CoordinateReports(own, view.asked)
        fitted = self.model(answers, spec, plan, rng.search)
        return Release(
            fitted.mixture,
            view.events,
            view.claim,
            proportions=attributes.proportions(
                view.columns, spec.domain, plan.attribute_epsilon, plan.per_person
            ),
            notes=[*fitted.notes, *self.remarks(view.events, spec, plan)],
            shares=attributes.joint_shares(
                view.columns,
                spec.domain,
                plan.attribute_epsilon,
                plan.per_person,
                fitted.mixture.weights,
                self.responsibilities(answers, fitted.mixture, spec, plan),
            ),
        )


def check_not_empty(view: Reports, spec: Spec) -> None:
    """Refuse a file without reports. Their number is public."""
    if not len(view):
        raise UserError(f"{spec.domain.dataset}: there are no reports, so no mixture can be fitted.")


def expected_units(domain: Domain) -> int:
    """Return the public number of units: records, or persons (at least rows / limit)."""
    if domain.unit == "record":
        return domain.rows
    return domain.persons or math.ceil(domain.rows / domain.max_records_per_person)


TYPICAL_SHARE = 1 / 8  # of an answer that is worth estimating


def responses_per_person(epsilon: float, limit: int) -> int:
    """Return the number j of responses at ε/j that tells most about a person, from public values only.

    One unary response of a person drawn at random estimates a share s with variance V(ε) + 2s - s², where V(ε) = 4 e^ε
    / (e^ε - 1)² = 1 / sinh²(ε/2) (Wang, Blocki, Li, Jha 2017). A hashed response has nearly the same variance.
    Responses for different records of a person, taken as independent, divide it by their number. One response is best
    up to ε = 5.
    """

    def variance(responses: int) -> float:
        spread = TYPICAL_SHARE * (2 - TYPICAL_SHARE)
        return (spread + math.sinh(min(epsilon / responses / 2, 300.0)) ** -2) / responses

    return min(range(1, limit + 1), key=variance)


def decode_reports(column: np.ndarray, report: np.dtype) -> np.ndarray:
    """Return a column of reports in its original type. A file stores reports other than numbers as rows of bytes."""
    column = np.ascontiguousarray(column)
    if report.names is not None and column.dtype == np.uint8:
        return column.view(report)[:, 0]
    return column.view(report.base) if column.ndim == 2 else column


def write_reports(
    mechanism: LocalMechanism,
    parts: Iterable[Records],
    spec: Spec,
    budget: Budget,
    rng: Randomness,
    writer: PrivateWriter,
) -> tuple[Reports, int]:
    """Write the reports of all parts in a uniformly random order. Return their cost and their number."""
    with open_shuffler(spec.domain.rows, rng.noise, writer.folder) as shuffler:
        said = collect(mechanism, parts, spec, budget, rng, shuffler)
        for columns in shuffler.parts():
            writer.write(columns)
    return said, shuffler.rows


def collect(
    mechanism: LocalMechanism,
    parts: Iterable[Records],
    spec: Spec,
    budget: Budget,
    rng: Randomness,
    shuffler: Shuffler,
) -> Reports:
    """Put the reports of all parts into the shuffler. Return their cost, without rows.

    A report spends the budget of its own record and of no other, so the ledger of one part is the ledger of all.
    """
    said: Reports | None = None
    for reports in mechanism.reports(filter(len, parts), spec, budget, rng, shuffler.folder):
        if said is not None and list(said.events) != list(reports.events):
            raise UserError(
                f"{type(mechanism).__name__}: two parts of the records spent differently. "
                "This is a defect of the mechanism; please report it."
            )
        said = reports
        shuffler.add(reports.columns)
    if said is None:
        raise UserError(
            f"{spec.domain.dataset}: there are no training records, so there is nothing to report."
        )
    return Reports({}, said.events, said.claim, said.asked)
