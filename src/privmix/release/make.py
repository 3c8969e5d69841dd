"""Make a release: one run of a mechanism on all records, with exact noise, replayed before anyone sees it.

1. Rehearse: do everything with made-up records, in a folder that is deleted. What cannot work fails here, at no
   cost: a mechanism (too many coordinates, no δ), a full disk, a word in the catalog entry that no release may
   hold. The rehearsal's ledger, which public values fix, says what the run will cost.
2. Account: the largest cost of the release is written to disk, or the release is refused.
3. Run: the noise is drawn once. A central run is recorded and replayed in memory; the recording is then
   discarded. For a local mechanism, other runs of the same randomizer on some of the records are replayed. A
   finding ends the release, and its noise counts as spent.
4. Write: model, card, page and synthetic rows are written beside the target folder and verified there.
5. Finish: the account gets the ledger, and the folder its name.

After step 2 the account always has the release; before the end of step 5 no release is in place. No run keeps
anything for another one: each draws its own noise.
"""

import datetime
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.artefacts.io import write_json
from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.artefacts.private import PrivateInfo, private_writer, read_private
from privmix.audit import replay
from privmix.audit.noise_tests import low_bit_findings
from privmix.audit.recording import Recorder
from privmix.catalog.entry import Entry
from privmix.errors import UserError
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Release, Spec, exact_randomness, replicate_reports
from privmix.mechanisms.local.base import write_reports
from privmix.mechanisms.run import MechanismJob
from privmix.mixture import kernel
from privmix.privacy.accounting import Claim
from privmix.privacy.composition import ReleaseCost
from privmix.privacy.noise import fresh_stream
from privmix.release import account as spending_account
from privmix.release import card, folder, page, synthetic, verify
from privmix.release.account import Account, SpendingLimit
from privmix.release.folder import (
    CARD,
    CHECKSUMS,
    MODEL,
    PAGE,
    REPORTS,
    SYNTHETIC_CSV,
    SYNTHETIC_PARQUET,
    Gaussians,
    ReleasedModel,
    checksums,
)

REHEARSAL_RECORDS = 64  # records of a rehearsal


@dataclass(frozen=True)
class ReleaseOrder:
    """What is to be released: a job on all records of a dataset, and synthetic rows."""

    entry: Entry
    job: MechanismJob
    domain: Domain
    rows: int  # of synthetic data

    @property
    def spec(self) -> Spec:
        """What the mechanism may know of the domain."""
        return self.job.spec(self.domain)


def rehearsal_records(order: ReleaseOrder) -> Records:
    """Records of a rehearsal, uniform in the public box."""
    domain, rng = order.domain, fresh_stream()
    places = rng.uniform(domain.lower, domain.upper, (REHEARSAL_RECORDS, len(domain.axes)))
    codes = {a.name: rng.integers(len(a.values), size=REHEARSAL_RECORDS) for a in domain.attributes}
    return Records(places, codes, np.arange(REHEARSAL_RECORDS, dtype=np.uint64))


def run_central(order: ReleaseOrder, records: Records) -> Release:
    """The release of a trusted curator, unless its replay finds anything."""
    kernel.numba_kernel()  # now, so that no pass can depend on whether an earlier one has loaded it
    recorder = Recorder(exact_randomness())
    job, spec = order.job, order.spec
    release = mechanism_run.fit(job.mechanism, records, spec, job.budget, recorder.randomness)
    run = recorder.finish(records, release)
    found = replay.audit_fits(job.mechanism, [run], spec, job.budget, fresh_stream())
    _refuse_findings([*found.findings, *low_bit_findings(run.recording)], order)
    return release


def run_local(order: ReleaseOrder, records: Records, path: Path) -> Release:
    """The model behind reports that are written to `path`, in random order."""
    job, spec = order.job, order.spec
    some = records.select(np.arange(min(len(records), replay.SAMPLE_ROWS)))
    found = replay.audit_local_mechanism(
        job.mechanism, some, spec, job.budget, lambda number: exact_randomness(), exact=True
    )
    _refuse_findings(found.findings, order)
    rng = exact_randomness()
    with private_writer(path) as writer:
        reports, rows = write_reports(job.mechanism, [records], spec, job.budget, rng, writer)
        writer.info = PrivateInfo(
            **job.header(order.domain, reports.claim, reports.events),
            reports=[rows],
            asked=[dict(reports.asked)],
            seconds=[],
            notes=job.mechanism.remarks(reports.events, spec, job.mechanism.plan(spec, job.budget)),
        )
    info, [columns] = read_private(path)
    return mechanism_run.fit(job.mechanism, replicate_reports(info, 0, columns), spec, job.budget, rng)


