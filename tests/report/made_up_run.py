"""A made-up run on disk: the files of the earlier stages with plausible numbers, written in a second."""

import contextlib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import yaml

from privmix.artefacts.audit import AuditFile, EpsilonBound
from privmix.artefacts.clean import CleanData, CleanInfo, RowCounts, clean_schema, read_clean
from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.artefacts.fitted_model import FittedModel, Proportion
from privmix.artefacts.group_scores import GroupScores
from privmix.artefacts.io import write_json, write_table
from privmix.artefacts.model import ModelFile
from privmix.artefacts.privacy_statement import BENCHMARK_NOTICE, PrivacyStatement, ReplayVerdict
from privmix.artefacts.scores import RESULT_SCHEMA, ScoresInfo
from privmix.attacks.joint_density import log_densities
from privmix.pipeline.groups import ReplicateDensities, metric_values, score_groups
from privmix.pipeline.scores import stored_model
from privmix.pipeline.usefulness import Panel, score_usefulness
from privmix.report.group_costs import add_group_gaps
from privmix.report.results import Results, collect
from privmix.report.run import RunResults

PERSON = "isolated-1"
METHODS: dict[str, tuple[dict[str, Any], str, float]] = {
    # id -> settings, trust, nats lost at epsilon = 1
    "non_private": ({"method": "non_private"}, "central", 0.0),
    "dp_em_linear": ({"method": "dp_em", "noise": "llg", "composition": "linear"}, "central", 2.4),
    "dp_em_exact": ({"method": "dp_em", "noise": "ggg", "composition": "exact"}, "central", 0.3),
    "laplace_naive": ({"method": "laplace_input", "fit": "naive"}, "local", 5.0),
    "laplace_aware": ({"method": "laplace_input", "fit": "aware"}, "local", 3.1),
    "responses": ({"method": "randomized_response"}, "local", 1.6),
    "planar_5km": ({"method": "planar_laplace", "within_m": 5000.0}, "distance", 0.05),
}
USUAL = tuple(name for name in METHODS if name != "planar_5km")
WIDTHS = 4000.0  # width of the public box of a map, in units of the distance of `planar_5km`
LEDGERS = {
    "dp_em": lambda e: (
        {"kind": "laplace", "label": "weights", "count": 10, "epsilon": e / 210},
        {"kind": "laplace", "label": "means", "count": 100, "epsilon": e / 210},
        {"kind": "gaussian", "label": "second moments", "count": 100, "noise_multiplier": 900 / e},
    ),
    "laplace_input": lambda e: ({"kind": "laplace", "label": "record", "count": 1, "epsilon": e},),
    "randomized_response": lambda e: (
        {"kind": "randomized_response", "label": "cell", "count": 1, "epsilon": e / 2},
        {"kind": "randomized_response", "label": "a_at_night", "count": 1, "epsilon": e / 2},
    ),
    "planar_laplace": lambda e: (
        {
            "kind": "planar_laplace",
            "label": "place",
            "count": 1,
            "epsilon": WIDTHS * e,
            "within_m": 5000.0,
            "epsilon_within": e,
            "scale_m": 5000.0 / e,
        },
    ),
    "non_private": lambda e: (),
}


@dataclass(frozen=True)
class MadeUpData:
    """The description of a made-up dataset."""

    name: str
    dimensions: int = 2
    geographic: bool = False
    visibility: str = "public"
    isolated: bool = False
    attribute: bool = False
    rows: int = 3000
    records_each: int = 1
    unit: str = "record"
    relation: str = "replace_one"
    named: bool = True  # whether there is a person column


CHECKINS = MadeUpData(
    "checkins", geographic=True, visibility="synthetic", isolated=True, attribute=True, records_each=4
)
HOMES = MadeUpData("homes", geographic=True, isolated=True)  # one record per person
SURVEY = MadeUpData("survey", dimensions=4, visibility="public", rows=800)


def render(root: Path, configuration: dict[str, Any], figures: str | None = None) -> str:
    """Run the report stage in `root` and return its page; charts go to the folder `figures`."""
    from privmix.pipeline.stages import report

    arguments = ["report", "--configuration", json.dumps(configuration)]
    for kind, name in (("html", "summary.html"), ("csv", "results.csv"), ("parquet", "results.parquet")):
        arguments += [f"--{kind}", f"reports/{name}"]
    arguments += ["--figures", figures] if figures else []
    with contextlib.chdir(root), mock.patch.object(sys, "argv", arguments):
        report.main()
    return (root / "reports/summary.html").read_text(encoding="utf-8")


