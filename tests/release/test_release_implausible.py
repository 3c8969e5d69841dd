"""Releases that have the right form but not the noise of their plan, hostile values, and folders that take long."""

import base64
import copy
import itertools
import json
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from making import PRIVATE, clusters, make_domain
from scipy import stats
from test_release_forgeries import _privacy, forged, originals, rebuilt  # noqa: F401

from privmix.artefacts.io import PARQUET_SEAL
from privmix.artefacts.io import seal as seal_file
from privmix.errors import UserError
from privmix.mechanisms import registry
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness
from privmix.mechanisms.run import MechanismJob
from privmix.mechanisms.shared import attribute_counts
from privmix.privacy.accounting import Budget
from privmix.privacy.exact import STEP
from privmix.privacy.oracles.local_hashing import PRIMES
from privmix.privacy.privtree import TreeShape
from privmix.release import model_form, noise_evidence, report_files, report_order, transcripts, verify
from privmix.release.folder import REPORTS, Gaussians, read_release
from privmix.release.public_plan import PublicPlan, make_plan

CENTRAL = [method for method in PRIVATE if registry.method_class(method).trust == "central"]
INPUT_NOISE = ["laplace_input", "gaussian_input", "planar_laplace"]
ORACLES = ["grr", "oue", "olh", "subset", "hadamard"]
ROWS = 400
DOG = [("dog", ("no", "yes", "both"))]
AFTER = {method: {"attributes": "after"} for method in ("dp_sgd", "posterior_sample")}
POINTS = {"clusters": clusters(ROWS), "one point": np.zeros((ROWS, 2)), "few": clusters(20)}


def build(method, **parameters):
    """Make a mechanism that searches once."""
    if "searches" in registry.method_class(method).__dataclass_fields__:
        parameters = {"searches": 1, **parameters}
    if method == "planar_laplace":
        parameters = {"within_m": 50_000, **parameters}
    return registry.build(method, parameters)


def plan_of(method, mechanism, rows, epsilon=1.0, relation="replace_one", components=3):
    """Return the public plan of a run."""
    budget = Budget(epsilon, 1e-6)
    spec = Spec(make_domain(rows=rows, relation=relation, attributes=DOG), components)
    job = MechanismJob("made", method, {}, mechanism, budget, [components], 0.1, 1, None)
    attributes = attribute_counts.make_plan(mechanism, spec, budget)
    return PublicPlan(job, spec, attributes.left if attributes else budget, None, (), attributes)


def run(method, points, epsilon=1.0, relation="replace_one", **parameters):
    """Run a mechanism with the noise of a release. Return its plan, its reports (or None) and its release."""
    mechanism = build(method, **parameters)
    plan = plan_of(method, mechanism, len(points), epsilon, relation)
    records = Records(points, {"dog": np.arange(len(points)) % 3}, np.arange(len(points), dtype=np.uint64))
    rng = exact_randomness()
    if not mechanism.randomises_records:
        return plan, None, mechanism_run.run(mechanism, records, plan.spec, plan.job.budget, rng)
    reports = mechanism.privatise(records, plan.spec, plan.budget, rng)
    return plan, reports, mechanism.fit(reports, plan.spec, plan.budget, rng)


def check(plan, reports, release):
    """Check what follows from the plan: the transcript, the reports and the mixture."""
    transcripts.check_transcript(release.transcript, plan)
    if reports is not None:
        check_reports(plan, reports.columns, reports.asked)
    made = Gaussians.of(release.mixture)
    if reports is not None:
        own = plan.mechanism.plan(plan.spec, plan.budget)
        model = SimpleNamespace(normalised=made, notes=release.notes)
        report_files._check_notes(dict(reports.columns), reports.asked, model, plan, own)
    naive = {"fit": "naive"} if getattr(plan.mechanism, "fit_mode", "") == "naive" else {}
    check_form(made, plan, naive)


def check_reports(plan, columns, asked=None):
    own = plan.mechanism.plan(plan.spec, plan.budget)
    report_files._check_values(dict(columns), plan.mechanism, plan, own, asked or {})
    report_files.check_answers(dict(columns), plan.mechanism, plan, own, asked or {})


def check_form(made, plan, parameters=None, original=None):
    model = SimpleNamespace(
        normalised=made, original=original or made, components=[3], domain=plan.spec.domain,
        method=plan.job.method, parameters=parameters or {}, local=plan.mechanism.randomises_records, shares={},
    )  # fmt: skip
    model_form.check_mixtures(model, max(model.components))


@pytest.fixture(scope="module")
def runs():
    """A run of each method on clusters, without a change."""
    return {method: run(method, POINTS["clusters"], **AFTER.get(method, {})) for method in PRIVATE}


