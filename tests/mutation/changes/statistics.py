"""Defects in the statistics beside the model: sensitivity, cost, noise, choices, intervals, and their checks."""

from changes.change import change
from changes.places import (
    OF_RELEASE_STATISTICS,
    OF_SELECTION,
    OF_STATISTICS,
    RUNNING,
    SELECTION,
    SENSITIVITY,
    STATISTICS_BUDGET,
    STATISTICS_ESTIMATES,
    STATISTICS_MEASUREMENT,
    STATISTICS_QUANTILES,
    STATISTICS_ROUNDING,
    VERIFY,
)

MOVES = f"{OF_STATISTICS}::test_no_unit_moves_a_number_further_than_its_sensitivity"
COST = f"{OF_STATISTICS}::test_every_central_mechanism_pays_for_the_statistics_from_its_budget"
NOISE = f"{OF_STATISTICS}::test_the_noise_has_the_scale_of_the_sensitivity"
CHOICES = f"{OF_STATISTICS}::test_the_most_frequent_value_is_chosen_with_the_probabilities_of_the_closed_form"
COVERAGE = f"{OF_STATISTICS}::test_intervals_of_counts_and_means_cover_as_often_as_they_say"
OF_REPLAYED_STATISTICS = f"{OF_STATISTICS}::test_the_replay_finds_nothing_in_the_statistics"
FORGED = f"{OF_RELEASE_STATISTICS}::test_forged_statistics_are_refused"

CHANGES = (
    change(
        "sensitivity of the mean halved",
        MOVES,
        (SENSITIVITY, "reach = neighbours.difference(1.0, opposed=True)", "reach = neighbours.records * 1.0"),
    ),
    change(
        "sensitivity of the mean halved, seen by the replay",
        OF_REPLAYED_STATISTICS,
        (SENSITIVITY, "return Sensitivity(reach, reach)", "return Sensitivity(reach / 2, reach / 2)"),
    ),
    change(
        "number of values left out of the sensitivity of a mean",
        MOVES,
        (SENSITIVITY, "return Sensitivity(2.0 * neighbours.records, moved", "return Sensitivity(1.0, moved"),
    ),
    change(
        "statistics forgotten in the claim",
        OF_REPLAYED_STATISTICS,
        (
            RUNNING,
            'claim=plan.add_to(release.claim, budget),\n        transcript=[*release.transcript, {"statistics"',
            'claim=release.claim,\n        transcript=[*release.transcript, {"statistics"',
        ),
    ),
    change(
        "statistics paid for with the budget of the mixture",
        COST,
        (
            RUNNING,
            "_fit_then_count(mechanism, view, spec, plan.left, rng)",
            "_fit_then_count(mechanism, view, spec, budget, rng)",
        ),
    ),
    change(
        "counts of statistics without noise",
        NOISE,
        (STATISTICS_MEASUREMENT, "float(each) for each in noisy", "float(each) for each in values"),
    ),
    change(
        "exponent without its half",
        CHOICES,
        (STATISTICS_MEASUREMENT, 'monotonic=neighbours.relation == "add_remove"', "monotonic=True"),
    ),
    change(
        "exponent without its half, seen by the replay",
        OF_REPLAYED_STATISTICS,
        (STATISTICS_MEASUREMENT, 'monotonic=neighbours.relation == "add_remove"', "monotonic=True"),
    ),
    change(
        "noisy maximum with half its noise",
        (OF_REPLAYED_STATISTICS, CHOICES),
        (SELECTION, "scale = reach * (1 if monotonic else 2)", "scale = reach * 1.0"),
    ),
    change(
        "brackets of a quantile not paid for",
        COST,
        (STATISTICS_QUANTILES, "PARTS = (0.25, 0.375, 0.375)", "PARTS = (1.0, 0.375, 0.375)"),
    ),
    change(
        "choices left out of the share of a Gaussian mechanism",
        COST,
        (
            STATISTICS_BUDGET,
            "spent = (choices if gaussian else choices + numbers)",
            "spent = (0 if gaussian else choices + numbers)",
        ),
    ),
    change(
        "brackets of a quantile aim at half their distance",
        f"{OF_STATISTICS}::test_a_wrong_end_of_a_quantile_is_less_likely_than_stated_for_every_dataset",
        (STATISTICS_QUANTILES, "w = 2 * reach(", "w = reach("),
    ),
    change(
        "noise of the count left out of the interval of a mean",
        COVERAGE,
        (STATISTICS_ESTIMATES, "abs(mu) * of_number", "0 * of_number"),
    ),
    change(
        "published statistics not compared with the transcript",
        FORGED,
        (VERIFY, "    check_statistics(model, plan)\n", ""),
    ),
    change(
        "an end of a quantile drawn as the other end's bound",
        f"{OF_STATISTICS}::test_every_option_of_a_quantile_that_can_be_drawn_is_allowed_in_a_release",
        (STATISTICS_QUANTILES, "if offset > 0 else -np.inf", "if offset else -np.inf"),
    ),
    change(
        "a correct count moved into an interval without whole numbers",
        f"{OF_STATISTICS}::test_a_count_is_the_nearest_whole_number_when_its_noise_is_small",
        (STATISTICS_ESTIMATES, "np.clip(np.ceil(noisy - reach), 0.0, values)", "np.ceil(noisy - reach)"),
    ),
    change(
        "digits of a mean counted from zero",
        f"{OF_STATISTICS}::test_intervals_cover_on_an_axis_far_from_zero",
        (STATISTICS_ROUNDING, "math.log10(axis.upper - axis.lower)", "math.log10(abs(axis.upper))"),
    ),
    change(
        "choices of a release drawn in floating point",
        f"{OF_SELECTION}::test_choices_of_a_release_have_the_exact_probabilities_and_no_others",
        (SELECTION, "exact = needs_exact_sums(source)", "exact = not needs_exact_sums(source)"),
    ),
)
