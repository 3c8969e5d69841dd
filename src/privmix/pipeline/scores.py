"""The scores of one model file and the files behind them: likelihood, tables, attacks, timing, what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from privmix.artefacts.clean import CleanData, read_clean
from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.group_scores import GroupScores
from privmix.artefacts.io import REMEDY, parse_metadata, read_json, read_schema
from privmix.artefacts.model import ModelFile
from privmix.artefacts.privacy_statement import MechanismFile
from privmix.artefacts.private import PrivateInfo
from privmix.artefacts.scores import ScoresInfo, results_table
from privmix.artefacts.usefulness import Usefulness
from privmix.attacks import attribute
from privmix.attacks.joint_density import attacked_model, log_densities
from privmix.attacks.membership import shares, worst_record
from privmix.attacks.membership.loss import loss_attack
from privmix.attacks.membership.shadow_attacks import attack_with_shadows
from privmix.errors import UserError
from privmix.evaluate.groupings import GroupingSpec
from privmix.evaluate.likelihood import likelihoods
from privmix.evaluate.statistics import statistic_errors
from privmix.mechanisms.base import training_records
from privmix.mechanisms.run import MechanismJob
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.pipeline.groups import ReplicateDensities, metric_values, score_groups
from privmix.pipeline.job import file_identity, job_identity
from privmix.pipeline.labels import score_labels
from privmix.pipeline.usefulness import TOO_FEW, Panel, score_usefulness
from privmix.privacy.hypothesis_testing import roc_curve
from privmix.privacy.noise import fresh_stream, stream


@dataclass(frozen=True)
class Score:
    """One metric of one replicate."""

    replicate: int
    metric: str
    value: float


@dataclass(frozen=True)
class ModelScores:
    """The scores, the ROC of the loss attack (first replicate) and of LiRA, details, and notes on what is missing."""

    values: tuple[Score, ...] = ()
    roc: list[tuple[float, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lira_roc: list[tuple[float, float]] = field(default_factory=list)
    usefulness: Usefulness | None = None
    groups: GroupScores | None = None


@dataclass(frozen=True)
class Reruns:
    """How often attacks rerun the mechanism, and on how many records at most."""

    worst_record_runs: int
    worst_record_records: int
    shadows: int  # number of shadow models; 0 skips these attacks
    shadow_records: int


@dataclass(frozen=True)
class ScoredFiles:
    """What an evaluation reads: records, a model of them, and the seconds of privatise for each replicate."""

    clean: CleanData
    model: ModelFile
    seconds: Sequence[float]


def read_files(
    job: MechanismJob, clean: Path, model: Path, private: Path | None, dataset: str | None = None
) -> ScoredFiles:
    """Read the files of an evaluation. All must belong to the job, and to the same version of the dataset."""
    records, fitted = read_clean(clean), read_json(model, ModelFile)
    domain = records.info.domain
    records.info.check_dataset(dataset or domain.dataset, clean)
    files: dict[Path, MechanismFile] = {model: fitted}
    seconds: Sequence[float] = ()
    if private is not None:
        info = parse_metadata(read_schema(private), PrivateInfo, private)
        files[private], seconds = info, info.seconds
    for path, file in files.items():
        job_identity(job, domain.dataset).check(path, file_identity(file))
        if file.domain != domain:
            raise UserError(f"{path} was made from another version of {clean}; {REMEDY}.")
    return ScoredFiles(records, fitted, seconds)


def score_model(
    model: ModelFile,
    clean: CleanData,
    false_positive_rates: Sequence[float],
    rng: np.random.Generator,
    groups: Sequence[GroupingSpec] = (),
    outcome: str | None = None,
    *,
    shares_too: bool = False,
) -> ModelScores:
    """Score every replicate on the training and the held-out records, and groups of records.

    `groups` are groupings besides the attributes, `outcome` is an attribute to predict, and `shares_too` attacks by
    shares as well.
    """
    values: list[Score] = []
    densities = ReplicateDensities() if groups or clean.info.domain.attributes else None
    curve: list[tuple[float, float]] = []
    held_out = int((~clean.train).sum())
    notes = [
        f"{held_out} held-out records are too few to measure a false-positive rate of {rate:g}"
        for rate in false_positive_rates
        if held_out * rate < 1
    ]
    for fitted in model.models:
        attacked = stored_model(fitted)
        (members, members_joint), (others, others_joint) = (
            log_densities(
                attacked,
                clean.points[side],
                {name: each[side] for name, each in clean.codes.items()},
                clean.info.domain,
            )
            for side in (clean.train, ~clean.train)
        )
        if not clean.info.domain.axes:  # then attributes are all that a model describes
            members, others = members_joint, others_joint
        found = {"seconds_fit": fitted.seconds, **likelihoods(members, others, clean, model.privacy.unit)}
        if attacked.shares and clean.info.domain.axes:
            found |= loss_attack(members, others, clean, false_positive_rates, "loss_coordinates")
        found |= loss_attack(members_joint, others_joint, clean, false_positive_rates)
        if fitted.statistics:
            found |= statistic_errors(fitted.statistics, training_records(clean), clean.info.domain)
        if len(clean.isolated_rows):
            found |= worst_record.distance_metrics(attacked.gaussians, clean)
        if fitted.labels is not None:
            found |= score_labels(fitted.labels, attacked.gaussians, clean)
        curve = curve or roc_curve(members_joint, others_joint)
        if densities is not None:
            densities.add(attacked, members_joint, others_joint, others)
        values += [Score(fitted.replicate, *each) for each in found.items()]
    if model.models:
        first, attacked = model.models[0], stored_model(model.models[0])
        failure = attribute.reason_not_measured(attacked, clean)
        if failure is None:
            found = attribute.infer_attributes(attacked, clean, rng).metrics()
            values += [Score(first.replicate, *each) for each in found.items()]
        else:
            notes.append(failure)
        if shares_too:
            by_shares = shares.attack_by_model_shares(attacked, clean, false_positive_rates, rng)
            values += [Score(first.replicate, *each) for each in (by_shares or {}).items()]
            if by_shares is None:
                notes.append(shares.TOO_FEW)
        if not len(clean.isolated_rows):
            notes.append(worst_record.NO_ISOLATED_PERSON)
    by_group = None if densities is None else score_groups(densities, clean, groups, outcome)
    if by_group is not None:
        numbers = [fitted.replicate for fitted in model.models]
        secret = clean.info.domain.visibility == "sensitive"
        found_groups = metric_values(by_group, sensitive=secret)
        values += [Score(numbers[each], metric, value) for each, metric, value in found_groups]
    return ModelScores(tuple(values), curve, notes, groups=by_group)


def score_tables(
    model: ModelFile, job: MechanismJob, clean: CleanData, outcome: str | None = None
) -> ModelScores:
    """Compare synthetic rows of every replicate with held-out records; `outcome` is an attribute to predict."""
    if not model.models:
        return ModelScores()
    domain, panel = clean.info.domain, Panel(max(job.components), outcome)
    # All models of a dataset are compared with the same records.
    rows = fresh_stream() if job.seed is None else stream(job.seed, domain.dataset, "usefulness")
    found = score_usefulness(
        model, clean, panel, rows, lambda number: job.randomness(domain, "usefulness", number).search
    )
    if found is None:
        return ModelScores(notes=[TOO_FEW])
    values = [Score(number, *each) for number, metrics in found.metrics.items() for each in metrics.items()]
    return ModelScores(tuple(values), usefulness=found.info)


def rerun_attacks(
    job: MechanismJob, clean: CleanData, false_positive_rates: Sequence[float], reruns: Reruns
) -> ModelScores:
    """Attack the mechanism of a job: the game on the most isolated person, and attacks with shadow models."""
    domain = clean.info.domain
    metrics: dict[str, float] = {}
    notes: list[str] = []
    curve: list[tuple[float, float]] = []
    target = (job.mechanism, clean, job.spec(domain), job.budget)
    if len(clean.isolated_rows):
        runs, most = reruns.worst_record_runs, reruns.worst_record_records
        streams = partial(job.randomness, domain, "worst record")
        metrics |= worst_record.attack_worst_record(*target, runs, most, streams).metrics()
    if reruns.shadows:
        streams = partial(job.randomness, domain, "shadow")
        shadows, most = reruns.shadows, reruns.shadow_records
        found = attack_with_shadows(*target, shadows, most, false_positive_rates, streams)
        metrics, notes, curve = metrics | found.metrics, found.notes, found.roc
    return ModelScores(tuple(Score(0, *each) for each in metrics.items()), notes=notes, lira_roc=curve)


def describe_scores(
    model: ModelFile,
    scores: ModelScores,
    tables: ModelScores,
    rerun: ModelScores,
    *,
    worst_person: str | None,
) -> ScoresInfo:
    """Return the metadata of the scores file; `worst_person` is the name of the most isolated person."""
    return ScoresInfo(
        dataset=model.domain.dataset,
        mechanism=model.mechanism,
        method=model.method,
        parameters=model.parameters,
        trust=model.privacy.trust,
        epsilon=model.privacy.budget_epsilon,
        delta=model.privacy.budget_delta,
        roc=scores.roc,
        lira_roc=rerun.lira_roc,
        usefulness=tables.usefulness,
        groups=scores.groups,
        worst_person=worst_person if model.models else None,
        notes=[*scores.notes, *tables.notes, *rerun.notes],
        failure=model.failure,
    )


def score_rows(model: ModelFile, scores: Sequence[Score], seconds_privatise: Sequence[float]) -> pa.Table:
    """Return the rows of the scores file: all scores, and the seconds of privatise for each replicate.

    epsilon and delta are the budget, the coordinate of the sweep. The model file states the claim.
    """
    privacy = model.privacy
    fixed = {
        "dataset": model.domain.dataset,
        "mechanism": model.mechanism,
        "method": model.method,
        "trust": privacy.trust,
        "epsilon": privacy.budget_epsilon,
        "delta": privacy.budget_delta,
        "unit": privacy.unit,
        "relation": privacy.relation,
    }
    timing = [Score(number, "seconds_privatise", value) for number, value in enumerate(seconds_privatise)]
    return results_table([{**fixed, **vars(score)} for score in (*scores, *timing)])


def stored_model(fitted: FittedModel) -> MixedMixture:
    """Return a stored model as an attacker uses it."""
    parts = (np.array(part) for part in (fitted.weights, fitted.means, fitted.covariances))
    return attacked_model(Mixture(*parts), {name: np.array(values) for name, values in fitted.shares.items()})
