"""The usefulness of a table agrees with hand calculations and with scipy; bins come from public bounds alone."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import contingency

from privmix.evaluate import usefulness
from privmix.evaluate.clusters import cluster_cost, fit_centres
from privmix.evaluate.prediction import PENALTY, fit_logistic, predict_outcome
from privmix.evaluate.table import (
    CategoryColumn,
    NumberColumn,
    Table,
    correlation_ratio,
    cramers_v,
    directions,
    summarize,
)

AGE = NumberColumn("age", 0.0, 100.0, 1.0, 0.02)
HEIGHT = NumberColumn("height", 0.0, 2.0, 0.01, 1.0)
SMOKER = CategoryColumn("smoker", 2)
CITY = CategoryColumn("city", 3)


def table(rng, rows=400, shift=0.0):
    """A table in which every pair of columns is associated."""
    smoker = rng.integers(0, 2, rows)
    age = np.clip(40 + shift + 15 * smoker + 10 * rng.normal(size=rows), 0, 100)
    height = np.clip(1.2 + 0.005 * age + 0.1 * rng.normal(size=rows), 0, 2)
    city = np.where(rng.random(rows) < 0.5, smoker, rng.integers(0, 3, rows))
    values = {"age": age, "height": height, "smoker": smoker, "city": city}
    return Table((AGE, HEIGHT, SMOKER, CITY), values)


@pytest.fixture
def two():
    rng = np.random.default_rng(1)
    return table(rng), table(rng, 300, shift=5)


@pytest.fixture
def compared(two):
    return usefulness.compare(*(summarize(each) for each in two))


def test_a_number_has_at_most_sixteen_equal_bins_between_its_bounds():
    assert AGE.bins == 16
    assert AGE.edges[[0, 1, -1]].tolist() == [0.0, 6.25, 100.0]
    assert AGE.bin_numbers(np.array([-3.0, 0.0, 6.2, 6.3, 100.0, 400.0])).tolist() == [0, 0, 0, 1, 15, 15]


def test_a_coarse_resolution_gives_a_bin_for_each_of_its_steps():
    score = NumberColumn("score", 1.0, 5.0, 1.0, 1.0)
    assert score.bins == 5
    assert score.edges.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert score.bin_numbers(np.array([1.0, 1.4, 1.6, 5.0])).tolist() == [0, 0, 1, 4]
    assert NumberColumn("score", 0.0, 15.0, 1.0, 1.0).bins == 16
    assert NumberColumn("score", 0.0, 16.0, 1.0, 1.0).bins == 16
    assert NumberColumn("score", 0.0, 4.5, 1.0, 1.0).bins == 16  # the resolution does not divide the bounds


def test_a_category_with_many_values_has_sixteen_groups_of_consecutive_values():
    many = CategoryColumn("code", 40)
    found = many.bin_numbers(np.arange(40))
    assert many.bins == 16
    assert np.unique(found).tolist() == list(range(16))
    assert (np.diff(found) >= 0).all()
    assert CITY.bin_numbers(np.arange(3)).tolist() == [0, 1, 2]


def test_column_distances_are_those_of_scipy(two, compared):
    real, synthetic = (each.values for each in two)
    for name in ("age", "height"):
        assert compared.column(name).distance == pytest.approx(
            stats.ks_2samp(real[name], synthetic[name]).statistic
        )
    shares = [np.bincount(values["city"], minlength=3) / len(values["city"]) for values in (real, synthetic)]
    assert compared.column("city").distance == pytest.approx(abs(shares[0] - shares[1]).sum() / 2)
    assert compared.column("city").real == pytest.approx(shares[0])


def test_kolmogorov_smirnov_by_hand():
    # F jumps to 1/2 at 1 and to 1 at 2; G jumps to 1 at 1.5: the largest difference is 1/2.
    assert usefulness.kolmogorov_smirnov(np.array([1.0, 2.0]), np.array([1.5])) == 0.5
    assert usefulness.kolmogorov_smirnov(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0.0


def test_associations_are_those_of_scipy(two, compared):
    for side, each in zip(("real", "synthetic"), two, strict=True):
        found = {pair.columns: (pair.measure, getattr(pair, side)) for pair in compared.pairs}
        assert len(found) == 6
        values = each.values
        kind, value = found["age", "height"]
        assert kind == "Pearson"
        assert value == pytest.approx(stats.pearsonr(values["age"], values["height"]).statistic)
        kind, value = found["smoker", "city"]
        counts = contingency.crosstab(values["smoker"], values["city"]).count
        assert kind == "Cramér's V"
        assert value == pytest.approx(contingency.association(counts, method="cramer"))
        kind, value = found["age", "smoker"]  # with two groups, the correlation ratio is |Pearson|
        assert kind == "correlation ratio"
        assert value == pytest.approx(abs(stats.pearsonr(values["age"], values["smoker"]).statistic))


def test_constant_columns_have_no_association():
    assert cramers_v(np.array([[0.5, 0.5], [0.0, 0.0]])) == 0.0
    assert cramers_v(np.eye(3) / 3) == pytest.approx(1.0)
    assert correlation_ratio(np.ones(4), np.array([0, 1, 0, 1]), 2) == 0.0
    assert correlation_ratio(np.array([1.0, 1.0, 3.0]), np.array([0, 0, 2]), 3) == pytest.approx(1.0)
    flat = Table((AGE, HEIGHT), {"age": np.full(5, 3.0), "height": np.arange(5) / 4})
    assert summarize(flat).association["age", "height"] == ("Pearson", 0.0)


def test_two_way_marginals_by_hand():
    first = Table((SMOKER, CITY), {"smoker": np.array([0, 0, 1, 1]), "city": np.array([0, 1, 2, 2])})
    second = Table((SMOKER, CITY), {"smoker": np.array([0, 1]), "city": np.array([0, 0])})
    compared = usefulness.compare(summarize(first), summarize(second))
    [pair] = compared.pairs
    # Shares 1/4, 1/4, 1/2 of (0,0), (0,1), (1,2) against 1/2, 1/2 of (0,0), (1,0).
    assert pair.distance == pytest.approx((0.25 + 0.25 + 0.5 + 0.5) / 2)
    assert compared.worst_joint.real == ((0.25, 0.25, 0.0), (0.0, 0.0, 0.5))
    assert compared.worst_joint.synthetic == ((0.5, 0.0, 0.0), (0.5, 0.0, 0.0))
    assert compared.worst_pair == pair


def test_numbers_are_in_the_unit_of_the_data(two, compared):
    numbers = compared.column("age").real_numbers
    age = two[0].values["age"]
    assert numbers.mean == pytest.approx(age.mean())
    assert numbers.standard_deviation == pytest.approx(age.std())
    assert numbers.quantiles == pytest.approx(np.quantile(age, [0.05, 0.25, 0.5, 0.75, 0.95]))
    assert compared.column("city").real_numbers is None


def test_sliced_wasserstein_is_the_mean_over_public_directions(two):
    first, second = (each.coordinates for each in two)
    wanted = [stats.wasserstein_distance(first @ way, second @ way) for way in directions(2)]
    found = usefulness.sliced_wasserstein(*(summarize(each).projections for each in two))
    assert found == pytest.approx(np.mean(wanted))
    assert np.linalg.norm(directions(5), axis=1) == pytest.approx(1.0)
    assert directions(1).tolist() == [[1.0]]
    only = Table((SMOKER,), {"smoker": np.array([0, 1])})
    assert usefulness.compare(summarize(only), summarize(only)).sliced_wasserstein == 0.0


def test_overall_metrics_are_the_largest_and_the_mean(two, compared):
    found = usefulness.table_metrics(compared, two[0].columns)
    assert found["table_worst_pair_tv"] == max(pair.distance for pair in compared.pairs)
    assert found["table_mean_pair_tv"] == pytest.approx(np.mean([pair.distance for pair in compared.pairs]))
    assert found["table_worst_association_error"] == max(abs(p.real - p.synthetic) for p in compared.pairs)
    age = [each.values["age"] for each in two]
    heights = [each.values["height"] for each in two]
    errors = [abs(a.std() - b.std()) / a.std() for a, b in ((age[0], age[1]), heights)]
    assert found["table_worst_sd_error"] == pytest.approx(max(errors))
    alone = usefulness.compare(*(summarize(Table((AGE,), {"age": values})) for values in age))
    assert not {name for name in usefulness.table_metrics(alone, (AGE,)) if "pair" in name}


def test_a_table_against_itself_has_no_distance(two):
    same = summarize(two[0])
    found = usefulness.table_metrics(usefulness.compare(same, same), two[0].columns)
    assert all(value == pytest.approx(0.0, abs=1e-12) for value in found.values())


def test_the_excess_is_over_the_same_column_or_pair_of_the_real_sample(two, compared):
    same = usefulness.compare(*[summarize(two[0])] * 2)
    assert usefulness.worst_excess(compared, compared) == 0.0
    assert usefulness.worst_excess(compared, same) == max(
        compared.worst_column.distance, compared.worst_pair.distance
    )


def test_the_cluster_cost_is_the_mean_squared_distance_to_the_nearest_synthetic_centre():
    rng = np.random.default_rng(2)
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    synthetic = np.repeat(places, 50, axis=0)
    assert sorted(fit_centres(synthetic, 3, rng).tolist()) == sorted(places.tolist())
    real = np.array([[0.1, 0.0], [1.0, 0.2], [0.0, 1.0]])
    assert cluster_cost(real, synthetic, 3, rng) == pytest.approx((0.01 + 0.04 + 0.0) / 3)
    assert cluster_cost(real, np.zeros((4, 2)), 3, rng) == pytest.approx((0.01 + 1.04 + 1.0) / 3)


def test_prediction_learns_from_one_table_and_is_scored_on_another():
    rng = np.random.default_rng(3)
    train, test = table(rng, 2000), table(rng, 2000)
    found = predict_outcome(train, test, "smoker")
    wrong = Table(train.columns, {**train.values, "smoker": 1 - train.values["smoker"]})
    flipped = predict_outcome(wrong, test, "smoker")
    assert found["outcome_auc"] > 0.8
    assert flipped["outcome_auc"] == pytest.approx(1 - found["outcome_auc"], abs=1e-3)
    assert found["outcome_accuracy"] > 0.7
    assert set(predict_outcome(train, test, "city")) == {"outcome_accuracy"}


def test_prediction_equals_logistic_regression_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    train, test = table(np.random.default_rng(4), 500), table(np.random.default_rng(5), 500)
    columns = (AGE, HEIGHT, SMOKER)
    found = predict_outcome(Table(columns, train.values), Table(columns, test.values), "smoker")
    inputs = [np.column_stack([each.values["age"], each.values["height"]]) for each in (train, test)]
    inputs = [(each - inputs[0].mean(axis=0)) / inputs[0].std(axis=0) for each in inputs]
    other = linear_model.LogisticRegression(C=1 / (500 * PENALTY), tol=1e-8).fit(
        inputs[0], train.values["smoker"]
    )
    with_constant = np.column_stack([np.ones(500), inputs[0]])
    assert fit_logistic(with_constant, train.values["smoker"] == 1)[1:] == pytest.approx(
        other.coef_[0], rel=0.01
    )
    assert found["outcome_accuracy"] == pytest.approx(other.score(inputs[1], test.values["smoker"]), abs=0.01)
