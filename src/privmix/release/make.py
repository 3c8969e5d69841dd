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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privmix.artefacts.io import write_json
from privmix.artefacts.privacy_statement import RELEASE_NOTICE, PrivacyStatement
from privmix.artefacts.private import PrivateInfo, private_writer, read_private
from privmix.audit import replay
from privmix.audit.noise_tests import low_bit_findings
from privmix.audit.recording import Recorder
from privmix.catalog.entry import Entry
from privmix.errors import UserError
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Mechanism, Randomness, Records, Release, Reports, Spec, replicate_reports
from privmix.mechanisms.local.base import write_reports
from privmix.mixture import kernel
from privmix.privacy.accounting import Budget, Claim
from privmix.privacy.composition import ReleaseCost
from privmix.privacy.exact import ExactNoise
from privmix.privacy.ledger import Event
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
class ReleaseTask:
    """Which mechanism runs, on which public values, with which budget."""

    mechanism: Mechanism
    spec: Spec
    budget: Budget
    description: str  # in a few words, for messages

    @property
    def local(self) -> bool:
        """Whether the records randomise themselves."""
        return self.mechanism.randomises_records


def exact_randomness() -> Randomness:
    """Exact noise of the operating system's entropy, and a stream for searches that nobody can repeat."""
    return Randomness(ExactNoise(), fresh_stream())


def rehearsal_records(task: ReleaseTask) -> Records:
    """Records of a rehearsal, uniform in the public box."""
    domain, rng = task.spec.domain, fresh_stream()
    places = rng.uniform(domain.lower, domain.upper, (REHEARSAL_RECORDS, len(domain.axes)))
    codes = {a.name: rng.integers(len(a.values), size=REHEARSAL_RECORDS) for a in domain.attributes}
    return Records(places, codes, np.arange(REHEARSAL_RECORDS, dtype=np.uint64))


def run_central(task: ReleaseTask, records: Records) -> Release:
    """The release of a trusted curator, unless its replay finds anything."""
    kernel.numba_kernel()  # now, so that no pass can depend on whether an earlier one has loaded it
    recorder = Recorder(exact_randomness())
    release = mechanism_run.fit(task.mechanism, records, task.spec, task.budget, recorder.randomness)
    run = recorder.finish(records, release)
    found = replay.audit_fits(task.mechanism, [run], task.spec, task.budget, fresh_stream())
    _refuse_findings([*found.findings, *low_bit_findings(run.recording)], task)
    return release


def run_local(
    task: ReleaseTask, records: Records, path: Path, said: Callable[[Reports, int], PrivateInfo]
) -> Release:
    """The model behind reports that are written to `path`, in no order; `said` gives what their file says of itself."""
    some = records.select(np.arange(min(len(records), replay.SAMPLE_ROWS)))
    found = replay.audit_local_mechanism(
        task.mechanism, some, task.spec, task.budget, lambda number: exact_randomness(), exact=True
    )
    _refuse_findings(found.findings, task)
    rng = exact_randomness()
    with private_writer(path) as writer:
        writer.info = said(*write_reports(task.mechanism, [records], task.spec, task.budget, rng, writer))
    info, [columns] = read_private(path)
    return mechanism_run.fit(task.mechanism, replicate_reports(info, 0, columns), task.spec, task.budget, rng)


def _refuse_findings(findings: Sequence[str], task: ReleaseTask) -> None:
    """Refuse what a replay has found something in; the sentence is for the curator, and in no file of a release."""
    if findings:
        raise UserError(
            f"{task.description} fails the replay of its own run: {findings[0].rstrip('.')}; nothing is released. "
            "Noise was drawn and counts as spent. Report this as a defect of the mechanism."
        )


@dataclass(frozen=True)
class ReleaseOrder:
    """What is to be released."""

    entry: Entry
    task: ReleaseTask
    mechanism: str  # its id in the configuration
    method: str
    parameters: dict[str, Any]
    rows: int  # of synthetic data
    statement: Callable[[Claim, Sequence[Event]], PrivacyStatement]  # what a file of it says of its privacy


def make_release(
    order: ReleaseOrder, records: Records, account: Account, limit: SpendingLimit, target: Path
) -> ReleasedModel:
    """Make one release of these records at `target`."""
    if not order.task.mechanism.private:
        raise UserError(
            f"{order.mechanism} is not private: there is nothing in it that could be published; "
            "choose a mechanism that spends ε."
        )
    folder.check_free(target)
    with folder.scratch_folder(target) as place:
        rehearsal, _ = _make_folder(
            replace(order, rows=min(order.rows, REHEARSAL_RECORDS)), rehearsal_records(order.task), place
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
    domain = order.task.spec.domain
    return {
        "date": datetime.date.today().isoformat(),
        "dataset": domain.dataset,
        "mechanism": order.mechanism,
        "method": order.method,
    }


def _largest_cost(order: ReleaseOrder, rehearsal: Release) -> ReleaseCost:
    """The budget; where that is for nearby places, what the same ledger costs between any two."""
    task, budget = order.task, order.task.budget
    most = Claim(budget.epsilon, budget.delta)
    epsilon = spending_account.epsilon_anywhere(most, rehearsal.events, task.mechanism.accountant)
    return ReleaseCost(task.mechanism.relation(task.spec).relation, epsilon, budget.delta)


def _epsilon_anywhere(privacy: PrivacyStatement) -> float:
    return privacy.epsilon if privacy.epsilon_anywhere is None else privacy.epsilon_anywhere


def _run_mechanism(order: ReleaseOrder, records: Records, place: Path) -> Release:
    if not order.task.local:
        return run_central(order.task, records)

    def said(reports: Reports, rows: int) -> PrivateInfo:
        task = order.task
        plan = task.mechanism.plan(task.spec, task.budget)
        return PrivateInfo(
            notice=RELEASE_NOTICE,
            domain=task.spec.domain,
            mechanism=order.mechanism,
            method=order.method,
            parameters=order.parameters,
            privacy=order.statement(reports.claim, reports.events),
            reports=[rows],
            asked=[dict(reports.asked)],
            seconds=[],
            notes=task.mechanism.remarks(reports.events, task.spec, plan),
        )

    return run_local(order.task, records, place / REPORTS, said)


def _build_model(order: ReleaseOrder, made: Release) -> ReleasedModel:
    domain, mixture = order.task.spec.domain, made.mixture
    centre, scale = ([getattr(axis, name) for axis in domain.axes] for name in ("centre", "scale"))
    return ReleasedModel(
        notice=RELEASE_NOTICE,
        made=datetime.date.today(),
        version=importlib.metadata.version("privmix"),
        domain=domain,
        mechanism=order.mechanism,
        method=order.method,
        parameters=order.parameters,
        privacy=order.statement(made.claim, made.events),
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
