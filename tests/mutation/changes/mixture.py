"""Defects in the mixture engine that would break a guarantee."""

from changes.change import change
from changes.places import (
    COMPILED,
    DECONVOLVE,
    GRADIENT,
    OF_DECONVOLVE,
    OF_DP_SGD,
    OF_EXACT_SUMS,
    OF_MOMENTS,
    OF_POSTERIOR,
    OF_STANDARDISED,
    POSTERIOR,
    ROWWISE,
    STANDARDISED,
)

CHANGES = (
    change(
        "noisy moments: standardised records not clipped",
        OF_MOMENTS + "::test_no_record_moves_the_measurement_further_than_its_sensitivity",
        (STANDARDISED, "np.maximum(distances, radius**2)", "np.full_like(distances, radius**2)"),
    ),
    change(
        "noisy moments: clipped to a box",
        OF_MOMENTS + "::test_no_record_moves_the_measurement_further_than_its_sensitivity",
        (
            STANDARDISED,
            "places *= (radius / np.sqrt(np.maximum(distances, radius**2)))[:, None]",
            "np.clip(places, -radius, radius, out=places)",
        ),
    ),
    change(
        "noisy moments: standardised records not clipped by the compiled loop",
        OF_STANDARDISED + "::test_the_compiled_pass_is_the_plain_one",
        (COMPILED, "radius / np.sqrt(_larger(factors[i], square))", "radius / np.sqrt(square)"),
    ),
    change(
        "noisy moments: the compiled loop forgets small responsibilities",
        OF_STANDARDISED + "::test_the_compiled_pass_is_the_plain_one",
        (COMPILED, "NEGLIGIBLE = 2.0**-60", "NEGLIGIBLE = 2.0**-20"),
    ),
    change(
        "noisy moments: weights of merged records count twice in squares",
        OF_MOMENTS + "::test_merging_equal_records_moves_the_measurement_no_further",
        (
            STANDARDISED,
            "squares += shared @ places",
            "squares += (shared * observations.weights[first : first + width]) @ places",
        ),
    ),
    change(
        "inverse Wishart with one degree of freedom too many",
        OF_POSTERIOR,
        (POSTERIOR, "freedoms[..., None] - axes", "freedoms[..., None] + 1 - axes"),
    ),
    change(
        "sums not divided by the posterior's count",
        OF_POSTERIOR + "::test_the_posterior_is_prior_times_likelihood",
        (POSTERIOR, "kappas = prior.kappa + counts", "kappas = counts"),
    ),
    change(
        "gradient of the covariances wrong on the diagonal",
        OF_DP_SGD + "::test_gradients_are_those_of_the_log_density",
        (GRADIENT, "products[:, entry] -= shares", "products[:, entry] -= 0.0"),
    ),
    change(
        "noise-aware covariances without a limit",
        OF_DECONVOLVE + "::test_no_component_is_wider_than_half_the_box_and_others_are_left_alone",
        (DECONVOLVE, "np.minimum(values, 1.0)", "values"),
    ),
    change(
        "contributions depend on where a record stands",
        OF_EXACT_SUMS + "::test_a_record_has_the_same_numbers_in_any_position",
        (
            ROWWISE,
            "shares = rowwise_exponential(joint - joint.max(axis=0))",
            "shares = np.exp(joint - joint.max())",
        ),
    ),
)
