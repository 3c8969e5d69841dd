"""The catalog as one self-contained page: a list that can be searched, and everything known of each dataset."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.catalog.dataset_files import DatasetFiles
from privmix.catalog.entry import Column, Entry, FileSource, PackageSource, UrlSource
from privmix.report import format
from privmix.report.templating import environment

VISIBILITY = {
    "public": "The records are public, so the report may draw them.",
    "synthetic": "The records are made up, so the report may draw them.",
    "sensitive": "The report draws no record and tells no count that is not public.",
}
SOURCES = {"url": "download", "file": "local file", "package": "Python package", "synthetic": "generator"}
REPORTS = ("reports/summary.html", "reports/results.csv", "reports/results.parquet")
# The drawing of a lineage, which a phone shows without shrinking:
WIDTH = 344  # of the drawing: what a phone of 390 pixels leaves
GAP = 30  # between the rows, where the arrows are
PADDING = 10
TITLE, LINE, LETTER = 18, 15, 6.7  # heights of the lines of text and width of a letter of a path, in pixels
SIDE = 196  # width of a box that leaves room for an arrow beside it


@dataclass(frozen=True)
class Files:
    """Where a run puts its files: patterns with {dataset}, {mechanism} and {epsilon}."""

    raw: str
    clean: str
    private: str
    model: str
    scores: str


@dataclass(frozen=True)
class CatalogRun:
    """What the configuration makes of each of its datasets."""

    datasets: tuple[str, ...]
    replaced: tuple[str, ...]  # read from a local file instead of their source
    local: tuple[str, ...]
    central: tuple[str, ...]
    reports: int  # files of private reports
    jobs: int  # models, and as many scores


@dataclass(frozen=True)
class Step:
    """A kind of file that a run makes of a dataset: what it is called, where it lies, how many there are."""

    title: str
    paths: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Lineage:
    """Everything on the way of one dataset. Without local mechanisms there is no private file."""

    source: Step
    raw: Step
    clean: Step
    private: Step | None
    direct: int  # mechanisms that fit their models to the records themselves
    models: Step
    scores: Step
    report: Step

    @property
    def steps(self) -> tuple[Step, ...]:
        """In order."""
        every = (self.source, self.raw, self.clean, self.private, self.models, self.scores, self.report)
        return tuple(step for step in every if step is not None)


@dataclass(frozen=True)
class LineageBox:
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
class LineageArrow:
    """A straight line downwards; `label` says what goes this way."""

    x: float
    start: float
    end: float
    label: str = ""


@dataclass(frozen=True)
class LineageGraph:
    """The whole drawing, and the same in words."""

    boxes: tuple[LineageBox, ...]
    arrows: tuple[LineageArrow, ...]
    width: float
    height: float
    words: str


@dataclass(frozen=True)
class CatalogItem:
    """Everything that the page says of one dataset."""

    holding: DatasetFiles
    in_run: bool
    origin: str
    words: str  # what a search looks through
    lineage: LineageGraph

    @property
    def entry(self) -> Entry:
        """What the catalog says."""
        return self.holding.entry


def render(holdings: Sequence[DatasetFiles], problems: Sequence[str], plan: CatalogRun, files: Files) -> str:
    """The whole page as HTML; `problems` are sentences about entries that could not be read."""
    return (
        environment()
        .get_template("catalog/page.html")
        .render(
            items=[_item(holding, plan, files) for holding in holdings],
            problems=problems,
            visibilities=VISIBILITY,
            sources=SOURCES,
            files=files,
            role=role,
            exact=exact,
        )
    )


def exact(value: float) -> str:
    """A bound or a resolution with all its digits, for it is a definition."""
    text = f"{value:,.15g}"
    return format.plain(value) if "e" in text else text.replace("-", format.MINUS)


def role(entry: Entry, column: Column) -> str:
    """What a column is used for."""
    if column.name in entry.coordinates:
        return "coordinate"
    if column.name in entry.attributes:
        return "attribute"
    if column.name == entry.privacy.person_column:
        return "names the person"
    return "not used"


def _item(holding: DatasetFiles, plan: CatalogRun, files: Files) -> CatalogItem:
    entry = holding.entry
    return CatalogItem(
        holding=holding,
        in_run=entry.name in plan.datasets,
        origin=_origin(entry),
        words=_words(entry),
        lineage=lineage_graph(_lineage(holding, plan, files)),
    )


def _origin(entry: Entry) -> str:
    source = entry.source
    if isinstance(source, UrlSource):
        return source.url
    if isinstance(source, FileSource):
        return source.path
    if isinstance(source, PackageSource):
        return f"{source.item} of the Python package {source.package}"
    return f"generator {source.generator}, seed {source.seed}, {format.count(source.rows, 'row')}"


def _words(entry: Entry) -> str:
    columns = [
        part
        for column in entry.columns
        for part in (column.name, column.description, column.bound_reason, column.unit, *column.values)
    ]
    return " ".join(
        [
            *(
                entry.name,
                entry.title,
                entry.description,
                *entry.keywords,
                entry.licence.spdx,
                entry.citation,
            ),
            *(SOURCES[entry.source.kind], _origin(entry), entry.visibility, entry.privacy.note),
            *(*entry.caveats, *entry.isolated, *columns),
        ]
    )


def _lineage(holding: DatasetFiles, plan: CatalogRun, files: Files) -> Lineage:
    entry, raw, counts = holding.entry, holding.raw, holding.counts

    def path(pattern: str) -> str:
        return pattern.format(dataset=entry.name, mechanism="<mechanism>", epsilon="<ε>")

    replaced = entry.name in plan.replaced
    known = counts.kept if counts else None
    size = "" if raw is None or raw.bytes is None else format.count(raw.bytes, "byte")
    records = "" if known is None else format.count(known, "record")
    asked = format.count(len(plan.local), "local mechanism")
    private = Step(
        "Private reports", (path(files.private),), f"{asked}, {format.count(plan.reports, 'file')}"
    )
    return Lineage(
        source=Step("Source", ("a local file named in the configuration" if replaced else _origin(entry),)),
        raw=Step("Raw file", (path(files.raw),), size),
        clean=Step("Clean records", (path(files.clean),), records),
        private=private if plan.local else None,
        direct=len(plan.central),
        models=Step("Models", (path(files.model),), format.count(plan.jobs, "file")),
        scores=Step("Scores", (path(files.scores),), format.count(plan.jobs, "file")),
        report=Step("Report", REPORTS, "of all datasets of the run"),
    )


def lineage_graph(lineage: Lineage) -> LineageGraph:
    """Boxes from top to bottom; where records are fitted directly, an arrow passes the private files by."""
    boxes: list[LineageBox] = []
    top = 1.0
    forked = lineage.private is not None and lineage.direct > 0
    for step in lineage.steps:
        beside = forked and step is lineage.private
        boxes.append(_box(step, top, SIDE if beside else WIDTH - 2))
        top = boxes[-1].y + boxes[-1].height + GAP
    arrows: list[LineageArrow] = []
    for above, below in itertools.pairwise(boxes):
        x = min(above.middle, below.middle)
        arrows.append(LineageArrow(x, above.y + above.height, below.y))
    if forked:
        clean, private, models = boxes[2:5]
        passing = (private.x + private.width + WIDTH) / 2
        arrows.append(LineageArrow(passing, clean.y + clean.height, models.y, f"{lineage.direct} central"))
    return LineageGraph(tuple(boxes), tuple(arrows), WIDTH, top - GAP + 1, _lineage_words(lineage))


def wrap(path: str, letters: int) -> tuple[str, ...]:
    """A path in lines of at most that many letters, broken after a slash or a space where there is one."""
    lines = []
    while len(path) > letters:
        cut = max(path.rfind(mark, 0, letters) for mark in "/ ") + 1 or letters
        lines.append(path[:cut].rstrip(" "))
        path = path[cut:]
    return (*lines, path)


def _box(step: Step, top: float, width: float) -> LineageBox:
    letters = int((width - 2 * PADDING) / LETTER)
    lines = tuple(line for path in step.paths for line in wrap(path, letters))
    height = 2 * PADDING + TITLE + LINE * (len(lines) + bool(step.note))
    return LineageBox(step.title, lines, step.note, 1, top, width, height)


def _lineage_words(lineage: Lineage) -> str:
    steps = [_sentence(step) for step in lineage.steps]
    if lineage.private is not None and lineage.direct:
        steps.append(
            f"Fitted to the clean records directly: the models of {lineage.direct} central mechanisms."
        )
    return " ".join(steps)


def _sentence(step: Step) -> str:
    note = f" ({step.note})" if step.note else ""
    return f"{step.title}: {', '.join(step.paths)}{note}."
