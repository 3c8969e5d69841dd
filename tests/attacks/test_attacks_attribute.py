"""Attribute inference: conditional probabilities compared with brute force, memorised members, and missing data."""

import numpy as np
import pytest
from making import clean_data, clusters, make_domain

from privmix.artefacts.domain import Attribute
from privmix.attacks import attribute
from privmix.attacks.joint_density import attacked_model
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.pipeline.scores import score_model


def _generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def _mixture(dimensions=3):
    generator = _generator(4)
    roots = generator.normal(0, 0.1, (4, dimensions, dimensions))
    covariances = roots @ roots.transpose(0, 2, 1) + np.eye(dimensions) * 1e-3
    return Mixture(np.full(4, 0.25), generator.uniform(-0.4, 0.4, (4, dimensions)), covariances)


ATTRIBUTES = (("kind", ("a", "b", "c")), ("side", ("left", "right")))


def _model(dimensions=2, names=("kind", "side")):
    """Make a model of both attributes, or of one of them."""
    generator, sizes = _generator(9), {name: len(values) for name, values in ATTRIBUTES}
    shares = {name: generator.dirichlet(np.full(sizes[name], 0.4), 4) for name in names}
    return MixedMixture(_mixture(dimensions), shares)


def _drawn(model, rows, seed=2):
    """Draw clean records from a model. Every other one is a member."""
    half = 1 / np.sqrt(model.gaussians.dimensions)
    points, codes = model.sample(rows, _generator(seed))
    used = tuple(each for each in ATTRIBUTES if each[0] in model.shares)
    return clean_data(np.clip(points, -half, half), codes=codes, attributes=used)


def test_the_guess_is_the_most_probable_cell():
    """Compare with the probability of each cell as the sum of the density at 200 places in it."""
    mixture, domain = _mixture(), make_domain(dimensions=3)
    points = np.clip(mixture.sample(12, _generator()), domain.lower, domain.upper)
    found = attribute.correct_guesses(MixedMixture(mixture), points, {}, domain)
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
    found = attribute.infer_attributes(MixedMixture(memory), clean, _generator(1)).coordinates
    assert found.members > 0.95
    assert found.low > 0.5
    assert found.others < 0.3
    assert found.baseline < 0.3


def test_a_model_of_the_population_reveals_no_more_about_members_than_about_others():
    """The model has not seen the records. A 95 % interval with a fixed seed; the test above is the power twin."""
    mixture = _mixture()
    half = 1 / np.sqrt(3)
    clean = clean_data(np.clip(mixture.sample(800, _generator(2)), -half, half))
    found = attribute.infer_attributes(MixedMixture(mixture), clean, _generator(3)).coordinates
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
        attribute.infer_attributes(
            MixedMixture(mixture), clean_data(points, persons=who, train=train), _generator(3)
        ).coordinates
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


@pytest.mark.parametrize("names", [("kind", "side"), ("kind",)])
def test_the_guess_of_a_category_has_the_highest_joint_density(names):
    """Compare with the density of each record with each value of the attribute in turn."""
    model = _model(names=names)
    points, codes = model.sample(60, _generator(5))
    found = attribute.correct_categories(model, points, codes, list(names))
    for column, name in enumerate(names):
        tried = [
            model.log_density(points, {**codes, name: np.full(60, value)})
            for value in range(model.shares[name].shape[1])
        ]
        assert (found[:, column] == (np.argmax(tried, axis=0) == codes[name])).all()


def test_a_single_coordinate_is_guessed_from_the_attributes():
    """Compare with the probability of each cell as the sum of the joint density at 200 places in it."""
    model, domain = _model(dimensions=1), make_domain(dimensions=1)
    points, codes = model.sample(30, _generator(6))
    points = np.clip(points, domain.lower, domain.upper)
    found = attribute.correct_guesses(model, points, codes, domain)
    edges = np.linspace(domain.lower[0], domain.upper[0], attribute.MOST_CELLS + 1)
    places = (edges[:-1, None] + np.diff(edges)[0] * (np.arange(200) + 0.5) / 200).ravel()
    for number in range(30):
        own = {name: np.full(len(places), values[number]) for name, values in codes.items()}
        mass = np.exp(model.log_density(places[:, None], own)).reshape(attribute.MOST_CELLS, 200).sum(axis=1)
        assert found[number, 0] == (mass.argmax() == attribute.cell_numbers(points, domain)[number, 0])


def test_a_model_that_memorises_its_members_reveals_their_category():
    """Every member has its own component, with its category; the categories of others are independent of theirs."""
    points, codes = _generator().uniform(-0.7, 0.7, (200, 2)), {"kind": _generator(1).integers(3, size=200)}
    clean = clean_data(points, codes=codes, attributes=ATTRIBUTES[:1])
    found = attribute.infer_attributes(_memory(clean), clean, _generator(1)).categories
    assert found.members == 1.0
    assert found.low > 0.4
    assert found.others < 0.5
    assert found.baseline < 0.5


