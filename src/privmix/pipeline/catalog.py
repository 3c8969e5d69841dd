"""Write the catalog as a page (`reports/catalog.html`) and as a Data Package (`data/datapackage.json`)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privmix.artefacts.io import atomic_write
from privmix.catalog.data_package import describe_package
from privmix.catalog.dataset_files import find_all_files
from privmix.pipeline import plan
from privmix.report.catalog_page import CatalogRun, Files, render

FILES = Files(plan.RAW, plan.CLEAN, plan.PRIVATE, plan.MODEL, plan.SCORES)


def describe_run(checked: plan.RunPlan) -> CatalogRun:
    """Describe the files that the run makes of each of its datasets."""
    jobs = [job for job in checked.jobs() if job.dataset == checked.settings.datasets[0]]
    local = {name: mechanism.randomises_records for name, mechanism in checked.mechanisms.items()}
    return CatalogRun(
        datasets=checked.settings.datasets,
        replaced=tuple(checked.settings.sources),
        local=tuple(name for name in local if local[name]),
        central=tuple(name for name in local if not local[name]),
        reports=sum(local[job.mechanism] for job in jobs),
        jobs=len(jobs),
    )


def write_catalog(
    configuration: Mapping[str, Any], folders: Sequence[str] | None, html: Path, descriptor: Path
) -> tuple[str, ...]:
    """Write both files. Return the problems of entries that cannot be read; the page shows them too.

    `folders` defaults to the catalog folders of the configuration.
    """
    checked = plan.make_plan(dict(configuration))
    holdings, problems = find_all_files(folders or checked.settings.catalog_dirs, plan.RAW, plan.CLEAN)
    described = json.dumps(describe_package(holdings, descriptor.parent), indent=2, ensure_ascii=False) + "\n"
    page = render(holdings, problems, describe_run(checked), FILES)
    for path, text in ((descriptor, described), (html, page)):
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return problems
