"""The file of reports of a release: columns, values and metadata by the public plan, and what follows from the reports.

From the reports follow the shares of the attributes' values, the questions of later rounds, and some notes.

Noise that is not there. A report of an oracle supports each answer with a probability between q and p, whatever the
record is, and independently of other reports. So the number of reports that support an answer lies between those of
binomial laws with q and p, up to chance RARE. Noisy rows are tested as the numbers of a transcript are (`transcripts`),
relative to the middle of the public box. The length r of planar noise, in scales, exceeds c with probability
(1 + c) exp(-c), so r - ln(1 + r) is exponential. It is convex in the noise, so the same theorem applies.
"""

import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError
from scipy import special, stats

from privmix.artefacts.fitted_model import Proportion
from privmix.artefacts.io import (
    METADATA_KEY,
    NO_DIGITS,
    PARQUET_SEAL,
    describe_damage,
    numpy_column,
    to_arrow,
)
from privmix.artefacts.private import PrivateInfo, private_writer
from privmix.errors import UserError
from privmix.mechanisms.local import adaptive_tree_response
from privmix.mechanisms.local.adaptive_tree_response import AdaptiveTreeResponse
from privmix.mechanisms.local.base import CoordinateReports, LocalMechanism, Plan, decode_reports
from privmix.mechanisms.local.gaussian_input import GaussianInput
from privmix.mechanisms.local.input_noise import InputNoise, diameter
from privmix.mechanisms.local.laplace_input import diameter as city_block_diameter
from privmix.mechanisms.local.planar_laplace import PlanarLaplaceInput
from privmix.mechanisms.local.randomized_response import RandomizedResponse, component_numbers
from privmix.mechanisms.local.tree_response import SIGNIFICANT, TreeResponse, expand_tree, halvings
from privmix.mechanisms.shared import attributes
from privmix.mechanisms.shared.partitions import Partition
from privmix.mechanisms.shared.report_shuffle import BUCKET, MOST_BUCKETS
from privmix.privacy.accounting import gaussian_mu
from privmix.privacy.exact import STEP
from privmix.privacy.oracles import (
    GeneralizedResponse,
    HadamardResponse,
    LocalHashing,
    Oracle,
    SubsetSelection,
)
from privmix.privacy.oracles.survey import SurveyOracle, row_type, unpack_reports
from privmix.release.closed_files import check_footer, check_json, is_same_file, open_parquet, open_source
from privmix.release.derived_values import are_rounded, report_remarks
from privmix.release.folder import LOCAL_DECIMALS, MODEL, MOST_BYTES, REPORTS, ReleasedModel
from privmix.release.noise_evidence import RARE, Noisy, check_noise, has_low_parts
from privmix.release.public_plan import PublicPlan
from privmix.release.report_order import is_random_order
from privmix.release.transcripts import check_shape

ROWS_PER_BYTE = (
    16  # a Parquet file of honest reports is never denser: one bit for each report, and some slack
)
LARGEST_GROUP = 1 << 20  # rows of a row group, as pyarrow writes it
MOST_ANSWERS = 256  # of hashed reports, whose support is counted; more would take long
EACH = 20  # reports that each class of a χ² test expects
UNROUNDED = 2.0**24 * STEP  # below it, single precision holds every number of the lattice
TOLERANCE = 1e-9  # of a share: the same computation on another machine
MOST_SOLVED = (
    10**10
)  # attributes times K³: the shares of each attribute need the eigenvectors of a K x K matrix
MOST_SUMMED = 10**12  # reports times K (K + 10 times the attributes): sums over all reports

MOST_MEMORY = 700_000_000  # bytes of all reports and of the work on one column
MOST_PARTS = (
    1 << 20
)  # of a question: only parts with a share of at least 1/LEAST_PART are split, in 10 rounds
WORK = 80  # bytes for each report

Columns = dict[str, np.ndarray]

DERIVED_NOTES = (  # how the notes begin that follow from the reports
    "the reports support ",
    "Because of the noise, the reports support ",
    "No part of the public box ",
    "The noise in the ",
    "Only ",
)


