"""The plan of a run: the validated configuration, its datasets and mechanisms, and the files of each job."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privmix.artefacts.io import compact_json
from privmix.artefacts.statistics import StatisticRequest
from privmix.catalog.entry import Entry, find_entry, hide_password
from privmix.clean.normalisation import build_attributes, build_axes
from privmix.errors import UserError, suggest
from privmix.mechanisms import registry
from privmix.mechanisms.base import Mechanism
from privmix.mechanisms.shared.statistics.requests import read_requests
from privmix.naive import registry as naive_registry
from privmix.settings import MechanismSettings, Settings, load_settings

RAW = "data/raw/{dataset}.raw"
CLEAN = "data/clean/{dataset}.parquet"
PRIVATE = "data/private/{dataset}/{mechanism}/eps-{epsilon}.parquet"
MODEL = "data/models/{dataset}/{mechanism}/eps-{epsilon}.json"
AUDIT = "data/audits/{mechanism}/eps-{epsilon}.json"
RELEASE = "releases/{dataset}/{mechanism}/eps-{epsilon}"
NAIVE = "data/naive/{dataset}/{release}/attacks.json"
NAIVE_TABLE = "data/naive/{dataset}/{release}/table.parquet"
SCORES = "data/scores/{dataset}/{mechanism}/eps-{epsilon}.parquet"
# What Snakemake measured of each job, by stage, in the order of the pipeline.
BENCHMARKS = {
    "download": "logs/benchmarks/download/{dataset}.tsv",
    "clean": "logs/benchmarks/clean/{dataset}.tsv",
    "privatise": "logs/benchmarks/privatise/{dataset}/{mechanism}/eps-{epsilon}.tsv",
    "fit": "logs/benchmarks/fit/{dataset}/{mechanism}/eps-{epsilon}.tsv",
    "evaluate": "logs/benchmarks/evaluate/{dataset}/{mechanism}/eps-{epsilon}.tsv",
    "naive": "logs/benchmarks/naive/{dataset}/{release}.tsv",
    "audit": "logs/benchmarks/audit/{mechanism}/eps-{epsilon}.tsv",
}


@dataclass(frozen=True)
class Job:
    """One (dataset, mechanism, epsilon) of the run."""

    dataset: str
    mechanism: str
    epsilon: float

    def path(self, pattern: str) -> str:
        """The job's file of that kind."""
        return pattern.format(
            dataset=self.dataset, mechanism=self.mechanism, epsilon=format(self.epsilon, "g")
        )


@dataclass(frozen=True)
class RunPlan:
    """A whole run, checked."""

    settings: Settings
    entries: Mapping[str, Entry]
    entry_paths: Mapping[str, Path]
    mechanisms: Mapping[str, Mechanism]

    def jobs(self) -> list[Job]:
        """Every job, in the order of the configuration. What spends no budget runs once, at infinity.

        A mechanism has no jobs on a dataset with more or fewer coordinates than it can fit.
        """
        return [
            Job(dataset, mechanism, epsilon)
            for dataset in self.settings.datasets
            for mechanism, method in self.mechanisms.items()
            if self.can_fit(dataset, mechanism)
            for epsilon in (self.settings.epsilons if method.private else (math.inf,))
        ]

    def can_fit(self, dataset: str, mechanism: str) -> bool:
        """Whether the mechanism can fit as many coordinates as the catalog entry of the dataset has."""
        return self.mechanisms[mechanism].fits(len(self.entries[dataset].coordinates))

    def left_out(self, dataset: str) -> list[str]:
        """The mechanisms that have no jobs on the dataset, in the order of the configuration."""
        return [mechanism for mechanism in self.mechanisms if not self.can_fit(dataset, mechanism)]

    def naive_pairs(self) -> list[tuple[str, str]]:
        """The datasets with roles, each with every release without a guarantee, in the order of the registry."""
        asked, order = self.settings.naive_releases, list(naive_registry.RELEASES)
        releases = sorted(asked, key=lambda release: order.index(asked[release].method))
        return [
            (dataset, release)
            for dataset in self.settings.datasets
            if self.entries[dataset].roles is not None
            for release in releases
        ]

    def benchmark_paths(self, stage: str) -> list[str]:
        """The benchmark files of all jobs of a stage, each once."""
        if stage == "naive":
            pairs = self.naive_pairs()
            return [BENCHMARKS[stage].format(dataset=dataset, release=release) for dataset, release in pairs]
        jobs = self.jobs()
        if stage == "privatise":
            jobs = [job for job in jobs if self.mechanisms[job.mechanism].randomises_records]
        elif stage == "audit":
            jobs = [job for job in jobs if math.isfinite(job.epsilon)]
        return list(dict.fromkeys(job.path(BENCHMARKS[stage]) for job in jobs))

    def kinds(self) -> list[tuple[str, str]]:
        """The units and relations for which the datasets ask, each once."""
        asked = [self.entries[dataset].privacy for dataset in self.settings.datasets]
        return list(dict.fromkeys((privacy.unit, privacy.relation) for privacy in asked))

    def local_source(self, dataset: str) -> Path | None:
        """The file of this machine that the dataset is read from, if it is."""
        override = self.settings.sources.get(dataset)
        if override:
            return Path(override)
        source = self.entries[dataset].source
        return Path(source.path) if source.kind == "file" else None

    def censored_labels(self, dataset: str) -> dict[str, float]:
        """The attributes of the dataset about which labels must tell little, each with its limit in nats."""
        return self.settings.censored_labels.get(dataset, {})

    def statistics(self, dataset: str) -> tuple[StatisticRequest, ...]:
        """The statistics to publish of the dataset, checked against its catalog entry."""
        asked = self.settings.statistics_for(dataset)
        if not asked:
            return ()
        entry, where = self.entries[dataset], f"configuration: statistics of {dataset}"
        listed = [each.model_dump(exclude_none=True) for each in asked]
        return read_requests(listed, build_axes(entry), build_attributes(entry), where)

    def parameters(self, mechanism: str) -> str:
        """The mechanism's own configuration as compact JSON: what its jobs depend on."""
        return compact_json(self.settings.mechanisms[mechanism].model_dump())


