"""Releases that people make instead of a private model: without names, k-anonymous, or as statistics.

None of them has a privacy guarantee. They are made to be attacked (`privmix.attacks`) and must not be published.

>>> import pandas as pd
>>> from privmix.naive import k_anonymity
>>> frame = pd.DataFrame({"age": [30, 30, 40, 40], "sick": ["no", "no", "yes", "no"]})
>>> found = k_anonymity.measure(frame, ["age"], ["sick"])
>>> found.k, found.distinct_l, found.t
(2, 1, 0.25)
"""

from typing import TYPE_CHECKING

from privmix import lazy_names

if TYPE_CHECKING:
    from privmix.naive import k_anonymity

__all__ = ["k_anonymity"]

__getattr__, __dir__ = lazy_names(__name__, {"k_anonymity": "k_anonymity"})
