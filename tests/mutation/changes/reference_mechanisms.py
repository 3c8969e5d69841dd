"""Defects in the private reference, and in the mechanisms that start from it."""

from changes.change import change
from changes.places import (
    DP_SGD,
    GRADIENT,
    JOINT_ATTRIBUTES,
    NOISY_GRID,
    OF_DP_SGD,
    OF_JOINT_ATTRIBUTES,
    OF_LATENT_CLASSES,
    OF_OUTPUT_NOISE,
    OF_POSTERIOR_SAMPLE,
    OF_REFERENCE,
    OUTPUT_NOISE,
    POSTERIOR_SAMPLE,
    RANDOMIZED_RESPONSE,
    REFERENCE,
)

CHANGES = (
    # The reference.
    change(
        "sensitivity of the reference histogram is that of one record",
        OF_REFERENCE,
        (REFERENCE, "reach = sensitivity.counts(neighbours).l2", "reach = 1.0"),
    ),
    change(
        "reference: exact counts as weights",
        OF_REFERENCE + "::test_the_grid_reference_follows_from_the_noisy_counts",
        (
            REFERENCE,
            "    if len(weights) < spec.n_components:\n",
            "    inside = ((points >= lower[:, None]) & (points < upper[:, None])).all(axis=2)\n"
            "    weights = np.maximum(inside.sum(axis=1), 0.5)\n"
            "    if len(weights) < spec.n_components:\n",
        ),
    ),
    change(
        "reference: a step of EM on the records after the fit",
        OF_REFERENCE + "::test_the_grid_reference_follows_from_the_noisy_counts",
        (
            REFERENCE,
            "    return project_to_box(fit.mixture.weights,",
            "    fit = em.loop(spec.observations(points), fit.mixture, floor=spec.floor, max_iter=1)\n"
            "    return project_to_box(fit.mixture.weights,",
        ),
    ),
    change(
        "reference: moments from a start of the records",
        OF_REFERENCE + "::test_the_reference_of_moments_follows_from_the_noisy_moments",
        (
            REFERENCE,
            "        spec,\n        em.public_start(spec.domain.lower, spec.domain.upper,",
            "        spec,\n        em.public_start(points.min(0), points.max(0),",
        ),
    ),
    change(
        "rounds forgotten in the reference",
        OF_REFERENCE,
        (
            REFERENCE,
            "noise_multiplier=noise_multiplier * math.sqrt(ROUNDS)",
            "noise_multiplier=noise_multiplier",
        ),
    ),
    change(
        "grid of the reference from the records",
        OF_REFERENCE + "::test_the_grid_does_not_depend_on_the_data",
        (REFERENCE, "FINENESS * spec.domain.rows / deviation", "FINENESS * len(points) / deviation"),
    ),
    # DP-SGD.
    change(
        "gradients not clipped",
        OF_DP_SGD + "::test_no_unit_moves_the_sum_further_than_its_clip",
        (DP_SGD, "(gradient.clip_gradients(part, norm) for part", "(part for part"),
    ),
    change(
        "records clipped instead of persons",
        OF_DP_SGD + "::test_no_unit_moves_the_sum_further_than_its_clip",
        (
            DP_SGD,
            "of_records = gradient.gradients(points, model, values=values, rowwise=self.exact)\n",
            "of_records = gradient.clip_gradients(gradient.gradients(points, model), 3.0)\n",
        ),
        (DP_SGD, "(gradient.clip_gradients(part, norm) for part", "(part for part"),
    ),
    change(
        "replacing costs DP-SGD no more than removing",
        OF_DP_SGD + "::test_noise_has_the_scale_of_the_theorem",
        (DP_SGD, 'norm if self.relation(spec).relation == "add_remove" else 2 * norm', "norm"),
    ),
    change(
        "steps forgotten in the calibration of DP-SGD",
        OF_DP_SGD,
        (
            DP_SGD,
            "sampled_noise_multiplier(rate, self.steps, budget, beside)",
            "sampled_noise_multiplier(rate, 1, budget, beside)",
        ),
    ),
    change(
        "records sampled instead of persons",
        OF_DP_SGD + "::test_the_sum_is_over_the_chosen_units_with_all_their_records",
        (
            DP_SGD,
            "order = np.argsort(units",
            "units = np.arange(len(units))\n        order = np.argsort(units",
        ),
    ),
    change(
        "the batch is published",
        OF_DP_SGD + "::test_samples_are_fresh_secret_and_at_the_public_rate",
        (
            DP_SGD,
            'transcript.append({"step": step,',
            'transcript.append({"batch": len(view), "step": step,',
        ),
    ),
    change(
        "DP-SGD: records where persons are to be protected",
        OF_DP_SGD + "::test_a_unit_is_what_the_relation_says",
        (DP_SGD, "view.units(neighbours.unit)", 'view.units("record")'),
    ),
    change(
        "DP-SGD: divided by the true number of records",
        OF_DP_SGD + "::test_each_step_uses_only_earlier_measurements",
        (DP_SGD, "size = rate * spec.domain.rows", "size = rate * len(view)"),
    ),
    change(
        "DP-SGD: start refitted to the records",
        OF_DP_SGD + "::test_each_step_uses_only_earlier_measurements",
        (
            DP_SGD,
            "        size = rate * spec.domain.rows\n",
            "        if for_reference is not None:\n"
            "            mixture = em.loop(spec.observations(points), mixture, floor=spec.floor, max_iter=1).mixture\n"
            "        size = rate * spec.domain.rows\n",
        ),
    ),
    change(
        "DP-SGD: the same noise in every step",
        OF_DP_SGD + "::test_each_step_measures_the_clipped_sum_over_units_with_fresh_noise",
        (DP_SGD, "source=rng.noise,", 'source=__import__("copy").deepcopy(rng.noise),'),
    ),
    # Output noise.
    change(
        "sum over blocks taken to move by half",
        OF_OUTPUT_NOISE + "::test_noise_has_the_scale_of_the_theorem",
        (OUTPUT_NOISE, "                2 * self.radius,\n", "                self.radius,\n"),
    ),
    change(
        "vectors of blocks not clipped",
        OF_OUTPUT_NOISE,
        (OUTPUT_NOISE, "return vectors * (radius / np.maximum(length, radius))", "return vectors"),
    ),
    change(
        "records of a person spread over blocks",
        OF_OUTPUT_NOISE + "::test_all_records_of_a_person_are_in_one_block",
        (OUTPUT_NOISE, "view.units(neighbours.unit)", 'view.units("record")'),
    ),
    change(
        "blocks by the order of the records",
        OF_OUTPUT_NOISE,
        (
            OUTPUT_NOISE,
            "_fit_blocks(observe(points[order])",
            "_fit_blocks(observe(points)",
        ),
    ),
    change(
        "blocks steadied by all the records",
        OF_OUTPUT_NOISE + "::test_a_block_sees_only_its_own_records",
        (OUTPUT_NOISE, "seen.sums + strength * about.means", "seen.sums + strength * seen.sums.mean(axis=0)"),
    ),
    change(
        "number of blocks from the records",
        OF_OUTPUT_NOISE + "::test_noise_has_the_scale_of_the_theorem",
        (OUTPUT_NOISE, "blocks = self.number_of_blocks(spec, for_sum)", "blocks = len(view) // 50"),
    ),
    change(
        "output noise: the model from the exact sum, noise only recorded",
        OF_OUTPUT_NOISE + "::test_the_model_is_computed_from_the_measurements",
        (OUTPUT_NOISE, "shrink(released / blocks,", "shrink(vectors.sum(axis=0) / blocks,"),
    ),
    change(
        "output noise: blocks about a reference refitted to the records",
        OF_OUTPUT_NOISE + "::test_blocks_are_fitted_about_the_measured_reference",
        (
            OUTPUT_NOISE,
            "        blocks = self.number_of_blocks(spec, for_sum)\n",
            "        about = _fit_blocks([observe(points)], about, spec.floor).mixture(0)\n"
            "        blocks = self.number_of_blocks(spec, for_sum)\n",
        ),
    ),
    change(
        "output noise: a step of EM on the records after the release",
        OF_OUTPUT_NOISE + "::test_the_model_is_computed_from_the_measurements",
        (
            OUTPUT_NOISE,
            "        transcript = [\n",
            "        mixture = _fit_blocks([observe(points)], mixture, spec.floor).mixture(0)\n"
            "        transcript = [\n",
        ),
    ),
    change(
        "output noise: half the noise in the sum over blocks",
        OF_OUTPUT_NOISE + "::test_the_sum_over_blocks_has_the_noise_of_the_theorem_and_not_half_of_it",
        (
            OUTPUT_NOISE,
            "            noise_multiplier=for_sum,\n",
            "            noise_multiplier=for_sum / 2,\n",
        ),
        (OUTPUT_NOISE, 'claim(ledger.events, budget, "exact")', "budget"),
    ),
    # Posterior samples.
    change(
        "iterations forgotten in the split for posterior samples",
        OF_POSTERIOR_SAMPLE,
        (
            POSTERIOR_SAMPLE,
            "each = (1 - self.reference_share) / self.iterations",
            "each = 1 - self.reference_share",
        ),
        (
            POSTERIOR_SAMPLE,
            "[self.reference_share] + [each] * self.iterations, budget",
            "[self.reference_share, each], budget",
        ),
        (
            POSTERIOR_SAMPLE,
            "for_reference, *multipliers = self.noise_multipliers(budget)",
            "for_reference, one = self.noise_multipliers(budget); multipliers = [one] * self.iterations",
        ),
    ),
    change(
        "intervals do not know the noise",
        OF_POSTERIOR_SAMPLE + "::test_intervals_cover_the_truth_at_their_rate",
        (POSTERIOR_SAMPLE, "tuple(part + noise for", "tuple(part + 0 * noise for"),
    ),
    change(
        "posterior samples: posterior from the exact moments",
        OF_POSTERIOR_SAMPLE + "::test_everything_follows_from_the_measurements",
        (
            POSTERIOR_SAMPLE,
            "        belief = NoisyPosterior(about, released, spec)\n",
            "        exact = joint_moments.completed_pass(observations, about, joint_moments.scheme(2).radius)\n"
            "        released = __import__('dataclasses').replace(released, **vars(exact))\n"
            "        belief = NoisyPosterior(about, released, spec)\n",
        ),
    ),
    change(
        "posterior samples: start refitted to the records",
        OF_POSTERIOR_SAMPLE + "::test_everything_follows_from_the_measurements",
        (
            POSTERIOR_SAMPLE,
            "        observations = self.observations(points, view, spec)\n",
            "        observations = self.observations(points, view, spec)\n"
            "        from privmix.mixture.em import loop\n"
            "        reference = loop(observations, reference, floor=spec.floor, max_iter=1).mixture\n",
        ),
    ),
    change(
        "posterior samples: the same noise in every iteration",
        OF_POSTERIOR_SAMPLE + "::test_every_iteration_has_fresh_noise_of_the_theorems_size",
        (POSTERIOR_SAMPLE, "source=rng.noise,", 'source=__import__("copy").deepcopy(rng.noise),'),
    ),
    change(
        "posterior samples: intervals pulled to the iteration before",
        OF_POSTERIOR_SAMPLE + "::test_intervals_cover_the_truth_if_the_previous_iteration_was_wrong",
        (POSTERIOR_SAMPLE, "return replace(self.density_prior, kappa=1.0)", "return self.density_prior"),
    ),
    change(
        "posterior samples: intervals of other means than the draws have",
        OF_POSTERIOR_SAMPLE + "::test_intervals_are_the_quantiles_of_draws",
        (
            POSTERIOR_SAMPLE,
            "_, shifts, _ = self._draw(INTERVAL_DRAWS, rng)",
            "_, shifts, _ = "
            "self.posterior(self.density_prior, self._noise_draws(INTERVAL_DRAWS, rng)).draw(rng)",
        ),
    ),
    # Attributes in the clustering, and without coordinates.
    change(
        "joint attributes: a table is measured as well",
        OF_JOINT_ATTRIBUTES + "::test_no_table_is_measured_and_the_claim_is_the_budget",
        (
            JOINT_ATTRIBUTES,
            "return 0.0 if self.takes_part(spec) else self.attribute_share",
            "return self.attribute_share",
        ),
    ),
    change(
        "DP-SGD: only the coordinates decide about responsibilities",
        OF_JOINT_ATTRIBUTES + "::test_gradients_are_those_of_the_joint_density",
        (GRADIENT, "None if values is None else _log_shares(table, values)", "None"),
    ),
    change(
        "DP-SGD: attributes not clipped",
        OF_JOINT_ATTRIBUTES + "::test_no_unit_moves_the_gradient_further_than_its_clip",
        (
            GRADIENT,
            "length = np.sqrt(sum_of_squares(vectors))",
            "length = np.sqrt(sum_of_squares(vectors[:-10]))",
        ),
    ),
    change(
        "combinations: part of epsilon for attributes that are not reported",
        OF_LATENT_CLASSES + "::test_a_unit_reports_its_combination_with_all_of_epsilon",
        (
            RANDOMIZED_RESPONSE,
            "replace(plan, budget=each, attribute_epsilon=0.0)",
            "replace(plan, attribute_epsilon=0.0)",
        ),
    ),
    change(
        "combinations: a table of attributes is measured as well",
        OF_LATENT_CLASSES + "::test_one_table_is_measured_with_all_of_epsilon",
        (
            NOISY_GRID,
            "return super().table_share(spec) if spec.domain.axes else 0.0",
            "return super().table_share(spec)",
        ),
    ),
    change(
        "combinations: replacing costs no more than removing",
        OF_LATENT_CLASSES + "::test_no_unit_moves_the_table_further_than_its_sensitivity",
        (
            NOISY_GRID,
            "reach = sensitivity.counts(self.relation(spec)).l1\n        noisy",
            "reach = 1.0\n        noisy",
        ),
    ),
)
