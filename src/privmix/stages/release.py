"""Release: one model of all records that may be published, its card and synthetic data; and its cost is remembered."""

from dataclasses import dataclass
from pathlib import Path

from privmix import stages
from privmix.artefacts.clean import read_clean
from privmix.catalog import store
from privmix.errors import UserError
from privmix.privacy.together import summed
from privmix.publish import checks, subject
from privmix.publish.contents import ReleasedModel
from privmix.publish.making import Task
from privmix.publish.releasing import Order, release
from privmix.publish.spending import Account, Limit
from privmix.stages import job as jobs


@dataclass(frozen=True)
class Wanted:
    """Where a release comes from and goes to, and what all of them may cost."""

    entry: Path
    clean: Path
    output: Path
    synthetic: int | None  # rows; as many as there are records where it is left out
    limit: Limit
    accounts: Path


def carry_out(job: jobs.Job, wanted: Wanted) -> ReleasedModel:
    """Make the release, and say what was made and what is left."""
    entry, clean = store.load(wanted.entry), read_clean(wanted.clean)
    subject.check(entry, clean)
    domain = subject.whole_domain(entry, clean.info)
    spec = job.spec(domain)
    rows = domain.rows if wanted.synthetic is None else wanted.synthetic
    if rows < 1:
        raise UserError(f"--synthetic {rows}: there must be at least one synthetic row.")
    order = Order(
        entry=entry,
        task=Task(job.mechanism, spec, job.budget, job.described(domain)),
        mechanism=job.name,
        method=job.method,
        parameters=job.parameters,
        rows=rows,
        statement=lambda claim, events: job.privacy(domain, claim, events, False),
    )
    account = Account(wanted.accounts, clean.info.raw_sha256, job.mechanism.relation(spec).unit)
    model = release(order, subject.all_records(clean), account, wanted.limit, wanted.output)
    total = summed(account.releases(), wanted.limit.delta)
    print(checks.summary(model, wanted.output))
    print(
        f"All {total.releases} release(s) of these records so far: ε = {total.epsilon:.4g}, δ = {total.delta:.3g}, of "
        f"at most ε = {wanted.limit.epsilon:g}, δ = {wanted.limit.delta:g}."
    )
    return model


def main() -> None:
    """Read the arguments, release."""
    parser = jobs.parser("release", __doc__, seeded=False)
    parser.add_argument("--entry", required=True, type=Path, help="catalog entry (YAML)")
    parser.add_argument("--clean", required=True, type=Path)
    parser.add_argument("--synthetic", type=int, help="rows of synthetic data")
    parser.add_argument("--limit-epsilon", required=True, type=float, help="ε of all releases together")
    parser.add_argument("--limit-delta", required=True, type=float, help="δ of all releases together")
    parser.add_argument("--accounts", required=True, type=Path, help="folder of what was spent so far")
    parser.add_argument("--output", required=True, type=Path, help="folder of the release")
    job, given = jobs.parse(parser)
    limit = Limit(given.limit_epsilon, given.limit_delta)
    carry_out(job, Wanted(given.entry, given.clean, given.output, given.synthetic, limit, given.accounts))


if __name__ == "__main__":
    stages.run("release", main)
