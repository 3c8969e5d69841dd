"""From raw rows to normalised records, with public bounds only."""

# All sections of a catalog entry that cleaning reads, and no other: a change to one of them makes a clean file old.
ENTRY_SECTIONS = (
    "name", "title", "reader", "columns", "coordinates", "attributes", "privacy", "expected", "visibility", "isolated",
)  # fmt: skip
