"""The defects that the tests must notice: small changes of the sources, each with the tests that should catch it.

A snippet is replaced wherever it stands in its file. Snippets are kept short and distinctive; `mutate` says so when
one is no longer found.
"""

from dataclasses import dataclass

NOISE = "privacy/noise.py"
EXACT = "privacy/exact.py"
ACCOUNTING = "privacy/accounting.py"
CALIBRATION = "privacy/calibration.py"
LOSS = "privacy/loss_distribution.py"
LEDGER = "privacy/ledger.py"
RELATION = "privacy/relation.py"
SELECTION = "privacy/selection.py"
SENSITIVITY = "privacy/sensitivity.py"
STREAMS = "privacy/streams.py"
TREE = "privacy/tree.py"
COINS = "privacy/response/coins.py"
ORACLE = "privacy/response/oracle.py"
DP_EM = "mechanisms/dp_em.py"
OUTPUT_NOISE = "mechanisms/output_noise.py"
DP_SGD = "mechanisms/dp_sgd.py"
POSTERIOR_SAMPLE = "mechanisms/posterior_sample.py"
REFERENCE = "mechanisms/reference.py"
POSTERIOR = "mixture/posterior.py"
GRADIENT = "mixture/gradient.py"
BASE = "mechanisms/base.py"
CHOICE = "mechanisms/component_choice.py"
RUNNING = "mechanisms/running.py"
RESPONSE = "mechanisms/randomized_response.py"
LOCAL = "mechanisms/local.py"
ATTRIBUTES = "mechanisms/attributes.py"
COLLECTION = "mechanisms/collection.py"
ORDER = "privacy/order.py"
PICKS = "mechanisms/picks.py"
ESTIMATES = "privacy/response/estimates.py"
ORACLE_CHOICE = "privacy/response/choice.py"
TREE_RESPONSE = "mechanisms/tree_response.py"
ADAPTIVE = "mechanisms/adaptive_tree_response.py"
SHARE_TREE = "mechanisms/share_tree.py"
PARTITIONS = "mechanisms/partitions.py"
SURVEY = "privacy/response/survey.py"
RELEASE = "privacy/release.py"
WITNESS = "privacy/witness.py"
NOISY_TREE = "mechanisms/noisy_tree.py"
NOISY_GRID = "mechanisms/noisy_grid.py"
JOINT = "mechanisms/joint_moments.py"
REFINEMENT = "mechanisms/refinement.py"
NOISY_MOMENTS = "mechanisms/noisy_moments.py"
STANDARDISED = "mixture/standardised.py"
COMPILED = "mixture/compiled.py"
JOB = "stages/job.py"
PLANAR = "mechanisms/planar_laplace.py"
DECONVOLVE = "mixture/deconvolve.py"
REPLAY = "evaluate/audit/replay.py"
NOISE_TESTS = "evaluate/audit/noise_tests.py"
SHARED_NOISE = "evaluate/audit/shared_noise.py"
GATE = "evaluate/audit/gate.py"
OUTCOMES = "report/outcomes.py"
ANSWER = "report/answer.py"
BOUNDS = "evaluate/audit/bounds.py"
GAME = "evaluate/audit/game.py"
SUMS = "privacy/sums.py"
ROWWISE = "mixture/rowwise.py"
SPENDING = "publish/spending.py"
RELEASING = "publish/releasing.py"
MAKING = "publish/making.py"

OF_NOISE = "tests/privacy/test_privacy_noise.py"
OF_EXACT = "tests/privacy/test_privacy_exact.py"
OF_ACCOUNTING = "tests/privacy/test_privacy_accounting.py"
OF_SELECTION = "tests/privacy/test_privacy_selection.py"
OF_SENSITIVITY = "tests/privacy/test_privacy_sensitivity.py"
OF_CHANNELS = "tests/privacy/test_privacy_response_channels.py"
OF_REPORTS = "tests/privacy/test_privacy_response_reports.py"
OF_REPLAY = "tests/mechanisms/test_mechanism_replay.py"
OF_STREAMS = "tests/mechanisms/test_mechanism_streams.py"
OF_LAWS = "tests/privacy/test_privacy_laws.py"
OF_WITNESS = "tests/mechanisms/test_mechanism_witness.py"
OF_AUDIT_REPLAY = "tests/evaluate/test_audit_replay.py"
OF_AUDIT_NOISE = "tests/evaluate/test_audit_noise.py"
OF_SHARED_NOISE = "tests/evaluate/test_audit_shared_noise.py"
OF_GATE = "tests/stages/test_stage_replay.py"
OF_SAMPLING = "tests/privacy/test_privacy_sampling.py"
OF_OUTPUT_NOISE = "tests/mechanisms/test_mechanism_output_noise.py"
OF_DP_SGD = "tests/mechanisms/test_mechanism_dp_sgd.py"
OF_POSTERIOR_SAMPLE = "tests/mechanisms/test_mechanism_posterior_sample.py"
OF_REFERENCE = "tests/mechanisms/test_mechanism_reference.py"
OF_POSTERIOR = "tests/mixture/test_mixture_posterior.py"
OF_PLANAR_NOISE = "tests/privacy/test_privacy_planar.py"
OF_PLANAR = "tests/mechanisms/test_mechanism_planar_laplace.py"
OF_NEARBY = "tests/report/test_report_nearby.py"
OF_DECONVOLVE = "tests/mixture/test_mixture_deconvolve.py"
OF_LOCAL = "tests/mechanisms/test_mechanism_local.py"
OF_RESPONSE = "tests/mechanisms/test_mechanism_randomized_response.py"
OF_ATTRIBUTES = "tests/mechanisms/test_mechanism_attributes.py"
OF_PEOPLE = "tests/mechanisms/test_mechanism_people.py"
OF_COLLECTION = "tests/mechanisms/test_mechanism_collection.py"
OF_TREE_RESPONSE = "tests/mechanisms/test_mechanism_tree_response.py"
OF_ADAPTIVE = "tests/mechanisms/test_mechanism_adaptive_tree_response.py"
OF_BOUNDS = "tests/evaluate/test_audit_bounds.py"
OF_GAME = "tests/evaluate/test_audit_game.py"
OF_SURVEY = "tests/privacy/test_privacy_response_survey.py"
OF_CHOICE = "tests/mechanisms/test_mechanism_component_choice.py"
OF_SHAPES = "tests/privacy/test_privacy_tree.py"
OF_NOISY_TREE = "tests/mechanisms/test_mechanism_noisy_tree.py"
OF_NOISY_GRID = "tests/mechanisms/test_mechanism_noisy_grid.py"
OF_STANDARDISED = "tests/mixture/test_mixture_standardised.py"
OF_MOMENTS = "tests/mechanisms/test_mechanism_noisy_moments.py"
OF_EXACT_SUMS = "tests/mechanisms/test_mechanism_exact_sums.py"
OF_SPENDING = "tests/publish/test_publish_spending.py"
OF_KILLS = "tests/publish/test_publish_kills.py"
OF_BAD_DAYS = "tests/publish/test_publish_bad_days.py"
OF_RELEASED_REPORTS = "tests/publish/test_publish_reports.py"

SCALE = f"{OF_NOISE}::test_noise_has_the_stated_scale_and_no_other"
WRITES = f"{OF_NOISE}::test_every_draw_writes_the_ledger"
PURE_VALUES = f"{OF_ACCOUNTING}::test_compositions_of_pure_releases_have_known_values"
TEN_GAUSSIANS = f"{OF_ACCOUNTING}::test_ten_gaussians_cost_what_is_known"
MIXED = f"{OF_ACCOUNTING}::test_mixed_kinds_agree_with_the_second_accountant"
UNKNOWN = f"{OF_ACCOUNTING}::test_unknown_releases_are_refused_by_name"
OVERSPENT = f"{OF_ACCOUNTING}::test_one_forgotten_release_shows_in_the_total"
KEEPS_EPSILON = f"{OF_SELECTION}::test_no_neighbour_changes_a_probability_by_more_than_epsilon"
CHOICES = f"{OF_SELECTION}::test_choices_have_the_exact_probabilities_and_no_others"
EXACT_SCALE = f"{OF_EXACT}::test_exact_noise_has_the_law_of_its_scale_and_no_other"
ROUNDING = f"{OF_EXACT}::test_rounding_brings_neighbours_farther_apart_by_what_is_accounted_and_no_more"
SPLITS = f"{OF_SHAPES}::test_splits_have_the_probability_of_the_theorem_and_of_no_other_scale"
WORST_SHAPE = f"{OF_SHAPES}::test_the_worst_neighbours_come_near_to_epsilon_and_not_above"
LIES = f"{OF_CHANNELS}::test_probability_table_is_the_law_of_the_reports"


