"""Shadow models: which units each model gets, and the same code as the real fit for every mechanism."""

import numpy as np
import pytest
from making import clean_data, clusters, make_domain, quick_mechanism

from privmix.attacks.membership import shadow_attacks, shadows
from privmix.mechanisms import registry, run
from privmix.mechanisms.base import Records, Spec, seeded_randomness
from privmix.mechanisms.central.non_private import NonPrivate
from privmix.privacy.accounting import Budget


def _generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def test_every_unit_is_in_one_half_of_the_models_and_every_model_has_one_half_of_the_units():
    inside = shadows.random_halves(30, 8, _generator())
    assert inside.shape == (16, 30)
    assert (inside.sum(axis=1) == 15).all()
    assert (inside[0::2] ^ inside[1::2]).all()
    assert len({row.tobytes() for row in inside}) == 16


def test_a_pool_respects_its_limit_and_takes_isolated_persons_first():
    clean = clean_data(clusters(301), isolated=(17,))
    pool = shadows.draw_pool(clean, 41, _generator())
    assert pool.size == len(pool.records) == 40
    assert (pool.records.points == clean.points[17]).all(axis=1).any()
    whole = shadows.draw_pool(clean, 10**6, _generator())
    assert whole.size == 300
    assert whole.share == pytest.approx(150 / clean.train.sum())


def test_the_records_of_a_person_stay_together_if_the_unit_is_a_person():
    persons = _generator().integers(40, size=200)
    clean = clean_data(clusters(200), persons=persons, unit="person", max_records=20)
    pool = shadows.draw_pool(clean, 150, _generator())
    assert len(pool.records) <= 150
    for person in np.unique(pool.records.persons):
        assert (pool.records.persons == person).sum() == (persons == person).sum()
    inside = shadows.random_halves(pool.size, 6, _generator())[:, pool.units]
    for unit in range(pool.size):
        assert (inside[:, pool.units == unit].sum(axis=1) % (pool.units == unit).sum() == 0).all()


def test_a_shadow_model_is_the_result_of_the_mechanism_on_its_half():
    """The densities equal those of a run on that half, with the random stream and public numbers of the model."""
    clean, budget = clean_data(clusters(120)), Budget(1.0, 1e-6)
    pool = shadows.draw_pool(clean, 1000, _generator())
    for method in ("noisy_grid", "randomized_response"):
        mechanism, spec = quick_mechanism(method), Spec(clean.info.domain, 2)
        found = shadows.fit_shadows(
            mechanism, pool, spec, budget, 4, lambda i: seeded_randomness(5, i), _generator()
        )
        public = Spec(spec.domain.model_copy(update={"rows": 60}), 2)
        half = pool.records.select(np.flatnonzero(found.inside[2]))
        release = run.run(mechanism, half, public, budget, seeded_randomness(5, 2))
        assert found.densities[2] == pytest.approx(release.mixture.log_density(pool.records.points))
        assert len({row.tobytes() for row in found.densities}) == 4


def test_many_non_private_fits_together_are_as_good_as_single_fits():
    records, spec = Records(clusters(400)), Spec(make_domain(rows=200), 3)
    masks = list(shadows.random_halves(400, 2, _generator()))
    for mechanism, wanted in ((NonPrivate(), spec), (NonPrivate(searches=2), Spec(spec.domain, 3, (1, 3)))):
        rngs = [seeded_randomness(1, number) for number in range(4)]
        many = run.run_many(mechanism, records, masks, wanted, Budget(np.inf, 0.0), rngs)
        for mask, release in zip(masks, many, strict=True):
            half = records.select(np.flatnonzero(mask))
            alone = run.run(mechanism, half, wanted, Budget(np.inf, 0.0), seeded_randomness(2))
            assert release.mixture.n_components == alone.mixture.n_components == 3
            assert release.mixture.log_density(half.points).mean() == pytest.approx(
                alone.mixture.log_density(half.points).mean(), abs=0.02
            )
    assert run.run_many(NonPrivate(), records, [], spec, Budget(np.inf, 0.0), []) == []


