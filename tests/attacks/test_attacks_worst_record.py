"""The worst record: found at once without privacy, hidden within the limit of the claim with privacy."""

from dataclasses import replace

import numpy as np
import pytest
from making import clean_data, clusters, make_domain, make_spec, spied

from privmix.artefacts.domain import Axis
from privmix.attacks.limits import auc_ceiling
from privmix.attacks.membership import worst_record
from privmix.evaluate.likelihood import mean_log_likelihood
from privmix.mechanisms.base import Records, seeded_randomness
from privmix.mechanisms.central.dp_em import DpEm
from privmix.mechanisms.central.non_private import NonPrivate
from privmix.mixture.model import Mixture
from privmix.pipeline.scores import score_model
from privmix.privacy.accounting import Budget


def _play(mechanism, budget, runs):
    spec = make_spec(n_components=4, rows=601)
    points = np.vstack([clusters(600), [[0.7, -0.7]]])
    return worst_record.play_swap_game(
        mechanism,
        Records(points),
        600,
        points[0],
        spec,
        budget,
        runs,
        lambda *purpose: seeded_randomness(3, *purpose),
    )


def test_an_isolated_person_is_found_without_privacy():
    exposure = _play(NonPrivate(), Budget(np.inf, 0.0), 12)
    assert exposure.auc == 1.0
    assert exposure.low > 0.8


def test_a_private_mechanism_hides_an_isolated_person():
    exposure = _play(DpEm(iterations=3), Budget(0.5, 1e-6), 60)
    assert exposure.low <= auc_ceiling(0.5, 1e-6)


def test_a_few_runs_are_accurate_because_worlds_share_their_noise():
    """At ε = 0.05 no attack exceeds 0.513. The AUC of five independent runs per side would have an error of 0.19."""
    assert abs(_play(DpEm(iterations=3), Budget(0.05, 1e-6), 5).auc - 0.5) <= 0.1


def test_distances_are_great_circle_distances():
    axes = [
        Axis(name=name, description="", unit="degree", geographic=name, lower=-high, upper=high, resolution=0.1,
             centre=0.0, scale=1 / 201.0)
        for name, high in (("latitude", 90.0), ("longitude", 180.0))
    ]  # fmt: skip
    domain = make_domain().model_copy(update={"axes": tuple(axes)})
    means = domain.normalise(np.array([[48.8566, 2.3522], [-33.8688, 151.2093]]))
    mixture = Mixture(np.array([0.5, 0.5]), means, np.stack([np.eye(2)] * 2))
    london = domain.normalise(np.array([51.5074, -0.1278]))
    assert worst_record.distance_km(mixture, london, domain) == pytest.approx(343.6, abs=1)
    assert worst_record.distance_km(mixture, london, make_domain(dimensions=3)) is None


def test_persons_have_equal_weight_at_person_level():
    values, person = np.array([1.0, 1.0, 1.0, 5.0]), np.array([7, 7, 7, 9], dtype=np.uint64)
    assert mean_log_likelihood(values) == 2.0
    assert mean_log_likelihood(values, person) == 3.0


def test_a_game_on_fewer_records_keeps_the_person():
    points = np.vstack([clusters(600), [[0.7, -0.7]]])
    clean = clean_data(points, isolated=(600,))
    whole, row, domain = worst_record.game_records(clean, 10**6, np.random.default_rng(0))
    assert (len(whole), domain.rows) == (301, 301)
    assert (whole.points[row] == points[600]).all()
    part, row, domain = worst_record.game_records(clean, 100, np.random.default_rng(0))
    assert (len(part), domain.rows) == (100, 100)
    assert (part.points[row] == points[600]).all()
    assert len(np.unique(part.points, axis=0)) == 100


def test_persons_keep_all_their_records_and_public_numbers_stay_in_proportion():
    persons = np.repeat(np.arange(100), 4)
    clean = clean_data(
        clusters(400), persons=persons, train=persons < 80, isolated=(17,), unit="person", max_records=4
    )
    part, row, domain = worst_record.game_records(clean, 162, np.random.default_rng(0))
    assert len(part) == 160
    assert part.persons[row] == persons[17]
    assert domain.rows == 160
    assert set(np.bincount(part.persons.astype(int))) == {0, 4}


def test_both_worlds_differ_only_in_the_person(monkeypatch):
    seen = []
    spied(monkeypatch, DpEm, "fit", seen)
    records = Records(clusters(50), {"a": np.arange(50)}, np.arange(50) * 10)
    spec = make_spec(n_components=2, rows=50)
    worst_record.play_swap_game(
        DpEm(iterations=1), records, 7, np.array([0.1, 0.2]), spec, Budget(1.0, 1e-6), 3,
        lambda *purpose: seeded_randomness(3, *purpose),
    )  # fmt: skip
    views = [arguments[1] for arguments, _ in seen]
    for view in views[:3]:
        assert (view.points == records.points).all()
    for view in views[3:]:
        assert (view.points[:-1] == np.delete(records.points, 7, axis=0)).all()
        assert view.points[-1].tolist() == [0.1, 0.2]
        assert (view.codes["a"][-1], view.persons[-1]) == (7, 70)


def test_without_geographic_axes_the_distance_is_in_resolutions():
    domain = make_domain(dimensions=3)
    mixture = Mixture(
        np.array([0.5, 0.5]), np.array([[0.1, 0.1, 0.1], [0.5, 0.5, 0.5]]), np.stack([np.eye(3)] * 2)
    )
    place = np.array([0.1, 0.1, 0.103])
    assert worst_record.distance_in_resolutions(mixture, place, domain) == pytest.approx(3 / np.sqrt(3))


@pytest.mark.parametrize(("visibility", "told"), [("synthetic", 1), ("sensitive", 0)])
def test_the_distance_of_a_sensitive_person_is_not_published(made_model, visibility, told):
    """The distances to the centres of a few models would reveal the place."""
    clean = clean_data(clusters(200), isolated=(0,))
    domain = clean.info.domain.model_copy(update={"visibility": visibility})
    clean = replace(clean, info=clean.info.model_copy(update={"domain": domain}))
    found = score_model(made_model(clean), clean, (0.5,), np.random.default_rng(1))
    assert len([value for value in found.values if value.metric.startswith("worst_record_distance")]) == told
