import made_up_run
import pytest
from made_up_run import CHECKINS

from privmix.report.knowledge import advise, certain_shares, indecision, knowledge_share, thresholds, verdict
from privmix.report.results import Estimate, Results, uniform_loglik


def keeping(root, shares: dict[tuple[str, float], float], **options):
    """Return a run in which mechanisms keep the given shares of utility; all others keep none."""
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


LARGE = "(where an observer's odds can change ×22,026)"
NONE = "No central mechanism surely keeps 90 %"
LITTLE = "At ε = 10, a central mechanism keeps at least 90 %, but ε = 10 protects little."


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ((0.2, 0.3, 0.4), "No central mechanism surely keeps 50 % of the utility at any tested ε."),
        (
            (0.2, 0.6, 0.7),
            f"The central mechanism surely keeps 50 % of the utility from ε = 1. {NONE}.",
        ),
        (
            (0.6, 0.7, 0.95),
            f"The central mechanism surely keeps 50 % of the utility from ε = 0.1, and 90 % at ε = 10 {LARGE}.",
        ),
        (
            (0.2, 0.6, 0.3),
            f"The central mechanism surely keeps 50 % of the utility at ε = 1. {NONE}.",
        ),
        ((0.2, 0.95, 0.99), "The central mechanism surely keeps 90 % of the utility from ε = 1."),
    ],
)
def test_thresholds_names_the_epsilons_of_both_shares(tmp_path, shares, sentence):
    kept = {("dp_em_exact", epsilon): share for epsilon, share in zip((0.1, 1.0, 10.0), shares, strict=True)}
    run, scores = keeping(tmp_path, kept)
    assert told(thresholds(run, scores, "checkins", "central")) == sentence


def test_thresholds_uses_the_best_mechanism_at_each_epsilon(tmp_path):
    mechanisms = ("non_private", "dp_em_exact", "dp_em_linear")
    shares = {("dp_em_exact", 1.0): 0.6, ("dp_em_linear", 10.0): 0.7}
    run, scores = keeping(tmp_path, shares, mechanisms=mechanisms)
    assert told(thresholds(run, scores, "checkins", "central")).startswith(
        "The best central mechanism surely keeps 50 % of the"
    )
    assert "from ε = 1." in thresholds(run, scores, "checkins", "central")


def test_the_certain_share_is_the_lower_end_of_the_interval(tmp_path):
    run, scores = keeping(tmp_path, {("dp_em_exact", 1.0): 0.92, ("dp_em_exact", 10.0): 0.99})
    assert certain_shares(run, scores, "checkins", "central")[1.0] == pytest.approx(0.92)
    results = scores.frame.copy()
    wide = (
        results["metric"].eq("holdout_gap")
        & results["mechanism"].eq("dp_em_exact")
        & results["epsilon"].eq(1.0)
    )
    results.loc[wide, "value"] += [-1.0, 0.0, 1.0]
    assert certain_shares(run, Results(results), "checkins", "central")[1.0] < 0.9


def advised(root, mechanism: str, shares: dict[tuple[str, float], float], low=None, high=None):
    """Return badge and next step for a mechanism at ε = 1; `low` and `high` are the interval of its utility."""
    run, scores = keeping(root, shares)
    best = next(o for o in run.outcomes if o.mechanism == mechanism and o.epsilon == 1.0)
    kept = knowledge_share(run, scores, "checkins", scores.estimate(*best.key, "holdout_gap"))
    advice = advise(run, scores, best, kept if low is None else Estimate(kept.mean, low, high, 3))
    return advice.badge, told(advice.next_step)


@pytest.mark.parametrize(
    ("shares", "badge", "next_step"),
    [
        ((0.95, 0.99, 1.0), "use it", "At ε = 0.1, a central mechanism still keeps at least 90 %."),
        ((0.2, 0.99, 1.0), "use it", "At ε = 0.1, no central mechanism surely keeps 90 %."),
        ((0.2, 0.6, 0.95), "usable", LITTLE),
        ((0.2, 0.6, 0.7), "usable", f"{NONE} at any tested ε."),
        ((0.1, 0.2, 0.95), "usable from ε = 10", LITTLE),
        ((0.1, 0.2, 0.6), "usable from ε = 10", f"{NONE} at any tested ε."),
        (
            (0.1, 0.2, 0.3),
            "do not use",
            "No central mechanism surely keeps 50 % of the utility at any tested ε. Collect more records.",
        ),
    ],
)
def test_the_advice_follows_the_utility_at_every_epsilon(tmp_path, shares, badge, next_step):
    kept = {("dp_em_exact", epsilon): share for epsilon, share in zip((0.1, 1.0, 10.0), shares, strict=True)}
    assert advised(tmp_path, "dp_em_exact", kept) == (badge, next_step)


@pytest.mark.parametrize(
    ("central", "next_step"),
    [
        (0.6, ". Use a central mechanism or collect more records."),
        (0.4, ", and no central mechanism does. Collect more records."),
    ],
)
def test_a_useless_local_mechanism_suggests_a_curator_if_one_helps(tmp_path, central, next_step):
    shares = {("responses", 1.0): 0.2, ("dp_em_exact", 10.0): central}
    start = "No local mechanism surely keeps 50 % of the utility at any tested ε"
    assert advised(tmp_path, "responses", shares) == ("do not use", start + next_step)


@pytest.mark.parametrize(
    ("low", "high", "badge", "next_step"),
    [
        (
            0.3,
            0.9,
            "raise replicates",
            "Too uncertain to judge: the 95 % interval from 3 replicates is 30 % to 90 %. "
            "Set `replicates` higher in the configuration. "
            f"{NONE} at any tested ε.",
        ),
        (0.55, 0.95, "usable", f"{NONE} at any tested ε."),
    ],
)
def test_more_replicates_are_advised_if_the_interval_cannot_decide(tmp_path, low, high, badge, next_step):
    assert advised(tmp_path, "dp_em_exact", {("dp_em_exact", 1.0): 0.7}, low, high) == (badge, next_step)


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
def test_a_verdict_needs_an_interval_within_one_class(low, mean, high, badge):
    kept = Estimate(mean, low, high, 3 if low else 1)
    assert verdict(kept) == badge
    assert bool(indecision(kept)) == (badge == "unclear")


def test_an_undecided_utility_is_clipped_to_0_to_100_percent():
    sentence = told(indecision(Estimate(0.34, -0.3, 0.983, 3)))
    assert sentence.startswith(
        "Too uncertain to judge: the 95 % interval from 3 replicates is 0 % to 98 %. Set"
    )