def _refuse_findings(findings: Sequence[str], order: ReleaseOrder) -> None:
    """Refuse what a replay has found something in; the sentence is for the curator, and in no file of a release."""
    if findings:
        raise UserError(
            f"{order.job.description(order.domain)} fails the replay of its own run: {findings[0].rstrip('.')}; "
            "nothing is released. Noise was drawn and counts as spent. Report this as a defect of the mechanism."
        )


def make_release(
    order: ReleaseOrder, records: Records, account: Account, limit: SpendingLimit, target: Path
) -> ReleasedModel:
    """Make one release of these records at `target`."""
    if not order.job.mechanism.private:
        raise UserError(
            f"{order.job.name} is not private: there is nothing in it that could be published; "
            "choose a mechanism that spends ε."
        )
    folder.check_free(target)
    with folder.scratch_folder(target) as place:
        rehearsal, _ = _make_folder(
            replace(order, rows=min(order.rows, REHEARSAL_RECORDS)), rehearsal_records(order), place
        )
    with folder.place_folder(target) as place:
        number = account.begin(_account_entry(order), _largest_cost(order, rehearsal), limit)
        try:
            made, model = _make_folder(order, records, place)
            account.finish(number, _epsilon_anywhere(model.privacy), model.privacy.delta, made.events)
        except OSError as error:
            raise UserError(
                f"{error.strerror}: no release is in place, but its noise was drawn and counts as spent; make room, "
                "or mend the permissions, before you release again."
            ) from error
    return model


def _make_folder(order: ReleaseOrder, records: Records, place: Path) -> tuple[Release, ReleasedModel]:
    """Noise is drawn, and a whole release of these records written to `place` and verified."""
    made = _run_mechanism(order, records, place)
    model = _build_model(order, made)
    _write_files(order, model, place)
    verify.verify(place)
    return made, model


def _account_entry(order: ReleaseOrder) -> dict[str, Any]:
    return {
        "date": datetime.date.today().isoformat(),
        "dataset": order.domain.dataset,
        "mechanism": order.job.name,
        "method": order.job.method,
    }


def _largest_cost(order: ReleaseOrder, rehearsal: Release) -> ReleaseCost:
    """The budget; where that is for nearby places, what the same ledger costs between any two."""
    mechanism, budget = order.job.mechanism, order.job.budget
    most = Claim(budget.epsilon, budget.delta)
    epsilon = spending_account.epsilon_anywhere(most, rehearsal.events, mechanism.accountant)
    return ReleaseCost(mechanism.relation(order.spec).relation, epsilon, budget.delta)


def _epsilon_anywhere(privacy: PrivacyStatement) -> float:
    return privacy.epsilon if privacy.epsilon_anywhere is None else privacy.epsilon_anywhere


def _run_mechanism(order: ReleaseOrder, records: Records, place: Path) -> Release:
    if order.job.mechanism.randomises_records:
        return run_local(order, records, place / REPORTS)
    return run_central(order, records)


def _build_model(order: ReleaseOrder, made: Release) -> ReleasedModel:
    domain, mixture = order.domain, made.mixture
    centre, scale = ([getattr(axis, name) for axis in domain.axes] for name in ("centre", "scale"))
    return ReleasedModel(
        **order.job.header(domain, made.claim, made.events),
        made=datetime.date.today(),
        version=importlib.metadata.version("privmix"),
        original=Gaussians.of(mixture.restore(centre, scale)),
        normalised=Gaussians.of(mixture),
        transcript=made.transcript,
        proportions=made.proportions,
        notes=made.notes,
        synthetic=synthetic.describe(order.entry, made.proportions, order.rows),
    )


def _write_files(order: ReleaseOrder, model: ReleasedModel, place: Path) -> None:
    """All files beside the reports."""
    write_json(place / MODEL, model)
    columns = synthetic.sample_rows(
        model.original.mixture,
        model.domain,
        model.proportions,
        model.synthetic.columns,
        model.synthetic.rows,
        fresh_stream(),
    )
    synthetic.write_rows(columns, place / SYNTHETIC_PARQUET, place / SYNTHETIC_CSV)
    parts = card.sections(model, order.entry)
    (place / CARD).write_text(card.markdown(model, parts), encoding="utf-8")
    rows = np.column_stack([columns[axis.name] for axis in model.domain.axes])
    (place / PAGE).write_text(page.render(model, parts, rows), encoding="utf-8")
    (place / CHECKSUMS).write_text(checksums(place, model.files), encoding="utf-8")
