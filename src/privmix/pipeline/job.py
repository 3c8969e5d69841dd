"""The arguments that privatise, fit and evaluate share: which mechanism runs, on what budget, from which seed."""

import argparse
import json

from privmix.mechanisms import registry
from privmix.mechanisms.run import MechanismJob
from privmix.privacy.accounting import Budget


def job_parser(stage: str, description: str, *, seeded: bool = True) -> argparse.ArgumentParser:
    """A parser with the shared arguments; a stage whose output may be published has no seed and one replicate."""
    arguments = argparse.ArgumentParser(
        prog=f"python -m privmix.pipeline.stages.{stage}", description=description
    )
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


def parse_job(arguments: argparse.ArgumentParser) -> tuple[MechanismJob, argparse.Namespace]:
    """The job, and the stage's own arguments."""
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
    )
    return job, given