def check_reports(folder: Path, model: ReleasedModel, plan: PublicPlan, *, any_number: bool = False) -> None:
    """Check the file of reports, and that Privmix writes the same bytes for its content."""
    mechanism, path = plan.mechanism, folder / REPORTS
    assert isinstance(mechanism, LocalMechanism)
    own = mechanism.plan(plan.spec, plan.budget)
    rows = _number_of_reports(path)
    if not any_number:
        _check_number(rows, model, own)
    check_work(rows, model, own)
    file = open_parquet(
        path, MOST_BYTES[REPORTS], _column_names(mechanism, plan), rows, {METADATA_KEY, *PARQUET_SEAL}
    )
    _check_seal(path, file)
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    _demand(_are_buckets(groups, model), "its row groups")
    info = _read_info(file, model, plan, rows)
    width = _check_types(file, mechanism, plan, own, info.asked[0])
    check_memory(max(rows, own.reports), width)
    columns = {name: _read_column(file, name, path) for name in file.schema_arrow.names}
    _check_values(columns, mechanism, plan, own, info.asked[0])
    check_answers(columns, mechanism, plan, own, info.asked[0])
    for name, values in columns.items():
        _demand(is_random_order(values), f"the random order of {name!r}")
    _check_proportions(columns, model, own)
    _check_shares(columns, info.asked[0], model, plan, own)
    _check_notes(columns, info.asked[0], model, plan, own)
    _demand(_is_rewritten(path, columns, groups, info), "its bytes")


def _read_column(file: pq.ParquetFile, name: str, path: Path) -> np.ndarray:
    """Return one column. Only one at a time is in memory twice."""
    try:
        table = file.read(columns=[name])
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet; get the release again.") from error
    _demand(not table[name].null_count, "missing values")
    return numpy_column(table, name)


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise UserError(
            f"{REPORTS} is not what the plan of the mechanism demands ({what}); do not publish it."
        )


def _number_of_reports(path: Path) -> int:
    check_footer(path)
    try:
        rows = int(pq.read_metadata(open_source(path)).num_rows)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UserError(f"{path} cannot be read as Parquet; get the release again.") from error
    _demand(0 < rows <= ROWS_PER_BYTE * path.lstat().st_size, "its number of reports")
    return rows


def _check_number(rows: int, model: ReleasedModel, own: Plan) -> None:
    """Check the number of reports, as far as it is public."""
    if model.domain.unit == "person":
        _demand(rows % own.per_person == 0, f"{own.per_person} reports of each person")
    elif model.domain.relation == "replace_one":
        _demand(rows == model.domain.rows, f"{model.domain.rows} reports")


def check_work(rows: int, model: ReleasedModel, own: Plan) -> None:
    """Refuse reports and components whose shares of attributes would take long to compute."""
    attributed = len(model.domain.attributes) if own.attribute_epsilon else 0
    number, components = max(rows, model.domain.rows), len(model.normalised.weights)
    solved = attributed * components**3
    summed = number * components * (components + 10 * attributed) if attributed else 0
    if solved > MOST_SOLVED or summed > MOST_SUMMED:
        raise UserError(
            f"{MODEL} has {components:,} components and {attributed:,} attributes, and there are {number:,} reports: "
            "their shares would take too long to compute. A release of reports has fewer components or attributes."
        )


def check_memory(rows: int, width: int) -> None:
    """Refuse more reports of this many bytes than fit into memory together with the work on one column."""
    most = MOST_MEMORY // (width + WORK)
    if rows > most:
        raise UserError(
            f"{REPORTS} would need too much memory: a release has at most {most:,} reports of this size, not {rows:,}. "
            "Release a sample of the records, fewer columns, or a mechanism with smaller reports."
        )


def _are_buckets(groups: list[int], model: ReleasedModel) -> bool:
    """Return whether the row groups are the buckets of a shuffle (`report_shuffle`): as many, and of random sizes."""
    number = min(max(1, math.ceil(model.domain.rows / BUCKET)), MOST_BUCKETS)
    rows = sum(groups)
    if rows / number > LARGEST_GROUP / 2:  # large buckets are written as several groups
        return len(groups) <= 2 * number + rows // LARGEST_GROUP and max(groups) <= LARGEST_GROUP
    least, most = stats.binom.ppf(RARE, rows, 1 / number), stats.binom.isf(RARE, rows, 1 / number)
    return len(groups) == number and least <= min(groups) and max(groups) <= most


