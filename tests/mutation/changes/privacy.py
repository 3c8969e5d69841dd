"""Defects in `privacy`, which draws noise and writes the ledger. Its accountants are in `accounting`."""

from changes.change import change
from changes.places import (
    COINS,
    ESTIMATES,
    EXACT,
    LEDGER,
    NOISE,
    OF_ACCOUNTING,
    OF_ATTRIBUTES,
    OF_AUDIT_REPLAY,
    OF_CHANNELS,
    OF_COLLECTION,
    OF_EXACT,
    OF_EXACT_SUMS,
    OF_LAWS,
    OF_NOISE,
    OF_PEOPLE,
    OF_PLANAR,
    OF_PLANAR_NOISE,
    OF_REPLAY,
    OF_RESPONSE,
    OF_SAMPLING,
    OF_SELECTION,
    OF_SENSITIVITY,
    OF_SHAPES,
    OF_SURVEY,
    OF_TREE_RESPONSE,
    OF_WITNESS,
    ORACLE_CHOICE,
    ORDER,
    RELATION,
    RELEASE,
    SELECTION,
    SENSITIVITY,
    STREAMS,
    SUMS,
    SURVEY,
    TREE,
    WITNESS,
)

SCALE = f"{OF_NOISE}::test_noise_has_the_stated_scale_and_no_other"
WRITES = f"{OF_NOISE}::test_every_draw_writes_the_ledger"
UNKNOWN = f"{OF_ACCOUNTING}::test_unknown_releases_are_refused_by_name"
KEEPS_EPSILON = f"{OF_SELECTION}::test_no_neighbour_changes_a_probability_by_more_than_epsilon"
CHOICES = f"{OF_SELECTION}::test_choices_have_the_exact_probabilities_and_no_others"
EXACT_SCALE = f"{OF_EXACT}::test_exact_noise_has_the_law_of_its_scale_and_no_other"
ROUNDING = f"{OF_EXACT}::test_rounding_brings_neighbours_farther_apart_by_what_is_accounted_and_no_more"
SPLITS = f"{OF_SHAPES}::test_splits_have_the_probability_of_the_theorem_and_of_no_other_scale"
WORST_SHAPE = f"{OF_SHAPES}::test_the_worst_neighbours_come_near_to_epsilon_and_not_above"
LIES = f"{OF_CHANNELS}::test_probability_table_is_the_law_of_the_reports"

