"""Evaluate one model file: its likelihood on held-out records, and attacks on it."""

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
    parser.add_argument("--clean", required=True, type=Path, help="clean file (Parquet)")
    parser.add_argument("--private", nargs="?", type=Path, help="reports of a local mechanism, for timing")
    parser.add_argument("--model", required=True, type=Path, help="model file (JSON)")
    parser.add_argument(
        "--false-positive-rates",
        required=True,
        type=float,
        nargs="+",
        help="rates at which attacks are scored",
    )
    parser.add_argument(
        "--worst-record-runs", required=True, type=int, help="runs of the game on the most isolated person"
    )
    parser.add_argument("--worst-record-records", type=int, default=10**9, help="most records in that game")
    parser.add_argument("--worst-person", nargs="*", default=[], help="names of isolated persons")
    parser.add_argument(
        "--shadows", type=int, default=0, help="number of shadow models; 0 skips these attacks (default)"
    )
    parser.add_argument("--shadow-records", type=int, default=10**9, help="most records in their pool")
    parser.add_argument("--output", required=True, type=Path, help="scores file to write (Parquet)")
    job, given = jobs.parse_job(parser)
    clean, model = read_clean(given.clean), read_json(given.model, ModelFile)
    runner.restrict_new_files([clean.info.domain.visibility])
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
    # epsilon and delta are the budget, the coordinate of the sweep. The model file states the claim.
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
