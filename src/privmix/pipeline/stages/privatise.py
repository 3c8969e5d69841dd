"""Privatise the records with a local mechanism: write one randomised report per record, in random order."""

from pathlib import Path

from privmix.artefacts.clean import read_clean_info
from privmix.artefacts.private import private_writer
from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.pipeline.collection import write_replicates


def main() -> None:
    """Read the clean records and write the reports of every replicate.

    The stage makes benchmark files only. `privmix release` makes files to publish and accounts for their cost.
    """
    parser = jobs.job_parser("privatise", __doc__)
    parser.add_argument("--clean", required=True, type=Path, help="clean file (Parquet)")
    parser.add_argument("--output", required=True, type=Path, help="file of reports to write (Parquet)")
    jobs.add_strict(parser)
    job, given = jobs.parse_job(parser)
    runner.restrict_new_files([read_clean_info(given.clean).domain.visibility])
    with private_writer(given.output) as writer:
        writer.info = write_replicates(job, given.clean, writer, strict=given.strict, dataset=given.dataset)


if __name__ == "__main__":
    runner.run_stage("privatise", main)
