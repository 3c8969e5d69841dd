"""From records to a release folder, in an order in which nothing can go wrong unnoticed.

1. A rehearsal: all of it with records that are made up, in a place that is thrown away. What cannot work fails here,
   for free: a mechanism, a full disk, a word in the catalog entry that no release may hold.
2. The account: what the release may cost at most is written down and on the disk, or it is refused.
3. Noise is drawn, once; the run is replayed in memory.
4. Model, card, page and synthetic rows are written beside the place of the release, and verified there.
5. The account gets the ledger, and the folder its name.

Whatever ends it after 2, the account has it; whatever ends it before the end of 5, no release is in place. Nothing of a
run is kept for another: each draws noise of its own.
"""

import datetime
import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privmix.artefacts.part import write_json
from privmix.artefacts.private import PrivateInfo
from privmix.artefacts.statement import RELEASE_NOTICE, Privacy
from privmix.catalog.entry import Entry
from privmix.errors import UserError
from privmix.mechanisms.base import Records, Release, Reports
from privmix.privacy.accounting import Claim
from privmix.privacy.ledger import Event
from privmix.privacy.streams import fresh
from privmix.privacy.together import Spent
from privmix.publish import card, checks, folder, making, page, spending, synthetic
from privmix.publish.contents import (
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
from privmix.publish.making import Task
from privmix.publish.spending import Account, Limit


@dataclass(frozen=True)
class Order:
    """What is to be released."""

    entry: Entry
    task: Task
    mechanism: str  # its id in the configuration
    method: str
    parameters: dict[str, Any]
    rows: int  # of synthetic data
    statement: Callable[[Claim, Sequence[Event]], Privacy]  # what a file of it says of its privacy


def release(order: Order, records: Records, account: Account, limit: Limit, target: Path) -> ReleasedModel:
    """Make one release of these records at `target`."""
    if not order.task.mechanism.private:
        raise UserError(
            f"{order.mechanism} is not private: there is nothing in it that could be published; "
            "choose a mechanism that spends ε."
        )
    folder.free(target)
    with folder.thrown_away(target) as place:
        rehearsal, _ = _carried_out(
            replace(order, rows=min(order.rows, making.MADE_UP)), making.made_up(order.task), place
        )
    with folder.placed(target) as place:
        number = account.begin(_what(order), _at_most(order, rehearsal), limit)
        try:
            made, model = _carried_out(order, records, place)
            account.finish(number, _anywhere(model.privacy), model.privacy.delta, made.events)
        except OSError as error:
            raise UserError(
                f"{error.strerror}: no release is in place, but its noise was drawn and counts as spent; make room, "
                "or mend the permissions, before you release again."
            ) from error
    return model


def _carried_out(order: Order, records: Records, place: Path) -> tuple[Release, ReleasedModel]:
    """Noise is drawn, and a whole release of these records written to `place` and verified."""
    made = _made(order, records, place)
    model = _model(order, made)
    _write(order, model, place)
    checks.verify(place)
    return made, model


def _what(order: Order) -> dict[str, Any]:
    domain = order.task.spec.domain
    return {
        "date": datetime.date.today().isoformat(),
        "dataset": domain.dataset,
        "mechanism": order.mechanism,
        "method": order.method,
    }


def _at_most(order: Order, rehearsal: Release) -> Spent:
    """The budget; where that is for nearby places, what the same ledger costs between any two."""
    task, budget = order.task, order.task.budget
    most = Claim(budget.epsilon, budget.delta)
    epsilon = spending.anywhere(most, rehearsal.events, task.mechanism.accountant)
    return Spent(task.mechanism.relation(task.spec).relation, epsilon, budget.delta)


def _anywhere(privacy: Privacy) -> float:
    return privacy.epsilon if privacy.epsilon_anywhere is None else privacy.epsilon_anywhere


def _made(order: Order, records: Records, place: Path) -> Release:
    if not order.task.local:
        return making.central(order.task, records)

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

    return making.local(order.task, records, place / REPORTS, said)


def _model(order: Order, made: Release) -> ReleasedModel:
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
        original=Gaussians.of(mixture.restored(centre, scale)),
        normalised=Gaussians.of(mixture),
        transcript=made.transcript,
        proportions=made.proportions,
        notes=made.notes,
        synthetic=synthetic.described(order.entry, made.proportions, order.rows),
    )


def _write(order: Order, model: ReleasedModel, place: Path) -> None:
    """All files beside the reports."""
    write_json(place / MODEL, model)
    columns = synthetic.drawn(
        model.original.mixture,
        model.domain,
        model.proportions,
        model.synthetic.columns,
        model.synthetic.rows,
        fresh(),
    )
    synthetic.write(columns, place / SYNTHETIC_PARQUET, place / SYNTHETIC_CSV)
    parts = card.sections(model, order.entry)
    (place / CARD).write_text(card.markdown(model, parts), encoding="utf-8")
    rows = np.column_stack([columns[axis.name] for axis in model.domain.axes])
    (place / PAGE).write_text(page.render(model, parts, rows), encoding="utf-8")
    (place / CHECKSUMS).write_text(checksums(place, model.files), encoding="utf-8")
