"""From raw rows to normalised records, with public bounds only."""

# The sections of a catalog entry that cleaning reads. A change to one of them makes the clean file outdated.
ENTRY_SECTIONS = (
    "name", "title", "reader", "columns", "coordinates", "attributes", "privacy", "expected", "visibility", "isolated",
)  # fmt: skip
