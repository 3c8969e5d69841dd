"""Defects in code that all mechanisms share, and in mechanisms that measure counts or moments."""

from changes.change import change
from changes.places import (
    ACCOUNTING,
    ATTRIBUTE_COUNTS,
    BASE,
    CANARIES,
    CENSORED_LABELS,
    CHOICE,
    DOMAIN,
    DP_EM,
    JOINT,
    MARGINALS,
    NOISY_GRID,
    NOISY_MOMENTS,
    NOISY_TREE,
    OF_ATTRIBUTE_COUNTS,
    OF_BLANKS,
    OF_CENSORED_LABELS,
    OF_CHOICE,
    OF_COLUMN_TYPES,
    OF_EXACT_SUMS,
    OF_INCOMPLETE,
    OF_MARGINALS,
    OF_MIXED_MOMENTS,
    OF_MOMENTS,
    OF_NOISY_GRID,
    OF_NOISY_TREE,
    OF_RELEASED_GROUPS,
    OF_REPLAY,
    OF_STREAMS,
    OF_TAILS,
    OF_WORST_GROUP,
    REFINEMENT,
    RELATION,
    RUNNING,
    SENSITIVITY,
    STANDARDISED,
    SYNOPSIS,
    SYNOPSIS_MECHANISM,
    TRANSCRIPTS,
    VECTOR_NOISE,
    WORST_GROUP,
)

TABLE = f"{OF_ATTRIBUTE_COUNTS}::test_no_unit_moves_the_table_further_than_its_sensitivity"
COST = f"{OF_ATTRIBUTE_COUNTS}::test_every_central_mechanism_measures_the_attributes_within_its_budget"

MEAN = "self._mean(exact.sums[k] / counts[k], counts[k]) * counts[k]"
SECOND = "self._second_moment(exact.squares[k] / counts[k], counts[k]) * counts[k]"
TRUE_COUNT = "max(exact.counts[k], 1.0)"
PASS = "released = curator.measure(moments(observations, mixture))"

