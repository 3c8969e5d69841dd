"""The groups section: gaps on the same held-out records, corrected intervals, a sentence only for a real difference."""

import html
import re
from dataclasses import replace

import made_up_run
import numpy as np
import pytest
from made_up_run import CHECKINS, SURVEY, MadeUpData

from privmix.artefacts.group_scores import GroupingScores, GroupMeasure, pack_densities
from privmix.report import group_costs
from privmix.report.results import Results
from privmix.report.run import RunResults
from privmix.report.sections import answer, groups


@pytest.fixture(scope="module")
def loaded(rendered) -> tuple[RunResults, Results]:
    return made_up_run.load(rendered.root, rendered.configuration)


def section_of(page: str) -> str:
    """The words of the section."""
    part = page[page.index('<section id="groups"') : page.index('<section id="attack"')]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<wbr>|<[^>]+>", " ", part))).replace("\u00a0", " ")


def harm(
    run: RunResults, mechanism: str, by: float, group: int = 1, epsilon: float | None = None
) -> RunResults:
    """Return the run with a mechanism whose density of the held-out records of one group is lower by `by` nats."""
    codes = run.held_out["checkins"].groupings["at_night"].codes

    def worse(outcome):
        if outcome.dataset != "checkins" or outcome.mechanism != mechanism:
            return outcome
        if epsilon is not None and outcome.epsilon != epsilon:
            return outcome
        info = outcome.scores_info
        logs = info.groups.log_densities() - np.where(codes == group, by, 0.0)
        changed = info.groups.model_copy(update={"densities": pack_densities(logs)})
        return replace(outcome, scores_info=info.model_copy(update={"groups": changed}))

    return replace(run, outcomes=tuple(map(worse, run.outcomes)))


def of(run: RunResults, mechanism: str, epsilon: float):
    return next(
        each for each in run.of("checkins") if each.mechanism == mechanism and each.epsilon == epsilon
    )


def test_the_gap_of_a_group_is_measured_against_the_best_non_private_replicate(loaded):
    run, results = loaded
    baseline = results.baseline("checkins")
    best = of(run, baseline.mechanism, np.inf)
    bare = best.scores_info.groups.log_densities() + np.arange(3)[:, None]  # made-up replicates are equal
    changed = best.scores_info.groups.model_copy(update={"densities": pack_densities(bare)})
    told = replace(best, scores_info=best.scores_info.model_copy(update={"groups": changed}))
    run = replace(run, outcomes=tuple(told if each is best else each for each in run.outcomes))
    private = of(run, "dp_em_exact", 1.0)
    logs, [grouping] = private.scores_info.groups.log_densities(), private.scores_info.groups.groupings
    found = group_costs.gap_measure(run, results, private, grouping)
    codes = run.held_out["checkins"].groupings["at_night"].codes
    expected = [[(each - bare[baseline.replicate])[codes == code].mean() for code in (0, 1)] for each in logs]
    assert np.array(found.values) == pytest.approx(np.array(expected))


def test_the_results_have_a_row_for_each_group_and_replicate_in_the_same_columns(loaded):
    _, results = loaded
    rows = results.frame[results.frame["metric"].str.contains("[at_night=", regex=False)]
    assert set(rows["metric"]) == {
        f"{metric}[at_night={value}]"
        for metric in ("group_gap", "group_mia_loss_auc", "group_share_error")
        for value in ("no", "yes")
    }
    assert not results.frame["metric"].str.startswith("group_")[results.frame["dataset"] == "survey"].any()


def test_intervals_are_corrected_for_groupings_and_epsilons(loaded):
    run, _ = loaded
    assert group_costs.level(run, "checkins") == pytest.approx(1 - 0.05 / 3)
    assert group_costs.level(replace(run, outcomes=run.outcomes[:2]), "checkins") <= 0.95


def test_a_real_difference_is_on_the_first_screen_and_a_chance_one_is_not(loaded):
    run, results = loaded
    assert all(not each.groups for each in answer.build(run, results).datasets)
    worse = harm(run, "dp_em_exact", 3.0)
    [checkins, survey] = answer.build(worse, results).datasets
    assert checkins.groups.startswith(
        "At ε = 1, dp_em_exact describes records with at night “yes” worse than those with “no”: gap "
    )
    assert "corrected for all groups and ε" in checkins.groups
    assert survey.groups is None


def test_without_a_real_difference_at_the_reference_the_sentence_names_another_epsilon(loaded):
    run, results = loaded
    sentence = answer.build(harm(run, "dp_em_exact", 60.0, epsilon=0.1), results).datasets[0].groups
    assert sentence.startswith("At ε = 0.1, dp_em_exact ")


def test_a_mechanism_that_is_not_recommended_is_in_the_table_only(loaded):
    run, results = loaded
    worse = harm(run, "dp_em_linear", 9.0)
    assert answer.build(worse, results).datasets[0].groups is None
    rows = groups.build(worse, results).datasets[0].others
    assert {row.mechanism for row in rows if row.real} == {"dp_em_linear"}
    assert {(row.worse, row.better) for row in rows if row.real} == {("yes", "no")}


