"""Privatise: the records randomise themselves, and only their reports are written, in no order."""

from pathlib import Path

from privmix.artefacts.private import private_writer
from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.pipeline.collection import write_replicates


def main() -> None:
    """Read the clean records, write one report per record and replicate.

    It makes benchmarks alone: a file that may be published is made by `privmix release`, which keeps account of it.
    """
    parser = jobs.job_parser("privatise", __doc__)
    parser.add_argument("--clean", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    jobs.add_strict(parser)
    job, given = jobs.parse_job(parser)
    with private_writer(given.output) as writer:
        writer.info = write_replicates(job, given.clean, writer, strict=given.strict)


if __name__ == "__main__":
    runner.run_stage("privatise", main)
