"""Release: one model of all records that may be published, its card and synthetic data; and its cost is remembered."""

from dataclasses import dataclass
from pathlib import Path

from privmix.artefacts.clean import read_clean
from privmix.catalog.entry import load_entry
from privmix.errors import UserError
from privmix.mechanisms import run
from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.privacy.composition import total_cost
from privmix.release import records, verify
from privmix.release.account import Account, SpendingLimit
from privmix.release.folder import ReleasedModel
from privmix.release.make import ReleaseOrder, ReleaseTask, make_release


@dataclass(frozen=True)
class ReleasePaths:
    """Where a release comes from and goes to, and what all of them may cost."""

    entry: Path
    clean: Path
    output: Path
    synthetic: int | None  # rows; as many as there are records where it is left out
    limit: SpendingLimit
    accounts: Path


def release_dataset(job: run.MechanismJob, wanted: ReleasePaths) -> ReleasedModel:
    """Make the release, and say what was made and what is left."""
    entry, clean = load_entry(wanted.entry), read_clean(wanted.clean)
    records.check_records(entry, clean)
    domain = records.whole_domain(entry, clean.info)
    spec = job.spec(domain)
    rows = domain.rows if wanted.synthetic is None else wanted.synthetic
    if rows < 1:
        raise UserError(f"--synthetic {rows}: there must be at least one synthetic row.")
    order = ReleaseOrder(
        entry=entry,
        task=ReleaseTask(job.mechanism, spec, job.budget, job.described(domain)),
        mechanism=job.name,
        method=job.method,
        parameters=job.parameters,
        rows=rows,
        statement=lambda claim, events: job.privacy(domain, claim, events, False),
    )
    account = Account(wanted.accounts, clean.info.raw_sha256, job.mechanism.relation(spec).unit)
    model = make_release(order, records.all_records(clean), account, wanted.limit, wanted.output)
    total = total_cost(account.releases(), wanted.limit.delta)
    print(verify.summary(model, wanted.output))
    print(
        f"All {total.releases} release(s) of these records so far: ε = {total.epsilon:.4g}, δ = {total.delta:.3g}, of "
        f"at most ε = {wanted.limit.epsilon:g}, δ = {wanted.limit.delta:g}."
    )
    return model


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
