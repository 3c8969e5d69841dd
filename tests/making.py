"""Test data and test doubles: public domains, records, recorded noise, and checks of replays."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from privmix.artefacts.clean import CleanData, CleanInfo, RowCounts, clean_schema
from privmix.artefacts.domain import Attribute, Axis, Domain
from privmix.artefacts.io import to_arrow, write_table
from privmix.mechanisms import registry
from privmix.mechanisms.base import Spec
from privmix.mechanisms.local.adaptive_tree_response import (
    estimate_shares,
    next_question,
    oracle_of,
    schedule,
    split_threshold,
)
from privmix.mechanisms.local.tree_response import halvings
from privmix.mechanisms.shared.partitions import Partition
from privmix.mixture.model import Mixture
from privmix.privacy.oracles import LocalHashing
from privmix.privacy.oracles.survey import unpack_reports

PRIVATE = [name for name in registry.METHODS if registry.method_class(name).private]
LOCAL = [name for name in registry.METHODS if registry.method_class(name).trust != "central"]


def make_mechanism(method, **parameters):
    """Make a mechanism with its defaults and its required parameters."""
    needed = {"within_m": 50_000} if method == "planar_laplace" else {}
    return registry.build(method, {**needed, **parameters})


def quick_mechanism(method):
    """Make a mechanism with a single search for the mixture, if it has that parameter."""
    searched = "searches" in registry.method_class(method).__dataclass_fields__
    return make_mechanism(method, **({"searches": 1} if searched else {}))


def make_domain(dimensions=2, rows=1000, relation="replace_one", unit="record", attributes=(), max_records=1):
    """Make a box around the origin with half-diagonal 1 and resolution 0.001; in two dimensions, in degrees."""
    half = 1 / np.sqrt(dimensions)
    places = ("latitude", "longitude") if dimensions == 2 else (None,) * dimensions
    axes = tuple(
        Axis(
            name=f"v{axis}", description="", unit="", geographic=places[axis], lower=-half, upper=half,
            resolution=1e-3, centre=0.0, scale=1.0,
        )
        for axis in range(dimensions)
    )  # fmt: skip
    return Domain(
        dataset="made", title="Made for a test", axes=axes,
        attributes=tuple(Attribute(name=n, description="", values=v) for n, v in attributes),
        unit=unit, relation=relation, max_records_per_person=max_records,
        visibility="synthetic", rows=rows,
    )  # fmt: skip


def write_clean(path, domain, points, *, codes=None, persons=None, train=None):
    """Write a clean Parquet of these records. By default all of them are training records."""
    rows, codes = len(points), codes or {}
    train = np.ones(rows, dtype=bool) if train is None else train
    persons = np.arange(rows) if persons is None else persons
    kept = int(train.sum())
    counts = RowCounts(
        read=rows,
        kept=rows,
        dropped={},
        clipped={},
        persons=len(np.unique(persons)),
        train=kept,
        holdout=rows - kept,
    )
    info = CleanInfo(domain=domain, entry_digest="", raw_sha256="", counts=counts, isolated=())
    columns = [
        to_arrow(persons.astype(np.uint64)),
        *(to_arrow(column) for column in points.T),
        *(to_arrow(codes[attribute.name].astype(np.int16)) for attribute in domain.attributes),
        pa.DictionaryArray.from_arrays(to_arrow((~train).astype(np.int8)), ["train", "holdout"]),
    ]
    schema = clean_schema(points.shape[1], tuple(attribute.name for attribute in domain.attributes))
    write_table(path, pa.Table.from_arrays(columns, schema=schema), info)


def clean_data(points, *, codes=None, persons=None, train=None, isolated=(), **domain):
    """Make clean records in memory. By default every other record is for training; `isolated` lists rows."""
    persons = (np.arange(len(points)) if persons is None else persons).astype(np.uint64)
    train = np.arange(len(points)) % 2 == 0 if train is None else train
    rows = int(train.sum())
    counts = RowCounts(
        read=len(points), kept=len(points), dropped={}, clipped={}, persons=len(np.unique(persons)), train=rows,
        holdout=len(points) - rows,
    )  # fmt: skip
    info = CleanInfo(
        domain=make_domain(dimensions=points.shape[1], rows=rows, **domain), entry_digest="", raw_sha256="",
        counts=counts, isolated=tuple(int(persons[row]) for row in isolated),
    )  # fmt: skip
    return CleanData(info, points, codes or {}, persons, train)


def make_spec(n_components=3, **domain):
    """Make a spec on a domain of `make_domain`."""
    return Spec(make_domain(**domain), n_components)


def partitions_asked(rows, spec, plan):
    """Compute the partition that an adaptive tree response asked in each round, from reports and public values only."""
    deepest = halvings(spec, "").depth
    first, rounds = schedule(deepest, plan)
    asked, said = [Partition.even(first, deepest)], []
    for turn in range(rounds):
        if turn:
            asked.append(next_question(asked, said, split_threshold(rounds, plan)))
        said.append(
            estimate_shares(asked[turn], [unpack_reports(rows, turn, oracle_of(asked[turn], plan))], plan)
        )
    return asked


def assert_truthful(rows, oracles, codes):
    """Check that each turn of a survey is truthful as often as its oracle says; `codes` are the true answers to it.

    The hash fields of a turn without hashing must be empty.
    """
    for turn, (oracle, everybody) in enumerate(zip(oracles, codes, strict=True)):
        own, true = rows[rows["turn"] == turn], everybody[rows["turn"] == turn]
        if isinstance(oracle, LocalHashing):
            true = oracle.hash_codes(own["a"], own["b"], true)
        elif "a" in rows.dtype.names:
            assert not own["a"].any()
            assert not own["b"].any()
        spread = np.sqrt(oracle.truth * (1 - oracle.truth) / len(own))
        assert abs(np.mean(own["answer"] == true) - oracle.truth) <= 5 * spread, turn


@dataclass
class RecordingNoise:
    """Zero noise that records each requested scale. It can state the rounding of another source.

    Draws that are not noise (samples, partitions) are real and come from its own generator.
    """

    asked: list[tuple[str, float, tuple[int, ...]]] = field(default_factory=list)
    rounding: Callable[[int, int], float] = lambda size, norm: 0.0
    generator: np.random.Generator = field(default_factory=lambda: np.random.Generator(np.random.PCG64(8)))

    def add_laplace(self, values, scale):
        self.asked.append(("laplace", scale, np.shape(values)))
        return np.array(values)

    def add_gaussian(self, values, sigma):
        self.asked.append(("gaussian", sigma, np.shape(values)))
        return np.array(values)

    def add_planar_laplace(self, values, scale):
        self.asked.append(("planar_laplace", scale, np.shape(values)))
        return np.array(values)

    def planar_scale(self, scale):
        return scale

    def uniform(self, shape):
        return self.generator.random(shape)

    def integers(self, high, shape):
        return self.generator.integers(high, size=shape)


def clusters(rows=1000, dimensions=2, seed=0):
    """Draw records from three clusters inside the box of `make_domain`."""
    generator = np.random.Generator(np.random.PCG64(seed))
    half = 1 / np.sqrt(dimensions)
    centres = generator.uniform(-0.7 * half, 0.7 * half, (3, dimensions))
    points = centres[generator.integers(3, size=rows)] + generator.normal(0, 0.05, (rows, dimensions))
    return np.clip(points, -half, half)


class Tape:
    """Real noise with a recording: `drawn` holds each scale and its noise. All other draws go to the source."""

    def __init__(self, source):
        self.source, self.drawn = source, []

    def __getattr__(self, name):
        return getattr(self.source, name)

    def add_laplace(self, values, scale):
        return self._keep(values, scale, self.source.add_laplace(np.zeros(np.shape(values)), scale))

    def add_gaussian(self, values, sigma):
        return self._keep(values, sigma, self.source.add_gaussian(np.zeros(np.shape(values)), sigma))

    def _keep(self, values, scale, noise):
        self.drawn.append((scale, noise))
        return values + noise


def spied(monkeypatch, module, name, seen):
    """Wrap `module.name` so that each call appends (arguments, answer) to `seen`."""
    original = getattr(module, name)

    def watched(*args, **kwargs):
        answer = original(*args, **kwargs)
        seen.append((args, answer))
        return answer

    monkeypatch.setattr(module, name, watched)


def restored(described):
    """Return the mixture that a transcript describes."""
    return Mixture(*(np.array(described[part]) for part in ("weights", "means", "covariances")))


def assert_same(found, wanted):
    """Check that two mixtures are equal up to rounding errors."""
    for part in ("weights", "means", "covariances"):
        assert getattr(found, part) == pytest.approx(getattr(wanted, part), rel=1e-9, abs=1e-12), part


def assert_fresh_noise(residuals, alarm=1e-6):
    """Check that scaled residuals have the size of standard normal numbers (chi-square test), and that none repeats.

    The check also requires enough residuals to detect halved noise. Rounding removes the error of the subtraction.
    """
    residuals = np.concatenate([np.ravel(each) for each in residuals])
    assert len(np.unique(residuals.round(7))) == len(residuals)
    square = np.square(residuals).sum()
    assert alarm < stats.chi2.sf(square, len(residuals)) < 1 - alarm
    assert stats.chi2.cdf(square / 4, len(residuals)) < alarm
