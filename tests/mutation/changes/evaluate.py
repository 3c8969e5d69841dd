"""Defects in the audits, which try to prove claims wrong."""

from changes.change import change
from changes.places import (
    BOUNDS,
    GAME,
    GATE,
    MEMBERSHIP,
    NOISE_TESTS,
    OF_AUDIT_NOISE,
    OF_AUDIT_REPLAY,
    OF_BAD_DAYS,
    OF_BOUNDS,
    OF_GAME,
    OF_GATE,
    OF_RELEASED_REPORTS,
    OF_SHARED_NOISE,
    REPLAY,
    SHARED_NOISE,
)

CHANGES = (
    # Replay.
    change(
        "replay: a release may rest on anything",
        f"{OF_AUDIT_REPLAY}::test_halved_sensitivity_is_found_in_every_mechanism[noisy_grid]",
        (REPLAY, "if not distance <= most * (1 + ROUNDING):", "if not distance <= most * 10:"),
    ),
    change(
        "replay: releases are not added up",
        f"{OF_AUDIT_REPLAY}::test_forgotten_iterations_are_found_in_the_ledger_and_in_the_distances",
        (
            REPLAY,
            "total.epsilon > claim.epsilon * (1 + _slack([",
            "total.epsilon > claim.epsilon * (99 + _slack([",
        ),
    ),
    change(
        "replay: a claim is believed",
        f"{OF_AUDIT_REPLAY}::test_a_claim_below_the_ledger_is_found",
        (
            REPLAY,
            "total.epsilon > claim.epsilon * (1 + _slack(events, mechanism))",
            "total.epsilon > claim.epsilon * (99 + _slack(events, mechanism))",
        ),
    ),
    change(
        "replay: outputs are not compared",
        f"{OF_AUDIT_REPLAY}::test_a_leak_beside_the_measurements_is_found",
        (REPLAY, "        if before != after:", "        if type(before) is not type(after):"),
    ),
    change(
        "replay: a world with fewer releases passes",
        f"{OF_AUDIT_REPLAY}::test_a_number_of_measurements_that_depends_on_the_records_is_found",
        (
            REPLAY,
            "if not len(mine.entries) == len(other.entries) == len(run.recording.entries):",
            "if not other.entries:",
        ),
    ),
    # Tests of noise.
    change(
        "noise tests: the scale is not looked at",
        f"{OF_AUDIT_NOISE}::test_noise_of_another_scale_is_found",
        (NOISE_TESTS, "2 * min(gammainc(half, square), gammaincc(half, square))", "1.0"),
    ),
    change(
        "noise tests: only noise that is too large is found",
        f"{OF_AUDIT_NOISE}::test_noise_of_another_scale_is_found",
        (NOISE_TESTS, "2 * min(gammainc(half, square), gammaincc(half, square))", "gammaincc(half, square)"),
    ),
    change(
        "noise tests: copies are not looked for",
        f"{OF_AUDIT_NOISE}::test_a_copy_of_a_few_numbers_is_found",
        (NOISE_TESTS, "    if not repeated:", "    if repeated < 1000:"),
    ),
    change(
        "shared noise: coins are not compared",
        f"{OF_SHARED_NOISE}::test_the_same_coins_are_found_at_two_budgets",
        (SHARED_NOISE, "< CHANCE", "< 0"),
    ),
    # The gate.
    change(
        "gate: strict runs go on",
        f"{OF_GATE}::test_halved_noise_is_marked_and_stops_a_strict_run",
        (GATE, "if strict and not found.passed:", "if strict and found.passed:"),
    ),
    change(
        "gate: a release keeps its noise",
        f"{OF_RELEASED_REPORTS}::test_a_release_keeps_nothing_of_its_replay[laplace_input]",
        (GATE, '"used": None, "noise": []', '"used": None'),
    ),
    change(
        "gate: low bits are not looked at",
        f"{OF_BAD_DAYS}::test_a_sampler_that_does_not_draw_what_it_claims_ends_a_release",
        (GATE, "    if not exact:", "    if exact or not exact:"),
    ),
    # The game.
    change(
        "audit: nothing taken off for what is too rare to be seen",
        f"{OF_BOUNDS}::test_the_auc_bound_holds_at_its_confidence",
        (BOUNDS, "unseen = 2 * estimate * math.log(1 / alpha) / len(sides)", "unseen = 0.0"),
    ),
    change(
        "audit: runs that share their noise are compared with each other",
        f"{OF_BOUNDS}::test_the_area_leaves_out_pairs_that_share_their_noise",
        (MEMBERSHIP, "- 2 * own) / (n - 1)", "- 0 * own) / n"),
    ),
    change(
        "audit: both rates at the whole chance of being wrong",
        f"{OF_BOUNDS}::test_runs_without_errors_prove_the_clopper_pearson_bound",
        (BOUNDS, "1 - alpha / 2)", "1 - alpha)"),
    ),
    change(
        "audit: the area of Gaussians for every ledger",
        f"{OF_GAME}::test_the_gaussian_bound_is_used_only_for_gaussian_ledgers",
        (GAME, "gaussian = all(isinstance(", "gaussian = any(isinstance("),
    ),
    change(
        "audit: no correction for several bounds",
        f"{OF_GAME}::test_the_error_probabilities_of_all_bounds_add_up_to_the_stated_one",
        (GAME, "(1 - MAIN) / (2 * len(scored) - len(main))", "MAIN"),
    ),
    change(
        "audit: attackers are judged by the runs they learned from",
        f"{OF_GAME}::test_learning_and_judged_runs_are_different",
        (
            GAME,
            "judged = range(training.stop, training.stop + plan.runs)",
            "judged = range(1, 1 + plan.runs)",
        ),
    ),
)
