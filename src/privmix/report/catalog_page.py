"""The catalog as one self-contained page: a searchable list, and a full description of each dataset."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from privmix.catalog.dataset_files import DatasetFiles
from privmix.catalog.entry import (
    Column,
    Entry,
    FileSource,
    PackageSource,
    UrlSource,
    describe_values,
    hide_password,
)
from privmix.report import format
from privmix.report.templating import environment

VISIBILITY = {
    "public": "The records are public; the report draws them.",
    "synthetic": "The records are synthetic; the report draws them.",
    "sensitive": "The report draws no record and shows only public counts.",
}
SOURCES = {"url": "download", "file": "local file", "package": "Python package", "synthetic": "generator"}
REPORTS = ("reports/summary.html", "reports/results.csv", "reports/results.parquet")
# Sizes of the lineage drawing, in pixels
WIDTH = 344  # fits a phone of 390 pixels
GAP = 30  # between rows, for the arrows
PADDING = 10
TITLE, LINE, LETTER = 18, 15, 6.7  # heights of the text lines, and width of a letter
SIDE = 196  # width of a box with an arrow beside it


@dataclass(frozen=True)
class Files:
    """Paths of the files of a run: patterns with {dataset}, {mechanism} and {epsilon}."""

    raw: str
    clean: str
    private: str
    model: str
    scores: str


@dataclass(frozen=True)
class PlannedMechanism:
    """The jobs of one mechanism on one dataset in the configured run."""

    local: bool
    jobs: int  # one per ε: each makes models and scores, and private reports if the mechanism is local
    max_coordinates: int | None = None
    min_coordinates: int = 1


@dataclass(frozen=True)
class CatalogRun:
    """The configured run: its datasets and mechanisms."""

    datasets: tuple[str, ...]
    replaced: tuple[str, ...]  # read from a local file instead of their source
    mechanisms: tuple[PlannedMechanism, ...]


@dataclass(frozen=True)
class Step:
    """A kind of file that a run makes from a dataset: title, paths and count."""

    title: str
    paths: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Lineage:
    """All steps of one dataset from its source to the report; `private` is None without local mechanisms."""

    source: Step
    raw: Step
    clean: Step
    private: Step | None
    direct: int  # number of mechanisms that fit their models to the clean records
    models: Step
    scores: Step
    report: Step

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order."""
        every = (self.source, self.raw, self.clean, self.private, self.models, self.scores, self.report)
        return tuple(step for step in every if step is not None)


@dataclass(frozen=True)
class LineageBox:
    """A drawn step: its position and its lines of text."""

    title: str
    lines: tuple[str, ...]
    note: str
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Horizontal centre, where arrows start and end."""
        return self.x + self.width / 2


@dataclass(frozen=True)
class LineageArrow:
    """A straight arrow downwards, with a label."""

    x: float
    start: float
    end: float
    label: str = ""


@dataclass(frozen=True)
class LineageGraph:
    """The whole drawing, and its description in words."""

    boxes: tuple[LineageBox, ...]
    arrows: tuple[LineageArrow, ...]
    width: float
    height: float
    words: str


@dataclass(frozen=True)
class CatalogItem:
    """The content of the page about one dataset."""

    holding: DatasetFiles
    in_run: bool
    origin: str
    words: str  # searchable text
    lineage: LineageGraph

    @property
    def entry(self) -> Entry:
        """The catalog entry."""
        return self.holding.entry


def render(holdings: Sequence[DatasetFiles], problems: Sequence[str], plan: CatalogRun, files: Files) -> str:
    """Render the page as HTML; `problems` are sentences about unreadable entries."""
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
            values=describe_values,
            exact=exact,
        )
    )


def exact(value: float) -> str:
    """Return a bound or a resolution with all digits."""
    text = f"{value:,.15g}"
    return format.plain(value) if "e" in text else text.replace("-", format.MINUS)


def role(entry: Entry, column: Column) -> str:
    """Return the role of a column."""
    if column.name in entry.coordinates:
        return "coordinate"
    if column.name in entry.attributes:
        return "attribute"
    if column.name == entry.privacy.person_column:
        return "person"
    if entry.roles is not None and column.name in entry.roles.quasi_identifiers:
        return "quasi-identifier"
    if entry.roles is not None and column.name in entry.roles.sensitive:
        return "sensitive"
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
        return hide_password(source.url)
    if isinstance(source, FileSource):
        return source.path
    if isinstance(source, PackageSource):
        return f"{source.item} from the Python package {source.package}"
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
    used = [
        each
        for each in plan.mechanisms
        if each.min_coordinates <= len(entry.coordinates)
        and (each.max_coordinates is None or len(entry.coordinates) <= each.max_coordinates)
    ]
    local, jobs = [each for each in used if each.local], sum(each.jobs for each in used)
    reports = format.count(sum(each.jobs for each in local), "file")
    private = Step(
        "Private reports", (path(files.private),), f"{format.count(len(local), 'local mechanism')}, {reports}"
    )
    return Lineage(
        source=Step("Source", ("a local file given in the configuration" if replaced else _origin(entry),)),
        raw=Step("Raw file", (path(files.raw),), size),
        clean=Step("Clean records", (path(files.clean),), records),
        private=private if local else None,
        direct=len(used) - len(local),
        models=Step("Models", (path(files.model),), format.count(jobs, "file")),
        scores=Step("Scores", (path(files.scores),), format.count(jobs, "file")),
        report=Step("Report", REPORTS, "for all datasets of the run"),
    )


def lineage_graph(lineage: Lineage) -> LineageGraph:
    """Lay out the boxes from top to bottom; an arrow beside the private reports leads to central models."""
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
    """Split a path into lines of at most `letters` letters, after a slash or a space if possible."""
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
            f"The models of {lineage.direct} central mechanisms are fitted directly to the clean records."
        )
    return " ".join(steps)


def _sentence(step: Step) -> str:
    note = f" ({step.note})" if step.note else ""
    return f"{step.title}: {', '.join(step.paths)}{note}."
