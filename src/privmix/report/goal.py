"""The goal of a run: which score recommends a mechanism, and how the page says so.

Utility kept is always that of the density. With another goal, the recommended mechanism is the one whose synthetic rows
are best for that goal.
"""

from privmix.report.format import decimals, three_digits
from privmix.report.results import Estimate, Results
from privmix.report.run import Outcome, RunResults

MEASURES = {
    # goal -> metrics in order of preference, all smaller if better, and their names
    "table": (
        ("table_mean_pair_tv", "the mean distance of pairs of columns"),
        ("table_worst_column_distance", "the distance of the column"),
    ),
    "clusters": (("table_nicv", "the cost of k-means centres (NICV)"),),
}
PURPOSES = {"density": "", "table": " for tables", "clusters": " for clusters"}


def goal_metric(run: RunResults, results: Results, dataset: str) -> str:
    """Return the metric that recommends a mechanism on a dataset: that of the goal if it was measured."""
    measured = results.metrics(dataset)
    for metric, _ in MEASURES.get(run.settings.goal, ()):
        if metric in measured:
            return metric
    return "holdout_gap" if results.baseline(dataset) else "holdout_loglik"


def goal_score(results: Results, outcome: Outcome, metric: str) -> Estimate | None:
    """Return the score of a mechanism for the goal, larger if better; None if it was not measured."""
    found = results.estimate(*outcome.key, metric)
    if found is None or not metric.startswith("table_"):
        return found
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return Estimate(-found.mean, low, high, found.count)


def columns_described(outcome: Outcome, metric: str) -> int:
    """Return the number of columns of a model's rows if the goal compares columns, else 0."""
    info = outcome.scores_info.usefulness if outcome.scores_info else None
    return len(info.synthetic.columns) if info and metric == "table_mean_pair_tv" else 0


def describe_choice(run: RunResults, results: Results, best: Outcome, metric: str) -> str | None:
    """Describe what recommends a mechanism if the goal is not the density."""
    goal = run.settings.goal
    if goal == "density":
        return None
    names = dict(MEASURES[goal])
    if metric not in names:
        return f"`goal` is {goal}, but no synthetic rows were compared, so the held-out likelihood decides."
    found = results.estimate(*best.key, metric)
    info = best.scores_info.usefulness if best.scores_info else None
    assert found, "the recommended mechanism has a score"
    form = three_digits if metric == "table_nicv" else lambda value: decimals(value, 2)
    sample = f"; real sample: {form(info.real_metrics[metric])}" if info else ""
    return f"`goal` is {goal}, so {names[metric]} decides: {form(found.mean)}{sample}."
