"""The model JSON: the mixtures of all replicates, their privacy statement, and the replay's verdict."""

from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.privacy_statement import MechanismFile, ReplayVerdict


class ModelFile(MechanismFile):
    """`data/models/<dataset>/<mechanism>/eps-<epsilon>.json`."""

    models: tuple[FittedModel, ...]
    replay: ReplayVerdict | None = None  # of the runs behind these models; None for a non-private model
    failure: str | None = None  # why the mechanism cannot handle this dataset, as a sentence
