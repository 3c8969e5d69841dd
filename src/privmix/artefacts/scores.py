"""The scores Parquet, and the schema of all results: one number per row."""

from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from privmix.artefacts.group_scores import GroupScores
from privmix.artefacts.io import Artefact, to_arrow
from privmix.artefacts.privacy_statement import Trust
from privmix.artefacts.usefulness import Usefulness

RESULT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("dataset", "mechanism", "method", "trust")]
    + [(name, pa.float64()) for name in ("epsilon", "delta")]
    + [(name, pa.string()) for name in ("unit", "relation")]
    + [("replicate", pa.int64()), ("metric", pa.string()), ("value", pa.float64())]
)
RESULT_COLUMNS = tuple(RESULT_SCHEMA.names)


class ScoresInfo(Artefact):
    """Schema metadata of a scores Parquet: everything that the report needs besides the numbers."""

    dataset: str
    mechanism: str
    method: str
    parameters: dict[str, Any]
    trust: Trust
    epsilon: float  # of the budget
    delta: float
    roc: list[tuple[float, float]]  # (false-positive rate, true-positive rate), loss attack, first replicate
    # The same for LiRA, pooled over all shadow models as targets.
    lira_roc: list[tuple[float, float]] = Field(default_factory=list)
    usefulness: Usefulness | None = None
    groups: GroupScores | None = None
    worst_person: str | None = None
    notes: list[str] = Field(default_factory=list)
    failure: str | None = None


def results_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows of results as a table in the schema of all results."""
    columns = []
    for field in RESULT_SCHEMA:
        values = [row[field.name] for row in rows]
        numeric = not pa.types.is_string(field.type)
        columns.append(to_arrow(np.array(values, dtype=field.type.to_pandas_dtype()) if numeric else values))
    return pa.Table.from_arrays(columns, schema=RESULT_SCHEMA)
