"""`release.html`: the model card with a picture of the model over synthetic rows, as one self-contained file."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import FittedModel
from privmix.release import card
from privmix.release.card import CardSection
from privmix.release.folder import ReleasedModel
from privmix.report.figures import SERIES
from privmix.report.model_plot import draw_model, draw_records, plot_window
from privmix.report.templating import environment

POINTS = 5000  # most synthetic rows in the picture


@dataclass(frozen=True, eq=False)
class Rows:
    """Synthetic rows to draw behind the model. They are not records."""

    domain: Domain
    cloud: np.ndarray
    places: np.ndarray


def render(model: ReleasedModel, parts: Sequence[CardSection], rows: np.ndarray) -> str:
    """Render the page. `rows` are synthetic coordinates (n, d)."""
    shown = Rows(model.domain, rows[:POINTS], np.empty((0, len(model.domain.axes))))
    fitted = FittedModel(replicate=0, seconds=0.0, **model.normalised.model_dump())
    window = plot_window(shown, [fitted])
    bitmap = draw_records(window, shown)
    return (
        environment()
        .get_template("release.html")
        .render(
            model=model,
            title=card.title(model),
            lead=card.lead(model),
            sections=parts,
            bitmap=bitmap,
            picture=draw_model(
                window, shown, fitted, SERIES[0], "model", "The released mixture", "cloud" if bitmap else None
            ),
        )
    )