def _column_names(mechanism: LocalMechanism, plan: PublicPlan) -> list[str]:
    domain = plan.spec.domain
    names = ["part"]
    if isinstance(mechanism, InputNoise):
        names = [f"y{axis}" for axis in range(len(domain.axes))]
    elif isinstance(mechanism, RandomizedResponse):
        names = ["cell"]
    asked = mechanism.plan(plan.spec, plan.budget).attribute_epsilon > 0
    return [*names, *(attributes.PREFIX + each.name for each in domain.attributes if asked)]


def _check_seal(path: Path, file: pq.ParquetFile) -> None:
    """Check that the seal is the hash of the file and nothing else."""
    [(name, form)] = PARQUET_SEAL.items()
    digits = re.escape(form).replace(NO_DIGITS, rb"[0-9a-f]{64}")
    _demand(re.fullmatch(digits, file.metadata.metadata[name]) is not None, "its seal")
    with path.open("rb") as stream:
        _demand(describe_damage(stream) is None, "its seal")


def _read_info(file: pq.ParquetFile, model: ReleasedModel, plan: PublicPlan, rows: int) -> PrivateInfo:
    """Return the metadata. All but the questions of later rounds follow from the model."""
    content = file.metadata.metadata[METADATA_KEY]
    check_json(content, f"the metadata of {REPORTS}")
    text = content.decode("utf-8")
    try:
        info = PrivateInfo.model_validate_json(text)
    except ValidationError as error:
        raise UserError(f"the metadata of {REPORTS} are not those of reports; do not publish it.") from error
    expected = PrivateInfo(
        notice=model.notice,
        domain=model.domain,
        mechanism=model.mechanism,
        method=model.method,
        parameters=model.parameters,
        privacy=model.privacy,
        reports=[rows],
        asked=info.asked,
        seconds=[],
        notes=report_remarks(plan),
    )
    if info != expected or len(info.asked) != 1 or expected.model_dump_json() != text:
        raise UserError(f"{REPORTS} and model.json do not state the same guarantee; do not publish them.")
    _demand(
        isinstance(plan.mechanism, AdaptiveTreeResponse) or info.asked == [{}],
        "questions that it did not ask",
    )
    return info


def _oracles(
    mechanism: LocalMechanism, plan: PublicPlan, own: Plan, asked: Mapping[str, Any]
) -> list[SurveyOracle]:
    """Return the oracle of each level or round."""
    if isinstance(mechanism, TreeResponse):
        return mechanism.questions(plan.spec, own)[2]
    deepest = halvings(plan.spec, plan.job.method).depth
    _, rounds = adaptive_tree_response.schedule(deepest, own)
    texts = asked.get("partitions")
    _demand(set(asked) == {"partitions"} and isinstance(texts, list) and len(texts) == rounds, "its rounds")
    assert isinstance(texts, list)
    shapes = [check_shape(text, 0, deepest, MOST_PARTS) for text in texts]
    return [adaptive_tree_response.oracle_of(Partition(shape, deepest), own) for shape in shapes]


def _report_type(
    mechanism: LocalMechanism, plan: PublicPlan, own: Plan, asked: Mapping[str, Any]
) -> np.dtype:
    if isinstance(mechanism, InputNoise):
        return np.dtype(np.float32)
    if isinstance(mechanism, RandomizedResponse):
        return mechanism.channel(plan.spec, own)[1].report
    return row_type(_oracles(mechanism, plan, own, asked))


def _check_types(
    file: pq.ParquetFile, mechanism: LocalMechanism, plan: PublicPlan, own: Plan, asked: Mapping[str, Any]
) -> int:
    """Check the types of all columns. Return the bytes of a row in memory: of all columns, and two copies of one."""
    widths, report = [], _report_type(mechanism, plan, own, asked)
    sizes = {attributes.PREFIX + each.name: len(each.values) for each in plan.spec.domain.attributes}
    for field in file.schema_arrow:
        kind = report
        if field.name in sizes:
            kind = GeneralizedResponse(sizes[field.name], own.attribute_epsilon).report
        expected = to_arrow(np.zeros(1, dtype=kind)).type
        _demand(field.type == expected, f"the type of {field.name!r}")
        _demand(_is_dense(file, field.name, kind.itemsize), f"the encoding of {field.name!r}")
        widths.append(kind.itemsize)
    return sum(widths) + 2 * max(widths)


