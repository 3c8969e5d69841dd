import math
import re
from dataclasses import replace

import made_up_run
import numpy as np
import pytest
from made_up_run import CHECKINS, METHODS

from privmix.attacks.limits import auc_ceiling
from privmix.report.results import Results
from privmix.report.sections.answer import answers
from privmix.report.sections.attack import attack_rows
from privmix.report.worst_record import METRIC, auc_lower_bound, broken_claims, reach

GAMES = 30


def blind(runs: int) -> np.ndarray:
    """Return the probability of each AUC k/runs² if both worlds give the same scores (Gaussian binomial coefficients).

    Mann and Whitney 1947: the generating function of U is Π (1 - q^(n+i)) / (1 - q^i) over i = 1..n.
    """
    counts = np.zeros(runs**2 + 1, dtype=object)
    counts[0] = 1
    for i in range(1, runs + 1):
        counts[runs + i :] = counts[runs + i :] - counts[: max(len(counts) - runs - i, 0)]
        for k in range(i, len(counts)):
            counts[k] += counts[k - i]
    return np.array(counts / counts.sum(), dtype=float)


def coin(runs: int, epsilon: float) -> np.ndarray:
    """Return the same for binary randomised response, whose epsilon is tight: AUC 1/2 + (a - b)/(2 runs)."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    heads = np.array([math.comb(runs, k) * keep**k * (1 - keep) ** (runs - k) for k in range(runs + 1)])
    return np.convolve(heads, heads)


def false_alarms(chances: np.ndarray, runs: int, epsilon: float) -> float:
    """Compute the exact probability of an alarm in a dataset with GAMES independent games."""
    aucs = np.linspace(0, 1, len(chances))
    alarm = [auc_lower_bound(auc, runs, GAMES) > auc_ceiling(epsilon, 0.0) for auc in aucs]
    return 1 - (1 - float(chances[alarm].sum())) ** GAMES


def test_the_distribution_of_a_blind_attacker_is_that_of_mann_whitney():
    assert blind(2) * 6 == pytest.approx([1, 1, 2, 1, 1])
    assert blind(6)[-1] == pytest.approx(1 / math.comb(12, 6))


@pytest.mark.parametrize("runs", [6, 10, 20, 50])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0])
def test_a_blind_attacker_raises_an_alarm_in_at_most_one_percent_of_runs(runs, epsilon):
    # Exact, so the test never fails by chance. At ε = 0.1, 0, 0.03, 0.14 and 0.12 % of runs have a false alarm.
    assert false_alarms(blind(runs), runs, epsilon) <= 0.01


@pytest.mark.parametrize("runs", [6, 10, 50, 200])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0])
def test_a_mechanism_with_a_tight_epsilon_raises_no_alarm(runs, epsilon):
    assert false_alarms(coin(runs, epsilon), runs, epsilon) <= 0.01


def test_the_lower_bound_falls_with_more_games_and_is_two_sided():
    assert auc_lower_bound(0.95, 50, 1) > auc_lower_bound(0.95, 50, 30) > 0.5
    assert auc_lower_bound(0.05, 50, 30) == pytest.approx(auc_lower_bound(0.95, 50, 30))


def played(root, runs: int, auc: float | None = None, **options):
    """Return a run on checkins in which the attack on dp_em_exact at epsilon 1 reaches `auc`."""
    configuration = made_up_run.write_run(root, datasets=(CHECKINS,), **options)
    run, scores = made_up_run.load(root, configuration | {"evaluation": {"worst_record_runs": runs}})
    results = scores.frame.copy()
    if auc is not None:
        chosen = results["mechanism"].eq("dp_em_exact") & results["epsilon"].eq(1.0)
        results.loc[chosen & results["metric"].eq(METRIC), "value"] = auc
    outcome = next(o for o in run.outcomes if o.mechanism == "dp_em_exact" and o.epsilon == 1.0)
    return run, Results(results), outcome


@pytest.mark.parametrize("auc", [1.0, 0.0])
def test_fifty_runs_detect_a_non_private_model_that_claims_epsilon_one(tmp_path, auc):
    run, scores, outcome = played(tmp_path, 50, auc)
    (alarm,) = broken_claims(run, scores, outcome)
    assert "AUC 1.000" in alarm
    assert f"at least {auc_lower_bound(1.0, 50, 15):.3f}" in alarm
    assert "all 15\u00a0attacks" in alarm  # five private mechanisms at three epsilons
    assert "at most 0.731" in alarm
    assert alarm in answers(run, scores)[0].warnings
    marked = [(row.mechanism, row.epsilon) for row in attack_rows(run, scores, "checkins") if row.broken]
    assert marked == [("dp_em_exact", 1.0)]


def test_a_95_percent_interval_above_the_limit_is_no_alarm(tmp_path):
    run, scores, outcome = played(tmp_path, 50, 0.86)
    results = scores.frame
    chosen = results["mechanism"].eq("dp_em_exact") & results["epsilon"].eq(1.0)
    results.loc[chosen & results["metric"].eq(f"{METRIC}_low"), "value"] = 0.77  # above 0.731
    assert broken_claims(run, Results(results), outcome) == ()


def test_a_true_claim_and_a_model_without_a_claim_raise_no_alarm(tmp_path):
    run, scores, outcome = played(tmp_path, 50, 0.6)
    assert broken_claims(run, scores, outcome) == ()
    bare = next(o for o in run.outcomes if not o.private)
    assert scores.values("checkins", bare.mechanism, math.inf, METRIC) == [1.0]
    assert broken_claims(run, scores, bare) == ()


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (6, "With 6 runs in each world, the worst-record attack can disprove a claim at no tested ε."),
        (10, "With 10 runs in each world, the worst-record attack can disprove a claim only up to ε = 0.1."),
        (50, "With 50 runs in each world, the worst-record attack can disprove a claim only up to ε = 1."),
    ],
)
def test_the_page_gives_the_largest_epsilon_at_which_the_game_can_show_a_broken_claim(tmp_path, runs, words):
    run, scores, _ = played(tmp_path, runs)
    said = reach(run, scores, "checkins").replace("\u00a0", " ")
    assert said == f"{words} Set `evaluation.worst_record_runs` higher."
    short = f"With {runs} runs in each world, this attack cannot disprove the claim."
    central = " ".join(answers(run, scores)[0].evidence).replace("\u00a0", " ")  # at ε = 1
    assert (short in central) == (runs < 50)
    html = made_up_run.render(tmp_path, run.configuration)
    assert len(re.findall("worst-record attack can disprove a claim", html)) == 1


def test_the_reach_is_where_a_perfect_attack_stops_raising_the_alarm(tmp_path):
    run, scores, outcome = played(tmp_path, 50, 1.0, epsilons=(0.1, 1.0))
    assert broken_claims(run, scores, outcome)
    assert reach(run, scores, "checkins") is None
    fewer = replace(run, settings=run.settings.model_copy(
        update={"evaluation": run.settings.evaluation.model_copy(update={"worst_record_runs": 10})}
    ))  # fmt: skip
    assert not broken_claims(fewer, scores, outcome)
    assert "only up to ε = 0.1" in reach(fewer, scores, "checkins")


def test_without_an_isolated_person_there_is_no_reach(tmp_path):
    survey = made_up_run.SURVEY
    run, scores = made_up_run.load(
        tmp_path, made_up_run.write_run(tmp_path, datasets=(survey,), mechanisms=tuple(METHODS))
    )
    assert reach(run, scores, "survey") is None
