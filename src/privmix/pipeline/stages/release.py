"""Release one private model of all records: write the folder to publish and account for its cost."""

from pathlib import Path

from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.pipeline.release import ReleasePaths, release_dataset
from privmix.release.charges import SpendingLimit
from privmix.release.summary import format_facts


def main() -> None:
    """Make the release and print what was made and what it cost."""
    parser = jobs.job_parser("release", __doc__, seeded=False)
    parser.add_argument("--entry", required=True, type=Path, help="catalog entry (YAML)")
    parser.add_argument("--raw", required=True, type=Path, help="raw file that the clean file was made from")
    parser.add_argument("--clean", required=True, type=Path, help="clean file (Parquet)")
    parser.add_argument(
        "--synthetic", type=int, help="number of synthetic rows (default: the public number of records)"
    )
    parser.add_argument(
        "--limit-epsilon", required=True, type=float, help="most ε that all releases together may spend"
    )
    parser.add_argument(
        "--limit-delta", required=True, type=float, help="most δ that all releases together may spend"
    )
    parser.add_argument("--output", required=True, type=Path, help="release folder to write")
    job, given = jobs.parse_job(parser)
    limit = SpendingLimit(given.limit_epsilon, given.limit_delta)
    paths = ReleasePaths(given.entry, given.raw, given.clean, given.output, given.synthetic, limit)
    print(format_facts(release_dataset(job, paths)))


if __name__ == "__main__":
    runner.run_stage("release", main)
