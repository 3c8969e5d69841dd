"""The way of a dataset from its source to the report, laid out as a graph that a phone shows without shrinking."""

import itertools
from dataclasses import dataclass

WIDTH = 344  # of the drawing: what a phone of 390 pixels leaves
GAP = 30  # between the rows, where the arrows are
PADDING = 10
TITLE, LINE, LETTER = 18, 15, 6.7  # heights of the lines of text and width of a letter of a path, in pixels
SIDE = 196  # width of a box that leaves room for an arrow beside it


@dataclass(frozen=True)
class Made:
    """A kind of file that a run makes of a dataset: what it is called, where it lies, how many there are."""

    title: str
    paths: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Way:
    """Everything on the way of one dataset. Without local mechanisms there is no private file."""

    source: Made
    raw: Made
    clean: Made
    private: Made | None
    direct: int  # mechanisms that fit their models to the records themselves
    models: Made
    scores: Made
    report: Made

    @property
    def steps(self) -> tuple[Made, ...]:
        """In order."""
        made = (self.source, self.raw, self.clean, self.private, self.models, self.scores, self.report)
        return tuple(step for step in made if step is not None)


@dataclass(frozen=True)
class Box:
    """A drawn step: its place, and lines that fit into it."""

    title: str
    lines: tuple[str, ...]
    note: str
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Where arrows meet it."""
        return self.x + self.width / 2


@dataclass(frozen=True)
class Arrow:
    """A straight line downwards; `label` says what goes this way."""

    x: float
    start: float
    end: float
    label: str = ""


@dataclass(frozen=True)
class Graph:
    """The whole drawing, and the same in words."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: float
    height: float
    words: str


def graph(way: Way) -> Graph:
    """Boxes from top to bottom; where records are fitted directly, an arrow passes the private files by."""
    boxes: list[Box] = []
    top = 1.0
    forked = way.private is not None and way.direct > 0
    for step in way.steps:
        beside = forked and step is way.private
        boxes.append(_box(step, top, SIDE if beside else WIDTH - 2))
        top = boxes[-1].y + boxes[-1].height + GAP
    arrows: list[Arrow] = []
    for above, below in itertools.pairwise(boxes):
        x = min(above.middle, below.middle)
        arrows.append(Arrow(x, above.y + above.height, below.y))
    if forked:
        clean, private, models = boxes[2:5]
        passing = (private.x + private.width + WIDTH) / 2
        arrows.append(Arrow(passing, clean.y + clean.height, models.y, f"{way.direct} central"))
    return Graph(tuple(boxes), tuple(arrows), WIDTH, top - GAP + 1, _words(way))


def wrapped(path: str, letters: int) -> tuple[str, ...]:
    """A path in lines of at most that many letters, broken after a slash or a space where there is one."""
    lines = []
    while len(path) > letters:
        cut = max(path.rfind(mark, 0, letters) for mark in "/ ") + 1 or letters
        lines.append(path[:cut].rstrip(" "))
        path = path[cut:]
    return (*lines, path)


def _box(step: Made, top: float, width: float) -> Box:
    letters = int((width - 2 * PADDING) / LETTER)
    lines = tuple(line for path in step.paths for line in wrapped(path, letters))
    height = 2 * PADDING + TITLE + LINE * (len(lines) + bool(step.note))
    return Box(step.title, lines, step.note, 1, top, width, height)


def _words(way: Way) -> str:
    steps = [_sentence(step) for step in way.steps]
    if way.private is not None and way.direct:
        steps.append(f"Fitted to the clean records directly: the models of {way.direct} central mechanisms.")
    return " ".join(steps)


def _sentence(step: Made) -> str:
    note = f" ({step.note})" if step.note else ""
    return f"{step.title}: {', '.join(step.paths)}{note}."