CHANGES = (
    # Inputs of a mechanism.
    change(
        "search and noise share a stream",
        OF_STREAMS,
        (BASE, '*purpose, "search")', '*purpose, "noise")'),
    ),
    change(
        "no clipping",
        (OF_REPLAY, OF_STREAMS),
        (BASE, "return np.clip(points, self.domain.lower, self.domain.upper)", "return points"),
    ),
    # Records that lack coordinates.
    change(
        "a placeholder is used as a coordinate of the moments",
        f"{OF_BLANKS}::test_noisy_moments_do_not_read_placeholders",
        (NOISY_MOMENTS, "spec.inside(view.points), spec.absent(view)", "spec.inside(view.points), None"),
    ),
    change(
        "a placeholder is used as a coordinate of the table",
        f"{OF_BLANKS}::test_the_table_counts_every_record_by_what_is_there",
        (
            ATTRIBUTE_COUNTS,
            "spec.inside(records.points), spec.absent(records)",
            "spec.inside(records.points), None",
        ),
    ),
    change(
        "placeholders are fitted as if they were coordinates",
        f"{OF_BLANKS}::test_placeholders_do_not_matter",
        (RUNNING, "seen = view.complete(spec.domain) if", "seen = view if"),
    ),
    change(
        "the exact number of complete records is used as N",
        f"{OF_BLANKS}::test_replay_finds_nothing",
        (
            RUNNING,
            "mechanism.fit(seen, own, plan.left, rng)",
            "mechanism.fit(seen, own.with_rows(len(seen)), plan.left, rng)",
        ),
    ),
    change(
        "the number of complete records counts as public",
        (f"{OF_BLANKS}::test_the_number_of_complete_records_is_private_and_that_of_all_records_is_not",),
        (BASE, "replace(spec, all_counted=False)", "spec"),
    ),
    change(
        "the number of complete records is published without noise",
        f"{OF_BLANKS}::test_replay_finds_nothing",
        (
            RUNNING,
            '{"attributes": attribute_counts.to_text(table)}]',
            '{"attributes": attribute_counts.to_text(table)}, {"complete": len(seen)}]',
        ),
    ),
    change(
        "absent coordinates are left out of the sensitivity",
        (
            f"{OF_BLANKS}::test_no_unit_moves_the_measurement_further_than_its_sensitivity",
            "tests/privacy/test_privacy_sensitivity.py",
        ),
        (SENSITIVITY, "(c**4 + absent)", "c**4"),
    ),
    change(
        "a measurement does not allow for absent coordinates",
        f"{OF_BLANKS}::test_a_release_has_the_transcript_and_the_mixture_of_its_plan",
        (NOISY_MOMENTS, "absent=len(spec.domain.states),", "absent=0,"),
    ),
    change(
        "the unknown part of a record has no second moment",
        f"{OF_INCOMPLETE}::test_the_completed_pass_matches_its_definition",
        (STANDARDISED, "squares + seen.counts[:, None, None] * self.unknown", "squares"),
    ),
    change(
        "the unknown part of a record is not scaled like clipped places",
        f"{OF_INCOMPLETE}::test_the_completed_pass_matches_its_definition",
        (STANDARDISED, "clipped_variance(d, radius) if np.isfinite(radius) else 1.0", "1.0"),
    ),
    change(
        "no canary lacks coordinates",
        f"{OF_BLANKS}::test_replay_finds_nothing",
        (CANARIES, "*(lacking if spec.domain.states else []),", ""),
    ),
    # The choice of the number of components.
    change(
        "a person's records are dealt one by one",
        f"{OF_CHOICE}::test_one_unit_moves_at_most_one_block_by_at_most_one",
        (CHOICE, "view.units(neighbours.unit)", 'view.units("record")'),
    ),
    change(
        "a block's score may be anything",
        f"{OF_CHOICE}::test_the_scores_of_a_block_lie_between_zero_and_one",
        (
            CHOICE,
            "1.0 - np.minimum(best - densities, LARGEST_LOSS) / LARGEST_LOSS",
            "np.maximum(densities, -9.0)",
        ),
    ),
    change(
        "half the noise in the choice",
        f"{OF_CHOICE}::test_one_unit_moves_at_most_one_block_by_at_most_one",
        (CHOICE, "sensitivity=1.0, epsilon=epsilon", "sensitivity=1.0, monotonic=True, epsilon=epsilon"),
    ),
    change(
        "as many blocks as the data have records for",
        f"{OF_CHOICE}::test_the_number_of_blocks_is_public",
        (CHOICE, "number = block_count(spec)", "number = max(1, len(points) // 30)"),
    ),
    change(
        "the choice is not paid for",
        f"{OF_CHOICE}::test_choice_and_fit_together_cost_the_budget",
        (RUNNING, "epsilon=budget.epsilon - price", "epsilon=budget.epsilon"),
    ),
    change(
        "the choice is not in the ledger",
        f"{OF_CHOICE}::test_choice_and_fit_together_cost_the_budget",
        (RUNNING, "events=[*ledger.events, *release.events]", "events=release.events"),
    ),
    # The attributes of central mechanisms.
    change(
        "an attribute counts twice",
        TABLE,
        (ATTRIBUTE_COUNTS, "+= np.bincount(codes, own, size)", "+= 2 * np.bincount(codes, own, size)"),
    ),
    change(
        "the noise covers one attribute of a record",
        TABLE,
        (
            RELATION,
            "neighbours.difference(float(attributes), opposed=True)",
            "neighbours.difference(1.0, opposed=True)",
        ),
    ),
    change(
        "the table of attributes is not in the ledger",
        COST,
        (RUNNING, "events=[*release.events, *ledger.events]", "events=[*release.events]"),
    ),
    change(
        "the attributes come on top of the budget",
        COST,
        (ATTRIBUTE_COUNTS, "math.sqrt(1 - share) * mu", "mu"),
    ),
    change(
        "two measurements use the whole of delta",
        f"{OF_ATTRIBUTE_COUNTS}::test_the_cost_of_a_run_adds_up",
        (ACCOUNTING, 'is_pure(tables, "linear") else delta / 2', 'is_pure(tables, "linear") else delta'),
    ),
    change(
        "an attribute is released without noise",
        f"{OF_ATTRIBUTE_COUNTS}::test_the_noise_has_the_scale_of_the_sensitivity",
        (ATTRIBUTE_COUNTS, "values, epsilon=plan.event.epsilon", "values, epsilon=1e9 * plan.event.epsilon"),
    ),
    # Censored labels.
    change(
        "the limit of labels forgets that a value may be rare among labels",
        f"{OF_CENSORED_LABELS}::test_the_bound_without_noise_is_above_the_information_of_labels",
        (CENSORED_LABELS, "(1 - kept) * math.log(1 - kept) + kept", "kept**2 / 2"),
    ),
    change(
        "the limit of labels ignores the noise of the table",
        f"{OF_CENSORED_LABELS}::test_labels_tell_more_than_the_limit_in_at_most_one_of_twenty_runs",
        (CENSORED_LABELS, " + noise.largest_length(base, 1 - doubt / values)", ""),
    ),
    change(
        "a limit of noise is its median",
        f"{OF_CENSORED_LABELS}::test_limits_of_noise_lie_just_above_its_quantiles",
        (VECTOR_NOISE, "mean = len(values) * (1 - probability)", "mean = len(values) / 2"),
    ),
    # The counts of each column.
    change(
        "the noise of marginals is 3 % too small",
        f"{OF_MARGINALS}::test_the_noise_has_the_scale_of_the_sensitivity",
        (MARGINALS, "sensitivity=reach(number, neighbours)", "sensitivity=0.97 * reach(number, neighbours)"),
    ),
    change(
        "the marginals come on top of the budget",
        f"{OF_MARGINALS}::test_a_release_has_the_cost_and_the_transcript_of_its_plan",
        (NOISY_MOMENTS, "math.sqrt(1 - self.marginal_share) * mu", "mu"),
    ),
    change(
        "the noise of marginals covers the coordinates alone",
        f"{OF_MARGINALS}::test_the_noise_has_the_scale_of_the_sensitivity",
        (MARGINALS, "number = len(columns.sizes)", "number = len(columns.spec.domain.axes)"),
    ),
    change(
        "marginals count placeholders",
        f"{OF_MARGINALS}::test_every_record_is_counted_once_in_each_column_that_it_has",
        (MARGINALS, "np.column_stack([~absent,", "np.column_stack([~absent | True,"),
    ),
    change(
        "the noise of attributes is 3 % too small",
        f"{OF_ATTRIBUTE_COUNTS}::test_the_noise_has_the_scale_of_the_sensitivity",
        (ATTRIBUTE_COUNTS, '"sensitivity": noise', '"sensitivity": 0.97 * noise'),
    ),
    # DP-EM.
    change(
        "noise of the means drawn, recorded and thrown away",
        OF_REPLAY,
        (DP_EM, MEAN, f"({MEAN}, exact.sums[k])[1]"),
    ),
    change(
        "noise of the second moments drawn, recorded and thrown away",
        OF_REPLAY,
        (DP_EM, SECOND, f"({SECOND}, exact.squares[k])[1]"),
    ),
    change(
        "sensitivity of the means of DP-EM halved",
        OF_REPLAY,
        (
            DP_EM,
            "l1=reach.l1 / count, l2=reach.l2 / count",
            "l1=reach.l1 / 2 / count, l2=reach.l2 / 2 / count",
        ),
    ),
    change(
        "sensitivity of the second moments of DP-EM halved",
        OF_REPLAY,
        (DP_EM, "reach = sensitivity.second_moments(self.neighbours) /", "reach = 0.5 /"),
    ),
    change(
        "iterations forgotten in the split of the budget",
        OF_REPLAY,
        (DP_EM, "releases = self.iterations * (2", "releases = (2"),
        (DP_EM, "laplaces = self.iterations * (n", "laplaces = (n"),
    ),
    change(
        "exact counts as divisor and scale",
        OF_REPLAY,
        (DP_EM, MEAN, MEAN.replace("counts[k]", TRUE_COUNT)),
        (DP_EM, SECOND, SECOND.replace("counts[k]", TRUE_COUNT)),
    ),
    change(
        "start from the data",
        OF_REPLAY,
        (
            DP_EM,
            "em.public_start(spec.domain.lower, spec.domain.upper,",
            "em.public_start(view.points.min(0), view.points.max(0),",
        ),
    ),
    change(
        "bounds from the data",
        OF_REPLAY,
        (DP_EM, "mixture = _project_to_box(\n", "mixture = _feasible_by_data(\n                view,\n"),
        (
            DP_EM,
            "def _project_to_box(",
            "def _feasible_by_data(view, *arguments):\n"
            "    found = _project_to_box(*arguments)\n"
            "    means = np.clip(found.means, view.points.min(0), view.points.max(0))\n"
            "    return Mixture(found.weights, means, found.covariances)\n\n\n"
            "def _project_to_box(",
        ),
    ),
    change(
        "stop when the likelihood of the data has settled",
        OF_REPLAY,
        (
            DP_EM,
            PASS,
            "passed = kernel.em_pass(observations, mixture)\n"
            "            if iteration > 1 and abs(passed.log_likelihood - before) < 1e-3 * len(view):\n"
            "                break\n"
            "            before = passed.log_likelihood\n"
            "            released = curator.measure(passed)",
        ),
    ),
    # Trees and grids.
    change(
        "sensitivity of leaf counts halved",
        f"{OF_NOISY_TREE}::test_noise_has_the_scale_of_the_theorem",
        (NOISY_TREE, "sensitivity=reach.l1", "sensitivity=reach.l1 / 2"),
    ),
    change(
        "leaf counts released as they are",
        f"{OF_NOISY_TREE}::test_the_residuals_of_the_counts_are_laplace_noise_and_not_half_of_it",
        (NOISY_TREE, "shape.packed()}, noisy", "shape.packed()}, counts"),
    ),
    change(
        "leaf counts get the whole budget",
        f"{OF_NOISY_TREE}::test_a_synopsis_is_measured_into_a_given_ledger",
        (NOISY_TREE, "return for_shape, budget.epsilon - for_shape", "return for_shape, budget.epsilon"),
    ),
    change(
        "roots from the number of records",
        f"{OF_NOISY_TREE}::test_all_choices_before_the_noise_depend_only_on_public_values",
        (
            NOISY_TREE,
            "first=root_levels(spec, neighbours, for_shape, halving.depth)",
            "first=min(8, len(view))",
        ),
    ),
    change(
        "sensitivity of cell counts halved",
        f"{OF_NOISY_GRID}::test_no_unit_moves_the_counts_further_than_the_noise_is_scaled_for",
        (NOISY_GRID, "sensitivity=reach,", "sensitivity=reach / 2,"),
    ),
    change(
        "no noise on empty cells",
        f"{OF_NOISY_GRID}::test_every_cell_has_noise_including_empty_ones",
        (NOISY_GRID, "return released, noisy", "return released, noisy * (counts > 0)"),
    ),
    change(
        "records outside the box counted elsewhere than on its edge",
        f"{OF_NOISY_TREE}::test_records_outside_the_box_count_as_on_its_edge",
        (NOISY_TREE, "halving.codes(spec.inside(view.points))", "halving.codes(view.points % 0.5)"),
    ),
    # Noisy moments.
    change(
        "noisy moments: no factor off the diagonal",
        OF_MOMENTS,
        (
            JOINT,
            "rows, columns, factor = upper_triangle(moments.sums.shape[1])",
            "rows, columns, factor = upper_triangle(moments.sums.shape[1], off_diagonal=1.0)",
        ),
    ),
    change(
        "noisy moments: replaced persons cost as much as added records",
        OF_MOMENTS + "::test_noise_has_the_scale_of_the_theorem",
        (
            JOINT,
            "shape.sensitivity(neighbours),",
            'shape.sensitivity(Neighbours("record", "add_remove")),',
        ),
    ),
    change(
        "noisy moments: one release forgotten in the split of the budget",
        OF_MOMENTS + "::test_the_claim_is_the_budget_and_comes_from_the_ledger",
        (
            NOISY_MOMENTS,
            "equal_shares(0, plan.releases, for_moments",
            "equal_shares(0, max(plan.releases - 1, 1), for_moments",
        ),
    ),
    change(
        "noisy moments: N of the data in the schedule",
        OF_MOMENTS + "::test_schedule_and_start_depend_only_on_public_values",
        (
            NOISY_MOMENTS,
            "plan = self.schedule(spec, for_moments, neighbours)",
            'spec = Spec(spec.domain.model_copy(update={"rows": len(view)}), spec.n_components)\n'
            "        plan = self.schedule(spec, for_moments, neighbours)",
        ),
    ),
    change(
        "noisy moments: N used where it is private",
        OF_MOMENTS + "::test_every_measurement_is_the_statistic_plus_its_noise",
        (
            REFINEMENT,
            "mixture = m_step(mixture, released, spec, neighbours, hold=hold)",
            "size = observations.total_weight / released.counts.sum()\n"
            "        released = __import__('dataclasses').replace(released, counts=released.counts * size)\n"
            "        mixture = m_step(mixture, released, spec, neighbours, hold=hold)",
        ),
    ),
    change(
        "noisy moments: start from the data",
        OF_MOMENTS + "::test_each_iteration_uses_only_earlier_measurements",
        (
            NOISY_MOMENTS,
            "        fitted = self.carry_out(run,",
            "        globals()['_seen'] = view\n        fitted = self.carry_out(run,",
        ),
        (
            NOISY_MOMENTS,
            "lower, upper = spec.domain.lower, spec.domain.upper",
            "lower, upper = _seen.points.min(0), _seen.points.max(0)",
        ),
    ),
    change(
        "counts of values are rounded before they are weighted",
        OF_MIXED_MOMENTS + "::test_exact_contributions_do_not_depend_on_the_other_records",
        (
            JOINT,
            "dequantise(quantise(shape.value * shares)) * number",
            "shape.value * dequantise(quantise(shares)) * number",
        ),
    ),
    change(
        "a value is rounded after it is clipped to the cells of the box",
        OF_COLUMN_TYPES + "::test_values_settle_on_their_lattice_inside_the_bounds",
        (
            DOMAIN,
            "np.clip(np.floor(coordinates + 0.5), least, most)",
            "np.floor(np.clip(coordinates, least - 0.5, most + 0.5) + 0.5)",
        ),
    ),
    change(
        "a release of moments rests on a sum in floating point",
        OF_EXACT_SUMS + "::test_every_sum_of_a_release_lies_on_the_lattice_before_noise_is_added",
        (JOINT, "if noise.needs_exact_sums(source):", "if False:"),
    ),
    # The aim at the worst group.
    change(
        "a record is counted in its region and in the next one",
        f"{OF_WORST_GROUP}::test_no_unit_moves_the_group_counts_further_than_the_noise_is_scaled_for",
        (
            WORST_GROUP,
            "minlength=shape[0] * shape[1])",
            "minlength=shape[0] * shape[1]).astype(float)\n    counts = counts + np.roll(counts, shape[1])",
        ),
    ),
    change(
        "replay: a record is counted in its region and in the next one",
        f"{OF_WORST_GROUP}::test_replay_finds_nothing",
        (
            WORST_GROUP,
            "minlength=shape[0] * shape[1])",
            "minlength=shape[0] * shape[1]).astype(float)\n    counts = counts + np.roll(counts, shape[1])",
        ),
    ),
    change(
        "the weights of groups come from their exact places",
        f"{OF_WORST_GROUP}::test_replay_finds_nothing",
        (
            SYNOPSIS_MECHANISM,
            "fit, notes = worst_group.fit_worst(",
            "exact = np.zeros(groups.table.shape)\n"
            "            place = groups.region[self.locate(synopsis.released, spec, view.points)]\n"
            "            np.add.at(exact, (place, view.codes[self.worst_of]), 100.0)\n"
            "            groups = replace(groups, table=exact)\n"
            "            fit, notes = worst_group.fit_worst(",
        ),
    ),
    change(
        "a group has a weight above 1 in the counts, whose sensitivity stays that of weight 1",
        (
            f"{OF_WORST_GROUP}::test_no_unit_moves_the_group_counts_further_than_the_noise_is_scaled_for",
            f"{OF_WORST_GROUP}::test_replay_finds_nothing",
        ),
        (
            WORST_GROUP,
            "np.ravel_multi_index(cells, shape), minlength",
            "np.ravel_multi_index(cells, shape), np.where(cells[1] == 1, 1.5, 1.0), minlength",
        ),
    ),
    change(
        "regions are cut where the records lie",
        f"{OF_WORST_GROUP}::test_replay_finds_nothing",
        (
            SYNOPSIS_MECHANISM,
            "synopsis.upper, synopsis.weights(), shape[0])",
            "synopsis.upper,\n"
            "            np.bincount(self.locate(synopsis.released, spec, view.points),\n"
            "            minlength=len(synopsis.counts)) + 1e-6, shape[0])",
        ),
    ),
    change(
        "the groups are not paid by the table of attributes",
        f"{OF_WORST_GROUP}::test_the_groups_are_paid_by_the_table_of_attributes_alone",
        (
            SYNOPSIS_MECHANISM,
            "return share * (1 - self.group_share) if self.worst_of else share",
            "return share",
        ),
    ),
    change(
        "the noise of the group counts is three percent too small",
        f"{OF_WORST_GROUP}::test_the_noise_of_the_group_counts_is_not_three_percent_too_small",
        (WORST_GROUP, "sensitivity=reach,", "sensitivity=0.97 * reach,"),
    ),
    change(
        "the weights of the mixture stay those of the weighted counts",
        (
            f"{OF_WORST_GROUP}::test_the_mixture_stays_a_model_of_all_records",
            f"{OF_WORST_GROUP}::test_the_aim_helps_the_group_that_loses_most_and_costs_the_average",
        ),
        (
            WORST_GROUP,
            "mixture = boxes.estimate_weights(synopsis.lower, synopsis.upper, groups.counts, weighted, PARTS)",
            "mixture = weighted",
        ),
    ),
    change(
        "groups in other regions pass verification",
        f"{OF_RELEASED_GROUPS}::test_an_altered_table_of_groups_is_refused",
        (TRANSCRIPTS, "abs(by_groups[number] - by_parts[number]) <= slack", "True"),
    ),
    change(
        "the counts of a tree are projected leaf by leaf",
        f"{OF_TAILS}::test_a_tree_allocates_its_counts_downwards",
        (SYNOPSIS, "if self.shape is not None:", "if False:"),
    ),
    change(
        "halves share a difference equally",
        f"{OF_TAILS}::test_halves_share_a_difference_by_their_numbers_of_leaves",
        (SYNOPSIS, "difference * (middle - start) / (end - start)", "difference / 2"),
    ),
    change(
        "a background drifts with its noise",
        f"{OF_TAILS}::test_only_a_component_as_wide_as_its_box_and_its_noise_moves",
        (JOINT, "limited = values - excess *", "limited = values - 0 * excess *"),
    ),
    change(
        "points outside the box are moved to its edge",
        f"{OF_TAILS}::test_a_wide_mixture_leaves_no_component_on_the_edge_of_the_box",
        (MARGINALS, "if inside.sum() < rows / 10", "if True"),
    ),
    change(
        "mixed moments: attributes missing in the sensitivity",
        OF_MIXED_MOMENTS + "::test_no_unit_moves_the_measurement_further_than_its_sensitivity",
        (SENSITIVITY, " + attributes * f * f", ""),
    ),
    change(
        "mixed moments: counts of values summed in floating point",
        OF_MIXED_MOMENTS + "::test_exact_contributions_do_not_depend_on_the_other_records",
        (JOINT, "dequantise(quantise(shape.value * shares))", "(shape.value * shares)"),
    ),
    change(
        "mixed moments: a table is measured as well",
        OF_MIXED_MOMENTS + "::test_no_table_is_measured_and_the_claim_is_the_budget",
        (
            NOISY_MOMENTS,
            "return 0.0 if self.takes_part(spec) else self.attribute_share",
            "return self.attribute_share",
        ),
    ),
)