@pytest.mark.parametrize("method", PRIVATE)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_honest_releases_pass(method, epsilon):
    """False alarm: less than 1e-9 for each run."""
    for number, points in enumerate(POINTS.values()):
        check(*run(method, points, epsilon, ("replace_one", "add_remove")[number % 2]))


@pytest.mark.parametrize("oracle", ORACLES)
def test_honest_answers_of_every_oracle_pass(oracle):
    for epsilon in (0.1, 1.0, 10.0):
        check(*run("randomized_response", POINTS["one point"], epsilon, oracle=oracle))


def test_other_parameters_pass():
    check(*run("dp_em", POINTS["clusters"], noise="llg", composition="linear"))
    check(*run("noisy_tree", POINTS["clusters"], noise="gaussian"))
    check(*run("dp_sgd", POINTS["clusters"], reference_share=0.0))
    check(*run("gaussian_input", POINTS["clusters"], 0.1, fit="naive"))


NOISY = ("counts", "sums", "squares", "gradient", "sum")


def changed(transcript, change, names=NOISY):
    """Change every noisy number of these names. The counts of DP-EM, from which others follow, stay."""
    entries = copy.deepcopy(transcript)
    for entry in entries:
        for name in names:
            value = entry.get(name)
            if isinstance(value, str):
                counts = change(np.frombuffer(base64.b64decode(value), dtype="<f8").copy())
                entry[name] = base64.b64encode(counts.astype("<f8").tobytes()).decode()
            elif value is not None and not (name == "counts" and "iteration" in entry and min(value) >= 1):
                entry[name] = change(np.array(value)).tolist()
    return entries


@pytest.mark.parametrize("method", CENTRAL)
def test_zeros_are_no_noisy_numbers(runs, method):
    plan, _, release = runs[method]
    with pytest.raises(UserError, match="do not have the noise"):
        transcripts.check_transcript(changed(release.transcript, np.zeros_like), plan)


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize(
    "change",
    [
        np.zeros_like,
        lambda table: table + 2.0**33,
        lambda table: table + STEP / 4,
        lambda table: table[:-1],
        lambda table: table * 0.0 + 400 / len(table),
    ],
)
def test_a_table_of_attributes_has_its_noise(runs, method, change):
    plan, _, release = runs[method]
    entries = copy.deepcopy(release.transcript)
    entries[-1:] = changed(entries[-1:], change, ("attributes",))
    with pytest.raises(UserError, match="do not publish it"):
        transcripts.check_transcript(entries, plan)


@pytest.mark.parametrize(
    ("method", "name"),
    [("dp_sgd", "gradient"), ("posterior_sample", "attributes"), ("posterior_sample", "draw")],
)
def test_attributes_in_the_clustering_have_their_noise(method, name):
    plan, _, release = run(method, POINTS["clusters"], attributes="together")
    transcripts.check_transcript(release.transcript, plan)
    if name == "draw":
        changes = {"draw": lambda table: table + 0.1}
    else:
        changes = {name: np.zeros_like, f"{name} off": lambda table: table + STEP / 4}
    for change in changes.values():
        entries = copy.deepcopy(release.transcript)
        if name == "draw":
            entries[-1]["draw"]["shares"]["dog"] = change(
                np.array(entries[-1]["draw"]["shares"]["dog"])
            ).tolist()
        else:
            entries = changed(entries, change, (name,))
        with pytest.raises(UserError, match="do not publish it"):
            transcripts.check_transcript(entries, plan)


def two_attributes(law, relation="replace_one", change=lambda table: table):
    """Return a plan with two attributes, and a transcript of their table alone: 3 components, 1000 records."""
    mechanism = build("noisy_grid") if law == "laplace" else build("posterior_sample", attributes="after")
    budget = Budget(1.0, 0.0 if law == "laplace" else 1e-6)
    listed = [*DOG, ("hat", ("no", "yes"))]
    spec = Spec(make_domain(rows=1000, relation=relation, attributes=listed), 3)
    own = attribute_counts.make_plan(mechanism, spec, budget)
    deviation = own.deviation(spec, mechanism.relation(spec))
    rng = np.random.default_rng(11)
    noise = (
        rng.laplace(0, deviation / np.sqrt(2), (3, 5))
        if law == "laplace"
        else rng.normal(0, deviation, (3, 5))
    )
    means = np.outer([500, 300, 200], [1 / 3] * 3 + [1 / 2] * 2)
    table = np.rint(change(means) / STEP) * STEP + np.rint(noise / STEP) * STEP
    job = MechanismJob("made", "made", {}, mechanism, budget, [3], 0.1, 1, None)
    plan = PublicPlan(job, spec, own.left, None, (), own)
    return transcripts._attribute_counts({"attributes": attribute_counts.to_text(table)}, plan), plan


