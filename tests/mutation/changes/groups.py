"""Defects in the costs of groups: records for people, no correction, and swapped criteria."""

from changes.change import change
from changes.places import (
    GROUP_COSTS,
    GROUP_VALUES,
    OF_GROUP_PAGE,
    OF_GROUPS,
    OF_PARITY,
    PARITY,
    SIMULTANEOUS,
)

CHANGES = (
    change(
        "groups: records of a person count as independent",
        f"{OF_GROUPS}::test_the_covariance_of_means_is_that_of_a_bootstrap_over_people",
        (
            GROUP_VALUES,
            "_, unit = np.unique(units, return_inverse=True)",
            "unit = np.arange(len(units))",
        ),
    ),
    change(
        "groups: intervals are not corrected for the number of groups",
        f"{OF_GROUPS}::test_intervals_hold_for_all_groups_and_differences_together",
        (
            SIMULTANEOUS,
            "(np.abs(draws) / safe).max(axis=1), level",
            "(np.abs(draws) / safe).min(axis=1), level",
        ),
    ),
    change(
        "groups: the noise of replicates is left out",
        f"{OF_GROUPS}::test_noise_of_replicates_widens_intervals",
        (
            SIMULTANEOUS,
            "values[:, usable].mean(axis=0)) @ rows.T",
            "values[:, usable].mean(axis=0)) @ (0 * rows.T)",
        ),
    ),
    change(
        "groups: gaps to another replicate than the best",
        f"{OF_GROUP_PAGE}::test_the_gap_of_a_group_is_measured_against_the_best_non_private_replicate",
        (GROUP_COSTS, ".index(baseline.replicate)", ".index(baseline.replicate) - 1"),
    ),
    change(
        "parity: sufficiency measured among the true instead of the predicted",
        f"{OF_PARITY}::test_rates_and_criteria_equal_those_of_fairlearn",
        (
            PARITY,
            '"ppv": ([each * right for each in chosen], chosen)',
            '"ppv": ([each * right for each in chosen], [right for _ in chosen])',
        ),
    ),
)