def test_a_density_that_underflows_counts_as_the_smallest():
    assert shadows.replace_underflow(np.array([[1.0, -np.inf], [-5.0, 2.0]])).tolist() == [
        [1.0, -5.0],
        [-5.0, 2.0],
    ]


def _attack(method, clean, number=12, components=2, most=1000, epsilon=1.0):
    return shadow_attacks.attack_with_shadows(
        quick_mechanism(method),
        clean,
        Spec(clean.info.domain, components),
        Budget(epsilon, 1e-6),
        number,
        most,
        (0.001, 0.01),
        lambda *purpose: seeded_randomness(4, *purpose),
    )


@pytest.mark.parametrize("method", registry.METHODS)
def test_every_mechanism_is_attacked_by_the_same_code(method):
    found = _attack(method, clean_data(clusters(160)))
    for attack in shadow_attacks.ATTACKS:
        low, auc, high = (found.metrics[f"mia_{attack}_auc{end}"] for end in ("_low", "", "_high"))
        assert 0 <= low <= auc <= high <= 1
        assert 0 <= found.metrics[f"mia_{attack}_advantage"] <= 1
        assert f"mia_{attack}_tpr_at_fpr_0.01" in found.metrics
        assert f"mia_{attack}_tpr_at_fpr_0.001" not in found.metrics
    assert found.metrics["mia_lira_p99_record_auc"] <= found.metrics["mia_lira_worst_record_auc"] <= 1
    assert found.roc[-1] == (1.0, 1.0)
    basis, too_few = found.notes
    assert "12 models, each fitted to half of 160 of the 160 records" in basis
    assert "6 models with it and 6 without" in basis
    assert too_few == (
        "960 scores of records outside shadow models are too few to measure a false-positive rate of 0.001"
    )


@pytest.mark.parametrize(
    ("number", "rows", "words"),
    [
        (1, 160, "1 shadow model is too few to measure an attack; set evaluation.shadows to 12 or more"),
        (10, 160, "10 shadow models are too few"),
        (12, 19, "a pool of 18 is too small for attacks with shadow models, which need 20"),
    ],
)
def test_too_few_models_or_records_give_a_note_and_no_metrics(number, rows, words):
    found = _attack("dp_em", clean_data(clusters(rows)), number=number)
    assert found.metrics == {}
    assert found.roc == []
    (note,) = found.notes
    assert words in note


def test_a_mechanism_that_fails_on_a_half_gives_a_note():
    found = _attack("noisy_grid", clean_data(clusters(200, dimensions=9)))
    assert found.metrics == {}
    (note,) = found.notes
    assert note.startswith("no shadow model could be fitted: ")


def test_persons_are_attacked_as_units():
    persons = _generator().integers(60, size=240)
    found = _attack("dp_em", clean_data(clusters(240), persons=persons, unit="person", max_records=20))
    assert 0.3 < found.metrics["mia_lira_auc"] < 0.7


def test_an_isolated_person_is_the_worst_record_only_without_privacy():
    """A person is far from two clusters, and the mixture has components to spare: 12 models with them, 12 without."""
    points = np.vstack([clusters(200), [[0.69, -0.69]]])
    clean = clean_data(points, isolated=(200,))
    bare = _attack("non_private", clean, number=24, components=5, epsilon=np.inf)
    assert bare.metrics["mia_lira_worst_record_auc"] == 1.0
    assert bare.metrics["mia_lira_worst_record_auc"] > bare.metrics["mia_lira_worst_record_chance"]
    private = _attack("dp_em", clean, number=24, components=5, epsilon=0.1)
    assert private.metrics["mia_lira_worst_record_auc"] < private.metrics["mia_lira_worst_record_chance"]