CHANGES = (
    # Noise.
    change(
        "Laplace noise halved",
        SCALE,
        (NOISE, 'reach / _check(event.epsilon, "epsilon")', 'reach / 2 / _check(event.epsilon, "epsilon")'),
    ),
    change(
        "Gaussian noise halved",
        SCALE,
        (
            NOISE,
            '_check(noise_multiplier, "noise_multiplier") * reach',
            '_check(noise_multiplier, "noise_multiplier") * reach / 2',
        ),
    ),
    change(
        "exact noise halved", EXACT_SCALE, (EXACT, "math.ceil(scale / STEP", "math.ceil(scale / 2 / STEP")
    ),
    change(
        "rounding not accounted for",
        ROUNDING,
        (EXACT, "return size * STEP if norm == 1 else math.sqrt(size) * STEP", "return 0.0"),
    ),
    change(
        "the same Gaussian noise at each draw",
        OF_REPLAY,
        (NOISE, "self.generator.normal(", '__import__("copy").deepcopy(self.generator).normal('),
    ),
    change(
        "the same Laplace noise at each draw",
        OF_REPLAY,
        (NOISE, "self.generator.laplace(", '__import__("copy").deepcopy(self.generator).laplace('),
    ),
    change(
        "lies halved in randomized response",
        LIES,
        (COINS, "probability * ROUNDED_UP", "probability / 2"),
    ),
    change("selection twice as sharp", KEEPS_EPSILON, (SELECTION, "else epsilon / 2)", "else epsilon)")),
    change("Gumbel noise halved", CHOICES, (SELECTION, "- np.log(arrivals)", "- np.log(arrivals) / 2")),
    change(
        "the law of Gaussian noise is twice as wide",
        f"{OF_LAWS}::test_scores_are_standard_normal",
        (
            NOISE,
            "GaussianNoise(sigma),\n        values,\n        lambda",
            "GaussianNoise(2 * sigma),\n        values,\n        lambda",
        ),
    ),
    # Sensitivities.
    change(
        "replacing counts as adding",
        OF_SENSITIVITY,
        (RELATION, "factor = 2.0 if opposed", "factor = 1.0 if opposed"),
    ),
    change(
        "a person counts as one record",
        OF_SENSITIVITY,
        (RELATION, 'return self.max_records if self.unit == "person" else 1', "return 1"),
    ),
    change(
        "sensitivity of sums halved",
        OF_SENSITIVITY,
        (SENSITIVITY, '"sensitivity of sums: radius")', '"sensitivity of sums: radius") / 2'),
    ),
    change(
        "sensitivity of second moments halved",
        OF_SENSITIVITY,
        (SENSITIVITY, '"sensitivity of second moments: radius") ** 2', '"radius") ** 2 / 2'),
    ),
    change(
        "opposed statistics taken for aligned in the joint release",
        OF_SENSITIVITY,
        (SENSITIVITY, "math.sqrt(largest + opposition)", "math.sqrt(largest)"),
    ),
    # Ledger.
    change("releases forgotten", WRITES, (RELEASE, "    ledger.append(event)\n", "")),
    change(
        "an audit sees another release than the world",
        f"{OF_WITNESS}::test_recording_changes_nothing",
        (WITNESS, "        return released\n", "        return draw()\n"),
    ),
    change(
        "a replay draws anew",
        f"{OF_WITNESS}::test_with_fixed_measurements_the_output_does_not_depend_on_the_records",
        (WITNESS, "        return _copy(before.released)\n", "        return draw()\n"),
    ),
    change(
        "unknown events accepted", UNKNOWN, (LEDGER, "if type(event) not in KINDS.values():", "if False:")
    ),
    change(
        "replay: noise outside of a release goes unnoticed",
        f"{OF_AUDIT_REPLAY}::test_noise_outside_of_a_measurement_is_found",
        (WITNESS, "self.recording.unaccounted.append(kind)", "pass"),
    ),
    # Streams.
    change(
        "all but two parts of a purpose left out of the stream",
        f"{OF_NOISE}::test_every_part_of_a_purpose_gives_another_stream",
        (STREAMS, "for part in purpose)", "for part in purpose[:2])"),
    ),
    # Trees.
    change(
        "noise of the splits halved",
        SPLITS,
        (TREE, "add_laplace(hidden, scale)", "add_laplace(hidden, scale / 2)"),
    ),
    change("scores not clamped", SPLITS, (TREE, "np.maximum(-step, counts -", "1.0 * (counts -")),
    change(
        "scores without decay",
        f"{OF_SHAPES}::test_without_noise_a_node_is_split_as_long_as_its_count_outweighs_the_decay",
        (TREE, "(threshold + level * step)", "threshold"),
    ),
    change(
        "decay too small for exact noise",
        f"{OF_SHAPES}::test_the_decay_is_whole_steps_and_large_enough_for_exact_noise",
        (TREE, "(scale / STEP + 4) * math.log(BASE) + 1", "(scale / STEP) * math.log(BASE)"),
    ),
    change("replacing in a tree counts as adding", WORST_SHAPE, (TREE, "else gain + 1)", "else gain)")),
    change(
        "a person in a tree counts as one record", WORST_SHAPE, (TREE, "neighbours.records * (gain", "(gain")
    ),
    change("the series of a tree cut short", WORST_SHAPE, (TREE, "TERMS = 200", "TERMS = 1")),
    # Measurements on random samples.
    change(
        "noise of sampled releases halved",
        OF_SAMPLING + "::test_the_sum_is_over_the_sample_and_the_noise_is_as_stated",
        (
            NOISE,
            "    sigma = noise_multiplier * reach\n",
            "    sigma = noise_multiplier * reach / 2\n",
        ),
    ),
    change(
        "twice as many sampled as stated",
        OF_SAMPLING + "::test_every_unit_is_sampled_at_the_rate_and_by_itself",
        (NOISE, "source.uniform((units,)) < rate", "source.uniform((units,)) < 2 * rate"),
    ),
    change(
        "one draw for the whole sample",
        OF_SAMPLING + "::test_every_unit_is_sampled_at_the_rate_and_by_itself",
        (NOISE, "source.uniform((units,)) < rate", "np.repeat(source.uniform((1,)), units) < rate"),
    ),
    # Randomized response.
    change(
        "large reports chosen by themselves",
        OF_RESPONSE + "::test_auto_keeps_reports_small_and_loses_little",
        (ORACLE_CHOICE, "if oracle.report.itemsize <= SMALL", "if oracle.report.itemsize"),
    ),
    change(
        "exact interval at 90 %",
        OF_ATTRIBUTES + "::test_the_exact_interval_covers_every_share_of_given_people_at_its_rate",
        (ESTIMATES, "0.025", "0.05"),
        (ESTIMATES, "0.975", "0.95"),
    ),
    change(
        "exact interval one report off",
        OF_ATTRIBUTES,
        (
            ESTIMATES,
            "betaincinv(support, n - support + 1, 0.025)",
            "betaincinv(support + 1, n - support, 0.025)",
        ),
    ),
    change(
        "survey: a turn asked twice",
        OF_SURVEY + "::test_nobody_answers_twice_or_for_another_or_for_more",
        (SURVEY, "        self._waiting[turn] -= len(answers)\n", ""),
    ),
    change(
        "survey: people of one turn asked different questions",
        OF_SURVEY + "::test_nobody_answers_twice_or_for_another_or_for_more",
        (SURVEY, " or self._asked.setdefault(turn, oracle) != oracle", ""),
    ),
    change(
        "survey: nothing written to the ledger",
        OF_TREE_RESPONSE + "::test_the_ledger_and_the_claim_are_the_budget",
        (SURVEY, "ledger.append(RandomizedResponse(self._label, self._epsilon))", "pass"),
    ),
    change(
        "hashed runs begin at the wrong answer",
        OF_SURVEY + "::test_the_support_of_runs_is_a_part_of_all_support",
        ("privacy/oracles/local_hashing.py", "np.uint64(first) + b)", "np.uint64(first + 1) + b)"),
    ),
    change(
        "survey: everybody gives the next person's report",
        OF_SURVEY + "::test_answers_are_those_that_were_given",
        (SURVEY, "oracle.perturb(answers,", "oracle.perturb(np.roll(answers, 1),"),
    ),
    # Order of rows.
    change(
        "the first records of a person picked",
        OF_PEOPLE + "::test_every_pick_is_uniform_over_the_units_own_rows",
        (
            ORDER,
            "np.lexsort((keys, units))",
            'np.argsort(units, kind="stable")',
        ),
    ),
    change(
        "shuffle left out",
        (OF_COLLECTION, OF_PEOPLE),
        (ORDER, 'np.argsort(random_keys(rows, source=source), kind="stable")', "np.arange(rows)"),
    ),
    # Planar Laplace noise.
    change(
        "planar noise halved",
        OF_PLANAR + "::test_two_places_within_the_distance_lose_at_most_epsilon",
        (NOISE, "scale = (within + rounding) / _check(", "scale = (within + rounding) / 2 / _check("),
    ),
    change(
        "planar noise of an exponential radius",
        OF_PLANAR_NOISE + "::test_seeded_noise_has_the_stated_radius_and_every_direction_alike",
        (NOISE, "standard_gamma(2.0,", "standard_gamma(1.0,"),
    ),
    change(
        "planar noise on the lattice keeps every proposal",
        OF_PLANAR_NOISE + "::test_exact_noise_has_the_law_of_the_lattice_and_no_other",
        (EXACT, "< np.exp(exponent)", "< 1.0"),
    ),
    change(
        "planar noise without its rounding",
        OF_PLANAR_NOISE + "::test_rounding_is_paid_for_at_every_distance",
        (NOISE, "rounding = source.rounding(2, 2)", "rounding = 0.0"),
    ),
    change(
        "planar worst case kept out of the ledger",
        OF_PLANAR + "::test_the_whole_report_is_private_at_the_distance_and_its_worst_case_is_in_the_ledger",
        (NOISE, "max((diameter + rounding) / drawn, epsilon)", "epsilon"),
    ),
    change(
        "planar noise on a spiral",
        OF_PLANAR_NOISE + "::test_the_direction_of_seeded_noise_tells_nothing_of_its_length",
        (
            NOISE,
            "angle = self.generator.uniform(0.0, 2 * math.pi, len(values))",
            "angle = 2 * math.pi * (1 + length / scale) * np.exp(-length / scale)",
        ),
    ),
    # Exact sums.
    change(
        "rounded contributions cost nothing",
        OF_EXACT_SUMS + "::test_no_unit_moves_the_sum_further_than_its_reach",
        (SUMS, "return sensitivity * (1 + COMPUTED) + neighbours", "return sensitivity + 0 * neighbours"),
    ),
)
