"""`release.html`: the card, with a picture of the model over synthetic rows; one file that needs no network."""

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

POINTS = 5000  # synthetic rows that are drawn


@dataclass(frozen=True, eq=False)
class Rows:
    """Synthetic rows to be drawn beside the model: no records."""

    domain: Domain
    cloud: np.ndarray
    places: np.ndarray


def render(model: ReleasedModel, parts: Sequence[CardSection], rows: np.ndarray) -> str:
    """The page; `rows` are synthetic coordinates (n, d)."""
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
            guarantee=card.guarantee(model),
            sections=parts,
            bitmap=bitmap,
            picture=draw_model(
                window, shown, fitted, SERIES[0], "model", "The released mixture", "cloud" if bitmap else None
            ),
        )
    )
