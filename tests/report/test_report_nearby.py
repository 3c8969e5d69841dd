"""Mechanisms that hide a place among nearby places have their own table: their ε does not compare with others."""

import math
from dataclasses import replace

import made_up_run
import pytest
from made_up_run import HOMES, SURVEY, USUAL, WIDTHS

from privmix.attacks.limits import swap_auc_ceiling
from privmix.report.knowledge import thresholds
from privmix.report.results import Results
from privmix.report.sections import attack, frontier
from privmix.report.sections.answer import answers
from privmix.report.sections.attack import attack_rows
from privmix.report.sections.ledger import ledger_view
from privmix.report.sections.nearby import nearby_rows
from privmix.report.sections.results import result_rows
from privmix.report.worst_record import METRIC, broken_claims, reach

NEAR = (*USUAL, "planar_5km")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a run in which the mechanism that hides places has by far the smallest gap."""
    root = tmp_path_factory.mktemp("nearby")
    configuration = made_up_run.write_run(
        root, datasets=(HOMES, SURVEY), mechanisms=NEAR, failing=(("survey", "planar_5km"),)
    )
    return root, configuration, *made_up_run.load(root, configuration)


def _outcome(run, epsilon=1.0):
    return next(o for o in run.of("homes") if o.mechanism == "planar_5km" and o.epsilon == epsilon)


def test_it_is_no_answer_and_changes_none(made, tmp_path):
    _, _, run, scores = made
    found = answers(run, scores)
    assert {answer.trust for answer in found} == {"central", "local"}
    assert "planar_5km" not in {answer.mechanism for answer in found}
    without = replace(run, outcomes=tuple(o for o in run.outcomes if o.mechanism != "planar_5km"))
    plain = answers(without, Results(scores.frame[scores.frame["mechanism"] != "planar_5km"]))
    told = [(answer.mechanism, answer.headline, answer.verdict, answer.choice) for answer in found]
    assert told == [(answer.mechanism, answer.headline, answer.verdict, answer.choice) for answer in plain]
    for trust in ("central", "local"):
        assert "planar_5km" not in (thresholds(run, scores, "homes", trust) or "")


def test_it_is_not_in_the_charts_and_tables_of_other_mechanisms(made):
    _, _, run, scores = made
    pictures = next(d.pictures for d in frontier.build(run, scores).datasets if d.name == "homes")
    roc = next(d.roc for d in attack.build(run, scores).datasets if d.name == "homes")
    assert "planar_5km" not in pictures.wide
    assert "planar_5km" not in pictures.narrow
    assert "planar_5km" not in roc
    assert "planar_5km" not in {row.mechanism for row in result_rows(run, scores, "homes")}
    assert "planar_5km" not in {row.mechanism for row in attack_rows(run, scores, "homes")}
    assert "laplace_aware" in pictures.wide


def test_its_own_table_has_distance_radius_and_worst_case(made):
    _, _, run, scores = made
    rows = {row.epsilon: row for row in nearby_rows(run, scores, "homes")}
    assert sorted(rows) == [0.1, 1.0, 10.0]
    row = rows[1.0]
    assert row.within == "5.0\u00a0km"
    assert row.radius == "24\u00a0km"
    assert row.anywhere == f"{WIDTHS:,.0f}"
    assert row.worst_ceiling == "1.000"
    assert not row.broken
    assert not nearby_rows(run, scores, "survey")


def test_the_page_has_the_table_the_ledger_and_the_failure(made):
    root, configuration, *_ = made
    html = made_up_run.render(root, configuration)
    table = html[html.index('id="nearby"') : html.index('id="ledger"')]
    assert "hidden only among the places nearby" in table
    assert "Hidden among nearby places: homes" in table
    assert "Hidden among nearby places: survey" not in table
    assert 'href="#nearby"' in html
    assert "within 5.0\u00a0km, ε = 4,000 between any two records" in html
    assert "one record replaced by any other whose places are within 5.0\u00a0km" in html
    failures = html[html.index('id="failures"') :]
    assert "planar_laplace cannot work on survey" in failures


def test_a_page_without_it_does_not_mention_distances(rendered):
    assert 'id="nearby"' not in rendered.html
    assert "<dt>distance</dt>" not in rendered.html


def test_a_run_with_only_this_mechanism_explains_why_it_has_no_answer(tmp_path):
    configuration = made_up_run.write_run(
        tmp_path, datasets=(HOMES,), mechanisms=("non_private", "planar_5km"), failing=()
    )
    html = made_up_run.render(tmp_path, configuration)
    assert "Their ε does not answer this question" in html
    assert "No private mechanism whose ε compares" in html


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_an_attack_is_held_against_the_worst_case(made, epsilon):
    """A perfect attack breaks no claim here: the ledger allows it between two distant places."""
    _, _, run, scores = made
    outcome = _outcome(run, epsilon)
    assert outcome.limiting_epsilon == WIDTHS * epsilon
    caught = scores.frame.copy()
    caught.loc[caught["mechanism"].eq("planar_5km") & caught["metric"].eq(METRIC), "value"] = 1.0
    many = replace(
        run,
        settings=run.settings.model_copy(
            update={"evaluation": run.settings.evaluation.model_copy(update={"worst_record_runs": 500})}
        ),
    )
    assert swap_auc_ceiling(outcome.limiting_epsilon, 0.0, "replace_one") > 0.999
    assert not broken_claims(many, Results(caught), outcome)
    # If the claim held for any two records at this ε, the same attack would break it.
    model = outcome.model.model_copy(
        update={"privacy": outcome.model.privacy.model_copy(update={"epsilon_anywhere": None})}
    )
    assert broken_claims(many, Results(caught), replace(outcome, model=model))


def test_the_reach_of_the_game_ignores_it(made):
    _, _, run, scores = made
    without = replace(run, outcomes=tuple(o for o in run.outcomes if o.mechanism != "planar_5km"))
    told, plain = (reach(each, scores, "homes") for each in (run, without))
    assert (told is None) == (plain is None)
    assert math.isfinite(run.reference_epsilon)


def test_its_ledger_states_both_epsilons(made):
    _, _, run, _ = made
    shown = ledger_view(_outcome(run))
    assert shown.claim == "ε = 1, δ = 0 within 5.0\u00a0km, ε = 4,000 between any two records"
    assert shown.measurements[0].noise == "density ∝ exp(−‖e‖ / 5.0\u00a0km)"
    assert shown.measurements[0].kind == "Planar Laplace noise"
    assert not shown.exceeded