def _another_total(table):
    return table * 4


def _contradiction(table):
    """Both attributes have all records, but in other components."""
    return 3 * np.hstack([table[:, :3], table[::-1, 3:]])


def _one_attribute_larger(table):
    return table * [1, 1, 1, 3, 3]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("change", "relation", "said"),
    [
        (_another_total, "replace_one", "counts of 1,000 records"),
        (_one_attribute_larger, "replace_one", "1,000 records"),
        (_one_attribute_larger, "add_remove", "attributes of the same records"),
        (_contradiction, "add_remove", "attributes of the same records"),
    ],
)
def test_attributes_count_the_same_records(law, change, relation, said):
    """Honest tables pass; false alarm: less than 1e-10 for each table."""
    honest = two_attributes(law, relation)
    transcripts._check_attribute_sums(*honest, any_number=False)
    with pytest.raises(UserError, match=said):
        transcripts._check_attribute_sums(*two_attributes(law, relation, change), any_number=False)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_values_of_a_joint_measurement_add_up_to_the_count_of_their_component(factor):
    spec = Spec(make_domain(rows=10**6, attributes=DOG), 3)
    scheme = build("noisy_moments").scheme(spec)
    counts, sigma = np.array([5e5, 3e5, 2e5]), 20.0

    def check_values(table):
        whole = np.rint(table * scheme.value / STEP) * STEP / scheme.value
        transcripts._values(whole.tolist(), counts, scheme, spec, sigma, 1e6)

    table = np.outer(counts, [1 / 3] * 3) + np.random.default_rng(2).normal(0, sigma / scheme.value, (3, 3))
    check_values(table)
    with pytest.raises(UserError, match="moments of one set of records"):
        check_values(factor * table)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_sums_of_noise_are_told_from_larger_ones(law):
    rng = np.random.default_rng(5)
    draw = getattr(rng, "laplace" if law == "laplace" else "normal")
    for size in (1, 4, 60):
        part = noise_evidence.Noisy("counts", np.zeros(1), 3.0, law)
        sums = draw(0, 3.0, (2000, size)).sum(axis=1)
        assert all(noise_evidence.are_sums_of_noise(each, part, size) for each in np.split(sums, 40))
        assert noise_evidence.are_sums_of_noise(sums, part, size)
        assert not noise_evidence.are_sums_of_noise(2 * sums, replace(part, scale=1.0), size)


@pytest.mark.parametrize("method", ["noisy_grid", "noisy_tree", "dp_sgd", "output_noise"])
def test_whole_numbers_are_no_noisy_numbers(runs, method):
    plan, _, release = runs[method]
    whole = changed(release.transcript, lambda values: np.rint(values) * 3.0 + 0.0)
    with pytest.raises(UserError, match="do not have the noise"):
        transcripts.check_transcript(whole, plan)


@pytest.mark.parametrize("method", ["noisy_grid", "noisy_tree", "noisy_moments", "tree_then_moments"])
def test_counts_add_up_to_the_public_number_of_records(runs, method):
    plan, _, release = runs[method]
    found = list(transcripts._noisy_numbers(plan.entries(release.transcript), plan))
    noise_evidence.check_total(found, plan.spec.domain.rows, "model.json")
    with pytest.raises(UserError, match="do not add up to the 1,000,000 records"):
        noise_evidence.check_total(found, 1_000_000, "model.json")


@pytest.mark.parametrize(
    "method",
    [
        "noisy_grid",
        "noisy_tree",
        "noisy_moments",
        "tree_then_moments",
        "dp_sgd",
        "output_noise",
        "posterior_sample",
    ],
)
def test_numbers_beyond_all_records_and_noise_are_refused(runs, method):
    """Records in the leading digits, as large numbers with honest low digits."""
    plan, _, release = runs[method]
    with pytest.raises(UserError, match=r"do not have the noise|moments of one set of records"):
        transcripts.check_transcript(changed(release.transcript, lambda values: values + 2.0**33), plan)


@pytest.mark.parametrize("method", ["laplace_input", "gaussian_input", "planar_laplace"])
def test_reports_far_outside_the_box_are_refused(runs, method):
    plan, reports, _ = runs[method]
    for name in reports.columns:
        if name.startswith("y"):
            far = {**reports.columns, name: reports.columns[name] + np.float32(2**14)}
            with pytest.raises(UserError, match="do not have the noise"):
                check_reports(plan, far, reports.asked)


