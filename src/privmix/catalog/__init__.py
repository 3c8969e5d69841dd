"""The data catalog: the public description of each dataset, and how its file is fetched and read.

`load_entry(path)` reads one YAML file, `find_entry(name, folders)` looks a dataset up by name, and
`find_entries(folders)` lists all of them. An `Entry` states columns, bounds, privacy unit and source; everything in it
is public.
"""

from typing import TYPE_CHECKING

from privmix import lazy_names

if TYPE_CHECKING:
    from privmix.catalog.entry import Column, Entry, entry_names, find_entries, find_entry, load_entry

__all__ = ["Column", "Entry", "entry_names", "find_entries", "find_entry", "load_entry"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "entry"))
