import re
from dataclasses import replace

import made_up_run
import numpy as np
import pytest
from made_up_run import CHECKINS, HOMES, MadeUpData

from privmix.artefacts.clean import read_clean
from privmix.report.guarantee import group_privacy
from privmix.report.knowledge import utility_gain
from privmix.report.results import Results
from privmix.report.run import Outcome, sample_material
from privmix.report.sections import answer as answer_section
from privmix.report.sections.answer import answers

LOSS = "AUC of the loss attack on membership (0.5 = guessing; "


def answered(root, **options):
    run, scores = made_up_run.load(root, made_up_run.write_run(root, **options))
    return answers(run, scores)


def said(answer) -> str:
    said = (answer.advice.next_step, *answer.choice, *answer.evidence, *answer.cautions, *answer.warnings)
    return " ".join([answer.headline, *said]).replace("\u00a0", " ")


def test_each_dataset_and_trust_model_gets_its_best_mechanism_at_the_reference_epsilon(tmp_path):
    found = answered(tmp_path, epsilons=(0.1, 0.7, 10.0))
    assert [(a.dataset, a.trust, a.mechanism, a.epsilon) for a in found] == [
        ("checkins", "central", "dp_em_exact", 0.7),
        ("checkins", "local", "responses", 0.7),
        ("survey", "central", "dp_em_exact", 0.7),
        ("survey", "local", "laplace_aware", 0.7),  # responses fails on survey
    ]
    assert "the best of the 2 central mechanisms." in said(found[0])
    assert "best of the 2 local mechanisms that ran (1 failed)" in said(found[3])


def test_the_headline_gives_utility_and_gap(tmp_path):
    run, scores = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    gap = scores.estimate("checkins", "dp_em_exact", 1.0, "holdout_gap").mean
    gain = utility_gain(run, scores, "checkins")
    headline = answers(run, scores)[0].headline.replace("\u00a0", " ")
    assert f"keeps {100 * (1 + gap / gain):.0f} % of the utility" in headline
    assert f"(gap: −{-gap:.2f} nats per record)" in headline


def test_the_attack_is_compared_with_its_limit_if_each_person_has_one_record(tmp_path):
    (central, _) = answered(tmp_path, datasets=(HOMES,))
    assert "In expectation, no attack on a single record can exceed 0.731." in said(
        central
    )  # e/(1+e) at epsilon 1
    assert f"{LOSS}limit 0.731)" in [tile.label for tile in central.tiles]


@pytest.mark.parametrize(
    ("unit", "relation", "limit"),
    [
        ("record", "replace_one", None),
        ("person", "replace_one", "0.731"),
        ("person", "add_remove", "0.881"),  # a swap is two steps: e²/(1+e²)
    ],
)
def test_only_a_guarantee_for_all_records_of_a_person_limits_the_average_attack(
    tmp_path, unit, relation, limit
):
    several = replace(HOMES, records_each=4, unit=unit, relation=relation)
    (central, _) = answered(tmp_path, datasets=(several,))
    (label,) = [tile.label for tile in central.tiles if tile.label.startswith(LOSS)]
    if limit:
        assert f"no attack on a single person can exceed {limit}." in said(central)
        assert label == f"{LOSS}limit {limit})"
    else:
        assert "0.731" not in said(central)
        assert "ε protects one record, and persons here have several records" in said(central)
        assert label == f"{LOSS}no limit: persons have several records)"


def test_one_person_with_two_records_removes_the_limit(tmp_path):
    run, _ = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(HOMES,)))
    clean = read_clean(tmp_path / "data/clean/homes.parquet")
    person = clean.person.copy()
    person[1] = person[0]
    assert sample_material(clean, np.random.default_rng(0)).protects_people
    assert not sample_material(replace(clean, person=person), np.random.default_rng(0)).protects_people
    assert run.limits_average("homes")
    assert not run.limits_average("never cleaned")


