"""Fixtures that many tests use."""

import os

import numpy as np
import pytest
from making import RecordingNoise

from privmix.artefacts.fitted_model import FittedModel
from privmix.artefacts.model import ModelFile
from privmix.artefacts.privacy_statement import BENCHMARK_NOTICE, PrivacyStatement
from privmix.mechanisms.base import Randomness


@pytest.fixture(autouse=True)
def same_umask():
    """Stages on sensitive data restrict the umask of their process. Restore it after each test."""
    umask = os.umask(0)
    os.umask(umask)
    yield
    os.umask(umask)


@pytest.fixture
def recording():
    """Randomness that adds zero noise and records each request."""
    return Randomness(RecordingNoise(), np.random.Generator(np.random.PCG64(5)))


@pytest.fixture
def made_model():
    """A function that makes a model file with one broad component for any clean data."""

    def make(clean):
        domain, d = clean.info.domain, clean.points.shape[1]
        privacy = PrivacyStatement(
            budget_epsilon=np.inf, budget_delta=0.0, epsilon=np.inf, delta=0.0, unit=domain.unit,
            relation=domain.relation, trust="central", mode="benchmark", accountant="linear", ledger=(),
        )  # fmt: skip
        fitted = FittedModel(
            replicate=0,
            weights=[1.0],
            means=[[0.0] * d],
            covariances=[(np.eye(d) * 0.1).tolist()],
            seconds=0.5,
        )
        return ModelFile(
            notice=BENCHMARK_NOTICE, domain=domain, mechanism="made", method="non_private", parameters={},
            privacy=privacy, models=(fitted,),
        )  # fmt: skip

    return make
