"""The worst record: found at once without privacy, hidden within the ceiling with it."""

import numpy as np
import pytest
from making import clusters, make_domain, make_spec

from privmix.artefacts import Axis
from privmix.evaluate import worst_record
from privmix.evaluate.likelihood import mean_log_likelihood
from privmix.evaluate.limits import auc_ceiling
from privmix.mechanisms.base import Records, seeded
from privmix.mechanisms.dp_em import DpEm
from privmix.mechanisms.non_private import NonPrivate
from privmix.mixture.model import Mixture
from privmix.privacy.accounting import Budget


def _play(mechanism, budget, runs):
    spec = make_spec(n_components=4, rows=601)
    points = np.vstack([clusters(600), [[0.7, -0.7]]])
    return worst_record.play(
        mechanism, Records(points), 600, points[0], spec, budget, runs, lambda *purpose: seeded(3, *purpose)
    )


def test_a_person_alone_is_found_without_privacy():
    exposure = _play(NonPrivate(), Budget(np.inf, 0.0), 12)
    assert exposure.auc == 1.0
    assert exposure.low > 0.8


def test_a_person_alone_is_hidden_by_a_private_mechanism():
    exposure = _play(DpEm(iterations=3), Budget(0.5, 1e-6), 60)
    assert exposure.low <= auc_ceiling(0.5, 1e-6)


def test_distances_are_those_of_the_globe():
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


def test_people_count_alike_at_person_level():
    values, person = np.array([1.0, 1.0, 1.0, 5.0]), np.array([7, 7, 7, 9], dtype=np.uint64)
    assert mean_log_likelihood(values) == 2.0
    assert mean_log_likelihood(values, person) == 3.0