def _is_dense(file: pq.ParquetFile, name: str, width: int) -> bool:
    """Return whether a column of more than one byte has all its bytes in the file, without a dictionary of values.

    Otherwise the rows of a small file could fill the memory.
    """
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    place = file.schema_arrow.names.index(name)
    chunks = [(group.num_rows, group.column(place)) for group in groups]
    return width == 1 or all(
        not chunk.has_dictionary_page
        and chunk.num_values == rows
        and chunk.total_uncompressed_size >= width * rows
        for rows, chunk in chunks
    )


def _check_values(
    columns: Columns, mechanism: LocalMechanism, plan: PublicPlan, own: Plan, asked: Mapping[str, Any]
) -> None:
    for attribute in plan.spec.domain.attributes:
        name = attributes.PREFIX + attribute.name
        _demand(
            name not in columns or int(columns[name].max()) < len(attribute.values), f"an answer of {name!r}"
        )
    if isinstance(mechanism, InputNoise):
        for axis in range(len(plan.spec.domain.axes)):
            steps = columns[f"y{axis}"].astype(np.float64) / STEP
            whole = bool(np.isfinite(steps).all()) and bool((steps == np.rint(steps)).all())
            _demand(whole and not np.signbit(steps[steps == 0]).any(), "the lattice of 2^-20")
    elif isinstance(mechanism, RandomizedResponse):
        oracle = mechanism.channel(plan.spec, own)[1]
        _demand(_are_valid(decode_reports(columns["cell"], oracle.report), oracle), "a report")
    else:
        oracles = _oracles(mechanism, plan, own, asked)
        rows = decode_reports(columns["part"], row_type(oracles))
        _demand(int(rows["turn"].max()) < len(oracles), "a turn")
        for turn, oracle in enumerate(oracles):
            reports = unpack_reports(rows, turn, oracle)
            _demand(_are_valid(reports, oracle), "a report")
            if isinstance(oracle, GeneralizedResponse) and "a" in (rows.dtype.names or ()):
                unused = rows[rows["turn"] == turn]
                _demand(not unused["a"].any() and not unused["b"].any(), "a hash that was not asked for")
        if isinstance(mechanism, AdaptiveTreeResponse):
            _check_questions(rows, plan, own, asked)


def check_answers(
    columns: Columns, mechanism: LocalMechanism, plan: PublicPlan, own: Plan, asked: Mapping[str, Any]
) -> None:
    """Refuse answers that do not have the noise of the mechanism."""
    for attribute in plan.spec.domain.attributes:
        name = attributes.PREFIX + attribute.name
        if name in columns:
            channel = GeneralizedResponse(len(attribute.values), own.attribute_epsilon)
            _demand(_is_noisy(columns[name], channel), f"the noise of {name!r}")
    if isinstance(mechanism, InputNoise):
        for noisy in _noisy_rows(columns, mechanism, plan, own):
            check_noise([noisy], REPORTS)
        for axis in range(len(plan.spec.domain.axes)):
            values = columns[f"y{axis}"]
            digits = replace(
                noisy, values=values[np.abs(values) < UNROUNDED].astype(np.float64), rounded=False
            )
            _demand(has_low_parts([digits]), "the digits of the noise")
    elif isinstance(mechanism, RandomizedResponse):
        oracle = mechanism.channel(plan.spec, own)[1]
        _demand(_is_noisy(decode_reports(columns["cell"], oracle.report), oracle), "the noise of 'cell'")
    else:
        oracles = _oracles(mechanism, plan, own, asked)
        rows = decode_reports(columns["part"], row_type(oracles))
        dealt = np.bincount(rows["turn"], minlength=len(oracles))
        _demand(_is_between(dealt, len(rows), 1 / len(oracles), 1 / len(oracles)), "the turns")
        for turn, oracle in enumerate(oracles):
            _demand(_is_noisy(unpack_reports(rows, turn, oracle), oracle), "the noise of 'part'")


