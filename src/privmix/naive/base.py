"""The contract of a release without a guarantee: a name, a plain description, and the table that would be published."""

from typing import Protocol

import numpy as np
import pandas as pd

from privmix.naive.records import Records

NOTICE = "Do not publish: this file has no privacy guarantee. It was made to be attacked."


class NaiveRelease(Protocol):
    """What someone may publish instead of a private model. Each is a frozen dataclass of its parameters."""

    @property
    def name(self) -> str:
        """Name in the configuration, such as `k_anonymous`."""
        ...

    @property
    def description(self) -> str:
        """What is published, as one plain sentence."""
        ...

    def make_table(self, records: Records, rng: np.random.Generator) -> pd.DataFrame:
        """Return the table that would be published."""
        ...
