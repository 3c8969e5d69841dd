"""The arguments that privatise, fit and evaluate share: which mechanism runs, on what budget, from which seed."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privmix.artefacts.domain import Domain
from privmix.artefacts.part import dumps
from privmix.artefacts.statement import Privacy
from privmix.mechanisms import registry
from privmix.mechanisms.base import Mechanism, Randomness, Spec, seeded
from privmix.privacy.accounting import Budget, Claim, account, distance
from privmix.privacy.ledger import Event, to_rows


@dataclass(frozen=True)
class Job:
    """One mechanism at one budget."""

    name: str
    method: str
    parameters: dict[str, Any]
    mechanism: Mechanism
    budget: Budget
    components: tuple[int, ...]  # one number, or those to choose among
    choice_share: float
    replicates: int
    seed: int | None  # None for a release

    @property
    def release(self) -> bool:
        """Whether what is made may be published: no seed, one replicate."""
        return self.seed is None

    def described(self, domain: Domain) -> str:
        """The job in a sentence."""
        return f"{self.name} at ε = {self.budget.epsilon:g} on {domain.dataset}"

    def spec(self, domain: Domain) -> Spec:
        """What the mechanism may know of the domain."""
        if len(self.components) == 1:
            return Spec(domain, *self.components)
        return Spec(domain, max(self.components), self.components, self.choice_share)

    def randomness(self, domain: Domain, *purpose: str | int) -> Randomness:
        """The stream of a benchmark for that purpose: no two jobs, budgets or settings share noise.

        A release has no seed, and draws from `publish.making.randomness`.
        """
        settings = dumps({"method": self.method, **self.parameters})
        budget = (self.budget.epsilon, self.budget.delta)
        public = (domain.unit, domain.relation, domain.max_records_per_person, domain.rows)
        spec = (*self.components, self.choice_share, *public)
        return seeded(self.seed, domain.dataset, self.name, settings, *budget, *spec, *purpose)

    def privacy(self, domain: Domain, claim: Claim, events: Sequence[Event], failed: bool) -> Privacy:
        """The statement that a file of this job carries; of a failure, what was asked for."""
        spec = self.spec(domain)
        neighbours = spec.neighbours if failed else self.mechanism.relation(spec)
        within_m = distance(events)
        return Privacy(
            budget_epsilon=self.budget.epsilon,
            budget_delta=self.budget.delta,
            epsilon=claim.epsilon,
            delta=claim.delta,
            unit=neighbours.unit,
            relation=neighbours.relation,
            trust=self.mechanism.trust,
            within_m=within_m,
            epsilon_anywhere=None
            if within_m is None
            else account(events, claim.delta, self.mechanism.accountant).epsilon,
            mode="release" if self.release else "benchmark",
            accountant=self.mechanism.accountant,
            ledger=to_rows(events),
        )


def parser(stage: str, description: str, *, seeded: bool = True) -> argparse.ArgumentParser:
    """A parser with the shared arguments; a stage whose output may be published has no seed and one replicate."""
    arguments = argparse.ArgumentParser(prog=f"python -m privmix.stages.{stage}", description=description)
    arguments.add_argument("--mechanism", required=True, help="id of the mechanism in the configuration")
    arguments.add_argument(
        "--parameters", required=True, type=json.loads, help="JSON: method and its parameters"
    )
    arguments.add_argument("--epsilon", required=True, type=float)
    arguments.add_argument("--delta", required=True, type=float)
    arguments.add_argument(
        "--components",
        required=True,
        type=int,
        nargs="+",
        help="number of Gaussians, or those to choose among",
    )
    arguments.add_argument("--choice-share", type=float, default=0.0, help="part of epsilon for that choice")
    if seeded:
        arguments.add_argument("--replicates", type=int, default=1)
        arguments.add_argument("--seed", required=True, type=int, help="master seed of the benchmark")
    else:
        arguments.set_defaults(replicates=1, seed=None)
    return arguments


def add_strict(arguments: argparse.ArgumentParser) -> None:
    """The flag of stages that replay what they make."""
    arguments.add_argument(
        "--strict", action="store_true", help="stop if a replay finds something, instead of only reporting it"
    )


def parse(arguments: argparse.ArgumentParser) -> tuple[Job, argparse.Namespace]:
    """The job, and the stage's own arguments."""
    given = arguments.parse_args()
    values = dict(given.parameters)
    method = values.pop("method", "")
    job = Job(
        name=given.mechanism,
        method=method,
        parameters=values,
        mechanism=registry.build(method, values, where=f"mechanism {given.mechanism}"),
        budget=Budget(given.epsilon, given.delta),
        components=tuple(given.components),
        choice_share=given.choice_share,
        replicates=given.replicates,
        seed=given.seed,
    )
    return job, given
