"""The run section: code, machine, versions, time and memory of the stages, and how to reproduce the run."""

from dataclasses import dataclass

import yaml

from privmix.report.provenance import Provenance
from privmix.report.run import Material, RunResults, StageUsage
from privmix.report.sections import PageSection


@dataclass(frozen=True)
class RunSection(PageSection):
    """Where the results come from."""

    provenance: Provenance
    materials: dict[str, Material | None]  # by dataset; None if it was not cleaned
    usage: tuple[StageUsage, ...]
    configuration: str  # YAML


def build(run: RunResults) -> RunSection:
    """Build the section."""
    return RunSection(
        provenance=run.provenance,
        materials={name: run.materials.get(name) for name in run.settings.datasets},
        usage=run.usage,
        configuration=yaml.safe_dump(dict(run.configuration), sort_keys=False, allow_unicode=True),
    )
