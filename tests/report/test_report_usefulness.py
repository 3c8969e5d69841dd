"""The usefulness section: its table equals the results files, and it warns of a good likelihood with a poor table."""

import html
import math
import re
from dataclasses import replace

import made_up_run
import pytest
from made_up_run import CHECKINS, SURVEY, MadeUpData

from privmix.artefacts.domain import Attribute
from privmix.report.goal import describe_choice, goal_metric
from privmix.report.results import Results
from privmix.report.run import RunResults
from privmix.report.sections import usefulness
from privmix.report.sections.answer import answers


@pytest.fixture(scope="module")
def loaded(rendered) -> tuple[RunResults, Results]:
    return made_up_run.load(rendered.root, rendered.configuration)


def section_of(page: str) -> str:
    """The words of the section."""
    part = page[page.index('<section id="usefulness"') : page.index('<section id="attack"')]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<wbr>|<[^>]+>", " ", part))).replace("\u00a0", " ")


def test_the_references_come_first_and_the_numbers_are_means_over_replicates(loaded):
    run, results = loaded
    found = usefulness.build(run, results)
    checkins, survey = found.datasets
    assert [row.mechanism for row in checkins.shown[:2]] == [None, "non_private"]
    assert {row.epsilon for row in checkins.shown} == {math.inf, 1.0}
    assert {row.epsilon for row in checkins.others} == {0.1, 10.0}
    for row in (*checkins.shown[1:], *checkins.others):
        values = results.values("checkins", row.mechanism, row.epsilon, "table_worst_pair_tv")
        assert len(values) == 3
        assert row.worst_pair_distance == f"{sum(values) / 3:.2f}"
    assert survey.left_out is None


def test_the_real_sample_is_closer_than_a_poor_model(loaded):
    run, results = loaded
    [checkins, _] = usefulness.build(run, results).datasets
    rows = {row.mechanism: row for row in checkins.shown}
    assert float(rows[None].mean_pair_distance) < float(rows["laplace_naive"].mean_pair_distance)


def test_the_pair_of_the_largest_error_of_a_correlation_is_named(loaded):
    run, results = loaded
    [checkins, _] = usefulness.build(run, results).datasets
    [info] = [
        each.scores_info.usefulness
        for each in run.of("checkins")
        if (each.mechanism, each.epsilon) == ("dp_em_exact", 1.0)
    ]
    worst = max(info.synthetic.pairs, key=lambda pair: abs(pair.real - pair.synthetic))
    [row] = [row for row in checkins.shown if row.mechanism == "dp_em_exact"]
    assert row.worst_association == " × ".join(name.replace("_", " ") for name in worst.columns)


@pytest.mark.parametrize(("atoms", "said"), [((), "given or blank"), ((0.0,), "given, blank or an atom")])
def test_the_column_of_blanks_is_described(loaded, atoms, said):
    run, _ = loaded
    domain = run.materials["checkins"].domain
    first, *rest = domain.axes
    state = Attribute(name="first is", description="", values=("given", "blank"), state_of=(first.name,))
    domain = domain.model_copy(
        update={"axes": (first.model_copy(update={"atoms": atoms}), *rest), "attributes": (state,)}
    )
    assert usefulness.describe_kind(domain, "first is") == said
    assert usefulness.describe_kind(domain, "other") == "a category"


def test_columns_that_a_model_does_not_describe_are_named(loaded):
    run, results = loaded
    [checkins, _] = usefulness.build(run, results).datasets
    rows = {row.mechanism: row.columns for row in checkins.shown}
    assert rows["dp_em_exact"] == "3 of 3"
    assert rows["responses"] == "2 of 3"
    assert checkins.left_out.startswith(
        "The models of non_private, laplace_naive, laplace_aware and responses do not"
    )
    assert "describe “at night”. These columns are not compared." in checkins.left_out


def test_the_picture_shows_the_recommended_model(rendered, loaded):
    run, results = loaded
    for dataset in usefulness.build(run, results).datasets:
        [best] = [
            each for each in answers(run, results) if (each.dataset, each.trust) == (dataset.name, "central")
        ]
        assert dataset.recommended.mechanism == best.mechanism
        assert len(dataset.recommended.pictures) == 3
    assert 'id="usefulness-checkins-column-' in rendered.html


def test_the_warning_needs_a_good_likelihood_and_a_poor_table(loaded):
    run, results = loaded
    frame = results.frame.copy()
    excess, gap = frame["metric"] == "table_worst_excess", frame["metric"] == "holdout_gap"
    chosen = (frame["mechanism"] == "dp_em_exact") & (frame["epsilon"] == 10.0)
    frame.loc[excess, "value"] = 0.0
    assert all(not each.warning for each in usefulness.build(run, Results(frame)).datasets)
    frame.loc[excess & chosen, "value"] = 0.2
    frame.loc[gap & chosen, "value"] = -0.01
    warned = usefulness.build(run, Results(frame)).datasets[0]
    assert [(row.mechanism, row.epsilon) for row in (*warned.shown, *warned.others) if row.poor] == [
        ("dp_em_exact", 10.0)
    ]
    assert warned.warning.startswith(
        "Good likelihood, poor table: where marked, dp_em_exact keeps at least 90\u00a0%"
    )
    assert "of dp_em_exact at ε = 10, " in warned.warning
    assert "A larger ε does not help" not in warned.warning
    frame.loc[excess & (frame["mechanism"] == "non_private"), "value"] = 0.2
    assert "A larger ε does not help" in usefulness.build(run, Results(frame)).datasets[0].warning
    frame.loc[gap & chosen, "value"] = -9.0
    frame.loc[excess & (frame["mechanism"] == "non_private"), "value"] = 0.0
    assert not usefulness.build(run, Results(frame)).datasets[0].warning


