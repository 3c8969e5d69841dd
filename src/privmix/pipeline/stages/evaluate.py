"""Evaluate: what each model is worth on held-out records, and what an attacker learns from it."""

from pathlib import Path

from privmix.artefacts.clean import read_clean
from privmix.artefacts.io import parse_metadata, read_json, read_schema, write_table
from privmix.artefacts.model import ModelFile
from privmix.artefacts.private import PrivateInfo
from privmix.artefacts.scores import ScoresInfo, results_table
from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.pipeline.scores import ModelScores, Reruns, Score, rerun_attacks, score_model


def main() -> None:
    """Score one model file."""
    parser = jobs.job_parser("evaluate", __doc__)
    parser.add_argument("--clean", required=True, type=Path)
    parser.add_argument("--private", nargs="?", type=Path, help="reports of a local mechanism, for timing")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--false-positive-rates", required=True, type=float, nargs="+")
    parser.add_argument("--worst-record-runs", required=True, type=int)
    parser.add_argument("--worst-record-records", type=int, default=10**9)
    parser.add_argument("--worst-person", nargs="*", default=[], help="how isolated people are called")
    parser.add_argument("--shadows", type=int, default=0, help="shadow models; 0 leaves their attacks out")
    parser.add_argument("--shadow-records", type=int, default=10**9, help="most records of their pool")
    parser.add_argument("--output", required=True, type=Path)
    job, given = jobs.parse_job(parser)
    clean, model = read_clean(given.clean), read_json(given.model, ModelFile)
    rates, privacy, rerun = given.false_positive_rates, model.privacy, ModelScores()
    scores = score_model(model, clean, rates, job.randomness(clean.info.domain, "attribute").search)
    if model.models:
        games = (given.worst_record_runs, given.worst_record_records)
        rerun = rerun_attacks(job, clean, rates, Reruns(*games, given.shadows, given.shadow_records))
    timing = parse_metadata(read_schema(given.private), PrivateInfo).seconds if given.private else []
    seconds = [Score(number, "seconds_privatise", value) for number, value in enumerate(timing)]
    common = {
        "dataset": clean.info.domain.dataset,
        "mechanism": job.name,
        "method": job.method,
        "trust": privacy.trust,
        "epsilon": privacy.budget_epsilon,
    }
    # With epsilon the coordinate of the sweep: the budget. What was spent of it stands in the model file.
    fixed = {**common, "delta": privacy.budget_delta, "unit": privacy.unit, "relation": privacy.relation}
    info = ScoresInfo(
        **common,
        roc=scores.roc,
        lira_roc=rerun.lira_roc,
        worst_person=given.worst_person[0] if model.models and given.worst_person else None,
        notes=[*scores.notes, *rerun.notes],
        failure=model.failure,
    )
    rows = [{**fixed, **vars(value)} for value in (*scores.values, *rerun.values, *seconds)]
    write_table(given.output, results_table(rows), info)


if __name__ == "__main__":
    runner.run_stage("evaluate", main)