def _noisy_rows(columns: Columns, mechanism: InputNoise, plan: PublicPlan, own: Plan) -> Iterator[Noisy]:
    """Yield the rows relative to the middle of the public box, with the scale of their noise, one axis at a time.

    Planar noise is yielded as the lengths of both axes together.
    """
    domain, epsilon = plan.spec.domain, own.budget.epsilon
    middle = (domain.lower + domain.upper) / 2
    apart = (columns[f"y{axis}"].astype(np.float64) - middle[axis] for axis in range(len(domain.axes)))
    if isinstance(mechanism, PlanarLaplaceInput):
        scale = mechanism.within(domain) / epsilon
        lengths = np.hypot(*apart) / scale
        lengths -= np.log1p(lengths)
        reach = float(np.linalg.norm(domain.upper - domain.lower)) / 2
        scales = np.broadcast_to(scale, len(lengths))  # of each number: differences have no law
        yield Noisy("noisy rows", scale * lengths, scales, "laplace", True, -reach, reach)
        return
    half = float((domain.upper - domain.lower).max()) / 2
    for values in apart:
        if isinstance(mechanism, GaussianInput):
            scale = diameter(domain) / gaussian_mu(epsilon, own.budget.delta)
            yield Noisy("noisy rows", values, scale, "gaussian", True, -half, half)
        else:
            scale = city_block_diameter(plan.spec) / epsilon
            yield Noisy("noisy rows", values, scale, "laplace", True, -half, half)


def _is_noisy(reports: np.ndarray, oracle: Oracle) -> bool:
    """Return whether each answer has a number of supporting reports that the channel can give."""
    if isinstance(oracle, LocalHashing):
        if not _are_random(reports, oracle.prime):
            return False
        most = min(MOST_ANSWERS, oracle.categories)
        answers = np.linspace(0, oracle.categories - 1, most).astype(np.int64)
        support = oracle.support_of_runs(reports, answers, 1).ravel()
    else:
        support = oracle.support(reports)
    return _is_between(support, len(reports), oracle.other, oracle.truth)


