"""The catalog as one self-contained page: a list that can be searched, and everything known of each dataset."""

from collections.abc import Sequence
from dataclasses import dataclass

from privmix.catalog.entry import Column, Entry, FileSource, PackageSource, UrlSource
from privmix.catalog.holding import Holding
from privmix.report import phrases
from privmix.report.environment import environment
from privmix.report.lineage import Graph, Made, Way, graph

VISIBILITY = {
    "public": "The records are public, so the report may draw them.",
    "synthetic": "The records are made up, so the report may draw them.",
    "sensitive": "The report draws no record and tells no count that is not public.",
}
SOURCES = {"url": "download", "file": "local file", "package": "Python package", "synthetic": "generator"}
REPORTS = ("reports/summary.html", "reports/results.csv", "reports/results.parquet")


@dataclass(frozen=True)
class Files:
    """Where a run puts its files: patterns with {dataset}, {mechanism} and {epsilon}."""

    raw: str
    clean: str
    private: str
    model: str
    scores: str


@dataclass(frozen=True)
class Planned:
    """What the configuration makes of each of its datasets."""

    datasets: tuple[str, ...]
    replaced: tuple[str, ...]  # read from a local file instead of their source
    local: tuple[str, ...]
    central: tuple[str, ...]
    reports: int  # files of private reports
    jobs: int  # models, and as many scores


@dataclass(frozen=True)
class Item:
    """Everything that the page says of one dataset."""

    holding: Holding
    in_run: bool
    origin: str
    words: str  # what a search looks through
    lineage: Graph

    @property
    def entry(self) -> Entry:
        """What the catalog says."""
        return self.holding.entry


def render(holdings: Sequence[Holding], problems: Sequence[str], planned: Planned, files: Files) -> str:
    """The whole page as HTML; `problems` are sentences about entries that could not be read."""
    return (
        environment()
        .get_template("catalog.html")
        .render(
            items=[_item(holding, planned, files) for holding in holdings],
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
    return phrases.plain(value) if "e" in text else text.replace("-", phrases.MINUS)


def role(entry: Entry, column: Column) -> str:
    """What a column is used for."""
    if column.name in entry.coordinates:
        return "coordinate"
    if column.name in entry.attributes:
        return "attribute"
    if column.name == entry.privacy.person_column:
        return "names the person"
    return "not used"


def _item(holding: Holding, planned: Planned, files: Files) -> Item:
    entry = holding.entry
    return Item(
        holding=holding,
        in_run=entry.name in planned.datasets,
        origin=_origin(entry),
        words=_words(entry),
        lineage=graph(_way(holding, planned, files)),
    )


def _origin(entry: Entry) -> str:
    source = entry.source
    if isinstance(source, UrlSource):
        return source.url
    if isinstance(source, FileSource):
        return source.path
    if isinstance(source, PackageSource):
        return f"{source.item} of the Python package {source.package}"
    return f"generator {source.generator}, seed {source.seed}, {phrases.count(source.rows, 'row')}"


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


def _way(holding: Holding, planned: Planned, files: Files) -> Way:
    entry, raw, counts = holding.entry, holding.raw, holding.counts

    def path(pattern: str) -> str:
        return pattern.format(dataset=entry.name, mechanism="<mechanism>", epsilon="<ε>")

    replaced = entry.name in planned.replaced
    known = counts.kept if counts else None
    size = "" if raw is None or raw.bytes is None else phrases.count(raw.bytes, "byte")
    records = "" if known is None else phrases.count(known, "record")
    asked = phrases.count(len(planned.local), "local mechanism")
    private = Made(
        "Private reports", (path(files.private),), f"{asked}, {phrases.count(planned.reports, 'file')}"
    )
    return Way(
        source=Made("Source", ("a local file named in the configuration" if replaced else _origin(entry),)),
        raw=Made("Raw file", (path(files.raw),), size),
        clean=Made("Clean records", (path(files.clean),), records),
        private=private if planned.local else None,
        direct=len(planned.central),
        models=Made("Models", (path(files.model),), phrases.count(planned.jobs, "file")),
        scores=Made("Scores", (path(files.scores),), phrases.count(planned.jobs, "file")),
        report=Made("Report", REPORTS, "of all datasets of the run"),
    )
