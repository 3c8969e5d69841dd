import math

import made_up_run
import pytest
from made_up_run import CHECKINS, MadeUpData

from privmix.report.answer import answers
from privmix.report.exposure import broken_claims
from privmix.report.frames import Scores, collect
from privmix.report.outcomes import Run, in_order


def load(root, configuration) -> tuple[Run, Scores]:
    """The run as the stage reads it."""
    import contextlib

    from privmix import provenance, sweep
    from privmix.stages import report

    with contextlib.chdir(root):
        planned = sweep.plan(configuration)
        run = Run(
            settings=planned.settings,
            configuration=configuration,
            entries=planned.entries,
            outcomes=in_order(report.read_outcome(job, planned) for job in planned.jobs()),
            materials=report.read_materials(planned.settings),
            provenance=provenance.here(),
        )
    return run, Scores(collect(outcome.scores for outcome in run.outcomes if outcome.scores is not None))


def answered(root, **options):
    run, scores = load(root, made_up_run.write_run(root, **options))
    return answers(run, scores)


def said(answer) -> str:
    return " ".join([answer.headline, *answer.details, *answer.warnings]).replace("\u00a0", " ")


def test_each_dataset_and_trust_model_gets_its_best_mechanism_at_the_epsilon_nearest_one(tmp_path):
    found = answered(tmp_path, epsilons=(0.1, 0.7, 10.0))
    assert [(a.dataset, a.trust, a.mechanism, a.epsilon) for a in found] == [
        ("checkins", "central", "dp_em_exact", 0.7),
        ("checkins", "local", "responses", 0.7),
        ("survey", "central", "dp_em_exact", 0.7),
        ("survey", "local", "laplace_aware", 0.7),  # responses fails on survey
    ]
    assert "the best of 2 central mechanisms" in said(found[0])


def test_density_in_words_is_the_exponential_of_the_gap_in_nats(tmp_path):
    run, scores = load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    gap = scores.estimate("checkins", "dp_em_exact", 1.0, "holdout_gap").mean
    headline = answers(run, scores)[0].headline.replace("\u00a0", " ")
    assert f"{100 * math.exp(gap):.0f} % of the density" in headline
    assert f"a gap of −{-gap:.2f} nats" in headline


def test_the_attack_is_held_against_its_ceiling_and_the_isolated_person_is_named(tmp_path):
    text = said(answered(tmp_path, datasets=(CHECKINS,))[0])
    assert "no attack of any kind can exceed 0.731" in text  # e/(1+e) at epsilon 1
    assert "isolated-1" in text
    assert "without privacy an attack on them reaches AUC 1.000" in text
    assert "less than 1 m away" in text


def test_nobody_is_named_where_nobody_is_isolated(tmp_path):
    text = said(answered(tmp_path, datasets=(MadeUpData("plain"),), failing=())[0])
    assert "exposed person" not in text
    assert "nearest component" not in text


def test_one_mechanism_and_one_replicate_make_singular_sentences(tmp_path):
    options = {"mechanisms": ("non_private", "dp_em_exact"), "replicates": 1, "epsilons": (1.0,)}
    (answer,) = answered(tmp_path, datasets=(CHECKINS,), **options)
    assert "the only central mechanism" in answer.headline
    assert "one replicate, so no interval" in answer.headline
    assert "smallest ε" not in said(answer)


@pytest.mark.parametrize(("worse", "warning"), [(1.5, "Of little use"), (30.0, "Nothing useful is possible")])
def test_a_model_that_knows_next_to_nothing_is_called_so(tmp_path, worse, warning):
    found = answered(tmp_path, datasets=(CHECKINS,), mechanisms=("non_private", "dp_em_exact"), worse=worse)
    assert found[0].verdict == "poor"
    assert warning in found[0].warnings[0]


def test_a_good_model_gets_no_warning(tmp_path):
    (answer,) = answered(
        tmp_path, datasets=(CHECKINS,), mechanisms=("non_private", "dp_em_exact"), worse=-0.25
    )
    assert answer.verdict == "good"
    assert not answer.warnings


def test_without_a_non_private_model_the_likelihood_itself_is_told(tmp_path):
    (answer,) = answered(tmp_path, datasets=(CHECKINS,), mechanisms=("dp_em_exact",))
    assert "no non-private model to compare it with" in answer.headline
    assert answer.verdict == "unknown"


def test_without_private_mechanisms_there_is_no_answer(tmp_path):
    assert answered(tmp_path, datasets=(CHECKINS,), mechanisms=("non_private",)) == []


def test_a_trust_model_whose_mechanisms_all_failed_says_so(tmp_path):
    found = answered(
        tmp_path,
        datasets=(CHECKINS,),
        mechanisms=("non_private", "dp_em_exact", "responses"),
        failing=(("checkins", "responses"),),
    )
    assert found[1].headline == "The only local mechanism, responses, has no result at ε = 1."
    assert found[1].verdict == "none"


def test_mechanisms_within_the_interval_are_named_as_open(tmp_path):
    run, scores = load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,), copies=2))
    results = scores.results.copy()
    twin = (results["mechanism"] == "dp_em_exact_1") & (
        results["metric"].isin(["holdout_loglik", "holdout_gap"])
    )
    original = results["mechanism"].eq("dp_em_exact") & results["metric"].isin(
        ["holdout_loglik", "holdout_gap"]
    )
    results.loc[twin, "value"] = results.loc[original, "value"].to_numpy() - 1e-4
    text = said(answers(run, Scores(results))[0])
    assert "dp_em_exact_1 lies within its interval" in text


@pytest.mark.parametrize(
    ("metric", "reached"), [("mia_worst_record_auc_low", 0.735), ("mia_worst_record_auc_high", 0.265)]
)
def test_an_attack_on_the_worst_record_above_the_ceiling_raises_an_alarm(tmp_path, metric, reached):
    run, scores = load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    outcome = next(o for o in run.outcomes if o.mechanism == "dp_em_exact" and o.epsilon == 1.0)
    assert broken_claims(scores, outcome) == ()
    results = scores.results.copy()
    broken = (
        results["mechanism"].eq("dp_em_exact") & results["epsilon"].eq(1.0) & results["metric"].eq(metric)
    )
    results.loc[broken, "value"] = reached  # the ceiling is 0.7311
    (alarm,) = broken_claims(Scores(results), outcome)
    assert "AUC 0.735" in alarm
    assert "at most 0.731" in alarm
    assert alarm in answers(run, Scores(results))[0].warnings


def test_the_average_attack_is_no_proof_of_a_broken_claim(tmp_path):
    run, scores = load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    results = scores.results.copy()
    results.loc[results["metric"].eq("mia_loss_auc"), "value"] = 0.74
    outcome = next(o for o in run.outcomes if o.mechanism == "dp_em_exact" and o.epsilon == 1.0)
    assert broken_claims(Scores(results), outcome) == ()
    assert "the chance of which records were held out" in said(answers(run, Scores(results))[0])


def test_non_private_models_claim_nothing_that_could_break(tmp_path):
    run, scores = load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    bare = next(o for o in run.outcomes if not o.private)
    assert broken_claims(scores, bare) == ()