def _settings_for_goal(settings: Settings) -> Settings:
    """Add the parameters that mechanisms have for a table, where the configuration does not set them."""
    if settings.goal != "table":
        return settings
    chosen = {
        name: MechanismSettings(
            method=each.method, **{**registry.method_class(each.method).for_table, **each.parameters}
        )
        for name, each in settings.mechanisms.items()
        if each.method in registry.METHODS
    }
    return settings.model_copy(update={"mechanisms": {**settings.mechanisms, **chosen}})


def make_plan(config: dict[str, Any]) -> RunPlan:
    """Check a whole configuration: keys and values, every dataset, every mechanism's parameters."""
    settings = _settings_for_goal(load_settings(config))
    found = {name: find_entry(name, settings.catalog_dirs) for name in settings.datasets}
    planned = RunPlan(
        settings=settings,
        entries={name: entry for name, (entry, _) in found.items()},
        entry_paths={name: path for name, (_, path) in found.items()},
        mechanisms={
            name: registry.build(chosen.method, chosen.parameters, where=f"configuration: mechanisms.{name}")
            for name, chosen in settings.mechanisms.items()
        },
    )
    for name, asked in settings.naive_releases.items():
        where = f"configuration: naive_releases.{name}"
        if name in settings.mechanisms:
            raise UserError(f"{where}: a mechanism has this id too; choose another id.")
        naive_registry.check(asked.method, asked.parameters, where=where)
    _check_censored(planned)
    for dataset in settings.datasets:
        planned.statistics(dataset)
        path = planned.local_source(dataset)
        if path is not None and not path.is_file():
            where = "configuration: sources" if dataset in settings.sources else f"catalog entry {dataset}"
            raise UserError(
                f"{where}: there is no file {hide_password(str(path.resolve()))}; correct the path."
            )
        if len(planned.left_out(dataset)) < len(planned.mechanisms):
            continue
        if not planned.entries[dataset].coordinates:
            raise UserError(
                f"configuration: mechanisms: no mechanism here can fit {dataset}, which has attributes but no "
                f"coordinates; add `noisy_grid`, or leave {dataset} out of `datasets`."
            )
        raise UserError(
            f"configuration: mechanisms: no mechanism can fit the {len(planned.entries[dataset].coordinates)} "
            f"coordinates of {dataset} (a mechanism handles at most "
            f"{max(mechanism.max_coordinates or 0 for mechanism in planned.mechanisms.values())} here); "
            f"add one without such a limit, for example `noisy_moments`, or leave {dataset} out of `datasets`."
        )
    return planned


def _check_censored(planned: RunPlan) -> None:
    """Check that censored labels name attributes. Datasets that are not in the run do not matter, as in components."""
    for dataset, entry in planned.entries.items():
        wanted = planned.censored_labels(dataset)
        lacking = [axis.name for axis in build_axes(entry) if axis.blank or axis.atoms]
        if wanted and lacking:
            raise UserError(
                f"configuration: censored_labels.{dataset}: records of {dataset} may lack {lacking[0]!r} (a blank or "
                "an atom), and labels limit what complete records tell only if all records are complete. Remove it, or "
                "declare this column without atoms and with `missing: drop`."
            )
        for name in wanted:
            if name not in entry.attributes:
                raise UserError(
                    f"configuration: censored_labels.{dataset} names {name!r}, which is no attribute of this dataset; "
                    + (suggest(name, entry.attributes) if entry.attributes else "it has none.")
                )