@pytest.mark.parametrize("method", ["laplace_input", "gaussian_input"])
def test_reports_that_are_larger_than_noise_on_average_are_refused(runs, method):
    """Records in original units, as reports: no single one is too large."""
    plan, reports, _ = runs[method]
    deviation = reports.columns["y0"].std()
    drawn = np.random.default_rng(2).normal(4 * deviation, deviation / 4, len(reports.columns["y0"]))
    places = (np.rint(drawn / STEP) * STEP).astype(np.float32)
    with pytest.raises(UserError, match="do not have the noise"):
        check_reports(plan, {**reports.columns, "y0": places, "y1": places}, reports.asked)


@pytest.mark.parametrize("method", ["noisy_moments", "tree_then_moments", "posterior_sample"])
@pytest.mark.parametrize(
    ("key", "factor"), [("sums", 64.0), ("squares", -64.0), ("squares", 64.0), ("counts", 1 / 1024)]
)
def test_moments_are_those_of_one_set_of_records(runs, method, key, factor):
    plan, _, release = runs[method]
    entries = copy.deepcopy(release.transcript)
    for entry in entries:
        if key in entry and isinstance(entry[key], list):
            entry[key] = (np.array(entry[key]) * factor).tolist()
    with pytest.raises(UserError, match="do not publish it"):
        transcripts.check_transcript(entries, plan)


def test_moments_satisfy_cauchy_schwarz():
    """Without the noise every pair of moments of records passes, and a change of one of them does not."""
    places = np.random.default_rng(4).normal(size=(50, 3))
    places /= np.maximum(np.linalg.norm(places, axis=1, keepdims=True) / 2, 1)
    count, total = np.array([50.0]), np.abs(places.sum(axis=0))[None]
    squares = (places.T @ places)[None]
    assert noise_evidence.are_moments(count, total, squares.copy(), 1e-9, 4.0)
    assert not noise_evidence.are_moments(count / 50, total, squares.copy(), 1e-9, 4.0)
    assert not noise_evidence.are_moments(count, total + 60, squares.copy(), 1e-9, 4.0)
    assert not noise_evidence.are_moments(count, total, squares * 9, 1e-9, 4.0)
    crossed = squares.copy()
    crossed[0, 0, 1] = crossed[0, 1, 0] = 60.0
    assert not noise_evidence.are_moments(count, total, crossed, 1e-9, 4.0)


def test_hash_functions_of_reports_are_random():
    """Records in place of the numbers of a hash function, or one function for many reports."""
    prime, rng = 32749, np.random.default_rng(3)
    kind = np.dtype([("a", np.uint16), ("b", np.uint16)])
    for size in (1, 20, 300, 20_000):
        for _ in range(20):
            honest = np.zeros(size, dtype=kind)
            honest["a"], honest["b"] = rng.integers(prime, size=(2, size))
            assert report_files._are_random(honest, prime)
    records = honest.copy()
    records["a"] = 4346 + rng.normal(0, 900, len(honest))
    assert not report_files._are_random(records, prime)
    same = honest[:1000].copy()
    same[:100] = same[0]
    assert not report_files._are_random(same, prime)


def test_each_byte_of_a_hash_function_is_random():
    """Text in one byte of the numbers of hash functions. False failure: below 1e-8."""
    text = np.frombuffer(b"lat 44.97 long -93.26 White Male; " * 1000, dtype=np.uint8)
    for word, prime in PRIMES.items():
        rng = np.random.default_rng(4)
        honest = np.zeros(len(text), dtype=[("a", word), ("b", word)])
        honest["a"], honest["b"] = rng.integers(prime, size=(2, len(text)))
        assert report_files._are_random(honest, prime)
        for name in ("a", "b"):
            for size in (300, len(text)):
                secret = honest[:size].copy()
                secret[name] = secret[name] & ~word.type(255) | text[:size]
                assert not report_files._are_random(secret, prime)


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_each_low_digit_of_noise_is_random(bits):
    """Text or zeros in the low digits of noisy numbers, of a transcript and of reports."""
    rng, size = np.random.default_rng(6), 3000
    values = np.rint(rng.laplace(0, 3.0, size) / STEP) * STEP
    honest = noise_evidence.Noisy("counts", values, 3.0, "laplace")
    assert noise_evidence.has_low_parts([honest])
    text = np.frombuffer(b"lat 44.97 long -93.26 White Male; " * 100, dtype=np.uint8)[:size]
    for low in (np.zeros(size), np.full(size, 2**bits - 1), *([text] if bits == 8 else [])):
        digits = (np.floor(values / STEP / 2**bits) * 2**bits + low) * STEP
        assert not noise_evidence.has_low_parts([replace(honest, values=digits)])