def load(root: Path, configuration: dict[str, Any]) -> tuple[RunResults, Results]:
    """Load the run as the report stage does."""
    from privmix.pipeline.results import read_run

    with contextlib.chdir(root):
        run = read_run(configuration)
    results = Results(collect(outcome.scores for outcome in run.outcomes if outcome.scores is not None))
    return run, add_group_gaps(run, results)


def write_run(
    root: Path,
    datasets: Sequence[MadeUpData] = (CHECKINS, SURVEY),
    mechanisms: Sequence[str] = USUAL,
    epsilons: Sequence[float] = (0.1, 1.0, 10.0),
    replicates: int = 3,
    failing: Sequence[tuple[str, str]] = (("survey", "responses"),),
    copies: int = 1,
    worse: float = 0.0,
) -> dict[str, Any]:
    """Write a whole run under `root` and return its configuration.

    `copies` repeats each private mechanism under further names. `worse` is subtracted from the log-likelihood of every
    private model, in nats.
    """
    names = [m for m in mechanisms if m == "non_private"]
    names += [m if not c else f"{m}_{c}" for c in range(copies) for m in mechanisms if m != "non_private"]
    base = {
        name: next(m for m in sorted(METHODS, key=len, reverse=True) if name.startswith(m)) for name in names
    }
    rng = np.random.default_rng(7)
    for data in datasets:
        domain = _domain(data)
        _write_entry(root / "catalog" / f"{data.name}.yaml", data, domain)
        truth = _write_clean(root / f"data/clean/{data.name}.parquet", data, domain, rng)
        for name in names:
            chosen, trust, lost = METHODS[base[name]]
            for epsilon in epsilons if chosen["method"] != "non_private" else (math.inf,):
                _write_job(
                    root, data, domain, truth, name, chosen, trust, (lost and lost + worse), epsilon, replicates,
                    (data.name, name) in failing, rng,
                )  # fmt: skip
    return {
        "catalog_dirs": [str(root / "catalog")],
        "datasets": [data.name for data in datasets],
        "mechanisms": {name: METHODS[base[name]][0] for name in names},
        "epsilons": list(epsilons),
        "replicates": replicates,
        "components": 6,
        "master_seed": 1,
    }


def _domain(data: MadeUpData) -> Domain:
    bounds = [(-90.0, 90.0), (-180.0, 180.0)] if data.geographic else [(0.0, 50.0)] * data.dimensions
    kinds = ["latitude", "longitude"] if data.geographic else [f"item_{i}" for i in range(data.dimensions)]
    half = math.sqrt(sum(((high - low) / 2) ** 2 for low, high in bounds))
    axes = tuple(
        Axis(
            name=kind,
            description=f"The {kind}.",
            unit="degree" if data.geographic else "points",
            geographic=kind if data.geographic else None,
            lower=low,
            upper=high,
            resolution=0.018,
            centre=(low + high) / 2,
            scale=1 / half,
        )
        for kind, (low, high) in zip(kinds, bounds, strict=True)
    )
    night = Attribute(name="at_night", description="At night.", values=("no", "yes"))
    return Domain(
        dataset=data.name,
        title=f"Made-up {data.name}",
        axes=axes,
        attributes=(night,) if data.attribute else (),
        unit=data.unit,
        relation=data.relation,
        max_records_per_person=data.records_each,
        visibility=data.visibility,
        rows=data.rows,
    )