def test_the_isolated_person_is_named_with_and_without_privacy(tmp_path):
    text = said(answered(tmp_path, datasets=(CHECKINS,))[0])
    assert "isolated-1" in text
    assert "non-private: AUC 1.000" in text
    assert re.search(r"The nearest centre of any of 3 replicates is [\d,]+ km away", text)
    assert "(non-private: less than 1 m in 3 of 3)" in text


def test_an_average_attack_above_its_limit_is_explained_by_the_split(tmp_path):
    run, scores = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(HOMES,)))
    results = scores.frame.copy()
    results.loc[results["metric"].eq("mia_loss_auc"), "value"] = 0.74
    (central, _) = answers(run, Results(results))
    assert "can come from the choice of the held-out records" in said(central)
    assert not any("break its own claim" in warning for warning in central.warnings)


def test_no_person_is_named_if_no_person_is_isolated(tmp_path):
    text = said(answered(tmp_path, datasets=(MadeUpData("plain"),), failing=())[0])
    assert "exposed person" not in text
    assert "nearest component" not in text


def test_one_mechanism_and_one_replicate_make_singular_sentences(tmp_path):
    options = {"mechanisms": ("non_private", "dp_em_exact"), "replicates": 1, "epsilons": (1.0,)}
    (answer,) = answered(tmp_path, datasets=(CHECKINS,), **options)
    assert "the only central mechanism" in answer.headline
    assert "one replicate, so no interval" in said(answer)
    assert "from ε" not in said(answer)
    assert "The nearest centre is " in said(answer)


@pytest.mark.parametrize(
    ("worse", "verdict", "badge"), [(1.5, "poor", "usable from ε = 10"), (30.0, "useless", "do not use")]
)
def test_a_model_with_little_utility_gets_a_poor_verdict(tmp_path, worse, verdict, badge):
    found = answered(tmp_path, datasets=(CHECKINS,), mechanisms=("non_private", "dp_em_exact"), worse=worse)
    assert (found[0].verdict, found[0].advice.badge) == (verdict, badge)


def test_a_mechanism_that_breaks_its_claim_is_not_recommended(tmp_path, monkeypatch):
    monkeypatch.setattr(answer_section, "findings", lambda outcome: ("It leaks.",))
    (answer,) = answered(
        tmp_path, datasets=(CHECKINS,), mechanisms=("non_private", "dp_em_exact"), worse=-0.25
    )
    assert (answer.verdict, answer.advice.badge, answer.warnings) == ("poor", "do not use", ("It leaks.",))


def test_without_a_person_column_people_with_several_records_are_less_protected(tmp_path):
    (central, _) = answered(tmp_path, datasets=(MadeUpData("nameless", named=False),), failing=())
    assert "on a single record can exceed 0.731; a person with several records is protected less." in said(
        central
    )


def test_the_tile_of_the_isolated_person_has_interval_limit_and_non_private_auc(tmp_path):
    run, scores = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    auc = scores.values("checkins", "dp_em_exact", 1.0, "mia_worst_record_auc")[0]
    evaluation = run.settings.evaluation.model_copy(update={"worst_record_runs": 500})
    run = replace(run, settings=run.settings.model_copy(update={"evaluation": evaluation}))
    *_, exposed, proven = answers(run, scores)[0].tiles
    against = f"95\u00a0% interval: {auc - 0.2:.2f} to {auc + 0.2:.2f}; 0.5 = guessing; limit 0.731; non-private: 1.000"
    who = "isolated\u20111, a person far from all others"
    assert exposed.label == f"AUC of the worst-record attack on {who} ({against})"
    assert proven.label.startswith("lower bound on ε from the audit game (crafted records")
    assert proven.label.endswith("claim: ε\u00a0=\u00a01")


def test_with_too_few_runs_the_tile_shows_the_nearest_centre(tmp_path):
    run, scores = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    *_, exposed, _ = answers(run, scores)[0].tiles
    away = min(scores.values("checkins", "dp_em_exact", 1.0, "worst_record_distance_km"))
    assert exposed.value == f"{away:,.0f}\u00a0km"
    assert exposed.label.startswith(
        "distance from isolated\u20111 (a person far from all others) to the nearest"
    )
    assert "component centre; non-private: " in exposed.label