def test_single_numbers_without_noise_are_refused_together():
    """Each of seven statistics has one number, which alone may be whole; honest ones pass."""
    rng = np.random.default_rng(2)

    def numbers(noisy):
        for count in rng.integers(100, 3000, 7):
            value = float(count) + (np.rint(rng.laplace(0, 3) * 2**20) / 2**20 if noisy else 0.0)
            yield noise_evidence.Noisy(f"count {count}", np.array([value]), 3.0, "laplace", whole=True)

    for _ in range(300):
        noise_evidence.check_noise(list(numbers(noisy=True)), "here")
    with pytest.raises(UserError, match="together"):
        noise_evidence.check_noise(list(numbers(noisy=False)), "here")


@pytest.mark.parametrize("method", ["laplace_input", "gaussian_input", "planar_laplace"])
def test_text_in_the_digits_of_noisy_rows_is_refused(runs, method):
    plan, reports, _ = runs[method]
    columns = {name: values.copy() for name, values in reports.columns.items()}
    text = np.frombuffer(b"lat 44.97 long -93.26 White Male; " * 100, dtype=np.uint8)[: len(columns["y0"])]
    steps = columns["y0"].astype(np.float64) / STEP
    hidden = (np.floor(steps / 256) * 256 + text) * STEP
    exact = np.abs(steps) < 2**24 - 256
    columns["y0"] = np.where(exact, hidden, columns["y0"]).astype(np.float32)
    with pytest.raises(UserError, match="the digits of the noise"):
        check_reports(plan, columns)


def test_the_order_of_reports_is_random():
    """False failure: below 1e-8. The exact law is compared with all orders of a few marks."""
    rng = np.random.default_rng(8)
    for size in (1, 2, 20, 300, 20_000):
        for column in (
            rng.integers(3, size=size).astype(np.uint8),
            rng.integers(2**16, size=size).astype(np.uint16),
            rng.integers(256, size=(size, 7)).astype(np.uint8),
            rng.laplace(size=size).astype(np.float32),
            (np.arange(size) < 3).astype(np.uint8)[rng.permutation(size)],
        ):
            assert report_order.is_random_order(column)
            if size >= 300 and column.max() > 1:
                order = np.lexsort(tuple(column.reshape(size, -1).T))
                assert not report_order.is_random_order(column[order])
    assert not report_order.is_random_order(np.tile([0, 1], 100).astype(np.uint8))


def test_runs_of_marks_have_the_hypergeometric_law():
    marks, found = np.array([1, 1, 1, 0, 0, 0, 0]), Counter()
    for order in set(itertools.permutations(marks.tolist())):
        found[len("".join(map(str, order)).replace("0", " ").split())] += 1
    law = stats.hypergeom(7, 5, 3)
    assert {runs: number / 35 for runs, number in found.items()} == pytest.approx(
        {runs: law.pmf(runs) for runs in (1, 2, 3)}
    )


def test_latitudes_are_no_noisy_counts(runs):
    """They are large, their digits look random, and they add up, but they are too near to each other."""
    plan, _, release = runs["noisy_grid"]
    generator = np.random.default_rng(5)

    def latitudes(counts):
        middle = np.floor(ROWS / len(counts)) + 0.5  # far from whole numbers, which another test refuses
        return np.rint((middle + generator.normal(0, 0.03, counts.shape)) / STEP) * STEP

    with pytest.raises(UserError, match="do not have the noise"):
        transcripts.check_transcript(changed(release.transcript, latitudes), plan)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [("dp_sgd", {}), ("noisy_moments", {"iterations": 200}), ("posterior_sample", {"iterations": 100})],
)
def test_half_of_epsilon_is_refused_where_noise_dominates(method, parameters):
    """At half of ε a schedule may differ, so only the scale of the noise is doubled. False failure: below 1e-6."""
    plan, _, release = run(method, POINTS["clusters"], 0.02, **parameters)
    noise = list(transcripts._noisy_numbers(plan.entries(release.transcript), plan))
    noise_evidence.check_noise(noise, "model.json")
    with pytest.raises(UserError, match="do not have the noise"):
        noise_evidence.check_noise([replace(each, scale=2 * each.scale) for each in noise], "model.json")


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("shift", [STEP / 4, STEP / 1000])
def test_every_number_lies_on_the_lattice(runs, method, shift):
    plan, _, release = runs[method]

    def move(values):
        values.flat[0] += shift
        return values

    with pytest.raises(UserError, match="off the lattice"):
        transcripts.check_transcript(changed(release.transcript, move), plan)


