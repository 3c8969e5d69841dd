"""Make a release: run a mechanism once on all records, with exact noise, and replay the run before publishing.

1. Rehearse: do everything with made-up records, in a folder that is deleted. Its name contains `rehearsal`, because a
   kill leaves it. Problems show up here, at no cost: a mechanism that cannot work (too many coordinates, no δ), a full
   disk, text in the catalog entry that a release must not hold. Public values determine the ledger of the rehearsal,
   so it states the cost of the run. The sizes of its files show whether the disk has space for the release.
2. Account: write the largest cost of the release and the fingerprints of its records to disk, or refuse the release.
3. Run: draw the noise once. A central run is recorded and replayed in memory; then the recording is discarded. For
   a local mechanism, other runs of the same randomizer on some of the records are replayed. A finding ends the
   release, and its noise counts as spent.
4. Write: write model, card, page and synthetic rows beside the target folder, sign their checksums, and verify them
   there.
5. Finish: mark the release as complete in the account and give the folder its name.

After step 2 the account always includes the release. Before the end of step 5 no release is in place. Runs share
nothing: each draws its own noise.
"""

import datetime
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privmix.artefacts.domain import Domain
from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.artefacts.private import PrivateInfo, private_writer, read_private
from privmix.audit import replay
from privmix.audit.noise_tests import low_bit_findings
from privmix.audit.recording import Recorder
from privmix.catalog.entry import Entry, hide_password
from privmix.errors import UserError
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Release, Spec, exact_randomness, replicate_reports
from privmix.mechanisms.local.base import LocalMechanism, write_reports
from privmix.mechanisms.run import MechanismJob
from privmix.mixture import kernel
from privmix.privacy.accounting import Claim
from privmix.privacy.noise import fresh_stream
from privmix.release import account as spending_account
from privmix.release import card, folder, page, signing, synthetic, verify
from privmix.release.account import Account, Booking
from privmix.release.charges import Cost, SpendingLimit
from privmix.release.fingerprints import Fingerprints
from privmix.release.folder import (
    CARD,
    CHECKSUMS,
    FORMAT,
    MODEL,
    PAGE,
    REPORTS,
    SYNTHETIC_CSV,
    SYNTHETIC_PARQUET,
    DatasetDescription,
    Gaussians,
    ReleasedModel,
    checksums,
    write_model,
)
from privmix.release.public_plan import LEAST_EPSILON, MOST_DELTA, MOST_EPSILON
from privmix.release.traces import check_own_names

REHEARSAL_RECORDS = 64  # most made-up records
CLAIM_ROUNDING = 1e-6  # by which a claim may exceed its budget through rounding


@dataclass(frozen=True)
class ReleaseOrder:
    """The order of a release: a job on all records of a dataset, and the number of synthetic rows."""

    entry: Entry
    job: MechanismJob
    domain: Domain
    rows: int  # synthetic rows

    @property
    def spec(self) -> Spec:
        """The public facts that the mechanism may use."""
        return self.job.spec(self.domain)


def rehearsal_records(order: ReleaseOrder) -> Records:
    """Draw made-up records, uniform in the public box, and no more of them than there are records."""
    domain, rng = order.domain, fresh_stream()
    number = min(REHEARSAL_RECORDS, domain.rows)
    places = rng.uniform(domain.lower, domain.upper, (number, len(domain.axes)))
    codes = {a.name: rng.integers(len(a.values), size=number) for a in domain.attributes}
    return Records(places, codes, np.arange(number, dtype=np.uint64))


def run_central(order: ReleaseOrder, records: Records) -> Release:
    """Run a central mechanism and replay the run. A finding refuses the release."""
    kernel.numba_kernel()  # load it first, so that every pass uses the same kernel
    recorder = Recorder(exact_randomness())
    job, spec = order.job, order.spec
    release = mechanism_run.fit(job.mechanism, records, spec, job.budget, recorder.randomness)
    run = recorder.finish(records, release)
    found = replay.audit_fits(job.mechanism, [run], spec, job.budget, fresh_stream())
    _refuse_findings([*found.findings, *low_bit_findings(run.recording)], order)
    return release


