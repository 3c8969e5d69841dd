"""File permissions: only the owner can read the files and logs of a run with sensitive data.

New files get the mode 0600 and new folders 0700, through the umask, which Snakemake passes on to its jobs. So this also
holds for logs, benchmarks and folders. Older files that everyone can read are closed, and so is `.snakemake`, which
Snakemake creates before it reads the rules. Files that only the group can
read stay as they are: someone has opened them on purpose.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from privmix.catalog.entry import Entry
from privmix.pipeline.runner import GROUP_AND_OTHERS, restrict_new_files

OTHERS = 0o007
# Files of a dataset, and folders that hold them. The mode of a folder covers everything below it.
OF_DATASET = (
    "data/raw/{dataset}.raw*",
    "data/clean/{dataset}.parquet",
    "data/private/{dataset}",
    "data/models/{dataset}",
    "data/scores/{dataset}",
    "data/naive/{dataset}",
    "logs/*/{dataset}",
    "logs/*/{dataset}.log",
    "logs/benchmarks/*/{dataset}",
    "logs/benchmarks/*/{dataset}.tsv",
)
OF_RUN = (
    "reports/summary.html",
    "reports/results.*",
    "reports/incomplete.*",
    "reports/figures",
    "logs/report.log",
    ".snakemake",  # its log has the commands of failed jobs, which may name an isolated person
)


def restrict_run(entries: Iterable[Entry]) -> None:
    """Restrict the new files of a run, and close older files of its sensitive datasets that everyone can read."""
    sensitive = [entry.name for entry in entries if entry.visibility == "sensitive"]
    if not sensitive:
        return
    restrict_new_files(["sensitive"])
    for path in _existing(sensitive):
        found = path.stat()
        if found.st_mode & OTHERS and found.st_uid == os.geteuid():  # only the owner can change a mode
            path.chmod(stat.S_IMODE(found.st_mode) & ~GROUP_AND_OTHERS)


def _existing(datasets: Iterable[str]) -> Iterator[Path]:
    here = Path()
    for dataset in datasets:
        for pattern in OF_DATASET:
            yield from here.glob(pattern.format(dataset=dataset))
    for pattern in OF_RUN:
        yield from here.glob(pattern)
