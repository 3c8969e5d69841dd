"""`release.html`: the model card with a picture of the model over synthetic rows, as one self-contained file."""

from dataclasses import dataclass

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import FittedModel
from privmix.release import card, synthetic
from privmix.release.folder import ReleasedModel
from privmix.report.figures import SERIES
from privmix.report.model_plot import draw_model, draw_records
from privmix.report.plot_window import plot_window
from privmix.report.templating import environment

POINTS = 5000  # most synthetic rows in the picture


@dataclass(frozen=True, eq=False)
class Rows:
    """Synthetic rows to draw behind the model. They are not records."""

    domain: Domain
    cloud: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class Page:
    """The page, and its two parts that a drawing library makes: the SVG picture, and the bitmap of the rows."""

    text: str
    picture: str
    bitmap: str | None


def render(model: ReleasedModel) -> Page:
    """Render the page. It is a function of the model, whose seed gives the synthetic rows."""
    columns = next(synthetic.sample_parts(model, POINTS))
    rows = np.column_stack([columns[axis.name] for axis in model.domain.axes])
    shown = Rows(model.domain, rows, np.empty((0, len(model.domain.axes))))
    fitted = FittedModel(replicate=0, seconds=0.0, **model.normalised.model_dump())
    window = plot_window(shown, [fitted])
    bitmap = draw_records(window, shown)
    picture = draw_model(
        window, shown, fitted, SERIES[0], "model", "The released mixture", "cloud" if bitmap else None
    )
    text = (
        environment()
        .get_template("release.html")
        .render(
            model=model,
            title=card.title(model),
            lead=card.lead(model),
            sections=card.sections(model),
            bitmap=bitmap,
            picture=picture,
        )
    )
    return Page(text, str(picture), bitmap)
