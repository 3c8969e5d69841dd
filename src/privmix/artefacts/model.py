"""The model JSON: the mixtures of all replicates, what they claim, and what their replay has shown."""

from typing import Any

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted import Fitted
from privmix.artefacts.part import Part
from privmix.artefacts.statement import Privacy
from privmix.artefacts.verdict import Verdict


class ModelFile(Part):
    """`data/models/<dataset>/<mechanism>/eps-<epsilon>.json`."""

    notice: str
    domain: Domain
    mechanism: str
    method: str
    parameters: dict[str, Any]
    privacy: Privacy
    models: tuple[Fitted, ...]
    replay: Verdict | None = None  # of the runs that made these models; none where nothing is private
    failure: str | None = None  # a sentence, when the mechanism cannot work on this data