def _are_random(reports: np.ndarray, prime: int) -> bool:
    """Return whether the numbers of the hash functions are uniform (χ² test), and pairs do not repeat too often."""
    size = len(reports)
    parts = max(
        1, min(16, math.isqrt(size // EACH))
    )  # per number, so that each pair of parts expects EACH reports
    first, second = (reports[name].astype(np.int64) for name in ("a", "b"))
    edges = -(-np.arange(parts + 1) * prime // parts)
    places = [np.searchsorted(edges, values, side="right") - 1 for values in (first, second)]
    expected = np.outer(np.diff(edges), np.diff(edges)).ravel() * (size / prime**2)
    found = np.bincount(places[0] * parts + places[1], minlength=parts**2)
    if parts > 1 and stats.chi2.sf(((found - expected) ** 2 / expected).sum(), parts**2 - 1) < RARE:
        return False
    if not all(_has_random_bytes(reports[name], prime) for name in ("a", "b")):
        return False
    most = int(np.unique(first * prime + second, return_counts=True)[1].max()) if size else 0
    ways = special.gammaln(size + 1) - special.gammaln(most + 1) - special.gammaln(size - most + 1)
    return bool(most < 2 or ways - (most - 1) * math.log(prime * (prime - 1)) >= math.log(RARE))


def _has_random_bytes(values: np.ndarray, prime: int) -> bool:
    """Return whether each bit and each byte is that of uniform numbers below the prime."""
    for place in range(8 * values.dtype.itemsize):
        ones = np.count_nonzero(values >> values.dtype.type(place) & values.dtype.type(1))
        half = 1 << place
        full, rest = divmod(prime, 2 * half)
        chance = (full * half + max(rest - half, 0)) / prime
        if not _is_between(np.array([ones]), len(values), chance, chance):
            return False
    if len(values) < EACH * 256:
        return True
    for number, found in enumerate(values[:, None].view(np.uint8).T):  # the lowest byte first, as in the file
        unit = 256**number
        full, rest = divmod(prime, 256 * unit)
        chances = (full * unit + np.clip(rest - unit * np.arange(256), 0, unit)) / prime
        possible = chances * len(values) >= EACH / 2
        counts, expected = np.bincount(found, minlength=256)[possible], chances[possible] * len(values)
        if stats.chi2.sf((np.square(counts - expected) / expected).sum(), len(counts) - 1) < RARE:
            return False
    return True


def _is_between(counts: np.ndarray, number: int, least: float, most: float) -> bool:
    """Return whether all counts lie between binomial laws of these probabilities, up to chance RARE."""
    low, high = stats.binom.ppf(RARE, number, least), stats.binom.isf(RARE, number, most)
    return bool(((counts >= low) & (counts <= high)).all())


def _are_valid(reports: np.ndarray, oracle: Oracle) -> bool:
    """Return whether the oracle can have made all these reports."""
    if isinstance(oracle, LocalHashing):
        hashed = all((reports[name] < oracle.prime).all() for name in ("a", "b"))
        return hashed and bool((reports["answer"] < oracle.buckets).all())
    if isinstance(oracle, GeneralizedResponse):
        return bool((reports < oracle.categories).all())
    if isinstance(oracle, HadamardResponse):
        return bool((reports < 2 * (oracle.columns - 1)).all())
    if isinstance(oracle, SubsetSelection) and oracle.is_list:
        ordered = (reports[:, 1:] > reports[:, :-1]).all()
        return bool(ordered) and bool((reports < oracle.categories).all())
    used = oracle.categories % 8  # bits of the last byte, the lowest first
    clean = not used or not (reports[:, -1] >> np.uint8(used)).any()
    if isinstance(oracle, SubsetSelection):
        clean = clean and bool((np.bitwise_count(reports).sum(axis=1) == oracle.size).all())
    return clean


def _check_questions(rows: np.ndarray, plan: PublicPlan, own: Plan, asked: Mapping[str, Any]) -> None:
    """Compute the partition of each round from the reports of earlier rounds, and compare it."""
    deepest = halvings(plan.spec, plan.job.method).depth
    first, rounds = adaptive_tree_response.schedule(deepest, own)
    partitions = [Partition.even(first, deepest)]
    said: list[Any] = []
    threshold = adaptive_tree_response.split_threshold(rounds, own)
    for turn in range(rounds):
        if turn:
            partitions.append(adaptive_tree_response.next_question(partitions, said, threshold))
        _demand(partitions[turn].shape.packed() == asked["partitions"][turn], "the question of a round")
        reports = unpack_reports(rows, turn, adaptive_tree_response.oracle_of(partitions[turn], own))
        said.append(adaptive_tree_response.estimate_shares(partitions[turn], [reports], own))


def _values(share: Proportion) -> list[float]:
    return [share.estimate, share.standard_error, *share.exact, *share.normal, *share.chebyshev]


def _check_proportions(columns: Columns, model: ReleasedModel, own: Plan) -> None:
    derived = attributes.proportions(columns, model.domain, own.attribute_epsilon, own.per_person)
    stated = model.proportions
    same = [(one.attribute, one.value) for one in derived] == [(one.attribute, one.value) for one in stated]
    for one, other in zip(derived, stated, strict=False):
        same = same and np.allclose(_values(one), _values(other), rtol=TOLERANCE, atol=TOLERANCE)
    if not same:
        raise UserError(f"the shares in model.json do not follow from {REPORTS}; do not publish them.")


def _check_shares(
    columns: Columns, asked: Mapping[str, Any], model: ReleasedModel, plan: PublicPlan, own: Plan
) -> None:
    """Compute the shares of attributes in each component from the reports and the mixture, and compare them."""
    mechanism, mixture = plan.mechanism, model.normalised.mixture
    assert isinstance(mechanism, LocalMechanism)
    if (
        not model.domain.axes
    ):  # a random search made them; `derived_values.check_shares` checks their attributes
        return
    places = {name: values for name, values in columns.items() if not name.startswith(attributes.PREFIX)}
    derived = attributes.joint_shares(
        columns,
        model.domain,
        own.attribute_epsilon,
        own.per_person,
        mixture.weights,
        mechanism.responsibilities(CoordinateReports(places, asked), mixture, plan.spec, own),
    )
    if not are_rounded(model.shares, derived, LOCAL_DECIMALS):
        raise UserError(f"the shares in model.json do not follow from {REPORTS}; do not publish them.")


def _check_notes(
    columns: Columns, asked: Mapping[str, Any], model: ReleasedModel, plan: PublicPlan, own: Plan
) -> None:
    """Compare the notes that follow from the reports with those of the model."""
    demanded, allowed = _derived_notes(columns, asked, model, plan, own)
    stated = {note for note in model.notes if note.startswith(DERIVED_NOTES)}
    if not demanded <= stated <= demanded | allowed:
        raise UserError(f"the notes in {MODEL} do not follow from {REPORTS}; do not publish them.")


def _derived_notes(
    columns: Columns, asked: Mapping[str, Any], model: ReleasedModel, plan: PublicPlan, own: Plan
) -> tuple[set[str], set[str]]:
    """Return the notes that the reports demand, and those that depend on a random search too."""
    mechanism, spec = plan.mechanism, plan.spec
    used, most, fixed = len(model.normalised.weights), spec.n_components, not spec.candidates
    rows = len(next(iter(columns.values())))
    fewer = f"Because of the noise, the reports support {used} of the {most} requested components."
    demanded, allowed = set(), set()
    if isinstance(mechanism, RandomizedResponse):
        places = {"cell": columns["cell"]}
        synopsis = mechanism.synopsis(CoordinateReports(places, asked), spec, own)
        supported, cells = int((synopsis.weights() > 0).sum()), len(synopsis.counts)
        if synopsis.mostly_noise:
            demanded.add(
                f"The noise in the {cells} counts is as large as the counts: the mixture is mostly noise."
            )
        if fixed and used < most:
            demanded.add(fewer)
        if fixed and used == supported:
            allowed = {
                f"Only {supported} of the {cells} {spec.parts} have a positive noisy count, "
                f"so the mixture has {supported} of the {number} requested components."
                for number in component_numbers(most)
                if number > supported
            }
    elif isinstance(mechanism, InputNoise):
        through = "the reports support {} of {} components through this noise."
        if mechanism.fit_mode != "naive" and fixed and used < min(most, rows):
            demanded.add(through.format(used, min(most, rows)))
        elif mechanism.fit_mode != "naive" and not fixed:
            allowed = {through.format(used, min(each, rows)) for each in spec.candidates}
            allowed.discard(through.format(used, used))
    else:
        if fixed and used < most:
            demanded.add(f"{fewer} More components would only fit the noise.")
        if isinstance(mechanism, TreeResponse) and not _stands_out(columns, mechanism, plan, own):
            demanded.add("No part of the public box stands out from the noise: the mixture is mostly noise.")
    return demanded, allowed


def _stands_out(columns: Columns, mechanism: TreeResponse, plan: PublicPlan, own: Plan) -> bool:
    """Return whether a part of the first level of a tree has more reports than the noise explains."""
    _, depths, oracles = mechanism.questions(plan.spec, own)
    rows = decode_reports(columns["part"], row_type(oracles))
    reports = [unpack_reports(rows, level, oracle) for level, oracle in enumerate(oracles)]
    noise = oracles[0].cell_deviation(len(reports[0])) if len(reports[0]) else 1.0
    _, levels, tree = expand_tree(depths, oracles, reports, own)
    return bool((tree.estimates[levels == 0] > SIGNIFICANT * noise).any())


def _is_rewritten(path: Path, columns: Columns, groups: list[int], info: PrivateInfo) -> bool:
    """Return whether the file has the bytes that Privmix writes for these columns and metadata."""
    with tempfile.TemporaryDirectory() as folder:
        copy, first = Path(folder) / REPORTS, 0
        with private_writer(copy, compression="none") as writer:
            for size in groups:
                writer.write({name: values[first : first + size] for name, values in columns.items()})
                first += size
            writer.info = info
        return is_same_file(path, copy)
