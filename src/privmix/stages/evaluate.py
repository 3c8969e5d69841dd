"""Evaluate: what each model is worth on held-out records, and what an attacker learns from it."""

from pathlib import Path

import numpy as np

from privmix import stages
from privmix.artefacts import (
    CleanData,
    PrivateInfo,
    ScoresInfo,
    info_of,
    read_clean,
    read_model,
    read_schema,
    results_table,
    write_table,
)
from privmix.evaluate import worst_record
from privmix.evaluate.scores import Score, score
from privmix.mechanisms.base import training_records
from privmix.stages import job as jobs


def attack_worst_record(job: jobs.Job, clean: CleanData, runs: int) -> list[Score]:
    """The game on the first isolated person."""
    domain = clean.info.domain
    row = int(np.flatnonzero(np.flatnonzero(clean.train) == clean.isolated_rows[0])[0])
    exposure = worst_record.play(
        job.mechanism,
        training_records(clean),
        row,
        clean.points[~clean.train][0],
        job.spec(domain),
        job.budget,
        runs,
        lambda world, number: job.randomness(domain, "worst record", world, number),
    )
    return [
        Score(0, "mia_worst_record_auc", exposure.auc),
        Score(0, "mia_worst_record_auc_low", exposure.low),
        Score(0, "mia_worst_record_auc_high", exposure.high),
    ]


def main() -> None:
    """Score one model file."""
    parser = jobs.parser("evaluate", __doc__)
    parser.add_argument("--clean", required=True, type=Path)
    parser.add_argument(
        "--private", nargs="?", type=Path, help="the reports of a local mechanism, for their timing"
    )
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--false-positive-rates", required=True, type=float, nargs="+")
    parser.add_argument("--worst-record-runs", required=True, type=int)
    parser.add_argument("--worst-person", nargs="*", default=[], help="how isolated people are called")
    parser.add_argument("--output", required=True, type=Path)
    job, given = jobs.parse(parser)
    clean, model = read_clean(given.clean), read_model(given.model)
    scores = score(model, clean, given.false_positive_rates)
    values = list(scores.values)
    attacked = bool(model.models) and len(clean.isolated_rows) > 0
    if attacked:
        values += attack_worst_record(job, clean, given.worst_record_runs)
    if given.private:
        seconds = info_of(read_schema(given.private), PrivateInfo).seconds
        values += [Score(number, "seconds_privatise", value) for number, value in enumerate(seconds)]
    privacy = model.privacy
    common = {
        "dataset": clean.info.domain.dataset,
        "mechanism": job.name,
        "method": job.method,
        "trust": privacy.trust,
        "epsilon": privacy.budget_epsilon,
    }
    fixed = {**common, "delta": privacy.delta, "unit": privacy.unit, "relation": privacy.relation}
    table = results_table([{**fixed, **vars(value)} for value in values])
    info = ScoresInfo(
        **common,
        roc=scores.roc,
        worst_person=given.worst_person[0] if attacked and given.worst_person else None,
        notes=scores.notes,
        failure=model.failure,
    )
    write_table(given.output, table, info)


if __name__ == "__main__":
    stages.run("evaluate", main)