@pytest.mark.parametrize(
    ("visibility", "delta", "words"),
    [
        ("public", True, "add up. The person with the most records (4) has ε = 4."),
        ("public", False, "add up. The person with the most records (4) has ε = 4."),
        ("sensitive", True, "add up."),
    ],
)
def test_the_answer_describes_the_guarantee_of_a_person_with_many_records(tmp_path, visibility, delta, words):
    several = MadeUpData("several", visibility=visibility, records_each=4)
    text = said(answered(tmp_path, datasets=(several,), failing=())[0 if delta else 1])
    assert "for one record replaced by any other, from a ledger" in text
    start = (
        "The guarantee protects one record, not one person. For a person with several records, the ε values"
    )
    assert f"{start} {words}" in text


@pytest.mark.parametrize(
    ("epsilon", "delta", "records", "words"),
    [
        (1.0, 0.0, 20, "The person with the most records (20) has ε = 20."),
        (1.0, 0.0, 200, "The person with the most records (200) has ε = 200, which is almost no protection."),
        (1.0, 1e-6, 10, "The person with the most records (10) has ε = 10."),  # δ = 10 e^9 1e-6 = 0.08
        (
            1.0,
            1e-6,
            13,
            "For the person with the most records (13), there is no guarantee: δ grows beyond 1.",
        ),
    ],
)
def test_the_guarantee_of_a_person_follows_group_privacy(tmp_path, epsilon, delta, records, words):
    run, _ = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,)))
    best = next(o for o in run.outcomes if o.mechanism == "dp_em_exact" and o.epsilon == epsilon)
    privacy = best.model.privacy.model_copy(update={"delta": delta})
    best = replace(best, model=best.model.model_copy(update={"privacy": privacy}))
    material = replace(run.materials["checkins"], most_records=records)
    run = replace(run, materials={"checkins": material})
    assert words in group_privacy(run, best).replace("\u00a0", " ")


def test_no_caution_if_each_person_has_one_record_or_is_the_unit(tmp_path):
    person = replace(HOMES, name="families", records_each=4, unit="person")
    found = answered(tmp_path, datasets=(HOMES, person))
    assert not any(answer.cautions for answer in found)


def test_a_good_model_gets_no_warning(tmp_path):
    (answer,) = answered(
        tmp_path, datasets=(CHECKINS,), mechanisms=("non_private", "dp_em_exact"), worse=-0.25
    )
    assert answer.verdict == "good"
    assert not answer.warnings


def test_without_a_non_private_model_the_headline_gives_the_likelihood(tmp_path):
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


def _without_delta(outcome: Outcome) -> Outcome:
    """Return the outcome; if its mechanism is dp_em_exact, with δ = 0."""
    if outcome.mechanism != "dp_em_exact":
        return outcome
    privacy = outcome.model.privacy.model_copy(update={"delta": 0.0})
    return replace(outcome, model=outcome.model.model_copy(update={"privacy": privacy}))


def test_mechanisms_within_the_interval_are_named_as_equally_good(tmp_path):
    run, scores = made_up_run.load(tmp_path, made_up_run.write_run(tmp_path, datasets=(CHECKINS,), copies=2))
    results = scores.frame.copy()
    twin = (results["mechanism"] == "dp_em_exact_1") & (
        results["metric"].isin(["holdout_loglik", "holdout_gap"])
    )
    original = results["mechanism"].eq("dp_em_exact") & results["metric"].isin(
        ["holdout_loglik", "holdout_gap"]
    )
    results.loc[twin, "value"] = results.loc[original, "value"].to_numpy() - 1e-4
    text = said(answers(run, Results(results))[0])
    assert "dp_em_exact_1 is as good as dp_em_exact within its interval." in text
    pure = replace(run, outcomes=tuple(map(_without_delta, run.outcomes)))
    text = said(answers(pure, Results(results))[0])
    assert "dp_em_exact_1 is as good as dp_em_exact within its interval; dp_em_exact alone has δ = 0." in text