@pytest.mark.parametrize("method", CENTRAL)
@pytest.mark.parametrize("value", [-0.0, 5e-324])
def test_zeros_with_a_sign_and_denormals_are_refused(runs, method, value):
    plan, _, release = runs[method]

    def put(values):
        values.flat[0] = value
        return values

    with pytest.raises(UserError, match="off the lattice"):
        transcripts.check_transcript(changed(release.transcript, put), plan)


def test_a_whole_number_is_written_as_a_float(runs):
    plan, _, release = runs["dp_sgd"]
    entries = copy.deepcopy(release.transcript)
    entries[1]["gradient"][0] = 3
    with pytest.raises(UserError, match="numbers"):
        transcripts.check_transcript(entries, plan)


def test_a_tree_has_no_spare_bits(runs):
    plan, _, release = runs["noisy_tree"]
    entry, table = copy.deepcopy(release.transcript)
    shape = TreeShape.unpacked(entry["roots"], entry["splits"])
    bits = sum(len(split) for split in shape.splits)
    content = bytearray(base64.b64decode(entry["splits"]))
    if bits % 8:
        content[-1] ^= 1
    else:
        content.append(0)
    entry["splits"] = base64.b64encode(bytes(content)).decode()
    with pytest.raises(UserError, match="tree"):
        transcripts.check_transcript([entry, table], plan)


def _narrow(made):
    made["covariances"][0] = [[1e-12, 0.0], [0.0, 1e-12]]


def _outside(made):
    made["means"][0] = [0.9, 0.9]


def _wide(made):
    made["covariances"][0] = [[4.0, 0.0], [0.0, 4.0]]


def _skewed(made):
    made["covariances"][0][0][1] += 1e-13


def _negative(made):
    made["weights"][0], made["weights"][1] = -0.1, made["weights"][1] + made["weights"][0] + 0.1


BAD_MIXTURES = [_narrow, _outside, _wide, _skewed, _negative]


@pytest.mark.parametrize("method", ["noisy_grid", "noisy_tree", "tree_response", "laplace_input"])
@pytest.mark.parametrize("change", BAD_MIXTURES)
def test_a_mixture_keeps_the_public_floor_and_box(method, change):
    plan = plan_of(method, build(method), ROWS)
    made = {
        "weights": [0.25, 0.75],
        "means": [[0.0, 0.1], [0.2, 0.0]],
        "covariances": [[[0.01, 0.0], [0.0, 0.01]]] * 2,
    }
    made = copy.deepcopy(made)
    check_form(Gaussians(**made), plan)
    change(made)
    with pytest.raises(UserError):
        check_form(Gaussians(**made), plan)


@pytest.mark.parametrize(
    ("method", "entry", "name"),
    [
        ("dp_sgd", 0, "start"),
        ("output_noise", 0, "reference"),
        ("posterior_sample", 0, "reference"),
        ("posterior_sample", -2, "draw"),
    ],
)
@pytest.mark.parametrize("change", BAD_MIXTURES)
def test_mixtures_of_a_transcript_keep_the_public_floor_and_box(runs, method, entry, name, change):
    plan, _, release = runs[method]
    entries = copy.deepcopy(release.transcript)
    change(entries[entry][name])
    with pytest.raises(UserError, match="the transcript is not"):
        transcripts.check_transcript(entries, plan)


def test_both_systems_of_units_agree_to_the_last_bit(runs):
    plan, _, release = runs["noisy_grid"]
    made, moved = Gaussians.of(release.mixture), Gaussians.of(release.mixture)
    moved.means[0][0] = float(np.nextafter(moved.means[0][0], 1))
    with pytest.raises(UserError, match="in original units"):
        check_form(made, plan, original=moved)


def rows_of(points):
    """Return reports that are the records, on the lattice."""
    steps = np.rint(points / STEP) * STEP
    return {"y0": steps[:, 0].astype(np.float32), "y1": steps[:, 1].astype(np.float32)}


@pytest.mark.parametrize("method", INPUT_NOISE)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_records_without_noise_are_no_reports(method, epsilon):
    """Planar noise is small beside the box, so its records lie near the middle; spread records have enough energy."""
    mechanism = build(method)
    plan = plan_of(method, mechanism, ROWS, epsilon)
    points = POINTS["clusters"]
    if method == "planar_laplace":
        points = points * 1e-2 / epsilon
    answers = run(method, POINTS["clusters"], epsilon)[1].columns
    with pytest.raises(UserError, match="do not have the noise"):
        check_reports(plan, {**answers, **rows_of(points)})


