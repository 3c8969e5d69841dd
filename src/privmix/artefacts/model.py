"""The model JSON: the mixtures of all replicates, what they claim, and what their replay has shown."""

from privmix.artefacts.fitted import Fitted
from privmix.artefacts.statement import MechanismFile
from privmix.artefacts.verdict import Verdict


class ModelFile(MechanismFile):
    """`data/models/<dataset>/<mechanism>/eps-<epsilon>.json`."""

    models: tuple[Fitted, ...]
    replay: Verdict | None = None  # of the runs that made these models; none where nothing is private
    failure: str | None = None  # a sentence, when the mechanism cannot work on this data
