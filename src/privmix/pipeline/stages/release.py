"""Release: one model of all records that may be published, its card and synthetic data; and its cost is remembered."""

from pathlib import Path

from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.pipeline.release import ReleasePaths, release_dataset
from privmix.release.account import SpendingLimit


def main() -> None:
    """Read the arguments, release."""
    parser = jobs.job_parser("release", __doc__, seeded=False)
    parser.add_argument("--entry", required=True, type=Path, help="catalog entry (YAML)")
    parser.add_argument("--clean", required=True, type=Path)
    parser.add_argument("--synthetic", type=int, help="rows of synthetic data")
    parser.add_argument("--limit-epsilon", required=True, type=float, help="ε of all releases together")
    parser.add_argument("--limit-delta", required=True, type=float, help="δ of all releases together")
    parser.add_argument("--accounts", required=True, type=Path, help="folder of what was spent so far")
    parser.add_argument("--output", required=True, type=Path, help="folder of the release")
    job, given = jobs.parse_job(parser)
    limit = SpendingLimit(given.limit_epsilon, given.limit_delta)
    release_dataset(
        job, ReleasePaths(given.entry, given.clean, given.output, given.synthetic, limit, given.accounts)
    )


if __name__ == "__main__":
    runner.run_stage("release", main)
