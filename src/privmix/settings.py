"""The configuration: keys, types, defaults and descriptions. Everything else about it is generated from here."""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from privmix.errors import UserError, suggest, to_user_error

Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class SettingsModel(BaseModel):
    """Base of all sections: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class MechanismSettings(BaseModel):
    """A mechanism of the sweep: a `method` of the registry and the parameters of that method."""

    model_config = ConfigDict(frozen=True, extra="allow")

    method: str = Field(description="Name of a method in the registry.")

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's parameters; the method itself validates them."""
        return dict(self.model_extra or {})


class NaiveReleaseSettings(BaseModel):
    """A release without a guarantee to attack: its `method` and the parameters of that method."""

    model_config = ConfigDict(frozen=True, extra="allow")

    method: str = Field(
        description="pseudonymised, k_anonymous, exact_statistics, rounded, suppressed or noisy_answers."
    )

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's parameters; the method itself validates them."""
        return dict(self.model_extra or {})


class EvaluationSettings(SettingsModel):
    """Settings of the attacks on fitted models."""

    false_positive_rates: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.001, 0.01),
        description="False-positive rates at which to report the attacker's true-positive rate.",
    )
    worst_record_runs: int = Field(
        default=10, ge=3, description="Number of fits with the isolated person; the same number without."
    )
    worst_record_records: int = Field(
        default=1_000_000,
        ge=100,
        description="Maximum number of training records of these fits, drawn at random beside the isolated person.",
    )
    shadows: int = Field(
        default=0,
        ge=0,
        description="Number of shadow models per attack that needs them, fitted in pairs; 0 skips these attacks.",
    )
    shadow_records: int = Field(
        default=2000,
        ge=40,
        description="Maximum size of the pool of records; each shadow model is fitted to half of it.",
    )
    shadow_mechanisms: Literal["all"] | tuple[Identifier, ...] = Field(
        default="all", description="Ids of the mechanisms to attack with shadow models, or all."
    )
    shadow_epsilons: (
        Literal["all", "reference"] | tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...]
    ) = Field(
        default="all",
        description="Budgets at which to attack them: all, reference (the one nearest to 1), or a list. "
        "Mechanisms without a budget are always attacked.",
    )


class AuditSettings(SettingsModel):
    """Settings of the audits."""

    runs: int = Field(default=300, ge=20, description="Number of runs of each world in the audit game.")
    strict: bool = Field(
        default=False, description="Stop the run if a model fails its replay, instead of marking the model."
    )


class ReleaseSettings(SettingsModel):
    """The limit on the total cost of all releases that share records or persons."""

    limit_epsilon: float = Field(
        default=3.0,
        gt=0,
        allow_inf_nan=False,
        description="Maximum ε for one replaced record or person, of all releases together. add_remove counts double.",
    )
    limit_delta: float = Field(
        default=1e-5,
        ge=0,
        lt=1,
        description="Maximum δ for one replaced record or person, of all releases together.",
    )

    @model_validator(mode="before")
    @classmethod
    def _check_one_account(cls, value: Any) -> Any:
        if isinstance(value, dict) and "accounts" in value:
            raise ValueError(
                "accounts is no longer a setting, because a second account would not know what the first has spent; "
                "remove the key. The account is in releases/.spending; move the files of the other folder there"
            )
        return value


class ComponentChoiceSettings(SettingsModel):
    """How to choose the number of components if `components` is `auto`."""

    candidates: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1, 2, 4, 8, 16),
        min_length=2,
        description="Numbers of components to choose from: public, never taken from the data.",
    )
    budget_share: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="Share of epsilon for the choice, in mechanisms that cannot choose from their measurements alone.",
    )

    @field_validator("candidates")
    @classmethod
    def _check_distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a value is listed twice")
        return value


STATISTICS = ("count", "mean", "quantile", "histogram", "top")


