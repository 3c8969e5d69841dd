"""Collecting reports: the records answer part by part, and their reports come out in an order that tells nothing.

`spool` shuffles them.
"""

from collections.abc import Iterable

from privmix.artefacts.private import PrivateWriter
from privmix.errors import UserError
from privmix.mechanisms.base import Randomness, Records, Reports, Spec
from privmix.mechanisms.local import LocalMechanism
from privmix.mechanisms.spool import Shuffler, shuffling
from privmix.privacy.accounting import Budget


def write_reports(
    mechanism: LocalMechanism,
    parts: Iterable[Records],
    spec: Spec,
    budget: Budget,
    rng: Randomness,
    writer: PrivateWriter,
) -> tuple[Reports, int]:
    """Write the reports of all parts in an order that tells nothing; what they cost comes back, and their number."""
    with shuffling(spec.domain.rows, rng.noise, writer.folder) as shuffler:
        said = collect(mechanism, parts, spec, budget, rng, shuffler)
        for columns in shuffler.parts():
            writer.write(columns)
    return said, shuffler.rows


def collect(
    mechanism: LocalMechanism,
    parts: Iterable[Records],
    spec: Spec,
    budget: Budget,
    rng: Randomness,
    shuffler: Shuffler,
) -> Reports:
    """The reports of all parts go into the shuffler; what they cost comes back, without rows.

    A report costs its own record's budget and no other's, so the ledger of one part is that of all.
    """
    said: Reports | None = None
    for reports in mechanism.reports(filter(len, parts), spec, budget, rng, shuffler.folder):
        if said is not None and list(said.events) != list(reports.events):
            raise UserError(
                f"{type(mechanism).__name__}: two parts of the records spent differently; "
                "this is a defect of the mechanism."
            )
        said = reports
        shuffler.add(reports.columns)
    if said is None:
        raise UserError(f"{spec.domain.dataset}: there is no training record to report.")
    return Reports({}, said.events, said.claim, said.asked)
