"""`release.html`: the model card with a picture of the model over synthetic rows, as one self-contained file."""

from privmix.release import card, pictures, synthetic
from privmix.release.folder import ReleasedModel
from privmix.report.templating import environment

POINTS = 5000  # most synthetic rows in the picture


def render(model: ReleasedModel) -> str:
    """Render the page. It is a function of the model, whose seed gives the synthetic rows."""
    picture = None  # without coordinates there is nothing to draw
    if model.domain.axes:
        picture = pictures.draw_model(model, synthetic.sample_coordinates(model, POINTS))
    return (
        environment()
        .get_template("release.html")
        .render(
            model=model,
            title=card.title(model),
            lead=card.lead(model),
            sections=card.sections(model),
            picture=picture,
        )
    )
