"""Write the catalog as a page (`reports/catalog.html`) and as a Data Package (`data/datapackage.json`)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privmix.catalog.data_package import describe_package
from privmix.catalog.dataset_files import find_all_files
from privmix.pipeline import plan
from privmix.pipeline.outputs import write_together
from privmix.report.catalog_page import CatalogRun, Files, PlannedMechanism, render

FILES = Files(plan.RAW, plan.CLEAN, plan.PRIVATE, plan.MODEL, plan.SCORES)


def describe_run(checked: plan.RunPlan) -> CatalogRun:
    """Describe the datasets and mechanisms of the run."""
    return CatalogRun(
        datasets=checked.settings.datasets,
        replaced=tuple(checked.settings.sources),
        mechanisms=tuple(
            PlannedMechanism(
                each.randomises_records,
                len(checked.settings.epsilons) if each.private else 1,
                each.max_coordinates,
                each.min_coordinates,
            )
            for each in checked.mechanisms.values()
        ),
    )


def write_catalog(
    configuration: Mapping[str, Any], folders: Sequence[str] | None, html: Path, descriptor: Path
) -> tuple[str, ...]:
    """Write both files or none. Return the problems of entries that cannot be read; the page shows them too.

    `folders` defaults to the catalog folders of the configuration.
    """
    checked = plan.make_plan(dict(configuration))
    holdings, problems = find_all_files(folders or checked.settings.catalog_dirs, plan.RAW, plan.CLEAN)
    described = json.dumps(describe_package(holdings, descriptor.parent), indent=2, ensure_ascii=False) + "\n"
    page = render(holdings, problems, describe_run(checked), FILES)
    write_together({descriptor: described.encode("utf-8"), html: page.encode("utf-8")})
    return problems