def _memory(clean):
    """Make a model with one narrow component for each member, which also knows its category for certain."""
    members = clean.points[clean.train]
    number, d = members.shape
    gaussians = Mixture(np.full(number, 1 / number), members, np.stack([np.eye(d) * 1e-5] * number))
    return attacked_model(gaussians, {"kind": np.eye(3)[clean.codes["kind"][clean.train]]})


def test_a_model_of_the_population_reveals_no_more_categories_of_members_than_of_others():
    """The model has not seen the records. A 95 % interval with a fixed seed; the test above is the power twin."""
    model = _model()
    found = attribute.infer_attributes(model, _drawn(model, 800), _generator(3)).categories
    assert found.low <= 0 <= found.high
    assert found.high - found.low < 0.12
    assert min(found.members, found.others) > found.baseline


def test_the_guesses_of_coordinates_do_not_change_if_the_model_has_attributes():
    model = _model()
    clean = _drawn(model, 300)
    both = attribute.infer_attributes(model, clean, _generator(3))
    alone = attribute.infer_attributes(MixedMixture(model.gaussians), clean, _generator(3))
    assert both.coordinates == alone.coordinates
    assert alone.categories is None
    assert set(both.metrics()) - set(alone.metrics()) == {
        f"category_{end}"
        for end in (
            "members_hit_rate", "others_hit_rate", "baseline_hit_rate", "advantage", "advantage_low", "advantage_high",
        )
    }  # fmt: skip


@pytest.mark.parametrize("names", [("kind", "side"), ("kind",)])
def test_one_coordinate_and_attributes_are_guessed_from_each_other(names):
    model = _model(dimensions=1, names=names)
    clean = _drawn(model, 800)
    assert attribute.reason_not_measured(model, clean) is None
    found = attribute.infer_attributes(model, clean, _generator(3))
    for guessed in (found.coordinates, found.categories):
        assert guessed.low <= 0 <= guessed.high
        assert min(guessed.members, guessed.others) > guessed.baseline
    members = {name: values[clean.train] for name, values in clean.codes.items()}
    right, ignorant = (
        attribute.correct_guesses(model, clean.points[clean.train], known, clean.info.domain).mean()
        for known in (members, {})
    )
    assert found.coordinates.members == pytest.approx(right)
    assert right > ignorant


def test_the_baseline_is_the_most_common_value_among_held_out_records():
    """Most others have value 2, and most members have value 0."""
    kind = np.where(np.arange(200) % 2 == 0, np.arange(200) % 8 // 6, 2)
    clean = clean_data(clusters(200), codes={"kind": kind}, attributes=ATTRIBUTES[:1])
    kind[:10:2] = 2  # 5 of 100 members
    found = attribute.infer_attributes(_model(names=("kind",)), clean, _generator()).categories
    assert found.baseline == 0.05


def test_the_state_of_a_coordinate_is_known_and_not_guessed():
    domain = make_domain(attributes=ATTRIBUTES)
    state = Attribute(name="side", description="", values=("left", "right"), state_of=("v0",))
    domain = domain.model_copy(update={"attributes": (domain.attributes[0], state)})
    assert attribute.category_names(_model(), domain) == ["kind"]


def test_scores_of_a_model_with_attributes_have_both_attacks(made_model):
    """Categories leak and coordinates do not: only the joint density tells members from others."""
    values_of = np.arange(400) % 2 * 2  # members have value 0, others have value 2
    clean = clean_data(clusters(400), codes={"kind": values_of}, attributes=ATTRIBUTES[:1])
    made = made_model(clean)
    first = made.models[0].model_copy(update={"shares": {"kind": [[0.8, 0.2, 0.0]]}})
    found = score_model(made.model_copy(update={"models": (first,)}), clean, (0.1,), _generator())
    values = {score.metric: score.value for score in found.values}
    plain = {score.metric: score.value for score in score_model(made, clean, (0.1,), _generator()).values}
    assert values["mia_loss_auc"] == 1.0
    assert values["mia_loss_coordinates_auc"] == plain["mia_loss_auc"]
    assert 0.4 < values["mia_loss_coordinates_auc"] < 0.6
    assert "mia_loss_coordinates_auc" not in plain
    for same in ("holdout_loglik", "train_loglik", "attribute_advantage"):
        assert values[same] == plain[same]
    assert (values["category_members_hit_rate"], values["category_others_hit_rate"]) == (1.0, 0.0)
    assert (0.0, 1.0) in found.roc
