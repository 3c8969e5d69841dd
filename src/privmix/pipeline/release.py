"""Release one dataset: read its entry and clean file, make the release, and print what it cost."""

from dataclasses import dataclass
from pathlib import Path

from privmix.artefacts.clean import read_clean
from privmix.catalog.entry import load_entry
from privmix.errors import UserError
from privmix.mechanisms.run import MechanismJob
from privmix.privacy.composition import total_cost
from privmix.release import records, verify
from privmix.release.account import Account, SpendingLimit
from privmix.release.folder import ReleasedModel
from privmix.release.make import ReleaseOrder, make_release


@dataclass(frozen=True)
class ReleasePaths:
    """Where a release comes from and goes to, and what all of them may cost."""

    entry: Path
    clean: Path
    output: Path
    synthetic: int | None  # rows; as many as there are records where it is left out
    limit: SpendingLimit
    accounts: Path


def release_dataset(job: MechanismJob, wanted: ReleasePaths) -> ReleasedModel:
    """Make the release, and say what was made and what is left."""
    entry, clean = load_entry(wanted.entry), read_clean(wanted.clean)
    records.check_records(entry, clean)
    domain = records.whole_domain(entry, clean.info)
    rows = domain.rows if wanted.synthetic is None else wanted.synthetic
    if rows < 1:
        raise UserError(f"--synthetic {rows}: there must be at least one synthetic row.")
    order = ReleaseOrder(entry, job, domain, rows)
    unit = job.mechanism.relation(order.spec).unit
    account = Account(wanted.accounts, clean.info.raw_sha256, unit)
    model = make_release(order, records.all_records(clean), account, wanted.limit, wanted.output)
    total = total_cost(account.releases(), wanted.limit.delta)
    print(verify.summary(model, wanted.output))
    print(
        f"All {total.releases} release(s) of these records so far: ε = {total.epsilon:.4g}, δ = {total.delta:.3g}, of "
        f"at most ε = {wanted.limit.epsilon:g}, δ = {wanted.limit.delta:g}."
    )
    return model
