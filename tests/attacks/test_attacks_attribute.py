"""Attribute inference: conditional probabilities compared with brute force, memorised members, and missing data."""

import numpy as np
import pytest
from making import clean_data, clusters, make_domain

from privmix.attacks import attribute
from privmix.mixture.model import Mixture
from privmix.pipeline.scores import score_model


def _generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def _mixture(dimensions=3):
    generator = _generator(4)
    roots = generator.normal(0, 0.1, (4, dimensions, dimensions))
    covariances = roots @ roots.transpose(0, 2, 1) + np.eye(dimensions) * 1e-3
    return Mixture(np.full(4, 0.25), generator.uniform(-0.4, 0.4, (4, dimensions)), covariances)


def test_the_guess_is_the_most_probable_cell():
    """Compare with the probability of each cell as the sum of the density at 200 places in it."""
    mixture, domain = _mixture(), make_domain(dimensions=3)
    points = np.clip(mixture.sample(12, _generator()), domain.lower, domain.upper)
    found = attribute.correct_guesses(mixture, points, domain)
    truth = attribute.cell_numbers(points, domain)
    for axis in range(3):
        edges = np.linspace(domain.lower[axis], domain.upper[axis], attribute.MOST_CELLS + 1)
        places = (edges[:-1, None] + np.diff(edges)[0] * (np.arange(200) + 0.5) / 200).ravel()
        for number, point in enumerate(points):
            tried = np.repeat(point[None], len(places), axis=0)
            tried[:, axis] = places
            mass = np.exp(mixture.log_density(tried)).reshape(attribute.MOST_CELLS, 200).sum(axis=1)
            assert found[number, axis] == (mass.argmax() == truth[number, axis])


def test_cells_are_twice_the_resolution_up_to_the_largest_number():
    domain = make_domain(dimensions=2)
    assert attribute.cell_numbers(np.array([domain.lower, domain.upper]), domain).tolist() == [
        [0, 0],
        [99, 99],
    ]
    coarse = domain.model_copy(
        update={"axes": tuple(axis.model_copy(update={"resolution": 0.1}) for axis in domain.axes)}
    )
    assert attribute.cell_numbers(domain.upper[None], coarse).tolist() == [[6, 6]]


def test_a_model_that_memorises_its_members_reveals_their_attributes():
    """Every member has a narrow component; the others lie anywhere."""
    points = _generator().uniform(-0.7, 0.7, (120, 2))
    clean = clean_data(points)
    members = points[clean.train]
    memory = Mixture(
        np.full(len(members), 1 / len(members)), members, np.stack([np.eye(2) * 1e-5] * len(members))
    )
    found = attribute.infer_attributes(memory, clean, _generator(1))
    assert found.members > 0.95
    assert found.low > 0.5
    assert found.others < 0.3
    assert found.baseline < 0.3


def test_a_model_of_the_population_reveals_no_more_about_members_than_about_others():
    """The model has not seen the records. A 95 % interval with a fixed seed; the test above is the power twin."""
    mixture = _mixture()
    half = 1 / np.sqrt(3)
    clean = clean_data(np.clip(mixture.sample(800, _generator(2)), -half, half))
    found = attribute.infer_attributes(mixture, clean, _generator(3))
    assert found.low <= 0 <= found.high
    assert found.high - found.low < 0.1
    assert min(found.members, found.others) > found.baseline


def test_the_records_of_one_person_count_as_one_for_the_interval():
    mixture = _mixture()
    half = 1 / np.sqrt(3)
    points = np.repeat(np.clip(mixture.sample(100, _generator(2)), -half, half), 8, axis=0)
    owner = np.repeat(np.arange(100), 8)
    train = owner % 2 == 0
    own, apart = (
        attribute.infer_attributes(mixture, clean_data(points, persons=who, train=train), _generator(3))
        for who in (owner, np.arange(800))
    )
    assert own.members == apart.members
    assert own.high - own.low > 2 * (apart.high - apart.low)


def test_the_fast_normal_cdf_is_accurate():
    from scipy.special import ndtr

    z = np.linspace(-60, 60, 10_001)
    assert attribute._normal_cdf(z) == pytest.approx(ndtr(z), abs=1e-7)


@pytest.mark.parametrize(
    ("points", "words"),
    [(clusters(100, dimensions=1), "at least two coordinates"), (clusters(30), "at least 20 members")],
)
def test_a_note_says_why_nothing_can_be_inferred(points, words, made_model):
    clean = clean_data(points)
    found = score_model(made_model(clean), clean, (0.5,), _generator())
    assert any(words in note for note in found.notes)
    assert not [value for value in found.values if value.metric.startswith("attribute_")]
