"""Changes of the estimator, of the noisy count of records, and of the audit of any function."""

from changes.change import change
from changes.places import BLACK_BOX, ESTIMATOR, OF_BLACK_BOX, OF_COUNT, OF_ESTIMATOR, RUNNING

CHANGES = (
    change(
        "the count of persons' records has the sensitivity of one record",
        f"{OF_COUNT}::test_one_unit_moves_the_count_by_no_more_than_its_sensitivity",
        (RUNNING, "sensitivity=float(mechanism.relation(spec).records)", "sensitivity=1.0"),
    ),
    change(
        "the count is not paid for",
        f"{OF_COUNT}::test_count_and_fit_together_cost_the_budget",
        (RUNNING, "epsilon=budget.epsilon - count_epsilon", "epsilon=budget.epsilon"),
    ),
    change(
        "the mechanism sees the exact count",
        f"{OF_COUNT}::test_the_mechanism_sees_the_noisy_count_only",
        (RUNNING, "spec.with_rows(rows)", "spec.with_rows(len(records))"),
    ),
    change(
        "the estimator does not clip",
        f"{OF_ESTIMATOR}::test_values_outside_the_bounds_count_as_the_bound",
        (ESTIMATOR, "Records(domain.normalise(clipped)", "Records(domain.normalise(values)"),
    ),
    change(
        "the estimator takes bounds from the data",
        f"{OF_ESTIMATOR}::test_bounds_are_required",
        (
            ESTIMATOR,
            "        if self.bounds is None:\n            raise PrivacyError(",
            "        if self.bounds is None:\n            self.bounds = [(-1e9, 1e9)]\n        if False:\n"
            "            raise PrivacyError(",
        ),
    ),
    change(
        "all records of a person are used",
        f"{OF_ESTIMATOR}::test_a_person_contributes_at_most_the_stated_number_of_records",
        (ESTIMATOR, "return values[kept], persons[kept]", "return values, persons"),
    ),
    change(
        "an exact number of records where it is private",
        f"{OF_ESTIMATOR}::test_the_number_of_records_is_public_given_or_paid_for",
        (ESTIMATOR, "known, count_share = 1, COUNT_SHARE", "known, count_share = rows, 0.0"),
    ),
    change(
        "no random state means a fixed seed",
        f"{OF_ESTIMATOR}::test_without_a_random_state_the_noise_is_exact_and_new_each_time",
        (
            ESTIMATOR,
            "if self.random_state is None:\n            return None",
            "if self.random_state is None:\n            return 0",
        ),
    ),
    change(
        "the audit judges the runs it learned from",
        f"{OF_BLACK_BOX}::test_what_the_attacker_learned_by_heart_proves_nothing",
        (BLACK_BOX, "for sides in (studied[best], judged)", "for sides in (studied[best], studied[best])"),
    ),
    change(
        "the audit compares a dataset with itself",
        f"{OF_BLACK_BOX}::test_a_false_claim_is_disproved",
        (BLACK_BOX, "function(pair[which])", "function(pair[0])"),
    ),
)
