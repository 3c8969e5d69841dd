"""The configuration: keys, types, defaults and descriptions. Everything else about it is generated from here."""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from privmix.errors import UserError, suggest, to_user_error

Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class SettingsModel(BaseModel):
    """Base of all sections: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class MechanismSettings(BaseModel):
    """A mechanism of the sweep: a `method` of the registry and that method's own parameters."""

    model_config = ConfigDict(frozen=True, extra="allow")

    method: str = Field(description="Name of a method in the registry.")

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's parameters; the method itself validates them."""
        return dict(self.model_extra or {})


class EvaluationSettings(SettingsModel):
    """How fitted models are attacked."""

    false_positive_rates: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.001, 0.01),
        description="Rates at which the attacker's true-positive rate is reported.",
    )
    worst_record_runs: int = Field(
        default=10, ge=3, description="Fits with and fits without the isolated person, each this many."
    )
    worst_record_records: int = Field(
        default=1_000_000,
        ge=100,
        description="Most training records that these fits are made to, drawn at random beside the isolated person.",
    )
    shadows: int = Field(
        default=0,
        ge=0,
        description="Shadow models of each attack that needs them, in pairs; 0 leaves those attacks out.",
    )
    shadow_records: int = Field(
        default=2000, ge=40, description="Most records of the pool of whose halves shadow models are fitted."
    )
    shadow_mechanisms: Literal["all"] | tuple[Identifier, ...] = Field(
        default="all", description="Ids of the mechanisms that are attacked with shadow models, or all."
    )
    shadow_epsilons: (
        Literal["all", "reference"] | tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...]
    ) = Field(
        default="all",
        description="Budgets at which they are: all, reference (the one nearest to 1), or a list. "
        "What spends no budget is attacked in any case.",
    )


class AuditSettings(SettingsModel):
    """How claims are tested."""

    runs: int = Field(default=300, ge=20, description="Runs of each world in the audit's game.")
    strict: bool = Field(
        default=False, description="A model that fails its replay stops the run instead of being marked."
    )


class ReleaseSettings(SettingsModel):
    """What all releases of the same records together may cost, and where that is written down."""

    limit_epsilon: float = Field(
        default=3.0, gt=0, allow_inf_nan=False, description="ε of all releases of a dataset together."
    )
    limit_delta: float = Field(
        default=1e-5, ge=0, lt=1, description="δ of all releases of a dataset together."
    )
    accounts: str = Field(
        default="releases/.spending",
        description="Folder of the accounts of what was spent: keep it, and back it up. It is not published.",
    )


class ComponentChoiceSettings(SettingsModel):
    """How the number of Gaussians is chosen where `components` is `auto`."""

    candidates: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1, 2, 4, 8, 16),
        min_length=2,
        description="The numbers to choose among: public, never from the data.",
    )
    budget_share: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="Part of epsilon that the choice costs a mechanism which cannot choose from what it releases.",
    )

    @field_validator("candidates")
    @classmethod
    def _check_distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) != len(value):
            raise ValueError("the same value stands there twice")
        return value


Components = Annotated[int, Field(ge=1)] | Literal["auto"]


class Settings(SettingsModel):
    """Everything that a run is made from. One YAML file, checked before any rule is built."""

    catalog_dirs: tuple[str, ...] = Field(
        default=("data/catalog",), min_length=1, description="Folders of catalog entries; later ones win."
    )
    datasets: tuple[Identifier, ...] = Field(min_length=1, description="Names of catalog entries.")
    sources: dict[str, str] = Field(
        default={}, description="Dataset to local file that is read instead of its source, unchecked."
    )
    mechanisms: dict[Identifier, MechanismSettings] = Field(
        min_length=1, description="Mechanisms by id; set an inherited id to null to leave it out."
    )
    epsilons: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(
        min_length=1, description="Privacy budgets of the sweep."
    )
    delta: float = Field(default=1e-6, ge=0, lt=1, description="Probability with which epsilon may fail.")
    replicates: int = Field(default=3, ge=1, description="Independent runs of each mechanism.")
    components: Components | dict[str, Components] = Field(
        default=10, description="Number of Gaussians, or auto to have it chosen: one for all, or by dataset."
    )
    component_choice: ComponentChoiceSettings = ComponentChoiceSettings()
    master_seed: int = Field(default=0, ge=0, description="Every stream of a benchmark derives from it.")
    evaluation: EvaluationSettings = EvaluationSettings()
    audit: AuditSettings = AuditSettings()
    release: ReleaseSettings = ReleaseSettings()

    @field_validator("mechanisms", mode="before")
    @classmethod
    def _drop_null_mechanisms(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mechanism for key, mechanism in value.items() if mechanism is not None}
        return value

    @field_validator("datasets", "epsilons")
    @classmethod
    def _check_distinct(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(value)) != len(value):
            raise ValueError("the same value stands there twice")
        return value

    @field_validator("epsilons")
    @classmethod
    def _check_path_digits(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        for epsilon in value:
            if float(format(epsilon, "g")) != epsilon:
                raise ValueError(f"{epsilon!r} has more than the six digits that file names keep")
        return value

    def components_for(self, dataset: str) -> tuple[int, ...]:
        """The number of Gaussians for that dataset, or those to choose among."""
        wanted = self.components[dataset] if isinstance(self.components, dict) else self.components
        return self.component_choice.candidates if wanted == "auto" else (wanted,)

    @property
    def reference_epsilon(self) -> float:
        """The budget nearest to 1 in ratio, which the report shows first."""
        return min(sorted(self.epsilons), key=lambda epsilon: abs(math.log(epsilon)))

    def shadows_for(self, mechanism: str, epsilon: float) -> int:
        """How many shadow models attack that mechanism at that budget."""
        mechanisms, at = self.evaluation.shadow_mechanisms, self.evaluation.shadow_epsilons
        budgets = (self.reference_epsilon,) if at == "reference" else at
        attacked = mechanisms == "all" or mechanism in mechanisms
        return self.evaluation.shadows if attacked and (at == "all" or epsilon in (*budgets, math.inf)) else 0


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    sections = {
        "evaluation": EvaluationSettings,
        "component_choice": ComponentChoiceSettings,
        "audit": AuditSettings,
        "release": ReleaseSettings,
    }
    return list(sections.get(str(location[0]) if location else "", Settings).model_fields)


def load_settings(config: dict[str, Any]) -> Settings:
    """Validate a configuration, or raise one sentence with key, value and nearest valid choice."""
    try:
        settings = Settings.model_validate(config)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise to_user_error(error, "configuration", _known_keys(problem["loc"])) from error
    if isinstance(settings.components, dict):
        for dataset in settings.datasets:
            if dataset not in settings.components:
                raise UserError(
                    f"configuration: components names no number for dataset {dataset!r}; "
                    f"add `{dataset}: 10` under components, or give one number for all."
                )
    _check_shadow_targets(settings, {*settings.mechanisms, *config["mechanisms"]})
    for dataset in settings.sources:
        if dataset not in settings.datasets:
            raise UserError(
                f"configuration: sources names {dataset!r}, which is not in datasets "
                f"({', '.join(settings.datasets)}); add it there or remove it."
            )
    return settings


def _check_shadow_targets(settings: Settings, mechanisms: set[str]) -> None:
    """Whoever is to be attacked must be there, or be left out by name: the default names some whom others leave out."""
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