@dataclass(frozen=True)
class Edit:
    """`before` becomes `after` in a file of the package."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    """A named defect, and the tests of which at least one must fail on it."""

    name: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]


def _change(name: str, tests: str | tuple[str, ...], *edits: tuple[str, str, str]) -> Change:
    named = (tests,) if isinstance(tests, str) else tests
    return Change(name, named, tuple(Edit(*edit) for edit in edits))


MEAN = "self._mean(exact.sums[k] / counts[k], counts[k]) * counts[k]"
SECOND = "self._second_moment(exact.squares[k] / counts[k], counts[k]) * counts[k]"
TRUE_COUNT = "max(exact.counts[k], 1.0)"
PASS = "released = curator.release(moments(observations, mixture))"

TRUE_SHARES = (
    ADAPTIVE,
    "                said.append(told(asked[turn], reports, plan))",
    "                said.append(told(asked[turn], reports, plan))\n"
    "                own = np.concatenate([asked[turn].locate(each['code']) for each in waiting[turn].parts(PART)])\n"
    "                exact = np.bincount(own, minlength=len(asked[turn])) / max(len(own), 1)\n"
    "                said[-1] = replace(said[-1], estimates=exact)",
)

CHANGES = (
    # Noise.
    _change(
        "Laplace noise halved",
        SCALE,
        (NOISE, 'reach / _check(epsilon, "epsilon")', 'reach / 2 / _check(epsilon, "epsilon")'),
    ),
    _change(
        "Gaussian noise halved",
        SCALE,
        (NOISE, '_check(multiplier, "multiplier") * reach', '_check(multiplier, "multiplier") * reach / 2'),
    ),
    _change(
        "exact noise halved", EXACT_SCALE, (EXACT, "math.ceil(scale / STEP", "math.ceil(scale / 2 / STEP")
    ),
    _change(
        "rounding not accounted for",
        ROUNDING,
        (EXACT, "return size * STEP if norm == 1 else math.sqrt(size) * STEP", "return 0.0"),
    ),
    _change(
        "the same Gaussian noise at each draw",
        OF_REPLAY,
        (NOISE, "self.generator.normal(", '__import__("copy").deepcopy(self.generator).normal('),
    ),
    _change(
        "the same Laplace noise at each draw",
        OF_REPLAY,
        (NOISE, "self.generator.laplace(", '__import__("copy").deepcopy(self.generator).laplace('),
    ),
    _change(
        "noise of the means drawn, recorded and thrown away",
        OF_REPLAY,
        (DP_EM, MEAN, f"({MEAN}, exact.sums[k])[1]"),
    ),
    _change(
        "noise of the second moments drawn, recorded and thrown away",
        OF_REPLAY,
        (DP_EM, SECOND, f"({SECOND}, exact.squares[k])[1]"),
    ),
    _change(
        "lies halved in randomized response",
        LIES,
        (COINS, "probability * ROUNDED_UP", "probability / 2"),
    ),
    _change("selection twice as sharp", KEEPS_EPSILON, (SELECTION, "else epsilon / 2)", "else epsilon)")),
    _change("Gumbel noise halved", CHOICES, (SELECTION, "- np.log(arrivals)", "- np.log(arrivals) / 2")),
    # Sensitivities.
    _change(
        "replacing counts as adding",
        OF_SENSITIVITY,
        (RELATION, "factor = 2.0 if opposed", "factor = 1.0 if opposed"),
    ),
    _change(
        "a person counts as one record",
        OF_SENSITIVITY,
        (RELATION, 'return self.max_records if self.unit == "person" else 1', "return 1"),
    ),
    _change(
        "sensitivity of sums halved",
        OF_SENSITIVITY,
        (SENSITIVITY, '"sensitivity of sums: radius")', '"sensitivity of sums: radius") / 2'),
    ),
    _change(
        "sensitivity of second moments halved",
        OF_SENSITIVITY,
        (SENSITIVITY, '"sensitivity of second moments: radius") ** 2', '"radius") ** 2 / 2'),
    ),
    _change(
        "opposed statistics taken for aligned in the joint release",
        OF_SENSITIVITY,
        (SENSITIVITY, "math.sqrt(largest + opposition)", "math.sqrt(largest)"),
    ),
    _change(
        "sensitivity of the means of DP-EM halved",
        OF_REPLAY,
        (
            DP_EM,
            "l1=reach.l1 / count, l2=reach.l2 / count",
            "l1=reach.l1 / 2 / count, l2=reach.l2 / 2 / count",
        ),
    ),
    _change(
        "sensitivity of the second moments of DP-EM halved",
        OF_REPLAY,
        (DP_EM, "reach = sensitivity.second_moments(self.neighbours) /", "reach = 0.5 /"),
    ),
    # Ledger.
    _change("releases forgotten", WRITES, (RELEASE, "    ledger.append(event)\n", "")),
    _change(
        "an audit sees another release than the world",
        f"{OF_WITNESS}::test_a_witness_changes_nothing",
        (WITNESS, "        return released\n", "        return draw()\n"),
    ),
    _change(
        "a replay draws anew",
        f"{OF_WITNESS}::test_with_all_releases_held_fixed_the_output_does_not_depend_on_the_records",
        (WITNESS, "        return _kept(before.released)\n", "        return draw()\n"),
    ),
    _change(
        "the law of Gaussian noise is twice as wide",
        f"{OF_LAWS}::test_scores_are_standard_normal",
        (
            NOISE,
            "Normal(sigma),\n        values,\n        lambda",
            "Normal(2 * sigma),\n        values,\n        lambda",
        ),
    ),
    _change(
        "unknown events accepted", UNKNOWN, (LEDGER, "if type(event) not in KINDS.values():", "if False:")
    ),
    # Streams.
    _change(
        "all but two parts of a purpose left out of the stream",
        f"{OF_NOISE}::test_every_part_of_a_purpose_gives_another_stream",
        (STREAMS, "for part in purpose)", "for part in purpose[:2])"),
    ),
    _change("epsilon left out of the stream", OF_STREAMS, (JOB, "settings, *budget,", "settings,")),
    _change(
        "replicate left out of the stream",
        OF_STREAMS,
        (JOB, "*spec, *purpose)", "*spec)"),
    ),
    _change("relation left out of the stream", OF_STREAMS, (JOB, "domain.relation, ", "")),
    _change("dataset left out of the stream", OF_STREAMS, (JOB, "domain.dataset, self.name", "self.name")),
    _change(
        "search and noise share a stream",
        OF_STREAMS,
        (BASE, '*purpose, "search")', '*purpose, "noise")'),
    ),
    # Accounting and calibration.
    _change(
        "iterations forgotten in the split of the budget",
        OF_REPLAY,
        (DP_EM, "releases = self.iterations * (2", "releases = (2"),
        (DP_EM, "laplaces = self.iterations * (n", "laplaces = (n"),
    ),
    _change(
        "releases forgotten in exact composition",
        TEN_GAUSSIANS,
        (
            ACCOUNTING,
            "gaussian_epsilon(math.hypot(*_gaussian_mus(events)), delta)",
            "gaussian_epsilon(max(_gaussian_mus(events)), delta)",
        ),
    ),
    _change(
        "releases forgotten in Rényi composition",
        TEN_GAUSSIANS,
        (ACCOUNTING, "count * _renyi(event)", "_renyi(event)"),
    ),
    _change(
        "twice the affordable release",
        OF_REPLAY,
        (CALIBRATION, "return _share(largest(", "return _share(2 * largest("),
    ),
    _change(
        "overspending accepted",
        OVERSPENT,
        (ACCOUNTING, "if spent.epsilon > budget.epsilon", "if spent.epsilon > 9 * budget.epsilon"),
    ),
    _change(
        "Laplace noise of loss distributions taken for twice as wide",
        (PURE_VALUES, MIXED),
        (LOSS, "from_laplace_mechanism(1 / ", "from_laplace_mechanism(2 / "),
    ),
    _change(
        "Gaussians left out of loss distributions",
        MIXED,
        (LOSS, "    if mu > 0:\n        parts", "    if not counts:\n        parts"),
    ),
    _change(
        "divergence of randomized response understated",
        PURE_VALUES,
        (
            ACCOUNTING,
            "stay = order * log_p + (1 - order) * log_q",
            "stay = order * log_p + (1 - order) * log_p",
        ),
    ),
    _change(
        "delta not shared in linear composition",
        OF_ACCOUNTING + "::test_linear_composition_shares_delta_among_gaussians",
        (ACCOUNTING, "gaussian_epsilon(mu, delta / len(mus))", "gaussian_epsilon(mu, delta)"),
    ),
    _change(
        "delta spent twice in advanced composition",
        OF_ACCOUNTING + "::test_advanced_composition_of_gaussians_spends_delta_once",
        (ACCOUNTING, "slack = delta / 2 if mus else delta", "slack = delta"),
    ),
    # What a mechanism may know.
    _change(
        "exact counts as divisor and scale",
        OF_REPLAY,
        (DP_EM, MEAN, MEAN.replace("counts[k]", TRUE_COUNT)),
        (DP_EM, SECOND, SECOND.replace("counts[k]", TRUE_COUNT)),
    ),
    _change(
        "no clipping",
        (OF_REPLAY, OF_STREAMS),
        (BASE, "return np.clip(points, self.domain.lower, self.domain.upper)", "return points"),
    ),
    _change(
        "start from the data",
        OF_REPLAY,
        (
            DP_EM,
            "em.public_start(spec.domain.lower, spec.domain.upper,",
            "em.public_start(view.points.min(0), view.points.max(0),",
        ),
    ),
    _change(
        "bounds from the data",
        OF_REPLAY,
        (DP_EM, "mixture = _feasible(\n", "mixture = _feasible_by_data(\n                view,\n"),
        (
            DP_EM,
            "def _feasible(",
            "def _feasible_by_data(view, *arguments):\n"
            "    found = _feasible(*arguments)\n"
            "    means = np.clip(found.means, view.points.min(0), view.points.max(0))\n"
            "    return Mixture(found.weights, means, found.covariances)\n\n\n"
            "def _feasible(",
        ),
    ),
    _change(
        "stop when the likelihood of the data has settled",
        OF_REPLAY,
        (
            DP_EM,
            PASS,
            "passed = kernel.em_pass(observations, mixture)\n"
            "            if iteration > 1 and abs(passed.log_likelihood - before) < 1e-3 * len(view):\n"
            "                break\n"
            "            before = passed.log_likelihood\n"
            "            released = curator.release(passed)",
        ),
    ),
    _change(
        "a local file claims add-or-remove",
        OF_STREAMS,
        (LOCAL, 'Neighbours(spec.domain.unit, "replace_one"', 'Neighbours(spec.domain.unit, "add_remove"'),
    ),
    # The choice of the number of Gaussians.
    _change(
        "a person's records are dealt one by one",
        f"{OF_CHOICE}::test_no_unit_moves_more_than_one_block_and_that_by_no_more_than_one",
        (CHOICE, "view.units(neighbours.unit)", 'view.units("record")'),
    ),
    _change(
        "a block's score may be anything",
        f"{OF_CHOICE}::test_a_blocks_scores_lie_between_nothing_and_one",
        (
            CHOICE,
            "1.0 - np.minimum(best - densities, LARGEST_LOSS) / LARGEST_LOSS",
            "np.maximum(densities, -9.0)",
        ),
    ),
    _change(
        "half the noise in the choice",
        f"{OF_CHOICE}::test_no_unit_moves_more_than_one_block_and_that_by_no_more_than_one",
        (CHOICE, "sensitivity=1.0, epsilon=epsilon", "sensitivity=1.0, monotonic=True, epsilon=epsilon"),
    ),
    _change(
        "as many blocks as the data have records for",
        f"{OF_CHOICE}::test_the_number_of_blocks_is_public",
        (CHOICE, "number = blocks(spec)", "number = max(1, len(points) // 30)"),
    ),
    _change(
        "the choice is not paid for",
        f"{OF_CHOICE}::test_choice_and_fit_together_cost_the_budget",
        (RUNNING, "epsilon=budget.epsilon - price", "epsilon=budget.epsilon"),
    ),
    _change(
        "the choice is not in the ledger",
        f"{OF_CHOICE}::test_choice_and_fit_together_cost_the_budget",
        (RUNNING, "events=[*ledger.events, *release.events]", "events=release.events"),
    ),
    # Trees and grids.
    _change(
        "noise of the splits halved",
        SPLITS,
        (TREE, "add_laplace(hidden, scale)", "add_laplace(hidden, scale / 2)"),
    ),
    _change("scores not clamped", SPLITS, (TREE, "np.maximum(-step, counts -", "1.0 * (counts -")),
    _change(
        "scores without decay",
        f"{OF_SHAPES}::test_without_noise_a_node_is_split_as_long_as_its_count_outweighs_the_decay",
        (TREE, "(threshold + level * step)", "threshold"),
    ),
    _change(
        "decay too small for exact noise",
        f"{OF_SHAPES}::test_the_decay_is_whole_steps_and_large_enough_for_exact_noise",
        (TREE, "(scale / STEP + 4) * math.log(BASE) + 1", "(scale / STEP) * math.log(BASE)"),
    ),
    _change("replacing in a tree counts as adding", WORST_SHAPE, (TREE, "else gain + 1)", "else gain)")),
    _change(
        "a person in a tree counts as one record", WORST_SHAPE, (TREE, "neighbours.records * (gain", "(gain")
    ),
    _change("the series of a tree cut short", WORST_SHAPE, (TREE, "TERMS = 200", "TERMS = 1")),
    _change(
        "sensitivity of leaf counts halved",
        f"{OF_NOISY_TREE}::test_noise_has_the_scale_of_the_theorem",
        (NOISY_TREE, "sensitivity=reach.l1", "sensitivity=reach.l1 / 2"),
    ),
    _change(
        "leaf counts released as they are",
        f"{OF_NOISY_TREE}::test_the_residuals_of_the_counts_are_laplace_noise_and_not_half_of_it",
        (NOISY_TREE, "b64encode(noisy.astype", "b64encode(counts.astype"),
    ),
    _change(
        "leaf counts get the whole budget",
        f"{OF_NOISY_TREE}::test_a_synopsis_alone_is_released_into_a_given_ledger",
        (NOISY_TREE, "return for_shape, budget.epsilon - for_shape", "return for_shape, budget.epsilon"),
    ),
    _change(
        "roots from the number of records",
        f"{OF_NOISY_TREE}::test_all_that_is_chosen_before_the_noise_depends_on_public_values_alone",
        (
            NOISY_TREE,
            "first=root_levels(spec, neighbours, for_shape, halving.depth)",
            "first=min(8, len(view))",
        ),
    ),
    _change(
        "sensitivity of cell counts halved",
        f"{OF_NOISY_GRID}::test_no_unit_moves_the_counts_further_than_the_noise_is_scaled_for",
        (NOISY_GRID, "sensitivity=reach,", "sensitivity=reach / 2,"),
    ),
    _change(
        "no noise on empty cells",
        f"{OF_NOISY_GRID}::test_every_cell_has_noise_also_the_empty_ones",
        (NOISY_GRID, '"counts": base64.b64encode(noisy', '"counts": base64.b64encode((noisy * (counts > 0))'),
    ),
    _change(
        "records outside the box counted elsewhere than on its edge",
        f"{OF_NOISY_TREE}::test_records_outside_the_box_count_as_on_its_edge",
        (NOISY_TREE, "halving.codes(spec.inside(view.points))", "halving.codes(view.points % 0.5)"),
    ),
    # Noisy moments.
    _change(
        "noisy moments: standardised records not clipped",
        OF_MOMENTS + "::test_no_record_moves_the_release_further_than_its_sensitivity",
        (STANDARDISED, "np.maximum(distances, radius**2)", "np.full_like(distances, radius**2)"),
    ),
    _change(
        "noisy moments: clipped to a box",
        OF_MOMENTS + "::test_no_record_moves_the_release_further_than_its_sensitivity",
        (
            STANDARDISED,
            "places *= (radius / np.sqrt(np.maximum(distances, radius**2)))[:, None]",
            "np.clip(places, -radius, radius, out=places)",
        ),
    ),
    _change(
        "noisy moments: standardised records not clipped by the compiled loop",
        OF_STANDARDISED + "::test_the_compiled_pass_is_the_plain_one",
        (COMPILED, "radius / np.sqrt(_larger(factors[i], square))", "radius / np.sqrt(square)"),
    ),
    _change(
        "noisy moments: the compiled loop forgets small responsibilities",
        OF_STANDARDISED + "::test_the_compiled_pass_is_the_plain_one",
        (COMPILED, "NEGLIGIBLE = 2.0**-60", "NEGLIGIBLE = 2.0**-20"),
    ),
    _change(
        "noisy moments: no factor off the diagonal",
        OF_MOMENTS,
        (JOINT, "np.where(rows == columns, 1.0, math.sqrt(2.0))", "np.ones(len(rows))"),
    ),
    _change(
        "noisy moments: weights of merged records count twice in squares",
        OF_MOMENTS + "::test_merging_equal_records_moves_the_release_no_further",
        (
            STANDARDISED,
            "squares += shared @ places",
            "squares += (shared * observations.weights[first : first + width]) @ places",
        ),
    ),
    _change(
        "noisy moments: replaced persons cost as much as added records",
        OF_MOMENTS + "::test_noise_has_the_scale_of_the_theorem",
        (
            JOINT,
            "sums.reach(shape.sensitivity(neighbours),",
            'sums.reach(shape.sensitivity(Neighbours("record", "add_remove")),',
        ),
    ),
    _change(
        "noisy moments: one release forgotten in the split of the budget",
        OF_MOMENTS + "::test_the_claim_is_the_budget_and_comes_from_the_ledger",
        (
            NOISY_MOMENTS,
            "equal_shares(0, plan.releases, budget",
            "equal_shares(0, max(plan.releases - 1, 1), budget",
        ),
    ),
    _change(
        "noisy moments: N of the data in the schedule",
        OF_MOMENTS + "::test_schedule_and_start_depend_on_public_values_alone",
        (
            NOISY_MOMENTS,
            "plan = self.schedule(spec, budget, neighbours)",
            'spec = Spec(spec.domain.model_copy(update={"rows": len(view)}), spec.n_components)\n'
            "        plan = self.schedule(spec, budget, neighbours)",
        ),
    ),
    _change(
        "noisy moments: N used where it is private",
        OF_MOMENTS + "::test_every_release_is_the_statistic_plus_its_noise",
        (
            REFINEMENT,
            "mixture = updated(mixture, released, spec, neighbours)",
            "size = observations.total_weight / released.counts.sum()\n"
            "        released = __import__('dataclasses').replace(released, counts=released.counts * size)\n"
            "        mixture = updated(mixture, released, spec, neighbours)",
        ),
    ),
    _change(
        "noisy moments: start from the data",
        OF_MOMENTS + "::test_each_iteration_knows_only_what_was_released",
        (NOISY_MOMENTS, "mixture = _fitted(run, plan, spec,", "mixture = _fitted(run, plan, spec, view,"),
        (
            NOISY_MOMENTS,
            "plan: Schedule, spec: Spec, rng",
            "plan: Schedule, spec: Spec, view, rng",
        ),
        (NOISY_MOMENTS, "run(_box(spec), plan.whole", "run(_box(spec, view), plan.whole"),
        (NOISY_MOMENTS, "def _box(spec: Spec)", "def _box(spec: Spec, view)"),
        (
            NOISY_MOMENTS,
            "lower, upper = spec.domain.lower, spec.domain.upper",
            "lower, upper = view.points.min(0), view.points.max(0)",
        ),
    ),
    # Releases on random samples.
    _change(
        "noise of sampled releases halved",
        OF_SAMPLING + "::test_the_sum_is_over_the_sample_and_the_noise_is_as_stated",
        (
            NOISE,
            "    sigma = multiplier * reach\n",
            "    sigma = multiplier * reach / 2\n",
        ),
    ),
    _change(
        "twice as many sampled as stated",
        OF_SAMPLING + "::test_every_unit_is_sampled_at_the_rate_and_by_itself",
        (NOISE, "source.uniform((units,)) < rate", "source.uniform((units,)) < 2 * rate"),
    ),
    _change(
        "one draw for the whole sample",
        OF_SAMPLING + "::test_every_unit_is_sampled_at_the_rate_and_by_itself",
        (NOISE, "source.uniform((units,)) < rate", "np.repeat(source.uniform((1,)), units) < rate"),
    ),
    _change(
        "sampling rate taken for half of it in the loss distribution",
        OF_SAMPLING + "::test_one_step_is_amplified_as_the_closed_form_says",
        (LOSS, "sampling_prob=event.rate,", "sampling_prob=event.rate / 2,"),
    ),
    _change(
        "replaced units counted as amplified",
        OF_SAMPLING + "::test_a_replaced_unit_has_no_amplification",
        (
            ACCOUNTING,
            "        if isinstance(event, Gaussian | SampledGaussian)\n",
            "        if isinstance(event, Gaussian)\n"
            "        else dataclasses.replace(event, multiplier=event.multiplier / 2)\n"
            "        if isinstance(event, SampledGaussian)\n",
        ),
    ),
    _change(
        "releases beside the sampled ones forgotten in the calibration",
        OF_SAMPLING + "::test_the_calibrated_multiplier_spends_the_budget_and_no_more",
        (CALIBRATION, "events = [*beside, *[", "events = [*["),
    ),
    # DP-SGD.
    _change(
        "gradients not clipped",
        OF_DP_SGD + "::test_no_unit_moves_the_sum_further_than_its_clip",
        (DP_SGD, "(gradient.clipped(part, norm) for part", "(part for part"),
    ),
    _change(
        "records clipped instead of persons",
        OF_DP_SGD + "::test_no_unit_moves_the_sum_further_than_its_clip",
        (
            DP_SGD,
            "of_records = gradient.gradients(points, mixture, rowwise=self.exact)\n",
            "of_records = gradient.clipped(gradient.gradients(points, mixture), 3.0)\n",
        ),
        (DP_SGD, "(gradient.clipped(part, norm) for part", "(part for part"),
    ),
    _change(
        "replacing costs DP-SGD no more than removing",
        OF_DP_SGD + "::test_noise_has_the_scale_of_the_theorem",
        (DP_SGD, 'norm if neighbours.relation == "add_remove" else 2 * norm', "norm"),
    ),
    _change(
        "steps forgotten in the calibration of DP-SGD",
        OF_DP_SGD,
        (
            DP_SGD,
            "sampled_multiplier(rate, self.steps, budget, beside)",
            "sampled_multiplier(rate, 1, budget, beside)",
        ),
    ),
    _change(
        "records sampled instead of persons",
        OF_DP_SGD + "::test_the_sum_is_over_the_chosen_units_with_all_their_records",
        (
            DP_SGD,
            "order = np.argsort(units",
            "units = np.arange(len(units))\n        order = np.argsort(units",
        ),
    ),
    _change(
        "the batch is published",
        OF_DP_SGD + "::test_samples_are_fresh_secret_and_at_the_public_rate",
        (
            DP_SGD,
            'transcript.append({"step": step,',
            'transcript.append({"batch": len(view), "step": step,',
        ),
    ),
    _change(
        "DP-SGD: records where persons are to be protected",
        OF_DP_SGD + "::test_a_unit_is_what_the_relation_says",
        (DP_SGD, "view.units(neighbours.unit)", 'view.units("record")'),
    ),
    _change(
        "DP-SGD: divided by the true number of records",
        OF_DP_SGD + "::test_each_step_knows_only_what_was_released",
        (DP_SGD, "size = rate * spec.domain.rows", "size = rate * len(view)"),
    ),
    _change(
        "DP-SGD: start refitted to the records",
        OF_DP_SGD + "::test_each_step_knows_only_what_was_released",
        (
            DP_SGD,
            "        size = rate * spec.domain.rows\n",
            "        if for_reference is not None:\n"
            "            mixture = em.loop(spec.observed(points), mixture, floor=spec.floor, max_iter=1).mixture\n"
            "        size = rate * spec.domain.rows\n",
        ),
    ),
    _change(
        "DP-SGD: the same noise in every step",
        OF_DP_SGD + "::test_each_step_releases_the_clipped_sum_over_units_with_fresh_noise",
        (DP_SGD, "source=rng.noise,", 'source=__import__("copy").deepcopy(rng.noise),'),
    ),
    # Output noise.
    _change(
        "sum over blocks taken to move by half",
        OF_OUTPUT_NOISE + "::test_noise_has_the_scale_of_the_theorem",
        (OUTPUT_NOISE, "                2 * self.radius,\n", "                self.radius,\n"),
    ),
    _change(
        "vectors of blocks not clipped",
        OF_OUTPUT_NOISE,
        (OUTPUT_NOISE, "return vectors * (radius / np.maximum(length, radius))", "return vectors"),
    ),
    _change(
        "records of a person spread over blocks",
        OF_OUTPUT_NOISE + "::test_all_records_of_a_person_are_in_one_block",
        (OUTPUT_NOISE, "view.units(neighbours.unit)", 'view.units("record")'),
    ),
    _change(
        "blocks by the order of the records",
        OF_OUTPUT_NOISE,
        (
            OUTPUT_NOISE,
            "_fitted(observe(points[order])",
            "_fitted(observe(points)",
        ),
    ),
    _change(
        "blocks steadied by all the records",
        OF_OUTPUT_NOISE + "::test_a_block_sees_its_own_records_alone",
        (OUTPUT_NOISE, "seen.sums + strength * about.means", "seen.sums + strength * seen.sums.mean(axis=0)"),
    ),
    _change(
        "number of blocks from the records",
        OF_OUTPUT_NOISE + "::test_noise_has_the_scale_of_the_theorem",
        (OUTPUT_NOISE, "blocks = self.number_of_blocks(spec, for_sum)", "blocks = len(view) // 50"),
    ),
    _change(
        "output noise: the model from the exact sum, noise only recorded",
        OF_OUTPUT_NOISE + "::test_the_model_is_computed_from_what_was_released",
        (OUTPUT_NOISE, "shrunken(released / blocks,", "shrunken(vectors.sum(axis=0) / blocks,"),
    ),
    _change(
        "output noise: blocks about a reference refitted to the records",
        OF_OUTPUT_NOISE + "::test_blocks_are_fitted_about_what_was_released_as_the_reference",
        (
            OUTPUT_NOISE,
            "        blocks = self.number_of_blocks(spec, for_sum)\n",
            "        about = _fitted([observe(points)], about, spec.floor).mixture(0)\n"
            "        blocks = self.number_of_blocks(spec, for_sum)\n",
        ),
    ),
    _change(
        "output noise: a step of EM on the records after the release",
        OF_OUTPUT_NOISE + "::test_the_model_is_computed_from_what_was_released",
        (
            OUTPUT_NOISE,
            "        transcript = [\n",
            "        mixture = _fitted([observe(points)], mixture, spec.floor).mixture(0)\n        transcript = [\n",
        ),
    ),
    _change(
        "output noise: half the noise in the sum over blocks",
        OF_OUTPUT_NOISE + "::test_the_sum_over_blocks_has_the_noise_of_the_theorem_and_not_half_of_it",
        (OUTPUT_NOISE, "            multiplier=for_sum,\n", "            multiplier=for_sum / 2,\n"),
        (OUTPUT_NOISE, 'claim(ledger.events, budget, "exact")', "budget"),
    ),
    # Posterior samples and the reference.
    _change(
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
            "for_reference, *multipliers = self.multipliers(budget)",
            "for_reference, one = self.multipliers(budget); multipliers = [one] * self.iterations",
        ),
    ),
    _change(
        "intervals do not know the noise",
        OF_POSTERIOR_SAMPLE + "::test_intervals_hold_the_truth_as_often_as_they_say",
        (POSTERIOR_SAMPLE, "tuple(part + noise for", "tuple(part + 0 * noise for"),
    ),
    _change(
        "posterior samples: posterior from the exact moments",
        OF_POSTERIOR_SAMPLE + "::test_all_follows_from_what_was_released",
        (
            POSTERIOR_SAMPLE,
            "        belief = Belief(about, released, spec)\n",
            "        exact = joint_moments.standardised_pass(observations, about, joint_moments.scheme(2).radius)\n"
            "        released = __import__('dataclasses').replace(released, **vars(exact))\n"
            "        belief = Belief(about, released, spec)\n",
        ),
    ),
    _change(
        "posterior samples: start refitted to the records",
        OF_POSTERIOR_SAMPLE + "::test_all_follows_from_what_was_released",
        (
            POSTERIOR_SAMPLE,
            "        observations = spec.observed(points)\n",
            "        observations = spec.observed(points)\n"
            "        from privmix.mixture.em import loop\n"
            "        mixture = loop(observations, mixture, floor=spec.floor, max_iter=1).mixture\n",
        ),
    ),
    _change(
        "posterior samples: the same noise in every iteration",
        OF_POSTERIOR_SAMPLE + "::test_every_iteration_has_noise_of_its_own_and_of_the_theorems_size",
        (POSTERIOR_SAMPLE, "source=rng.noise,", 'source=__import__("copy").deepcopy(rng.noise),'),
    ),
    _change(
        "posterior samples: intervals pulled to the iteration before",
        OF_POSTERIOR_SAMPLE + "::test_intervals_hold_the_truth_also_where_the_iteration_before_was_wrong",
        (POSTERIOR_SAMPLE, "return replace(self.steadying, kappa=1.0)", "return self.steadying"),
    ),
    _change(
        "posterior samples: intervals of other means than the draws have",
        OF_POSTERIOR_SAMPLE + "::test_intervals_are_the_quantiles_of_draws",
        (
            POSTERIOR_SAMPLE,
            "_, shifts, _ = self._drawn(INTERVAL_DRAWS, rng)",
            "_, shifts, _ = "
            "self.posterior(self.steadying, self._as_uncertain(INTERVAL_DRAWS, rng)).draw(rng)",
        ),
    ),
    _change(
        "inverse Wishart with one degree of freedom too many",
        OF_POSTERIOR,
        (POSTERIOR, "freedoms[..., None] - axes", "freedoms[..., None] + 1 - axes"),
    ),
    _change(
        "sums not divided by the posterior's count",
        OF_POSTERIOR + "::test_the_posterior_is_prior_times_likelihood",
        (POSTERIOR, "kappas = prior.kappa + counts", "kappas = counts"),
    ),
    _change(
        "sensitivity of the reference histogram is that of one record",
        OF_REFERENCE,
        (REFERENCE, "reach = sensitivity.counts(neighbours).l2", "reach = 1.0"),
    ),
    _change(
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
    _change(
        "reference: a step of EM on the records after the fit",
        OF_REFERENCE + "::test_the_grid_reference_follows_from_the_noisy_counts",
        (
            REFERENCE,
            "    return feasible(fit.mixture.weights,",
            "    fit = em.loop(spec.observed(points), fit.mixture, floor=spec.floor, max_iter=1)\n"
            "    return feasible(fit.mixture.weights,",
        ),
    ),
    _change(
        "reference: moments from a start of the records",
        OF_REFERENCE + "::test_the_reference_of_moments_follows_from_the_noisy_moments",
        (
            REFERENCE,
            '    """Noisy EM from a public start."""\n'
            "    mixture = em.public_start(spec.domain.lower, spec.domain.upper,",
            '    """Noisy EM from a public start."""\n'
            "    mixture = em.public_start(points.min(0), points.max(0),",
        ),
    ),
    _change(
        "rounds forgotten in the reference",
        OF_REFERENCE,
        (REFERENCE, "multiplier=multiplier * math.sqrt(ROUNDS)", "multiplier=multiplier"),
    ),
    _change(
        "grid of the reference from the records",
        OF_REFERENCE + "::test_the_grid_does_not_depend_on_the_data",
        (REFERENCE, "FINENESS * spec.domain.rows / deviation", "FINENESS * len(points) / deviation"),
    ),
    _change(
        "gradient of the covariances wrong on the diagonal",
        OF_DP_SGD + "::test_gradients_are_those_of_the_log_density",
        (GRADIENT, "products[:, entry] -= shares", "products[:, entry] -= 0.0"),
    ),
    _change(
        "response at twice the budget",
        OF_RESPONSE + "::test_a_report_has_the_law_of_its_oracle_and_of_no_other_budget",
        (RESPONSE, "epsilon = plan.budget.epsilon", "epsilon = 2 * plan.budget.epsilon"),
    ),
    _change(
        "grid of the response from the number of points",
        OF_RESPONSE + "::test_what_is_asked_does_not_depend_on_the_records",
        (
            RESPONSE,
            '        """One report for each record."""',
            "        plan = replace(plan, reports=len(points) ** 2)",
        ),
    ),
    _change(
        "reports read with another oracle than they were made with",
        OF_RESPONSE,
        (RESPONSE, "support = oracle.support(", "support = small_for(grid.cells, 9.0).support("),
    ),
    _change(
        "counts of the response left biased",
        OF_RESPONSE + "::test_counts_are_unbiased_with_the_stated_deviation",
        (RESPONSE, "n * oracle.estimate(support, n)", "support * 1.0"),
    ),
    _change(
        "large reports chosen by themselves",
        OF_RESPONSE + "::test_auto_keeps_reports_small_and_loses_little",
        (ORACLE_CHOICE, "if oracle.report.itemsize <= SMALL", "if oracle.report.itemsize"),
    ),
    _change(
        "attributes not taken off the budget of the place",
        OF_LOCAL + "::test_answers_of_one_record_add_up_to_the_budget",
        (LOCAL, "Budget(epsilon * (1 - share), delta)", "Budget(epsilon, delta)"),
    ),
    _change(
        "each attribute gets what all have together",
        OF_LOCAL + "::test_claim_is_the_budget",
        (LOCAL, "epsilon * share / asked", "epsilon * share"),
    ),
    _change(
        "budget of a person not divided",
        OF_PEOPLE,
        (
            LOCAL,
            "epsilon, delta = budget.epsilon / each, budget.delta / each",
            "epsilon, delta = budget.epsilon, budget.delta",
        ),
    ),
    _change(
        "more rows of a person picked than paid for",
        OF_PEOPLE + "::test_the_reports_of_a_person_cost_the_budget_together",
        (LOCAL, "plan.per_person, source=rng.noise)", "plan.per_person + 1, source=rng.noise)"),
    ),
    _change(
        "a person's picks from the last part of the records alone",
        OF_PEOPLE + "::test_picks_do_not_depend_on_the_parts_in_which_the_records_come",
        (PICKS, "        held.append((records,", "        held[:] = []\n        held.append((records,"),
    ),
    _change(
        "records let go that may be picked",
        OF_PEOPLE + "::test_picks_do_not_depend_on_the_parts_in_which_the_records_come",
        (
            PICKS,
            "kept[order.picked(records.owners, keys, each)]",
            "kept[order.picked(records.owners, keys, 1)]",
        ),
    ),
    _change(
        "keys drawn anew for records that were kept",
        OF_PEOPLE + "::test_picks_do_not_depend_on_the_parts_in_which_the_records_come",
        (PICKS, "keys[kept])]", "order.keys(np.count_nonzero(kept), source=source))]"),
    ),
    _change(
        "one report of a person in the ledger",
        OF_PEOPLE + "::test_the_reports_of_a_person_cost_the_budget_together",
        (LOCAL, "ledger.events * plan.per_person", "ledger.events"),
    ),
    _change(
        "everybody reports all records",
        OF_PEOPLE,
        (
            LOCAL,
            "            parts = picked(parts, plan.per_person, source=rng.noise)\n",
            "            pass\n",
        ),
    ),
    _change(
        "the first records of a person picked",
        OF_PEOPLE + "::test_every_pick_is_uniform_over_the_units_own_rows",
        (
            ORDER,
            "np.lexsort((keys, units))",
            'np.argsort(units, kind="stable")',
        ),
    ),
    _change(
        "shuffle left out",
        (OF_COLLECTION, OF_PEOPLE),
        (ORDER, 'np.argsort(keys(rows, source=source), kind="stable")', "np.arange(rows)"),
    ),
    _change(
        "buckets of reports read in order",
        OF_COLLECTION,
        (COLLECTION, "rows = rows[order.shuffled(len(rows), source=self._source)]", "rows = rows[:]"),
    ),
    _change(
        "attributes answered at another epsilon",
        OF_ATTRIBUTES + "::test_answers_have_the_law_of_that_epsilon_and_of_no_other",
        (
            ATTRIBUTES,
            "GeneralizedResponse(len(attribute.values), epsilon)",
            "GeneralizedResponse(len(attribute.values), 2 * epsilon)",
        ),
    ),
    _change(
        "an answer that is the truth",
        OF_ATTRIBUTES,
        (
            ATTRIBUTES,
            "codes[attribute.name], source=source, ledger=ledger, label=PREFIX + attribute.name\n        )",
            "codes[attribute.name], source=source, ledger=ledger, label=PREFIX + attribute.name\n        )"
            " * 0 + codes[attribute.name].astype(np.uint8)",
        ),
    ),
    _change(
        "several reports of a person counted as people",
        OF_ATTRIBUTES + "::test_several_reports_of_a_person_keep_the_estimate_and_count_as_one",
        (
            ATTRIBUTES,
            "channel.support(answers) / per_person, len(answers) / per_person",
            "channel.support(answers), len(answers)",
        ),
    ),
    _change(
        "exact interval at 90 %",
        OF_ATTRIBUTES + "::test_the_exact_interval_covers_every_share_of_given_people_at_its_rate",
        (ESTIMATES, "0.025", "0.05"),
        (ESTIMATES, "0.975", "0.95"),
    ),
    _change(
        "exact interval one report off",
        OF_ATTRIBUTES,
        (
            ESTIMATES,
            "betaincinv(support, n - support + 1, 0.025)",
            "betaincinv(support + 1, n - support, 0.025)",
        ),
    ),
    # Places that hide among nearby ones.
    _change(
        "planar noise halved",
        OF_PLANAR + "::test_two_places_so_many_metres_apart_lose_epsilon_and_no_more",
        (NOISE, "scale = (within + rounding) / _check(", "scale = (within + rounding) / 2 / _check("),
    ),
    _change(
        "planar noise of an exponential radius",
        OF_PLANAR_NOISE + "::test_seeded_noise_has_the_stated_radius_and_every_direction_alike",
        (NOISE, "standard_gamma(2.0,", "standard_gamma(1.0,"),
    ),
    _change(
        "planar noise on the lattice keeps every proposal",
        OF_PLANAR_NOISE + "::test_exact_noise_has_the_law_of_the_lattice_and_no_other",
        (EXACT, "< np.exp(exponent)", "< 1.0"),
    ),
    _change(
        "planar noise without its rounding",
        OF_PLANAR_NOISE + "::test_rounding_is_paid_for_at_every_distance",
        (NOISE, "rounding = source.rounding(2, 2)", "rounding = 0.0"),
    ),
    _change(
        "planar worst case kept out of the ledger",
        OF_PLANAR + "::test_the_whole_report_is_private_at_the_distance_and_its_worst_case_is_in_the_ledger",
        (NOISE, "max((diameter + rounding) / drawn, epsilon)", "epsilon"),
    ),
    _change(
        "planar totals at the distance",
        OF_PLANAR_NOISE + "::test_the_claim_is_at_the_distance_and_every_total_is_of_the_worst_case",
        (
            ACCOUNTING,
            "events = [event for ledger in ledgers for event in ledger]",
            "events = nearby(event for ledger in ledgers for event in ledger)",
        ),
    ),
    _change(
        "planar distance in the units of longitude",
        OF_PLANAR,
        (
            PLANAR,
            "latitude, longitude = map_axes(domain)\n        farthest",
            "longitude, latitude = map_axes(domain)\n        farthest",
        ),
    ),
    _change(
        "planar distance of the middle latitude",
        OF_PLANAR + "::test_two_places_so_many_metres_apart_lose_epsilon_and_no_more",
        (PLANAR, "latitude.scale * stretch", "latitude.scale"),
    ),
    _change(
        "planar noise on a spiral",
        OF_PLANAR_NOISE + "::test_the_direction_of_seeded_noise_tells_nothing_of_its_length",
        (
            NOISE,
            "angle = self.generator.uniform(0.0, 2 * math.pi, len(values))",
            "angle = 2 * math.pi * (1 + length / scale) * np.exp(-length / scale)",
        ),
    ),
    _change(
        "a release with noise that leaks through its low bits",
        f"{OF_RELEASED_REPORTS}::test_noise_of_a_release_lies_on_the_lattice",
        (
            MAKING,
            "from privmix.privacy.exact import ExactNoise\n",
            "from privmix.privacy.noise import SeededNoise\n",
        ),
        (MAKING, "Randomness(ExactNoise(), fresh())", "Randomness(SeededNoise(fresh()), fresh())"),
    ),
    _change(
        "one lie for all attributes",
        OF_LOCAL + "::test_the_answers_of_one_record_are_independent",
        (
            ATTRIBUTES,
            "codes[attribute.name], source=source,",
            "codes[attribute.name], source=type(source)(np.random.default_rng(1)),",
        ),
    ),
    _change(
        "planar attack held against the epsilon of the distance",
        OF_NEARBY + "::test_an_attack_is_held_against_the_worst_case",
        (OUTCOMES, "return self.epsilon if anywhere is None else anywhere", "return self.epsilon"),
    ),
    _change(
        "planar mechanisms among the answers",
        OF_NEARBY + "::test_it_is_no_answer_and_changes_none",
        (ANSWER, 'for trust in ("central", "local") if', 'for trust in ("central", "local", "distance") if'),
    ),
    _change(
        "noise-aware covariances without a limit",
        OF_DECONVOLVE + "::test_no_component_is_wider_than_half_the_box_and_others_are_left_alone",
        (DECONVOLVE, "np.minimum(values, 1.0)", "values"),
    ),
    _change(
        "survey: a level drawn for each answer costs its own ε, and is asked with twice that",
        OF_TREE_RESPONSE + "::test_reports_have_the_probabilities_of_the_table",
        (
            TREE_RESPONSE,
            "questioner(1 << depth, plan.budget.epsilon)",
            "questioner(1 << depth, 2 * plan.budget.epsilon)",
        ),
        (SURVEY, "oracle.epsilon > self._epsilon", "oracle.epsilon > 2 * self._epsilon"),
    ),
    _change(
        "tree response: depths from the number of records in the batch",
        OF_TREE_RESPONSE + "::test_what_is_asked_depends_on_public_values_alone",
        (
            TREE_RESPONSE,
            "        halving, depths, oracles = self.questions(spec, plan)\n        survey",
            "        plan = replace(plan, reports=len(points))\n"
            "        halving, depths, oracles = self.questions(spec, plan)\n        survey",
        ),
    ),
    _change(
        "survey: the turn from the record",
        OF_TREE_RESPONSE + "::test_reports_have_the_probabilities_of_the_table",
        (
            TREE_RESPONSE,
            "        rows = np.empty(len(points)",
            "        turns = codes % 2\n        survey._waiting = np.bincount(turns, minlength=len(depths))\n"
            "        rows = np.empty(len(points)",
        ),
    ),
    _change(
        "survey: a turn asked twice",
        OF_SURVEY + "::test_nobody_answers_twice_or_for_another_or_for_more",
        (SURVEY, "        self._waiting[turn] -= len(answers)\n", ""),
    ),
    _change(
        "survey: people of one turn asked different questions",
        OF_SURVEY + "::test_nobody_answers_twice_or_for_another_or_for_more",
        (SURVEY, " or self._asked.setdefault(turn, oracle) != oracle", ""),
    ),
    _change(
        "survey: nothing written to the ledger",
        OF_TREE_RESPONSE + "::test_the_ledger_and_the_claim_are_the_budget",
        (SURVEY, "ledger.append(RandomizedResponse(self._label, self._epsilon))", "pass"),
    ),
    _change(
        "hashed runs begin at the wrong answer",
        OF_SURVEY + "::test_the_support_of_runs_is_a_part_of_all_support",
        ("privacy/response/local_hashing.py", "np.uint64(first) + b)", "np.uint64(first + 1) + b)"),
    ),
    _change(
        "shares of siblings dealt out evenly, not by variance",
        OF_TREE_RESPONSE + "::test_consistent_shares_are_the_weighted_least_squares_ones",
        (SHARE_TREE, "(whole - own.sum()) * spread / spread.sum()", "(whole - own.sum()) / len(own)"),
    ),
    _change(
        "adaptive response: a round's question from its own records",
        OF_ADAPTIVE + "::test_a_question_rests_on_the_answers_of_earlier_rounds_alone",
        (
            ADAPTIVE,
            "                reports = ask(",
            "                codes = np.concatenate([each['code'] for each in waiting[turn].parts(PART)])\n"
            "                exact = Partition.even(first + 1, halving.depth).locate(codes)\n"
            "                if turn and np.mean(exact == 0) > 0.5:\n"
            "                    asked[turn] = asked[0]\n"
            "                reports = ask(",
        ),
    ),
    _change(
        "adaptive response: the first partition from the number of records",
        OF_ADAPTIVE + "::test_the_first_partition_and_the_rounds_are_public",
        (
            ADAPTIVE,
            "        first, rounds = schedule(halving.depth, plan)\n        survey",
            "        parts = list(parts)\n"
            "        first, rounds = schedule(halving.depth, replace(plan, reports=sum(map(len, parts))))\n"
            "        survey",
        ),
    ),
    _change(
        "adaptive response: each round at the whole ε of all reports together",
        OF_ADAPTIVE + "::test_reports_of_the_first_round_have_the_probabilities_of_the_table",
        (
            ADAPTIVE,
            "return questioner(len(partition), plan.budget.epsilon)",
            "return questioner(len(partition), 2 * plan.budget.epsilon)",
        ),
        (SURVEY, "oracle.epsilon > self._epsilon", "oracle.epsilon > 2 * self._epsilon"),
    ),
    _change(
        "rounds pooled without their variances",
        OF_ADAPTIVE + "::test_rounds_are_pooled_into_one_tree",
        (SHARE_TREE, "/ weight, 1 / weight)", "/ weight, np.ones(len(weight)))"),
    ),
    _change(
        "adaptive response: the first round counted twice",
        OF_ADAPTIVE + "::test_rounds_are_pooled_into_one_tree",
        (
            PARTITIONS,
            "        deepest = asked[0].deepest\n",
            "        heard += heard[:1]\n        deepest = asked[0].deepest\n",
        ),
    ),
    _change(
        "rounds averaged by variances of their own estimates",
        OF_ADAPTIVE + "::test_rounds_about_the_same_parts_are_averaged_without_bias",
        (
            SHARE_TREE,
            "return averaged([shares[own] for own in nodes])",
            "return averaged([np.clip(each.estimates, 0, 1) for each in told])",
        ),
    ),
    _change(
        "tree response: a deeper level answers the truth half of the time",
        OF_TREE_RESPONSE + "::test_every_level_tells_the_truth_as_often_as_stated",
        (
            TREE_RESPONSE,
            "            rows[own] = packed(",
            "            if level + 1 == len(depths) and reports.dtype.names:\n"
            "                true = oracle.hashed(reports['a'], reports['b'], codes[own] >> (halving.depth - depth))\n"
            "                half = source.uniform((len(reports),)) < 0.5\n"
            "                reports['answer'] = np.where(half, true, reports['answer'])\n"
            "            rows[own] = packed(",
        ),
    ),
    _change(
        "adaptive response: the last round answers the truth half of the time",
        OF_ADAPTIVE + "::test_every_round_tells_the_truth_as_often_as_stated",
        (
            ADAPTIVE,
            "        answered.add(",
            "        if turn + 1 == len(survey._waiting) and reports.dtype.names:\n"
            "            true = oracle_of(partition, plan).hashed(reports['a'], reports['b'], part)\n"
            "            half = survey._source.uniform((len(reports),)) < 0.5\n"
            "            reports['answer'] = np.where(half, true, reports['answer'])\n"
            "        answered.add(",
        ),
    ),
    _change(
        "adaptive response: rounds without hashes answer the truth half of the time",
        OF_ADAPTIVE + "::test_every_round_tells_the_truth_as_often_as_stated",
        (
            ADAPTIVE,
            "        answered.add(",
            "        if turn and reports.dtype.names is None:\n"
            "            half = survey._source.uniform((len(reports),)) < 0.5\n"
            "            reports[half] = part[half]\n"
            "        answered.add(",
        ),
    ),
    _change(
        "adaptive response: questions from the true records of earlier rounds",
        OF_ADAPTIVE + "::test_what_was_asked_is_a_function_of_the_reports",
        TRUE_SHARES,
    ),
    _change(
        "adaptive response: true counts beside what was asked",
        f"{OF_RELEASED_REPORTS}::test_what_rounds_were_asked_follows_from_the_released_rows",
        (
            ADAPTIVE,
            '{"partitions": [each.shape.packed() for each in asked]}',
            '{"partitions": [each.shape.packed() for each in asked], "n": next(waiting[0].parts(9))["code"].tolist()}',
        ),
    ),
    _change(
        "adaptive response: questions from the true records in a released file",
        f"{OF_RELEASED_REPORTS}::test_what_rounds_were_asked_follows_from_the_released_rows",
        TRUE_SHARES,
    ),
    _change(
        "adaptive response: a column of the records",
        OF_ADAPTIVE + "::test_every_round_tells_the_truth_as_often_as_stated",
        (ADAPTIVE, 'columns.pop("code")', 'columns["code"]'),
    ),
    _change(
        "adaptive response: a round in parts tells of its last part alone",
        OF_ADAPTIVE + "::test_rounds_that_are_read_part_by_part_are_asked_as_a_whole",
        (ADAPTIVE, "support += oracle.support(some)", "support = oracle.support(some)"),
    ),
    _change(
        "adaptive response: attributes of another record",
        OF_ADAPTIVE + "::test_attributes_stay_with_their_record",
        (
            ADAPTIVE,
            'as_rows({"part": reports, **columns})',
            'as_rows({"part": reports, **{name: np.roll(each, 1) for name, each in columns.items()}})',
        ),
    ),
    _change(
        "adaptive response: rounds of one part of the records after another",
        OF_COLLECTION + "::test_a_mechanism_that_asks_in_rounds_asks_every_record_once_whatever_the_parts",
        (
            COLLECTION,
            "mechanism.reports(filter(len, parts), spec, budget, rng, shuffler.folder)",
            "(mechanism.privatise(each, spec, budget, rng) for each in filter(len, parts))",
        ),
    ),
    _change(
        "people's places wait in a file with a name",
        "tests/mechanisms/test_mechanism_spool.py::test_a_killed_process_leaves_nothing",
        (
            "mechanisms/spool.py",
            "tempfile.SpooledTemporaryFile(max_size=most, dir=folder)",
            "tempfile.NamedTemporaryFile(dir=folder)",
        ),
    ),
    _change(
        "tree response: a column of the records",
        OF_TREE_RESPONSE + "::test_every_level_tells_the_truth_as_often_as_stated",
        (TREE_RESPONSE, 'Answers({"part": rows}', 'Answers({"part": rows, "code": codes}'),
    ),
    _change(
        "tree response: the record in the hash of those who do not hash",
        OF_TREE_RESPONSE + "::test_every_level_tells_the_truth_as_often_as_stated",
        (
            TREE_RESPONSE,
            '        return Answers({"part": rows})',
            "        if isinstance(oracles[0], GeneralizedResponse) and 'b' in rows.dtype.names:\n"
            "            rows['b'] = np.where(rows['turn'] == 0, codes >> (halving.depth - 1), rows['b'])\n"
            '        return Answers({"part": rows})',
        ),
    ),
    _change(
        "tree response: a record on the upper edge answers at the last level",
        OF_TREE_RESPONSE + "::test_a_record_on_the_edge_of_the_box_answers_at_every_level_alike",
        (
            TREE_RESPONSE,
            "        rows = np.empty(len(points)",
            "        turns[codes == (1 << halving.depth) - 1] = len(depths) - 1\n"
            "        survey._waiting = np.bincount(turns, minlength=len(depths))\n"
            "        rows = np.empty(len(points)",
        ),
    ),
    _change(
        "survey: everybody gives the next person's report",
        OF_SURVEY + "::test_answers_are_those_that_were_given",
        (SURVEY, "oracle.perturb(answers,", "oracle.perturb(np.roll(answers, 1),"),
    ),
    _change(
        "tree response: several reports of a person counted as people",
        OF_TREE_RESPONSE + "::test_the_variance_of_a_share_has_a_part_of_the_noise_and_one_of_who_was_asked",
        (SHARE_TREE, "self.reports / self.per_person", "self.reports"),
    ),
    _change(
        "replay: a release may rest on anything",
        f"{OF_AUDIT_REPLAY}::test_halved_sensitivity_is_found_in_every_mechanism[noisy_grid]",
        (REPLAY, "if not distance <= most * (1 + ROUNDING):", "if not distance <= most * 10:"),
    ),
    _change(
        "replay: releases are not added up",
        f"{OF_AUDIT_REPLAY}::test_forgotten_iterations_are_found_in_the_ledger_and_by_what_one_record_uses",
        (
            REPLAY,
            "total.epsilon > claim.epsilon * (1 + _slack([",
            "total.epsilon > claim.epsilon * (99 + _slack([",
        ),
    ),
    _change(
        "replay: a claim is believed",
        f"{OF_AUDIT_REPLAY}::test_a_claim_below_what_was_spent_is_found",
        (
            REPLAY,
            "total.epsilon > claim.epsilon * (1 + _slack(events, mechanism))",
            "total.epsilon > claim.epsilon * (99 + _slack(events, mechanism))",
        ),
    ),
    _change(
        "replay: outputs are not compared",
        f"{OF_AUDIT_REPLAY}::test_what_gets_out_beside_the_releases_is_found",
        (REPLAY, "        if before != after:", "        if type(before) is not type(after):"),
    ),
    _change(
        "replay: a world with fewer releases passes",
        f"{OF_AUDIT_REPLAY}::test_releases_whose_number_depends_on_the_records_are_found",
        (
            REPLAY,
            "if not len(mine.entries) == len(other.entries) == len(run.tape.entries):",
            "if not other.entries:",
        ),
    ),
    _change(
        "replay: noise outside of a release goes unnoticed",
        f"{OF_AUDIT_REPLAY}::test_noise_outside_of_a_release_is_found",
        (WITNESS, "self.tape.loose.append(kind)", "pass"),
    ),
    _change(
        "noise tests: the scale is not looked at",
        f"{OF_AUDIT_NOISE}::test_noise_of_another_scale_is_found",
        (NOISE_TESTS, "2 * min(gammainc(half, square), gammaincc(half, square))", "1.0"),
    ),
    _change(
        "noise tests: only noise that is too large is found",
        f"{OF_AUDIT_NOISE}::test_noise_of_another_scale_is_found",
        (NOISE_TESTS, "2 * min(gammainc(half, square), gammaincc(half, square))", "gammaincc(half, square)"),
    ),
    _change(
        "noise tests: copies are not looked for",
        f"{OF_AUDIT_NOISE}::test_a_copy_of_a_few_numbers_is_found",
        (NOISE_TESTS, "    if not repeated:", "    if repeated < 1000:"),
    ),
    _change(
        "shared noise: coins are not compared",
        f"{OF_SHARED_NOISE}::test_the_same_coins_are_found_at_two_budgets",
        (SHARED_NOISE, "< CHANCE", "< 0"),
    ),
    _change(
        "gate: strict runs go on",
        f"{OF_GATE}::test_halved_noise_is_marked_and_stops_a_strict_run",
        (GATE, "if strict and not found.passed:", "if strict and found.passed:"),
    ),
    _change(
        "gate: a release keeps its noise",
        f"{OF_RELEASED_REPORTS}::test_of_the_replay_of_a_release_nothing_is_kept_that_depends_on_records_or_noise"
        "[laplace_input]",
        (GATE, '"used": None, "noise": []', '"used": None'),
    ),
    _change(
        "gate: low bits are not looked at",
        f"{OF_BAD_DAYS}::test_a_sampler_that_does_not_draw_what_it_claims_ends_a_release",
        (GATE, "    if not exact:", "    if exact or not exact:"),
    ),
    _change(
        "audit: nothing taken off for what is too rare to be seen",
        f"{OF_BOUNDS}::test_the_area_is_as_large_as_its_bound_says",
        (BOUNDS, "unseen = 2 * estimate * math.log(1 / alpha) / len(sides)", "unseen = 0.0"),
    ),
    _change(
        "audit: runs that share their noise are compared with each other",
        f"{OF_BOUNDS}::test_the_area_leaves_out_pairs_that_share_their_noise",
        (BOUNDS, "- 2 * own) / (n - 1)", "- 0 * own) / n"),
    ),
    _change(
        "audit: both rates at the whole chance of being wrong",
        f"{OF_BOUNDS}::test_errors_that_never_happen_prove_what_clopper_and_pearson_say",
        (BOUNDS, "1 - alpha / 2)", "1 - alpha)"),
    ),
    _change(
        "audit: the area of Gaussians for every ledger",
        f"{OF_GAME}::test_the_area_of_gaussians_is_asked_of_gaussian_ledgers_alone",
        (GAME, "gaussian = all(isinstance(", "gaussian = any(isinstance("),
    ),
    _change(
        "audit: no correction for several bounds",
        f"{OF_GAME}::test_the_chances_of_all_bounds_to_be_wrong_add_up_to_what_is_stated",
        (GAME, "(1 - MAIN) / (2 * len(scored) - len(main))", "MAIN"),
    ),
    _change(
        "audit: attackers are judged by the runs they learned from",
        f"{OF_GAME}::test_learning_and_judged_runs_are_different",
        (
            GAME,
            "judged = range(training.stop, training.stop + plan.runs)",
            "judged = range(1, 1 + plan.runs)",
        ),
    ),
    # Releases.
    _change(
        "a release of moments rests on a sum in floating point",
        OF_EXACT_SUMS + "::test_every_sum_that_a_release_rests_on_lies_on_the_lattice_before_noise_is_added",
        (JOINT, "if sums.must_be_exact(source):", "if False:"),
    ),
    _change(
        "contributions depend on where a record stands",
        OF_EXACT_SUMS + "::test_a_record_has_the_same_numbers_wherever_it_stands",
        (ROWWISE, "shares = exponential(joint - joint.max(axis=0))", "shares = np.exp(joint - joint.max())"),
    ),
    _change(
        "rounded contributions cost nothing",
        OF_EXACT_SUMS + "::test_no_unit_moves_the_sum_further_than_its_reach",
        (SUMS, "return sensitivity * (1 + COMPUTED) + neighbours", "return sensitivity + 0 * neighbours"),
    ),
    _change(
        "a release beyond the limit is not refused",
        OF_SPENDING + "::test_an_intent_counts_in_full_until_it_is_done",
        (SPENDING, "            check(before, spent, limit, self.path)\n", ""),
    ),
    _change(
        "two releases at the same time read the account before either writes",
        OF_KILLS + "::test_many_intents_at_the_same_time_are_all_written_and_none_exceeds_the_limit",
        (SPENDING, "fcntl.flock(handle, fcntl.LOCK_EX)", "None"),
    ),
    _change(
        "lines cut off an account are not missed",
        OF_SPENDING + "::test_the_seal_may_be_one_line_behind",
        (SPENDING, "        self._check_seal(entries)\n", ""),
    ),
    _change(
        "the account hears of a release only when it is done",
        OF_BAD_DAYS + "::test_a_full_disk_after_the_noise_leaves_no_release_and_counts_as_spent",
        (
            RELEASING,
            "        number = account.begin(_what(order), _at_most(order, rehearsal), limit)\n        try:\n"
            "            made, model = _carried_out(order, records, place)\n",
            "        try:\n            made, model = _carried_out(order, records, place)\n"
            "            number = account.begin(_what(order), _at_most(order, rehearsal), limit)\n",
        ),
    ),
    _change(
        "a release is put in place unverified",
        OF_BAD_DAYS + "::test_what_fails_its_own_check_is_not_put_in_place",
        (RELEASING, "    checks.verify(place)\n", ""),
    ),
)