def run_local(order: ReleaseOrder, records: Records, path: Path) -> Release:
    """Write the reports of the records to `path` in random order, and fit the model to them."""
    job, spec, mechanism = order.job, order.spec, order.job.mechanism
    assert isinstance(mechanism, LocalMechanism)
    some = records.select(np.arange(min(len(records), replay.SAMPLE_ROWS)))
    found = replay.audit_local_mechanism(
        mechanism, some, spec, job.budget, lambda number: exact_randomness(), exact=True
    )
    _refuse_findings(found.findings, order)
    rng = exact_randomness()
    with private_writer(path, compression="none") as writer:
        reports, rows = write_reports(mechanism, [records], spec, job.budget, rng, writer)
        writer.info = PrivateInfo(
            **job.header(order.domain, reports.claim, reports.events),
            reports=[rows],
            asked=[dict(reports.asked)],
            seconds=[],
            notes=mechanism.remarks(reports.events, spec, mechanism.plan(spec, job.budget)),
        )
    info, [columns] = read_private(path)
    return mechanism_run.fit(mechanism, replicate_reports(info, 0, columns), spec, job.budget, rng)


def _refuse_findings(findings: Sequence[str], order: ReleaseOrder) -> None:
    """Refuse a run with findings. Only the curator sees the message; no file of a release holds it."""
    if findings:
        raise UserError(
            f"{order.job.description(order.domain)} fails the replay of its own run: {findings[0].rstrip('.')}. "
            "Nothing is released, but the noise was drawn and counts as spent. Report this defect of the mechanism."
        )


def make_release(
    order: ReleaseOrder,
    records: Records,
    fingerprints: Fingerprints,
    account: Account,
    key: Ed25519PrivateKey,
    limit: SpendingLimit,
    target: Path,
) -> tuple[ReleasedModel, Booking]:
    """Make one release of these records at `target`, and return it with its booking in the account."""
    if not order.job.mechanism.private:
        raise UserError(
            f"{order.job.name} is not private, so its model must not be published; choose a mechanism that spends ε."
        )
    _check_budget(order)
    spent = "nothing was spent"
    try:
        folder.check_free(target)
        with folder.scratch_folder(target.with_name(f"{target.name}.rehearsal")) as place:
            few = replace(order, rows=min(order.rows, REHEARSAL_RECORDS))
            once = Ed25519PrivateKey.generate()
            made_up = rehearsal_records(order)
            rehearsal, _ = _make_folder(few, made_up, place, once, rehearsal=True)
            needed = folder.estimate_bytes(place, order.rows / few.rows, len(records) / len(made_up))
        folder.check_space(target.parent, needed)
        folder.check_space(account.folder, folder.LEAST_SPACE)
        with folder.place_folder(target) as place:
            cost = _largest_cost(order, rehearsal, fingerprints)
            spent = "no noise was drawn"
            booking = account.begin(_account_entry(order), cost, fingerprints, limit)
            spent = "its noise counts as spent"
            _, model = _make_folder(order, records, place, key)
            account.finish(booking, _epsilon_anywhere(model.privacy), model.privacy.delta)
            _refuse_overspending(booking.cost, model.privacy)
    except OSError as error:
        raise UserError(
            f"{error.strerror or error}: {target} was not written, and {spent}. Choose another folder, free space or "
            "fix the permissions before you release again."
        ) from error
    return model, booking


def _check_budget(order: ReleaseOrder) -> None:
    """Refuse a budget that `privmix verify` would refuse."""
    epsilon, delta = order.job.budget.epsilon, order.job.budget.delta
    if not (LEAST_EPSILON <= epsilon <= MOST_EPSILON and 0 <= delta <= MOST_DELTA):
        raise UserError(
            f"a release needs an ε from {LEAST_EPSILON:g} to {MOST_EPSILON:g} and a δ of at most {MOST_DELTA:g}, but "
            f"the request has ε = {epsilon:g} and δ = {delta:g}; change --epsilon, or delta in the configuration."
        )


def _make_folder(
    order: ReleaseOrder, records: Records, place: Path, key: Ed25519PrivateKey, *, rehearsal: bool = False
) -> tuple[Release, ReleasedModel]:
    """Draw the noise, write a complete release of these records to `place`, sign it, and verify it."""
    made = _run_mechanism(order, records, place)
    if order.spec.censored and made.labels is None:
        raise UserError(
            f"{order.job.name} cannot release censored labels, because it does not measure the noisy table of "
            "components by values of attributes with these settings. Choose another mechanism, or remove "
            "`censored_labels`."
        )
    model = _build_model(order, made)
    _write_files(model, place)
    signing.sign(place, key)
    verify.verify(place, rehearsal=rehearsal)
    return made, model