def test_the_page_shows_the_recommended_mechanisms_and_says_what_is_missing(rendered, loaded):
    checkins, survey = groups.build(*loaded).datasets
    assert [model.trust for model in checkins.models] == ["central", "local"]
    assert [row.name for row in checkins.models[0].tables[0].rows] == ["no", "yes"]
    assert survey.missing.startswith("This dataset has no attribute")
    words = section_of(rendered.html)
    assert "no difference between groups is larger than chance allows" in words
    assert "error parity and sufficiency cannot both hold" in words
    assert 'aria-label="checkins: gap of dp_em_exact by at night' in rendered.html


def test_a_density_of_zero_is_shown_without_an_interval(loaded):
    run, results = loaded
    table = groups.build(harm(run, "dp_em_exact", np.inf), results).datasets[0].models[0].tables[0]
    assert table.rows[1].gap == "−∞"
    assert table.rows[1].gap_interval == ""
    assert "has no interval" in table.sentence


def test_sensitive_records_have_no_counts_and_no_shares(tmp_path):
    secret = MadeUpData("secret", geographic=True, visibility="sensitive", attribute=True)
    page = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(secret,), failing=()))
    words = section_of(page)
    assert "no count and no share of them is shown" in words
    assert "held-out share" not in words
    assert not re.search(r"at night no \d{3} ", words)


def test_failed_mechanisms_and_few_records_give_sentences(tmp_path):
    few = replace(CHECKINS, rows=400)
    configuration = made_up_run.write_run(
        tmp_path, datasets=(few, SURVEY), failing=[("checkins", "dp_em_exact"), ("checkins", "responses")]
    )
    run, results = made_up_run.load(tmp_path, configuration)
    assert groups.build(run, results) is None
    broken = replace(CHECKINS, rows=1500)
    names = [name for name in made_up_run.USUAL if name != "non_private"]
    run, results = made_up_run.load(
        tmp_path / "b",
        made_up_run.write_run(
            tmp_path / "b", datasets=(broken,), failing=[("checkins", name) for name in names]
        ),
    )
    assert groups.build(run, results) is None


def test_without_a_non_private_model_there_is_no_gap(tmp_path):
    configuration = made_up_run.write_run(
        tmp_path, datasets=(CHECKINS,), mechanisms=("dp_em_exact", "responses"), failing=()
    )
    run, results = made_up_run.load(tmp_path, configuration)
    table = groups.build(run, results).datasets[0].models[0].tables[0]
    assert [row.gap for row in table.rows] == ["–", "–"]
    assert all(row.auc_interval for row in table.rows)


def rate_measure(values):
    """Return a measure of two groups without noise."""
    pair = tuple(values)
    return GroupMeasure(groups=("a", "b"), values=(pair, pair), covariance=((1e-4, 0.0), (0.0, 1e-4)))


def test_the_criteria_say_that_two_cannot_hold_where_base_rates_differ():
    given = {
        "base_rate": (0.2, 0.6), "selection_rate": (0.3, 0.6), "tpr": (0.7, 0.8), "fpr": (0.1, 0.1),
        "ppv": (0.5, 0.9), "npv": (0.9, 0.8),
    }  # fmt: skip
    rates = {name: rate_measure(values) for name, values in given.items()}
    grouping = GroupingScores(name="s", groups=("a", "b"), records=(200, 200), shares=(0.5, 0.5), too_few=())
    table = groups._parity(grouping, "sick", rates, 0.95, sensitive=False)
    first, second, third, last = table.sentences
    assert first.startswith(
        "Statistical parity: the predicted share differs by 30.0 percentage points between “a” and “b”"
    )
    assert "Ratio of the lowest to the highest: 0.50." in first
    assert "FPR differs by 0.0 percentage points" in second
    assert "no more than chance allows" in second
    assert third.startswith("Sufficiency: PPV differs by 40.0 percentage points")
    assert last.startswith("The base rate of “sick” differs by up to 40.0 percentage points")
    assert last.endswith("error parity and sufficiency cannot both hold unless prediction is perfect.")
    assert table.rows[1].rates[0] == "60\u00a0%"
    secret = groups._parity(grouping, "sick", rates, 0.95, sensitive=True)
    assert secret.rows == ()
    assert len(secret.sentences) == 3


def test_a_rate_with_too_few_records_is_a_dash_and_not_compared():
    rates = {name: rate_measure((0.2, 0.6)) for name in ("base_rate", "selection_rate")}
    grouping = GroupingScores(name="s", groups=("a", "b"), records=(200, 200), shares=(0.5, 0.5), too_few=())
    table = groups._parity(grouping, "sick", rates, 0.95, sensitive=False)
    assert table.rows[0].rates[2:] == ("–",) * 4
    assert table.sentences[2] == "Sufficiency: PPV not measured, NPV not measured."