@pytest.mark.parametrize("method", INPUT_NOISE)
def test_a_zero_with_a_sign_is_no_report(runs, method):
    plan, reports, _ = runs[method]
    columns = {name: values.copy() for name, values in reports.columns.items()}
    columns["y0"][0] = -0.0
    with pytest.raises(UserError, match="lattice"):
        check_reports(plan, columns)


@pytest.mark.parametrize("oracle", ORACLES)
def test_equal_answers_are_no_reports(oracle):
    plan, reports, _ = run("randomized_response", POINTS["clusters"], oracle=oracle)
    equal = np.repeat(reports.columns["cell"][:1], ROWS, axis=0)
    with pytest.raises(UserError, match="the noise of 'cell'"):
        check_reports(plan, {**reports.columns, "cell": equal})


@pytest.mark.parametrize("method", ["tree_response", "adaptive_tree_response"])
def test_equal_answers_of_a_survey_are_no_reports(runs, method):
    plan, reports, _ = runs[method]
    part = reports.columns["part"].copy()
    for turn in np.unique(part["turn"]):
        own = part["turn"] == turn
        part[own] = part[own][0]
    with pytest.raises(UserError, match=r"the noise of 'part'|the question"):
        check_reports(plan, {**reports.columns, "part": part}, reports.asked)


def test_turns_are_dealt_evenly(runs):
    plan, reports, _ = runs["tree_response"]
    part = reports.columns["part"].copy()
    part[:] = part[part["turn"] == 0][0]
    with pytest.raises(UserError, match=r"the turns|the noise"):
        check_reports(plan, {**reports.columns, "part": part})


def test_true_attributes_are_no_answers(runs):
    plan, reports, _ = runs["laplace_input"]
    with pytest.raises(UserError, match="the noise of 'a_dog'"):
        check_reports(plan, {**reports.columns, "a_dog": np.zeros(ROWS, dtype=np.uint8)})


@pytest.mark.parametrize("method", ["randomized_response", "tree_response", "laplace_input"])
def test_notes_follow_from_the_reports(method):
    plan, reports, release = run(method, POINTS["one point"], 0.1)
    own, columns = plan.mechanism.plan(plan.spec, plan.budget), dict(reports.columns)
    made = Gaussians.of(release.mixture)

    def state(notes):
        model = SimpleNamespace(normalised=made, notes=notes)
        report_files._check_notes(columns, reports.asked, model, plan, own)

    state(release.notes)
    derived = [note for note in release.notes if note.startswith(report_files.DERIVED_NOTES)]
    assert derived, release.notes
    for note in derived:
        dropped = [other for other in release.notes if other != note]
        for notes in (
            dropped,
            [*dropped, note.replace("3", "4") + "."],
            [*release.notes, "Only 3 of the 4 parts"],
        ):
            with pytest.raises(UserError, match="do not follow from"):
                state(notes)


def test_questions_follow_from_earlier_answers():
    plan, reports, _ = run("adaptive_tree_response", clusters(4000), 10.0)
    partitions = list(reports.asked["partitions"])
    assert len(set(partitions)) > 1
    partitions[-1] = partitions[0]
    with pytest.raises(UserError):
        check_reports(plan, reports.columns, {"partitions": partitions})


# Claims and ledgers that are wrong by little.


def _ledger_factor(factor):
    def edit(model):
        model["privacy"]["ledger"][0]["noise_multiplier"] *= factor

    return edit


@pytest.mark.parametrize("factor", [1.0001, 0.9999])
def test_a_ledger_differs_by_no_more_than_its_calibration(forged, factor):  # noqa: F811
    with pytest.raises(UserError, match="public plan"):
        verify.verify(forged("moments", rebuilt(_ledger_factor(factor))))


def test_a_claim_differs_by_no_more_than_rounding(forged):  # noqa: F811
    with pytest.raises(UserError, match="adds up to"):
        verify.verify(forged("moments", rebuilt(_privacy(epsilon=0.9999))))


# Reports that take memory, or that another program wrote.


def rewritten(**settings):
    """Write the reports again with other settings of Parquet."""

    def forge(folder):
        path = folder / REPORTS
        table = pq.ParquetFile(path).read()
        text = table.schema.metadata[b"privmix"]
        size = settings.get("row_group_size")
        options = {name: value for name, value in settings.items() if name != "row_group_size"}
        table = table.replace_schema_metadata(None)
        with pq.ParquetWriter(path, table.schema, compression="none", **options) as writer:
            writer.write_table(table, row_group_size=size)
            writer.add_key_value_metadata({b"privmix": text, **PARQUET_SEAL})
        seal_file(path)

    return forge