def _account_entry(order: ReleaseOrder) -> dict[str, str]:
    return {
        "date": datetime.date.today().isoformat(),
        "dataset": order.domain.dataset,
        "mechanism": order.job.name,
        "method": order.job.method,
    }


def _largest_cost(order: ReleaseOrder, rehearsal: Release, fingerprints: Fingerprints) -> Cost:
    """Return the budget, or the cost between any two records if the budget is for nearby places only.

    δ is 0 if the ledger of the rehearsal is pure. Public values determine it, so the run has the same kind of ledger.
    """
    mechanism, budget = order.job.mechanism, order.job.budget
    most = Claim(budget.epsilon, budget.delta if rehearsal.claim.delta > 0 else 0.0)
    epsilon = spending_account.epsilon_anywhere(most, rehearsal.events, mechanism.accountant)
    protects = mechanism.relation(order.spec)
    return Cost(
        label="this release",
        unit=protects.unit,
        relation=protects.relation,
        epsilon=epsilon,
        delta=most.delta,
        most=fingerprints.most,
        nearby=budget.epsilon if epsilon != budget.epsilon else None,
    )


def _refuse_overspending(cost: Cost, privacy: PrivacyStatement) -> None:
    """Refuse a run that claims more than the account allowed before the noise: the limit relies on that number."""
    epsilon = _epsilon_anywhere(privacy)
    if epsilon > cost.epsilon * (1 + CLAIM_ROUNDING) or privacy.delta > cost.delta:
        raise UserError(
            f"the run cost ε = {epsilon:.6g}, δ = {privacy.delta:.3g}, more than its rehearsal stated "
            f"(ε = {cost.epsilon:.6g}, δ = {cost.delta:.3g}). Nothing is released, but the noise was drawn and counts "
            "as spent. Report this defect of the mechanism."
        )


def _epsilon_anywhere(privacy: PrivacyStatement) -> float:
    return privacy.epsilon if privacy.epsilon_anywhere is None else privacy.epsilon_anywhere


def _run_mechanism(order: ReleaseOrder, records: Records, place: Path) -> Release:
    if order.job.mechanism.randomises_records:
        return run_local(order, records, place / REPORTS)
    return run_central(order, records)


def _build_model(order: ReleaseOrder, made: Release) -> ReleasedModel:
    domain, mixture = order.domain, made.mixture
    centre, scale = (np.array([getattr(axis, name) for axis in domain.axes]) for name in ("centre", "scale"))
    return ReleasedModel(
        **order.job.header(domain, made.claim, made.events),
        format=FORMAT,
        about=_describe_dataset(order.entry),
        components=order.job.components,
        choice_share=order.job.choice_share if _pays_for_choice(order) else None,
        statistics_asked=order.job.statistics,
        statistics_share=order.job.statistics_share if order.job.statistics else None,
        made=datetime.date.today(),
        version=importlib.metadata.version("privmix"),
        original=Gaussians.of(mixture.restore(centre, scale)),
        normalised=Gaussians.of(mixture),
        shares={name: values.tolist() for name, values in made.shares.items()},
        transcript=made.transcript,
        proportions=made.proportions,
        statistics=made.statistics,
        notes=made.notes,
        labels=made.labels,
        synthetic=synthetic.describe(order.entry, made.shares, order.rows),
    )


def _pays_for_choice(order: ReleaseOrder) -> bool:
    return bool(order.spec.candidates) and not order.job.mechanism.chooses_components


def _describe_dataset(entry: Entry) -> DatasetDescription:
    return DatasetDescription(
        description=entry.description,
        licence=entry.licence.spdx,
        licence_url=hide_password(entry.licence.url),
        citation=entry.citation,
        homepage=hide_password(entry.homepage),
        caveats=entry.caveats,
        privacy_note=entry.privacy.note,
        bound_reasons=tuple(entry.column(name).bound_reason for name in entry.coordinates),
    )


def _write_files(model: ReleasedModel, place: Path) -> None:
    """Write all files except the reports and the signature."""
    check_own_names(model.model_dump_json())
    model = write_model(place / MODEL, model)
    synthetic.write_rows(model, place / SYNTHETIC_PARQUET, place / SYNTHETIC_CSV)
    (place / CARD).write_text(card.markdown(model), encoding="utf-8")
    (place / PAGE).write_text(page.render(model), encoding="utf-8")
    (place / CHECKSUMS).write_text(checksums(place, model.files), encoding="utf-8")
