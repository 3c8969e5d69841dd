"""Evaluate: what each model is worth on held-out records, and what an attacker learns from it."""

from functools import partial
from pathlib import Path

from privmix import stages
from privmix.artefacts.clean import read_clean
from privmix.artefacts.model import ModelFile
from privmix.artefacts.parquet import info_of, read_schema, write_table
from privmix.artefacts.part import read_json
from privmix.artefacts.private import PrivateInfo
from privmix.artefacts.scores import ScoresInfo, results_table
from privmix.evaluate import worst_record
from privmix.evaluate.scores import Score, score
from privmix.evaluate.shadow_attacks import Attacked, attack
from privmix.stages import job as jobs


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
    parser.add_argument("--worst-record-records", type=int, default=10**9)
    parser.add_argument("--worst-person", nargs="*", default=[], help="how isolated people are called")
    parser.add_argument("--shadows", type=int, default=0, help="shadow models; 0 leaves their attacks out")
    parser.add_argument("--shadow-records", type=int, default=10**9, help="most records of their pool")
    parser.add_argument("--output", required=True, type=Path)
    job, given = jobs.parse(parser)
    clean, model = read_clean(given.clean), read_json(given.model, ModelFile)
    rates, domain = given.false_positive_rates, clean.info.domain
    spec = job.spec(domain)
    scores = score(model, clean, rates, job.randomness(domain, "attribute").search)
    values, attacked = list(scores.values), Attacked()
    if model.models and len(clean.isolated_rows):
        exposure = worst_record.attack(
            job.mechanism,
            clean,
            spec,
            job.budget,
            given.worst_record_runs,
            given.worst_record_records,
            partial(job.randomness, domain, "worst record"),
        )
        values += [Score(0, *each) for each in exposure.metrics().items()]
    if model.models and given.shadows:
        attacked = attack(
            job.mechanism,
            clean,
            spec,
            job.budget,
            given.shadows,
            given.shadow_records,
            rates,
            partial(job.randomness, domain, "shadow"),
        )
        values += [Score(0, *each) for each in attacked.metrics.items()]
    if given.private:
        seconds = info_of(read_schema(given.private), PrivateInfo).seconds
        values += [Score(number, "seconds_privatise", value) for number, value in enumerate(seconds)]
    privacy = model.privacy
    common = {
        "dataset": domain.dataset,
        "mechanism": job.name,
        "method": job.method,
        "trust": privacy.trust,
        "epsilon": privacy.budget_epsilon,
    }
    fixed = {**common, "delta": privacy.delta, "unit": privacy.unit, "relation": privacy.relation}
    info = ScoresInfo(
        **common,
        roc=scores.roc,
        lira_roc=attacked.roc,
        worst_person=given.worst_person[0] if model.models and given.worst_person else None,
        notes=[*scores.notes, *attacked.notes],
        failure=model.failure,
    )
    write_table(given.output, results_table([{**fixed, **vars(value)} for value in values]), info)


if __name__ == "__main__":
    stages.run("evaluate", main)