def test_numbers_have_the_digits_of_the_resolution(loaded):
    axis = loaded[0].materials["checkins"].domain.axes[0]
    assert usefulness.in_unit(-12.3456, axis) == "−12.35"
    assert usefulness.in_unit(1234.5, axis.model_copy(update={"resolution": 10.0})) == "1234"


def test_sensitive_records_have_no_histogram_and_no_statistic_on_the_page(tmp_path):
    secret = MadeUpData("secret", geographic=True, visibility="sensitive", attribute=True)
    page = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(secret,), failing=()))
    words = section_of(page)
    assert "no histogram and no statistic of them is shown" in words
    assert 'id="usefulness-secret' not in page
    assert re.search(" synthetic −?[0-9]", words)
    assert not re.search(" held-out −?[0-9]", words)
    assert "association synthetic rows" in words


def test_a_run_without_comparisons_has_no_section(loaded):
    run, results = loaded
    bare = [
        replace(
            each, scores_info=each.scores_info and each.scores_info.model_copy(update={"usefulness": None})
        )
        for each in run.outcomes
    ]
    assert usefulness.build(replace(run, outcomes=tuple(bare)), results) is None


def test_one_column_has_no_pairs(tmp_path):
    single = replace(SURVEY, name="single", dimensions=1)
    page = made_up_run.render(tmp_path, made_up_run.write_run(tmp_path, datasets=(single,), failing=()))
    words = section_of(page)
    assert "Worst column, item 0" in words
    assert "Worst pair" not in words


def test_the_section_stands_on_the_page(rendered):
    words = section_of(rendered.html)
    assert f"Made-up {CHECKINS.name}" in words
    assert "All columns of checkins" in words
    assert re.search("latitude \\(degree\\) 0.\\d\\d 0.\\d\\d held-out −?[0-9]", words)


def with_goal(run, goal):
    return replace(run, settings=run.settings.model_copy(update={"goal": goal}))


@pytest.mark.parametrize(("goal", "metric"), [("table", "table_mean_pair_tv"), ("clusters", "table_nicv")])
def test_the_goal_decides_which_mechanism_is_recommended(loaded, goal, metric):
    run, results = loaded
    frame = results.frame.copy()
    chosen = (frame["metric"] == metric) & (frame["mechanism"] == "dp_em_linear") & (frame["epsilon"] == 1.0)
    frame.loc[chosen, "value"] = 0.0
    by_density, by_goal = (answers(with_goal(run, each), Results(frame))[0] for each in ("density", goal))
    assert by_density.mechanism == "dp_em_exact"
    assert by_goal.mechanism == "dp_em_linear"
    assert f"the best for {goal}" in by_goal.headline.replace("tables", "table")
    assert by_goal.choice[0].startswith(f"`goal` is {goal}, so ")
    assert "real sample: " in by_goal.choice[0]
    recommended = usefulness.build(with_goal(run, goal), Results(frame)).datasets[0].recommended
    assert recommended.mechanism == "dp_em_linear"


def test_for_tables_a_model_that_lacks_columns_comes_after_complete_ones(loaded):
    run, results = loaded
    infos = {outcome.mechanism: outcome for outcome in run.of("checkins") if outcome.epsilon == 1.0}
    short = infos["dp_em_linear"].scores_info
    whole = short.usefulness.synthetic
    less = short.usefulness.model_copy(
        update={"synthetic": whole.model_copy(update={"columns": whole.columns[:2]})}
    )
    outcomes = tuple(
        replace(each, scores_info=short.model_copy(update={"usefulness": less}))
        if each is infos["dp_em_linear"]
        else each
        for each in run.outcomes
    )
    frame = results.frame.copy()
    chosen = (frame["metric"] == "table_mean_pair_tv") & (frame["mechanism"] == "dp_em_linear")
    frame.loc[chosen, "value"] = 0.0
    found = answers(with_goal(replace(run, outcomes=outcomes), "table"), Results(frame))
    assert found[0].mechanism == "dp_em_exact"


def test_without_comparisons_the_likelihood_decides(loaded):
    run, results = loaded
    run = with_goal(run, "clusters")
    bare = Results(results.frame[~results.frame["metric"].str.startswith("table_")])
    assert goal_metric(run, bare, "checkins") == "holdout_gap"
    best = next(each for each in run.of("checkins") if each.mechanism == "dp_em_exact")
    assert "the held-out likelihood decides" in describe_choice(run, bare, best, "holdout_gap")
    assert answers(run, bare)[0].mechanism == "dp_em_exact"
