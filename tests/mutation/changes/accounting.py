"""Defects in accounting and calibration: from a ledger to (ε, δ), and from a budget to noise."""

from changes.change import change
from changes.places import (
    ACCOUNTING,
    CALIBRATION,
    LOSS,
    OF_ACCOUNTING,
    OF_PLANAR_NOISE,
    OF_REPLAY,
    OF_SAMPLING,
)

PURE_VALUES = f"{OF_ACCOUNTING}::test_compositions_of_pure_releases_have_known_values"
TEN_GAUSSIANS = f"{OF_ACCOUNTING}::test_ten_gaussians_cost_what_is_known"
MIXED = f"{OF_ACCOUNTING}::test_mixed_kinds_agree_with_the_second_accountant"
OVERSPENT = f"{OF_ACCOUNTING}::test_one_forgotten_release_shows_in_the_total"

CHANGES = (
    change(
        "releases forgotten in exact composition",
        TEN_GAUSSIANS,
        (
            ACCOUNTING,
            "gaussian_epsilon(math.hypot(*_gaussian_mus(events)), delta)",
            "gaussian_epsilon(max(_gaussian_mus(events)), delta)",
        ),
    ),
    change(
        "releases forgotten in Rényi composition",
        TEN_GAUSSIANS,
        (ACCOUNTING, "count * _renyi(event)", "_renyi(event)"),
    ),
    change(
        "twice the affordable release",
        OF_REPLAY,
        (CALIBRATION, "return _share(find_largest(", "return _share(2 * find_largest("),
    ),
    change(
        "overspending accepted",
        OVERSPENT,
        (ACCOUNTING, "if spent.epsilon > budget.epsilon", "if spent.epsilon > 9 * budget.epsilon"),
    ),
    change(
        "Laplace noise of loss distributions taken for twice as wide",
        (PURE_VALUES, MIXED),
        (LOSS, "from_laplace_mechanism(1 / ", "from_laplace_mechanism(2 / "),
    ),
    change(
        "Gaussians left out of loss distributions",
        MIXED,
        (LOSS, "    if mu > 0:\n        parts", "    if not counts:\n        parts"),
    ),
    change(
        "divergence of randomized response understated",
        PURE_VALUES,
        (
            ACCOUNTING,
            "stay = order * log_p + (1 - order) * log_q",
            "stay = order * log_p + (1 - order) * log_p",
        ),
    ),
    change(
        "delta not shared in linear composition",
        OF_ACCOUNTING + "::test_linear_composition_shares_delta_among_gaussians",
        (ACCOUNTING, "gaussian_epsilon(mu, delta / len(mus))", "gaussian_epsilon(mu, delta)"),
    ),
    change(
        "delta spent twice in advanced composition",
        OF_ACCOUNTING + "::test_advanced_composition_of_gaussians_spends_delta_once",
        (ACCOUNTING, "slack = delta / 2 if mus else delta", "slack = delta"),
    ),
    change(
        "sampling rate taken for half of it in the loss distribution",
        OF_SAMPLING + "::test_one_step_is_amplified_as_the_closed_form_says",
        (LOSS, "sampling_prob=event.rate,", "sampling_prob=event.rate / 2,"),
    ),
    change(
        "replaced units counted as amplified",
        OF_SAMPLING + "::test_a_replaced_unit_has_no_amplification",
        (
            ACCOUNTING,
            "        if isinstance(event, Gaussian | SampledGaussian)\n",
            "        if isinstance(event, Gaussian)\n"
            "        else dataclasses.replace(event, noise_multiplier=event.noise_multiplier / 2)\n"
            "        if isinstance(event, SampledGaussian)\n",
        ),
    ),
    change(
        "releases beside the sampled ones forgotten in the calibration",
        OF_SAMPLING + "::test_the_calibrated_multiplier_spends_the_budget_and_no_more",
        (CALIBRATION, "= [*beside, *[", "= [*["),
    ),
    change(
        "planar totals at the distance",
        OF_PLANAR_NOISE + "::test_the_claim_is_at_the_distance_and_every_total_is_of_the_worst_case",
        (
            ACCOUNTING,
            "events = [event for ledger in ledgers for event in ledger]",
            "events = nearby_events(event for ledger in ledgers for event in ledger)",
        ),
    ),
)
