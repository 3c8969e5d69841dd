"""Evaluate one model file: its likelihood on held-out records, its synthetic rows, and attacks on it."""

from pathlib import Path

from privmix.artefacts.io import write_table
from privmix.evaluate.groupings import GroupingSpec
from privmix.pipeline import job as jobs
from privmix.pipeline import runner
from privmix.pipeline import scores as scoring


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
    parser.add_argument(
        "--shares", action="store_true", help="also attack by the shares of values that the model implies"
    )
    parser.add_argument("--outcome", help="attribute to predict from synthetic rows and from the model")
    parser.add_argument(
        "--groups",
        nargs="*",
        default=[],
        type=GroupingSpec.parse,
        help="columns to group by besides the attributes, as column or column:bins",
    )
    parser.add_argument("--worst-person", nargs="*", default=[], help="names of isolated persons")
    parser.add_argument(
        "--shadows", type=int, default=0, help="number of shadow models; 0 skips these attacks (default)"
    )
    parser.add_argument("--shadow-records", type=int, default=10**9, help="most records in their pool")
    parser.add_argument("--output", required=True, type=Path, help="scores file to write (Parquet)")
    job, given = jobs.parse_job(parser)
    read = scoring.read_files(job, given.clean, given.model, given.private, given.dataset)
    clean, model, rates, rerun = read.clean, read.model, given.false_positive_rates, scoring.ModelScores()
    runner.restrict_new_files([clean.info.domain.visibility])
    rng = job.randomness(clean.info.domain, "attribute").search
    scores = scoring.score_model(
        model, clean, rates, rng, given.groups, given.outcome, shares_too=given.shares
    )
    tables = scoring.score_tables(model, job, clean, given.outcome)
    if model.models:
        games = (given.worst_record_runs, given.worst_record_records)
        rerun = scoring.rerun_attacks(
            job, clean, rates, scoring.Reruns(*games, given.shadows, given.shadow_records)
        )
    person = (given.worst_person or [None])[0]
    info = scoring.describe_scores(model, scores, tables, rerun, worst_person=person)
    values = (*scores.values, *tables.values, *rerun.values)
    write_table(given.output, scoring.score_rows(model, values, read.seconds), info)


if __name__ == "__main__":
    runner.run_stage("evaluate", main)
