"""Release one dataset: read its catalog entry and clean file, make the release, and sum up what was spent."""

from dataclasses import dataclass
from pathlib import Path

from privmix.artefacts.clean import read_clean
from privmix.catalog.entry import load_entry
from privmix.errors import UserError
from privmix.mechanisms.run import MechanismJob
from privmix.release import records, signing, summary
from privmix.release.account import Account
from privmix.release.charges import SpendingLimit
from privmix.release.fingerprints import fingerprint_records
from privmix.release.make import ReleaseOrder, make_release
from privmix.release.summary import Fact


@dataclass(frozen=True)
class ReleasePaths:
    """The input and output paths of a release, and the spending limit."""

    entry: Path
    raw: Path
    clean: Path
    output: Path
    synthetic: int | None  # rows; None means the public number of records
    limit: SpendingLimit


def release_dataset(job: MechanismJob, wanted: ReleasePaths) -> list[Fact]:
    """Make the release. Return its description and what is left of the spending limit."""
    entry, clean = load_entry(wanted.entry), read_clean(wanted.clean)
    clean.info.check_dataset(entry.name, wanted.clean)
    records.check_records(entry, clean)
    domain = records.whole_domain(entry, clean.info)
    rows = domain.rows if wanted.synthetic is None else wanted.synthetic
    if rows < 1:
        raise UserError(f"--synthetic {rows}: give at least one synthetic row.")
    order = ReleaseOrder(entry, job, domain, rows)
    account, key = Account(), signing.load_or_create_key()
    coordinates = clean.info.domain.denormalise(clean.points)
    fingerprints = fingerprint_records(wanted.raw, clean.info.raw_sha256, entry, account.key, coordinates)
    model, booking = make_release(
        order, records.all_records(clean), fingerprints, account, key, wanted.limit, wanted.output
    )
    return [
        *summary.describe_release(model, wanted.output),
        *summary.describe_rows(clean.info.counts),
        ("Signed by", f"{signing.public_hex(key)} (publish this key apart from the folder)"),
        *summary.describe_spending(booking, wanted.limit),
    ]