REWRITTEN = {
    "a dictionary of numbers": (rewritten(use_dictionary=True), "the encoding"),
    "row groups of another size": (rewritten(use_dictionary=["a_dog"], row_group_size=100), "its row groups"),
    "pages of another size": (rewritten(use_dictionary=["a_dog"], data_page_size=64), "its bytes"),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_reports_have_the_bytes_that_privmix_writes(forged, name):  # noqa: F811
    change, said = REWRITTEN[name]
    with pytest.raises(UserError, match=said):
        verify.verify(forged("laplace", change))


def test_a_small_file_of_many_reports_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / REPORTS
    many = pa.table({"y0": pa.array(np.zeros(2_000_000, dtype=np.float32))})
    pq.write_table(many, path, compression="none", use_dictionary=True)
    file = pq.ParquetFile(path)
    assert not report_files._is_dense(file, "y0", 4)
    with pytest.raises(UserError, match="number of reports"):
        report_files._number_of_reports(path)


def test_a_damaged_page_is_explained(forged):  # noqa: F811
    def damage(folder):
        content = bytearray((folder / REPORTS).read_bytes())
        content[4:24] = b"\xff" * 20
        (folder / REPORTS).write_bytes(content)
        seal_file(folder / REPORTS)

    with pytest.raises(UserError, match=r"cannot be read as Parquet|seal"):
        verify.verify(forged("laplace", damage))


# Settings whose plan would take long.

LONG = {
    "δ = 0.999": ("dp_sgd", {}, {"budget_delta": 0.999}, "δ of at most"),
    "ε = 1e-6": ("dp_sgd", {}, {"budget_epsilon": 1e-6}, "an ε from"),
    "ε = 1e300": ("noisy_grid", {}, {"budget_epsilon": 1e300}, "an ε from"),
    "100,000 iterations": ("dp_em", {"noise": "llg", "iterations": 100_000}, {}, "at most"),
    "2,100 mixed iterations": ("dp_em", {"noise": "llg", "iterations": 2_100}, {}, "at most"),
    "a million measurements": ("noisy_moments", {"iterations": 10**6}, {}, "at most"),
    "100,000 steps": ("dp_sgd", {"steps": 100_000}, {}, "at most"),
    "steps that the transcript lacks": ("dp_sgd", {"steps": 40_000}, {}, "40,001 entries"),
}


@pytest.mark.parametrize("name", LONG)
def test_a_plan_that_takes_long_is_refused_at_once(originals, name):  # noqa: F811
    method, parameters, privacy, said = LONG[name]
    content = json.loads((originals[0]["moments"] / "model.json").read_text())
    content["domain"]["relation"] = "add_remove"
    content["privacy"].update(privacy)
    content.update(method=method, parameters=parameters)
    model = type(read_release(originals[0]["moments"])).model_validate(content)
    started = time.monotonic()
    with pytest.raises(UserError, match=said):
        make_plan(model)
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.005, 0.05, 0.3, 1.0, 20.0])
def test_the_distance_of_noise_from_whole_numbers(law, scale):
    noise = getattr(np.random.default_rng(1), "laplace" if law == "laplace" else "normal")(0, scale, 200_000)
    apart = np.abs(noise - np.rint(noise))
    for within in noise_evidence.NEAR:
        chance = noise_evidence.near_whole_number(scale, law, within)
        assert abs((apart <= within).mean() - chance) <= 6 * np.sqrt(chance * (1 - chance) / 200_000) + 1e-12


@pytest.mark.parametrize(
    ("method", "parameters"), [("noisy_tree", {}), ("noisy_tree", {"noise": "gaussian"})]
)
def test_counts_with_hardly_any_noise_are_refused(method, parameters):
    """Whole numbers with dust on the lattice, and counts whose noise is thirty times too small."""
    rng = np.random.default_rng(5)
    points = rng.uniform(-0.6, 0.6, (30, 2))[rng.integers(30, size=40_000)] + rng.normal(0, 0.02, (40_000, 2))
    plan, _, release = run(method, points, **parameters)
    transcripts.check_transcript(release.transcript, plan)
    entry = release.transcript[0]
    noisy = np.frombuffer(base64.b64decode(entry["counts"]), dtype="<f8")
    dust = np.rint(rng.uniform(0, 0.001, len(noisy)) / STEP) * STEP
    small = np.rint(rng.laplace(0, 0.1, len(noisy)) / STEP) * STEP
    for weak in (np.maximum(np.rint(noisy), 0) + dust, np.rint(noisy) + small):
        changed_entry = {**entry, "counts": base64.b64encode(weak.astype("<f8").tobytes()).decode()}
        with pytest.raises(UserError, match="do not have the noise"):
            transcripts.check_transcript([changed_entry, *release.transcript[1:]], plan)
