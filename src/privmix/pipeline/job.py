"""The job of a stage: its arguments and its input files, which must belong to this job."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from privmix.artefacts.clean import read_clean
from privmix.artefacts.domain import Domain
from privmix.artefacts.io import REMEDY, compact_json
from privmix.artefacts.privacy_statement import MechanismFile, ReplayVerdict
from privmix.artefacts.private import read_private
from privmix.artefacts.statistics import StatisticRequest
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms.base import Records, Reports, replicate_reports, training_records
from privmix.mechanisms.run import MechanismJob
from privmix.privacy.accounting import Budget


def job_parser(stage: str, description: str, *, seeded: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the shared arguments. A stage that makes a release has no seed and one replicate."""
    arguments = argparse.ArgumentParser(
        prog=f"python -m privmix.pipeline.stages.{stage}", description=description
    )
    arguments.add_argument("--mechanism", required=True, help="id of the mechanism in the configuration")
    arguments.add_argument(
        "--parameters", required=True, type=json.loads, help="method and its parameters, as JSON"
    )
    arguments.add_argument("--epsilon", required=True, type=float, help="ε of the budget")
    arguments.add_argument("--delta", required=True, type=float, help="δ of the budget")
    arguments.add_argument(
        "--components",
        required=True,
        type=int,
        nargs="+",
        help="number of components, or the candidates to choose from",
    )
    arguments.add_argument(
        "--choice-share", type=float, default=0.0, help="share of ε for that choice (default: %(default)s)"
    )
    arguments.add_argument(
        "--censored-labels",
        type=json.loads,
        default={},
        help="most nats that a label tells about each attribute, as JSON (default: no censored labels)",
    )
    arguments.add_argument(
        "--statistics",
        type=json.loads,
        default=[],
        help="statistics beside the model, as JSON (default: none)",
    )
    arguments.add_argument(
        "--statistics-share",
        type=float,
        default=0.1,
        help="share of the budget for all statistics together (default: %(default)s)",
    )
    if seeded:
        arguments.add_argument("--dataset", help="dataset of the input files (default: not checked)")
        arguments.add_argument(
            "--replicates", type=int, default=1, help="number of runs (default: %(default)s)"
        )
        arguments.add_argument("--seed", required=True, type=int, help="master seed of the benchmark")
    else:
        arguments.set_defaults(replicates=1, seed=None)
    return arguments


def add_strict(arguments: argparse.ArgumentParser) -> None:
    """Add the flag of stages that replay their output."""
    arguments.add_argument(
        "--strict", action="store_true", help="stop if a replay has a finding (default: only record it)"
    )


def parse_job(arguments: argparse.ArgumentParser) -> tuple[MechanismJob, argparse.Namespace]:
    """Return the job and all parsed arguments."""
    given = arguments.parse_args()
    values = dict(given.parameters)
    method = values.pop("method", "")
    job = MechanismJob(
        name=given.mechanism,
        method=method,
        parameters=values,
        mechanism=registry.build(method, values, where=f"mechanism {given.mechanism}"),
        budget=Budget(given.epsilon, given.delta),
        components=tuple(given.components),
        choice_share=given.choice_share,
        replicates=given.replicates,
        seed=given.seed,
        censored=given.censored_labels,
        statistics=tuple(map(StatisticRequest.model_validate, given.statistics)),
        statistics_share=given.statistics_share,
    )
    return job, given


@dataclass(frozen=True)
class Identity:
    """The job that a file belongs to."""

    dataset: str | None  # None for an audit, which reads no dataset
    mechanism: str
    method: str
    parameters: str  # compact JSON
    epsilon: float  # of the budget
    delta: float

    def __str__(self) -> str:
        place = "" if self.dataset is None else f" on {self.dataset}"
        method = f"{self.method} {self.parameters}"
        return f"{self.mechanism}{place} ({method}) at ε = {self.epsilon:g}, δ = {self.delta:g}"

    def check(self, path: Path, found: "Identity") -> None:
        """Raise `UserError` if the file at `path` belongs to another job."""
        if found != self:
            raise UserError(f"{path} holds the results of {found}, not those of {self}; {REMEDY}.")


def file_identity(file: MechanismFile) -> Identity:
    """Return the identity that a model or private file states."""
    budget = (file.privacy.budget_epsilon, file.privacy.budget_delta)
    return Identity(file.domain.dataset, file.mechanism, file.method, compact_json(file.parameters), *budget)


def job_identity(job: MechanismJob, dataset: str) -> Identity:
    """Return the identity of the files of a job on a dataset."""
    budget = (job.budget.epsilon, job.budget.delta)
    return Identity(dataset, job.name, job.method, compact_json(job.parameters), *budget)


@dataclass(frozen=True)
class FitInput:
    """The input of a fit: the public domain, the data of each replicate, and the verdict or failure of privatise."""

    domain: Domain
    replicates: Sequence[Records | Reports]
    verdict: ReplayVerdict | None = None
    failure: str | None = None


def read_input(
    job: MechanismJob, clean: Path | None, private: Path | None, dataset: str | None = None
) -> FitInput:
    """Read the clean records, which all replicates share, or the reports of each replicate."""
    if clean is not None:
        data = read_clean(clean)
        data.info.check_dataset(dataset or data.info.domain.dataset, clean)
        return FitInput(data.info.domain, [training_records(data)] * job.replicates)
    if private is None:
        raise UserError("a fit needs --clean or --private; give one of them.")
    info, reports = read_private(private)
    job_identity(job, dataset or info.domain.dataset).check(private, file_identity(info))
    seen = [replicate_reports(info, number, columns) for number, columns in enumerate(reports)]
    return FitInput(info.domain, seen, info.replay, info.failure)
