import made_up_run
import pytest
from made_up_run import CHECKINS

from privmix.report.knowledge import indecision, smallest_epsilon, thresholds, verdict, warning
from privmix.report.results import Estimate, Results, uniform_loglik


def keeping(root, shares: dict[tuple[str, float], float], **options):
    """A run in which mechanisms keep the given shares of the knowledge; all others keep nothing."""
    options = {"mechanisms": ("non_private", "dp_em_exact", "responses"), "datasets": (CHECKINS,)} | options
    run, scores = made_up_run.load(root, made_up_run.write_run(root, failing=(), **options))
    gain = scores.baseline("checkins").holdout_loglik - uniform_loglik(run.materials["checkins"].info.domain)
    results = scores.frame.copy()
    gaps = results["metric"].eq("holdout_gap") & results["mechanism"].ne("non_private")
    results.loc[gaps, "value"] = -gain
    for (mechanism, epsilon), share in shares.items():
        chosen = results["mechanism"].eq(mechanism) & results["epsilon"].eq(epsilon)
        results.loc[gaps & chosen, "value"] = (share - 1) * gain
    return run, Results(results)


def told(sentence: str) -> str:
    return sentence.replace("\u00a0", " ")


LARGE = "(where an observer's odds may change ×22,026)"


@pytest.mark.parametrize(
    ("shares", "where"),
    [
        ((0.2, 0.3, 0.4), "50 % of the non-private model's knowledge at no ε of this run."),
        (
            (0.2, 0.6, 0.7),
            "50 % of the non-private model's knowledge from ε = 1, and 90 % at no ε of this run.",
        ),
        (
            (0.6, 0.7, 0.95),
            f"50 % of the non-private model's knowledge from ε = 0.1, and 90 % at ε = 10 {LARGE}.",
        ),
        (
            (0.2, 0.6, 0.3),
            "50 % of the non-private model's knowledge at ε = 1, and 90 % at no ε of this run.",
        ),
        ((0.2, 0.95, 0.99), "90 % of the non-private model's knowledge from ε = 1."),
    ],
)
def test_at_which_epsilon_is_answered_for_both_thresholds(tmp_path, shares, where):
    kept = {("dp_em_exact", epsilon): share for epsilon, share in zip((0.1, 1.0, 10.0), shares, strict=True)}
    run, scores = keeping(tmp_path, kept)
    assert told(thresholds(run, scores, "checkins", "central")) == f"The central mechanism keeps {where}"


def test_several_mechanisms_answer_together_by_the_best_at_each_epsilon(tmp_path):
    mechanisms = ("non_private", "dp_em_exact", "dp_em_linear")
    shares = {("dp_em_exact", 1.0): 0.6, ("dp_em_linear", 10.0): 0.7}
    run, scores = keeping(tmp_path, shares, mechanisms=mechanisms)
    assert told(thresholds(run, scores, "checkins", "central")).startswith(
        "Central mechanisms keep 50 % of the"
    )
    assert "from ε = 1, and" in thresholds(run, scores, "checkins", "central")


def test_an_epsilon_counts_where_the_lower_end_of_the_interval_reaches_the_share(tmp_path):
    run, scores = keeping(tmp_path, {("dp_em_exact", 1.0): 0.92, ("dp_em_exact", 10.0): 0.99})
    assert smallest_epsilon(run, scores, "checkins", "central") == "90\u00a0% from ε = 1"
    results = scores.frame.copy()
    wide = (
        results["metric"].eq("holdout_gap")
        & results["mechanism"].eq("dp_em_exact")
        & results["epsilon"].eq(1.0)
    )
    results.loc[wide, "value"] += [-1.0, 0.0, 1.0]
    assert smallest_epsilon(run, Results(results), "checkins", "central") == "90\u00a0% at ε = 10"


@pytest.mark.parametrize(
    ("local", "advice"),
    [
        (0.6, "In this run a central mechanism reaches 50 % at no ε; a local one does at ε = 10."),
        (0.4, "In this run no mechanism reaches 50 % at any ε."),
    ],
)
def test_a_warning_says_where_in_the_run_a_mechanism_is_of_use(tmp_path, local, advice):
    run, scores = keeping(tmp_path, {("dp_em_exact", 1.0): 0.21, ("responses", 10.0): local})
    best = next(o for o in run.outcomes if o.mechanism == "dp_em_exact" and o.epsilon == 1.0)
    start = "Of little use at ε = 1: dp_em_exact keeps 21 % of what the non-private model knows (below 50 %)."
    assert told(warning(run, scores, best, Estimate(0.21, 0.2, 0.22, 3))) == f"{start} {advice}"
    assert warning(run, scores, best, Estimate(0.6, 0.55, 0.65, 3)) is None


@pytest.mark.parametrize(
    ("low", "mean", "high", "badge"),
    [
        (0.91, 0.95, 0.99, "good"),
        (0.85, 0.95, 1.05, "unclear"),
        (0.55, 0.6, 0.65, "fair"),
        (0.45, 0.6, 0.75, "unclear"),
        (0.1, 0.3, 0.49, "poor"),
        (-0.5, 0.3, 1.1, "unclear"),
        (-0.5, -0.3, -0.1, "useless"),
        (None, 0.6, None, "fair"),
    ],
)
def test_a_class_is_given_only_where_the_interval_lies_within_it(low, mean, high, badge):
    kept = Estimate(mean, low, high, 3 if low else 1)
    assert verdict(kept) == badge
    assert bool(indecision(kept)) == (badge == "unclear")


def test_what_replicates_cannot_decide_is_told_as_a_share_between_nothing_and_all():
    sentence = told(indecision(Estimate(0.34, -0.3, 0.983, 3)))
    assert sentence.startswith("3 replicates cannot decide: between 0 % and 98 % of the knowledge. Raise")
