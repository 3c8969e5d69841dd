"""The records of a release: all records of a clean file, and what is public about them.

No record is held out: a release is not scored, and every record improves it. The public number of records is
therefore that of the whole file where the relation keeps it, and otherwise what the catalog expects of the file.
"""

from dataclasses import replace

import numpy as np

from privmix.artefacts.clean import CleanData, CleanInfo
from privmix.artefacts.domain import Domain
from privmix.catalog.entry import Entry
from privmix.clean import ENTRY_SECTIONS
from privmix.errors import UserError
from privmix.mechanisms.base import Records, training_records

BEYOND = 1e-9  # of the half-diagonal of the box: more is no rounding


def whole_domain(entry: Entry, info: CleanInfo) -> Domain:
    """What is public, for all records together."""
    privacy, expected = entry.privacy, entry.expected
    if privacy.rows_are_public:
        return info.domain.model_copy(update={"rows": info.counts.kept, "persons": None})
    rows = expected.rows
    if privacy.unit == "person" and expected.persons is not None:
        rows = min(rows, expected.persons * privacy.max_records_per_person)
    persons = expected.persons if privacy.unit == "person" else None
    return info.domain.model_copy(update={"rows": rows, "persons": persons})


def all_records(clean: CleanData) -> Records:
    """Every record, of training and of the holdout."""
    return training_records(replace(clean, train=np.ones(len(clean.person), dtype=bool)))


def check_records(entry: Entry, clean: CleanData) -> None:
    """Refuse records that do not fit their catalog entry. What is said here is for the curator alone."""
    info, domain = clean.info, clean.info.domain
    if info.entry_digest != entry.digest(*ENTRY_SECTIONS):
        raise UserError(
            f"{entry.name}: the clean file was made from another catalog entry; clean it again: "
            f"`snakemake --cores 1 data/clean/{entry.name}.parquet`."
        )
    if (clean.points < domain.lower - BEYOND).any() or (clean.points > domain.upper + BEYOND).any():
        raise UserError(
            f"{entry.name}: a record of the clean file lies outside the public bounds on which every guarantee rests; "
            "delete the file and clean again."
        )
    tolerated = entry.reader.tolerated_bad_share
    for column, outside in info.counts.clipped.items():
        if outside > tolerated * info.counts.read:
            raise UserError(
                f"{entry.name}: {outside:,} of {info.counts.read:,} values of {column!r} lie outside the public bounds "
                f"of the catalog entry, more than the share of {tolerated:g} that it tolerates; a model of values that "
                "were drawn to the bounds would mislead. Mend the bounds by what is publicly known, or the data."
            )
