"""The model JSON: the mixtures of all replicates, their privacy statement, and the replay's verdict."""

from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.privacy_statement import MechanismFile, ReplayVerdict


class ModelFile(MechanismFile):
    """`data/models/<dataset>/<mechanism>/eps-<epsilon>.json`."""

    models: tuple[FittedModel, ...]
    replay: ReplayVerdict | None = None  # of the runs that made these models; none where nothing is private
    failure: str | None = None  # a sentence, when the mechanism cannot work on this data
