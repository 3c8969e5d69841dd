"""Membership from the shares that a model implies: it finds members of a model that repeats them, and no others."""

import numpy as np
import pytest
from making import clean_data

from privmix.artefacts.domain import Attribute
from privmix.attacks.membership import shares
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.model import Mixture
from privmix.pipeline.scores import score_model

PEOPLE, QUESTIONS = 400, 30
ATTRIBUTES = tuple((f"q{i}", ("no", "yes")) for i in range(QUESTIONS))


@pytest.fixture
def clean():
    """Answers to 30 questions that tell nothing about membership."""
    rng = np.random.default_rng(2)
    codes = {name: (rng.random(PEOPLE) < 0.4).astype(int) for name, _ in ATTRIBUTES}
    return clean_data(rng.normal(0, 0.2, (PEOPLE, 2)), codes=codes, attributes=ATTRIBUTES)


def one_component(found: dict[str, float]) -> MixedMixture:
    gaussian = Mixture(np.ones(1), np.zeros((1, 2)), 0.04 * np.eye(2)[None])
    return MixedMixture(gaussian, {name: np.array([[1 - yes, yes]]) for name, yes in found.items()})


def attack(clean, model: MixedMixture) -> dict[str, float]:
    found = shares.attack_by_model_shares(model, clean, (0.1,), np.random.default_rng(1))
    assert found is not None
    return found


def test_a_model_that_repeats_its_members_gives_them_away(clean):
    rows = np.flatnonzero(clean.train)[:40]
    few = clean_data(
        clean.points, codes=clean.codes, attributes=ATTRIBUTES, train=np.isin(np.arange(PEOPLE), rows)
    )
    parts = Mixture(np.full(40, 1 / 40), few.points[rows], np.tile(1e-4 * np.eye(2), (40, 1, 1)))
    found = attack(
        few, MixedMixture(parts, {name: np.eye(2)[each[rows]] for name, each in few.codes.items()})
    )
    assert found["mia_shares_auc_low"] > 0.8
    assert found["mia_shares_tpr_at_fpr_0.1"] > 0.4


def test_a_model_of_the_population_gives_nobody_away(clean):
    found = attack(clean, one_component(dict.fromkeys(clean.codes, 0.4)))
    assert found["mia_shares_auc_low"] < 0.5 < found["mia_shares_auc_high"]


def test_private_shares_give_nobody_away(clean):
    """Every share has Laplace noise for a total ε = 1, and each of 30 counts changes by 1."""
    rng = np.random.default_rng(3)
    members = int(clean.train.sum())
    noisy = {
        name: float(np.clip((each[clean.train].sum() + rng.laplace(0, QUESTIONS)) / members, 0.01, 0.99))
        for name, each in clean.codes.items()
    }
    found = attack(clean, one_component(noisy))
    assert found["mia_shares_auc_low"] < 0.5


def test_a_record_that_lacks_a_coordinate_has_a_cell_of_its_own(clean):
    states = Attribute(name="state", description="", values=("known", "blank"), state_of=("v0",))
    domain = clean.info.domain.model_copy(update={"attributes": (states,)})
    state = np.arange(PEOPLE) % 2
    columns = shares.cell_columns(clean.points, {"state": state}, domain)
    first, size = columns[0]
    assert size == shares.CELLS + 1
    assert ((first == shares.CELLS) == (state == 1)).all()


def test_too_few_held_out_people_are_no_number(clean):
    train = np.arange(PEOPLE) >= 39
    few = clean_data(clean.points, codes=clean.codes, attributes=ATTRIBUTES, train=train)
    model = one_component(dict.fromkeys(clean.codes, 0.4))
    assert shares.attack_by_model_shares(model, few, (0.1,), np.random.default_rng(1)) is None


def test_the_evaluation_attacks_by_shares_if_asked(clean, made_model):
    made = made_model(clean)
    found = {
        asked: {
            score.metric
            for score in score_model(made, clean, (0.1,), np.random.default_rng(0), shares_too=asked).values
        }
        for asked in (True, False)
    }
    assert found[True] - found[False] == {
        f"mia_shares_{end}" for end in ("auc", "auc_low", "auc_high", "advantage", "tpr_at_fpr_0.1")
    }
