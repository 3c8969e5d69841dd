"""The records of a release: all records of a clean file, and their public facts.

No record is held out: a release is not scored, and every record improves it. The public number of records is
therefore that of the whole file if the relation keeps it fixed, and otherwise the number that the catalog expects.
"""

from dataclasses import replace

import numpy as np

from privmix.artefacts.clean import CleanData, CleanInfo
from privmix.artefacts.domain import Domain
from privmix.catalog.entry import Entry
from privmix.clean import ENTRY_SECTIONS
from privmix.errors import UserError
from privmix.mechanisms.base import Records, training_records

BEYOND = 1e-9  # tolerance for rounding, relative to the half-diagonal of the box


def whole_domain(entry: Entry, info: CleanInfo) -> Domain:
    """Return the public domain of all records together."""
    privacy, expected = entry.privacy, entry.expected
    if privacy.rows_are_public:
        return info.domain.model_copy(update={"rows": info.counts.kept, "persons": None})
    rows = expected.rows
    if rows is not None and privacy.unit == "person" and expected.persons is not None:
        rows = min(rows, expected.persons * privacy.max_records_per_person)
    persons = expected.persons if privacy.unit == "person" else None
    return info.domain.model_copy(update={"rows": rows, "persons": persons})


def all_records(clean: CleanData) -> Records:
    """Return all records, training and held-out."""
    return training_records(replace(clean, train=np.ones(len(clean.person), dtype=bool)))


def check_records(entry: Entry, clean: CleanData) -> None:
    """Refuse records that do not fit their catalog entry. Only the curator sees the messages."""
    info, domain = clean.info, clean.info.domain
    if info.entry_digest != entry.digest(*ENTRY_SECTIONS):
        raise UserError(
            f"{entry.name}: the clean file was made from another version of the catalog entry; clean it again: "
            f"`snakemake --cores 1 data/clean/{entry.name}.parquet`."
        )
    if (clean.points < domain.lower - BEYOND).any() or (clean.points > domain.upper + BEYOND).any():
        raise UserError(
            f"{entry.name}: a record of the clean file lies outside the public bounds, which every guarantee "
            "depends on; delete the file and clean the dataset again."
        )
    tolerated = entry.reader.tolerated_bad_share
    for column, outside in info.counts.clipped.items():
        if outside > tolerated * info.counts.read:
            raise UserError(
                f"{entry.name}: {outside:,} of {info.counts.read:,} values of {column!r} lie outside the public bounds "
                f"of the catalog entry, more than the tolerated share of {tolerated:g}. A model of clipped values "
                "would mislead: correct the bounds from public knowledge, or correct the data."
            )