def _write_entry(path: Path, data: MadeUpData, domain: Domain) -> None:
    columns: list[dict[str, Any]] = [{"name": "person", "type": "identifier", "description": "Who."}]
    for axis in domain.axes:
        columns.append(
            {
                "name": axis.name, "type": "number", "description": axis.description, "unit": axis.unit,
                "lower": axis.lower, "upper": axis.upper, "bound_reason": "By definition.",
                "resolution": axis.resolution,
                **({"geographic": axis.geographic} if axis.geographic else {}),
            }
        )  # fmt: skip
    if data.attribute:
        columns.append(
            {"name": "at_night", "type": "category", "description": "At night.", "values": ["no", "yes"]}
        )
    entry = {
        "name": data.name,
        "title": domain.title,
        "description": f"Records of {data.name}, made up <for a test> & escaped.",
        "licence": {"spdx": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        "source": {"kind": "file", "path": str(path.with_suffix(".csv"))},
        "reader": {"format": "csv"},
        "columns": columns,
        "coordinates": [axis.name for axis in domain.axes],
        "attributes": ["at_night"] if data.attribute else [],
        "privacy": {
            "person_column": "person" if data.named else None,
            "unit": data.unit,
            "relation": data.relation,
            "max_records_per_person": data.records_each if data.unit == "person" else 1,
        },
        "expected": {"rows": data.rows},
        "visibility": data.visibility,
        "isolated": [PERSON] if data.isolated else [],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(entry, sort_keys=False), encoding="utf-8")
    path.with_suffix(".csv").write_text("person\n", encoding="utf-8")  # must exist, but is not read


def _write_clean(path: Path, data: MadeUpData, domain: Domain, rng: np.random.Generator) -> FittedModel:
    """Write the clean records, and return the mixture that they are drawn from."""
    k, d = 6, len(domain.axes)
    weights = (1 / np.arange(1, k + 1)) / (1 / np.arange(1, k + 1)).sum()
    spread = 0.6 * (domain.upper - domain.lower) / 2
    means = rng.uniform(-spread, spread, (k, d))
    roots = rng.normal(size=(k, d, d)) * 0.05
    covariances = roots @ roots.transpose(0, 2, 1) + np.diag(domain.resolution**2)
    labels = rng.choice(k, data.rows, p=weights)
    roots = np.linalg.cholesky(covariances)[labels]
    points = means[labels] + np.einsum("nij,nj->ni", roots, rng.normal(size=(data.rows, d)))
    points = np.clip(points, domain.lower, domain.upper)
    if data.isolated:
        points[0] = domain.normalise(np.array([-54.42, 3.35]))
        means[-1] = points[0]
        covariances[-1] = np.diag(domain.resolution**2)
    train = rng.random(data.rows) < 0.8
    train[0] = True
    columns: dict[str, Any] = {"person": np.arange(data.rows, dtype=np.uint64) // data.records_each}
    columns |= {f"x{axis}": points[:, axis] for axis in range(d)}
    if data.attribute:
        columns["c_at_night"] = (rng.random(data.rows) < 0.3).astype(np.int16)
    columns["split"] = pa.array(np.where(train, "train", "holdout")).dictionary_encode()
    schema = clean_schema(d, tuple(a.name for a in domain.attributes))
    table = pa.table([pa.array(columns[f.name]).cast(f.type) for f in schema], schema=schema)
    info = CleanInfo(
        domain=domain,
        entry_digest="0" * 16,
        raw_sha256="ab" * 32,
        counts=RowCounts(
            read=data.rows + 3,
            kept=data.rows,
            dropped={"not a number": 2, "wrong number of fields": 1},
            clipped={domain.axes[0].name: 4},
            persons=-(-data.rows // data.records_each),
            train=int(train.sum()),
            holdout=int((~train).sum()),
        ),
        isolated=(0,) if data.isolated else (),
    )
    write_table(path, table, info)
    return FittedModel(
        replicate=0,
        weights=weights.tolist(),
        means=means.tolist(),
        covariances=covariances.tolist(),
        seconds=0.5,
    )


def _write_job(
    root: Path,
    data: MadeUpData,
    domain: Domain,
    truth: FittedModel,
    name: str,
    chosen: dict[str, Any],
    trust: str,
    lost: float,
    epsilon: float,
    replicates: int,
    fails: bool,
    rng: np.random.Generator,
) -> None:
    method = chosen["method"]
    private = math.isfinite(epsilon)
    delta = 1e-6 if method == "dp_em" else 0.0
    loss = lost * min(epsilon, 100.0) ** -0.5 if private else 0.0
    failure = f"{method} cannot work on {data.name}: its grid would have 10^8 cells." if fails else None
    models, rows = [], []
    shown = {
        "dataset": data.name, "mechanism": name, "method": method, "trust": trust, "epsilon": epsilon,
        "delta": 1e-6, "unit": data.unit, "relation": data.relation,
    }  # fmt: skip
    for replicate in range(0 if fails else replicates):
        models.append(_model(truth, data, min(loss, 3.0) / 3, replicate, method, epsilon, rng))
        measured = {
            "holdout_loglik": 2.0 - loss * (1 + 0.04 * rng.normal()) - 0.01 * abs(rng.normal()),
            "train_loglik": 2.1 - loss - 0.01 * replicate,
            "mia_loss_auc": 0.5 + (0.002 if private else 0.04) * (1 + 0.1 * rng.normal()),
            "seconds_fit": 0.4 + 0.1 * rng.random(),
        }
        if data.rows >= 2000:
            measured["mia_loss_tpr_at_fpr_0.001"] = 0.0013 if private else 0.03
        measured["mia_loss_tpr_at_fpr_0.01"] = 0.011 if private else 0.07
        if data.attribute:
            measured["mia_loss_coordinates_auc"] = 0.501 if private else 0.521
        if trust == "local":
            measured["seconds_privatise"] = 0.05
        if replicate == 0:
            measured |= _attacks(method, epsilon, attribute=data.attribute)
        if data.isolated:
            if data.visibility != "sensitive":
                measured["worst_record_distance_km"] = 900 * loss + 300 * rng.random() if private else 0.0004
            if replicate == 0:
                auc = 0.5 + 0.01 * rng.normal() if private else 1.0
                measured |= {"mia_worst_record_auc": auc, "mia_worst_record_auc_low": auc - 0.2}
                measured["mia_worst_record_auc_high"] = min(auc + 0.2, 1.0)
        rows += [{**shown, "replicate": replicate, "metric": m, "value": v} for m, v in measured.items()]
    privacy = PrivacyStatement(
        budget_epsilon=epsilon,
        budget_delta=1e-6,
        epsilon=epsilon,
        delta=delta,
        unit=data.unit,
        relation=data.relation,
        trust=trust,
        within_m=chosen.get("within_m"),
        epsilon_anywhere=WIDTHS * epsilon if trust == "distance" else None,
        mode="benchmark",
        accountant=chosen.get("composition", "linear"),
        ledger=() if fails else LEDGERS[method](epsilon),
    )
    if private and not fails:
        _write_audit(root, name, chosen, epsilon, delta)
    model = ModelFile(
        notice=BENCHMARK_NOTICE,
        domain=domain,
        mechanism=name,
        method=method,
        parameters={key: value for key, value in chosen.items() if key != "method"},
        privacy=privacy,
        models=tuple(models),
        replay=ReplayVerdict(runs=replicates, releases=210 * replicates, used=0.93)
        if private and not fails
        else None,
        failure=failure,
    )
    write_json(root / f"data/models/{data.name}/{name}/eps-{epsilon:g}.json", model)
    tables = score_usefulness(
        model,
        read_clean(root / f"data/clean/{data.name}.parquet"),
        Panel(3),
        np.random.default_rng(5),
        lambda replicate: np.random.default_rng([6, replicate]),
    )
    for replicate, measured in tables.metrics.items() if tables else ():
        rows += [{**shown, "replicate": replicate, "metric": m, "value": v} for m, v in measured.items()]
    groups = _score_groups(model, read_clean(root / f"data/clean/{data.name}.parquet"))
    if groups:
        rows += [
            {**shown, "replicate": number, "metric": metric, "value": value}
            for number, metric, value in metric_values(groups, sensitive=data.visibility == "sensitive")
        ]
    x = np.geomspace(0.001, 1, 60)
    info = ScoresInfo(
        **{key: shown[key] for key in ("dataset", "mechanism", "method", "trust", "epsilon", "delta")},
        parameters=model.parameters,
        roc=[] if fails else [(0.0, 0.0), *((float(a), float(a ** (0.98 if private else 0.7))) for a in x)],
        lira_roc=[(float(a), float(a ** (0.98 if private else 0.4))) for a in x]
        if not fails and "mia_lira_auc" in _attacks(method, epsilon)
        else [],
        usefulness=tables.info if tables else None,
        groups=groups,
        worst_person=PERSON if data.isolated and not fails else None,
        notes=[] if data.rows >= 2000 else ["160 held-out records are too few for a rate of 0.001."],
        failure=failure,
    )
    table = pa.Table.from_pylist(rows, RESULT_SCHEMA)
    write_table(root / f"data/scores/{data.name}/{name}/eps-{epsilon:g}.parquet", table, info)


def _score_groups(model: ModelFile, clean: CleanData) -> GroupScores | None:
    """Score the groups of the records as the evaluate stage does."""
    found = ReplicateDensities()
    for fitted in model.models:
        attacked = stored_model(fitted)
        points, joint = log_densities(attacked, clean.points, clean.codes, clean.info.domain)
        found.add(attacked, joint[clean.train], joint[~clean.train], points[~clean.train])
    return score_groups(found, clean, (), None)


def _attacks(method: str, epsilon: float, *, attribute: bool = False) -> dict[str, float]:
    """Return scores of attribute inference on every model, and of shadow models on non-private and dp_em at ε = 1.

    If the dataset has an attribute, there are also guesses of a category, and LiRA on the coordinates alone.
    """
    private = math.isfinite(epsilon)
    found = {
        "attribute_members_hit_rate": 0.31 if private else 0.47, "attribute_others_hit_rate": 0.30,
        "attribute_baseline_hit_rate": 0.14, "attribute_advantage": 0.01 if private else 0.17,
        "attribute_advantage_low": -0.02 if private else 0.11, "attribute_advantage_high": 0.04 if private else 0.23,
    }  # fmt: skip
    shares = 0.504 if private else 0.661
    found |= {
        "mia_shares_auc": shares,
        "mia_shares_auc_low": shares - 0.02,
        "mia_shares_auc_high": shares + 0.03,
    }
    if attribute:
        found |= {
            "category_members_hit_rate": 0.72 if private else 0.93, "category_others_hit_rate": 0.71,
            "category_baseline_hit_rate": 0.69, "category_advantage": 0.01 if private else 0.22,
            "category_advantage_low": -0.03 if private else 0.18,
            "category_advantage_high": 0.05 if private else 0.26,
        }  # fmt: skip
    if private and (method, epsilon) != ("dp_em", 1.0):
        return found
    if attribute:
        found["mia_lira_coordinates_auc"] = 0.502 if private else 0.743
    for attack in ("lira", "lira_offline", "rmia", "learned"):
        auc = 0.503 if private else 0.797
        found |= {f"mia_{attack}_auc": auc, f"mia_{attack}_auc_low": auc - 0.011}
        found |= {f"mia_{attack}_auc_high": auc + 0.012, f"mia_{attack}_advantage": 2 * auc - 1}
        found |= {f"mia_{attack}_tpr_at_fpr_0.001": 0.001, f"mia_{attack}_tpr_at_fpr_0.01": 0.012}
    found |= {"mia_lira_worst_record_auc": 0.71 if private else 1.0, "mia_lira_worst_record_chance": 0.776}
    return found | {"mia_lira_p99_record_auc": 0.66 if private else 0.981}


def _write_audit(root: Path, name: str, chosen: dict[str, Any], epsilon: float, delta: float) -> None:
    share = 0.86 if delta else 0.4
    bound = EpsilonBound(
        pair="far corner", score="likelihood ratio", theorem="Gaussian AUC" if delta else "pure AUC", auc=0.7,
        lower=share * epsilon, alarm=0.97 * share * epsilon,
    )  # fmt: skip
    audit = AuditFile(
        notice=BENCHMARK_NOTICE,
        mechanism=name,
        method=chosen["method"],
        parameters={key: value for key, value in chosen.items() if key != "method"},
        budget_epsilon=epsilon,
        budget_delta=1e-6,
        epsilon=epsilon,
        delta=delta,
        runs=500,
        bounds=[bound],
        replay=ReplayVerdict(runs=3, releases=63, used=0.99),
        seconds=4.0,
    )
    write_json(root / f"data/audits/{name}/eps-{epsilon:g}.json", audit)


def _model(
    truth: FittedModel, data: MadeUpData, noise: float, replicate: int, method: str, epsilon: float, rng
) -> FittedModel:
    means = np.array(truth.means)
    if noise:
        means = means * (1 - 0.5 * noise) + 0.25 * noise * rng.normal(size=means.shape)
    covariances = np.array(truth.covariances) * (1 + 4 * noise) + np.eye(means.shape[1]) * (0.12 * noise) ** 2
    proportions = []
    if data.attribute and method == "randomized_response":
        error = 0.02 / epsilon
        for value, share in (("no", 0.7), ("yes", 0.3)):
            guess = share + error * rng.normal()
            proportions.append(
                Proportion(
                    attribute="at_night",
                    value=value,
                    estimate=guess,
                    standard_error=error,
                    exact=(guess - 2.0 * error, guess + 2.0 * error),
                    normal=(guess - 1.96 * error, guess + 1.96 * error),
                    chebyshev=(guess - 4.47 * error, guess + 4.47 * error),
                )
            )
    return FittedModel(
        replicate=replicate,
        weights=truth.weights,
        means=means.tolist(),
        covariances=covariances.tolist(),
        seconds=0.4,
        shares={"at_night": [[0.7, 0.3]] * len(means)} if data.attribute and method == "dp_em" else {},
        proportions=proportions,
    )