class StatisticSettings(SettingsModel):
    """A statistic to publish beside the models: one of count, mean, quantile, histogram and top, with its settings."""

    count: Literal["all"] | dict[str, bool | int | float | str] | None = Field(
        default=None,
        description="Number of records: all, or {column: value} for those with this value of a category.",
    )
    mean: str | None = Field(default=None, description="Coordinate whose mean is published.")
    quantile: str | None = Field(default=None, description="Coordinate whose quantile is published.")
    q: float | None = Field(default=None, gt=0, lt=1, description="Level of the quantile; 0.5 is the median.")
    histogram: str | None = Field(
        default=None, description="Category whose values are counted, or coordinate whose bins are counted."
    )
    bins: int | None = Field(
        default=None,
        ge=1,
        description="Equal bins between the public bounds, for a histogram of a coordinate.",
    )
    top: str | None = Field(default=None, description="Category whose most frequent value is chosen.")
    by: Literal["exponential", "noisy_max"] | None = Field(
        default=None,
        description="How it is chosen: by the exponential mechanism, or as the largest count after Laplace noise.",
    )

    @property
    def kind(self) -> str:
        """Which statistic it is."""
        return next(name for name in STATISTICS if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _check_kind(self) -> "StatisticSettings":
        named = [name for name in STATISTICS if getattr(self, name) is not None]
        if len(named) != 1:
            raise ValueError(
                f"a statistic has exactly one of the keys {', '.join(STATISTICS)}, but this one has "
                f"{' and '.join(named) or 'none'}; write for instance `- mean: age`"
            )
        if isinstance(self.count, dict) and len(self.count) != 1:
            raise ValueError("a count has one column and one value; write `count: {column: value}`")
        owners = {"q": "quantile", "bins": "histogram", "by": "top"}
        for key, owner in owners.items():
            if getattr(self, key) is not None and owner != named[0]:
                raise ValueError(f"{key} is a setting of {owner}, not of {named[0]}; remove it")
        if self.quantile is not None and self.q is None:
            raise ValueError("a quantile needs its level; write `q: 0.5` for the median")
        if self.top is not None and self.by is None:
            raise ValueError("`by` is missing; write `by: exponential` or `by: noisy_max`")
        return self


Components = Annotated[int, Field(ge=1)] | Literal["auto"]
Goal = Literal["density", "table", "clusters"]


class Settings(SettingsModel):
    """The configuration of a run: one YAML file, validated before any rule is built."""

    catalog_dirs: tuple[str, ...] = Field(
        default=("data/catalog",),
        min_length=1,
        description="Folders of catalog entries; an entry in a later folder overrides an earlier one.",
    )
    datasets: tuple[Identifier, ...] = Field(min_length=1, description="Names of catalog entries.")
    sources: dict[str, str] = Field(
        default={},
        description="Local file to read instead of the source, by dataset; its content is not checked.",
    )
    mechanisms: dict[Identifier, MechanismSettings] = Field(
        min_length=1, description="Mechanisms by id; set an inherited id to null to remove it."
    )
    epsilons: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(
        min_length=1, description="Privacy budgets of the sweep."
    )
    delta: float = Field(
        default=1e-6, ge=0, lt=1, description="Probability that the guarantee of epsilon fails."
    )
    replicates: int = Field(default=3, ge=1, description="Independent runs of each mechanism.")
    components: Components | dict[str, Components] = Field(
        default=10,
        description="Number of components, or auto to choose it; one value for all datasets, or one per dataset.",
    )
    component_choice: ComponentChoiceSettings = ComponentChoiceSettings()
    master_seed: int = Field(default=0, ge=0, description="Seed of all random streams of a benchmark.")
    goal: Goal = Field(
        default="density",
        description="What the recommended mechanism is best for: density (held-out likelihood), table (distances of "
        "synthetic rows; mechanisms then fit more components, and noisy_moments counts each column) or clusters (cost "
        "of k-means centres, NICV).",
    )
    censored_labels: dict[
        Identifier, dict[Identifier, Annotated[float, Field(gt=0, allow_inf_nan=False)]]
    ] = Field(
        default={},
        description="Labels that tell little about an attribute, by dataset and attribute: the most that a label may "
        "tell about it, in nats. `dataset: null` removes those of a dataset.",
    )
    statistics: tuple[StatisticSettings, ...] | dict[str, tuple[StatisticSettings, ...]] = Field(
        default=(),
        description="Statistics that central mechanisms publish beside the model, from the same budget; one list for "
        "all datasets, or one per dataset.",
    )
    statistics_share: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="Share of the budget for all statistics together: of epsilon, or of μ² if all noise is Gaussian.",
    )
    naive_releases: dict[str, NaiveReleaseSettings] = Field(
        default={},
        description="Releases that people make instead of a private model, to attack on every dataset with roles. "
        "`id: null` removes one.",
    )
    evaluation: EvaluationSettings = EvaluationSettings()
    audit: AuditSettings = AuditSettings()
    release: ReleaseSettings = ReleaseSettings()

    @field_validator("mechanisms", "naive_releases", "censored_labels", mode="before")
    @classmethod
    def _drop_null_mechanisms(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mechanism for key, mechanism in value.items() if mechanism is not None}
        return value

    @field_validator("statistics", mode="before")
    @classmethod
    def _check_statistics(cls, value: Any) -> Any:
        """Check each statistic on its own, so that a message names it and not a branch of the type."""
        lists = value.items() if isinstance(value, dict) else [("", value)]
        for dataset, asked in lists:
            if not isinstance(asked, list | tuple):
                raise ValueError("give a list of statistics, or one list for each dataset")
            for number, each in enumerate(asked, start=1):
                try:
                    StatisticSettings.model_validate(each)
                except ValidationError as error:
                    place = f"statistic {number}" + (f" of {dataset}" if dataset else "")
                    said = str(to_user_error(error, place, StatisticSettings.model_fields))
                    raise ValueError(said.rstrip(".")) from error
        return value

    @field_validator("datasets", "epsilons")
    @classmethod
    def _check_distinct(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a value is listed twice")
        return value

    @field_validator("epsilons")
    @classmethod
    def _check_path_digits(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        for epsilon in value:
            if float(format(epsilon, "g")) != epsilon:
                raise ValueError(f"{epsilon!r} has more than six digits; file names keep only six")
        return value

    def components_for(self, dataset: str) -> tuple[int, ...]:
        """Return the number of components for a dataset, or the candidates to choose from."""
        wanted = self.components[dataset] if isinstance(self.components, dict) else self.components
        return self.component_choice.candidates if wanted == "auto" else (wanted,)

    def statistics_for(self, dataset: str) -> tuple[StatisticSettings, ...]:
        """Return the statistics to publish of a dataset."""
        return self.statistics.get(dataset, ()) if isinstance(self.statistics, dict) else self.statistics

    @property
    def reference_epsilon(self) -> float:
        """The budget nearest to 1 on a logarithmic scale; the report shows it first."""
        return min(sorted(self.epsilons), key=lambda epsilon: abs(math.log(epsilon)))

    def shadows_for(self, mechanism: str, epsilon: float) -> int:
        """Return the number of shadow models that attack a mechanism at a budget."""
        mechanisms, at = self.evaluation.shadow_mechanisms, self.evaluation.shadow_epsilons
        budgets = (self.reference_epsilon,) if at == "reference" else at
        attacked = mechanisms == "all" or mechanism in mechanisms
        return self.evaluation.shadows if attacked and (at == "all" or epsilon in (*budgets, math.inf)) else 0


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    sections: dict[str, type[BaseModel]] = {
        "evaluation": EvaluationSettings,
        "component_choice": ComponentChoiceSettings,
        "audit": AuditSettings,
        "release": ReleaseSettings,
    }
    return list(sections.get(str(location[0]) if location else "", Settings).model_fields)


def load_settings(config: dict[str, Any]) -> Settings:
    """Validate a configuration. Raise `UserError` with key, value and nearest valid choice if it is wrong."""
    if "://" in str(config.get("sources")):  # before a message shows the URL, which may hold a password
        raise UserError(
            "configuration: sources: a URL is given, but only the path of a local file is allowed; download the file "
            "and give its path, or write a catalog entry with `source: {kind: url, url: ...}`."
        )
    try:
        settings = Settings.model_validate(config)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise to_user_error(error, "configuration", _known_keys(problem["loc"])) from error
    if isinstance(settings.components, dict):
        for dataset in settings.datasets:
            if dataset not in settings.components:
                raise UserError(
                    f"configuration: components has no number for dataset {dataset!r}; "
                    f"add `{dataset}: 10` under components, or give one number for all."
                )
    _check_shadow_targets(settings, {*settings.mechanisms, *config["mechanisms"]})
    by_dataset: dict[str, Any] = {"sources": settings.sources}
    if isinstance(settings.statistics, dict):
        by_dataset["statistics"] = settings.statistics
    for key, named in by_dataset.items():
        for dataset in named:
            if dataset not in settings.datasets:
                raise UserError(
                    f"configuration: {key} names {dataset!r}, which is not in datasets "
                    f"({', '.join(settings.datasets)}); add it there or remove it."
                )
    return settings


def _check_shadow_targets(settings: Settings, mechanisms: set[str]) -> None:
    """Check that the targets of shadow attacks exist. A null mechanism counts: it may be a default target."""
    wanted, at = settings.evaluation.shadow_mechanisms, settings.evaluation.shadow_epsilons
    for name in () if wanted == "all" else wanted:
        if name not in mechanisms:
            raise UserError(
                f"configuration: evaluation.shadow_mechanisms names {name!r}, which is not in mechanisms; "
                f"{suggest(name, settings.mechanisms)}"
            )
    for epsilon in () if isinstance(at, str) else at:
        if epsilon not in settings.epsilons:
            raise UserError(
                f"configuration: evaluation.shadow_epsilons names {epsilon:g}, which is not in epsilons "
                f"({', '.join(format(each, 'g') for each in settings.epsilons)}); add it there or remove it."
            )
