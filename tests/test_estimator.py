"""PrivateGaussianMixture: scikit-learn's contract, the privacy of its inputs, and one code path with the pipeline."""

import json
import math
import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from making import PRIVATE
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

import privmix.estimator as module
from privmix import PrivacyError, PrivacyWarning, PrivateGaussianMixture
from privmix.errors import MechanismFailure, UserError
from privmix.mechanisms import run as mechanism_run
from privmix.mechanisms.base import Records, Spec, exact_randomness
from privmix.privacy.accounting import account
from privmix.privacy.exact import ExactNoise
from privmix.privacy.ledger import from_rows
from privmix.privacy.noise import NoiseSource, SeededNoise

BOUNDS = [(18, 90), (0, 250)]
NEEDED = {"planar_laplace": {"mechanism_params": {"within_m": 50_000.0}}}
PLACES = {0: "latitude", 1: "longitude"}


@dataclass(frozen=True)
class Run:
    """What the mechanism of a fit was given."""

    records: Records
    spec: Spec
    noise: NoiseSource


@pytest.fixture
def runs(monkeypatch):
    """Every call of the mechanism that a fit makes: records, spec and source of noise."""
    seen = []
    real = mechanism_run.run

    def watched(mechanism, records, spec, budget, rng):
        seen.append(Run(records, spec, rng.noise))
        return real(mechanism, records, spec, budget, rng)

    monkeypatch.setattr(mechanism_run, "run", watched)
    return seen


def _people(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    old = rng.random(rows) < 0.4
    means, spread = np.where(old[:, None], [70, 150], [35, 90]), np.where(old[:, None], [5, 12], [6, 15])
    return np.clip(rng.normal(means, spread), [18, 0], [90, 250])


def _model(**parameters):
    return PrivateGaussianMixture(**{"n_components": 2, "bounds": BOUNDS} | parameters)


@pytest.fixture(autouse=True)
def _seeds_are_meant():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        yield


# The bounds hold most of the data that the checks make up. Every check is run but those listed, with the reason.
CHECKED = PrivateGaussianMixture(bounds=(-200, 200), random_state=0)
NOT_RUN = {
    "check_array_api_input": "needs SCIPY_ARRAY_API; the estimator computes with NumPy and does not claim it"
}
CHECKS = {
    getattr(check, "func", check).__name__ + json.dumps(getattr(check, "keywords", {}), default=str): check
    for _, check in estimator_checks_generator(CHECKED)
}


@pytest.mark.parametrize("name", [name for name in CHECKS if name.split("{")[0] not in NOT_RUN])
def test_scikit_learns_check(name):
    CHECKS[name](clone(CHECKED))


def test_only_existing_checks_are_listed_as_not_run():
    assert set(NOT_RUN) <= {name.split("{")[0] for name in CHECKS}
    assert len(CHECKS) > 35


def test_the_example_of_the_docs_runs():
    X = _people(20_000)
    model = PrivateGaussianMixture(n_components=10, epsilon=1.0, bounds=BOUNDS).fit(X)
    rows, components = model.sample(1000)
    assert rows.shape == (1000, 2)
    assert components.shape == (1000,)
    assert model.score_samples(X).shape == (20_000,)
    assert account(from_rows(model.privacy_.ledger), 0.0, "linear").epsilon == pytest.approx(1.0)
    assert model.score(X) > GaussianMixture(1, random_state=0).fit(X).score(X)


@pytest.mark.parametrize("name", PRIVATE)
def test_every_mechanism_runs_by_name_within_its_budget(name):
    places = PLACES if name == "planar_laplace" else None
    bounds = [(18, 80), (0, 170)] if places else BOUNDS
    model = _model(
        mechanism=name, bounds=bounds, geographic=places, epsilon=2.0, random_state=1, **NEEDED.get(name, {})
    ).fit(np.clip(_people(1500), [18, 0], [80, 170]))
    assert model.mechanism_ == name
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.privacy_.epsilon <= 2.0 + 1e-9
    assert model.privacy_.delta <= 1e-6
    assert model.privacy_.ledger


def test_the_default_mechanism_depends_on_the_number_of_features():
    assert _model(random_state=0).fit(_people(300)).mechanism_ == "noisy_tree"
    wide = np.random.default_rng(0).normal(size=(300, 4))
    assert _model(bounds=(-5, 5), random_state=0).fit(wide).mechanism_ == "noisy_moments"


def test_bounds_are_required():
    with pytest.raises(PrivacyError, match="bounds are missing"):
        PrivateGaussianMixture().fit(_people(100))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"bounds": [(18, 90)]}, "each of the 2 features"),
        ({"bounds": [(90, 18), (0, 250)]}, "less than upper"),
        ({"bounds": [(18, math.inf), (0, 250)]}, "finite"),
        ({"bounds": [(18, "a"), (0, 250)]}, "finite number"),
        ({"bounds": [(18, 50, 90), (0, 1, 250)]}, "pair"),
        ({"bounds": {"x0": (18, 90)}}, "missing: x1"),
        ({"bounds": {"x0": (18, 90), "x1": (0, 250), "age": (0, 1)}}, "unknown: age"),
        ({"bounds": "age"}, "bounds must be"),
        ({"resolution": [1, 2, 3]}, "resolution must be"),
        ({"resolution": 0}, "greater than 0"),
        ({"resolution": math.nan}, "finite"),
        ({"epsilon": 0}, "epsilon = 0"),
        ({"epsilon": math.inf}, "epsilon = inf"),
        ({"epsilon": "1"}, "epsilon = '1'"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": 1}, "delta"),
        ({"unit": "household"}, "unit"),
        ({"relation": "swap"}, "relation"),
        ({"unit": "person"}, "groups=persons"),
        ({"unit": "person", "max_records_per_person": 0}, "max_records_per_person"),
        ({"relation": "add_remove", "expected_rows": 0}, "expected_rows"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 2.5}, "n_components"),
        ({"n_components": []}, "n_components"),
        ({"mechanism": "noisy_trees"}, "did you mean 'noisy_tree'"),
        ({"mechanism_params": {"depht": 3}}, "depht"),
        ({"geographic": {"x9": "latitude"}}, "geographic"),
        ({"geographic": {0: "height"}}, "geographic"),
        ({"mechanism": ["noisy_tree"]}, "unknown method"),
        ({"mechanism_params": ["searches"]}, "dictionary"),
        ({"mechanism_params": {3: 1}}, "dictionary"),
        ({"bounds": [(18, 90), (0, 1, 250)]}, "bounds"),
        ({"bounds": [None, (0, 250)]}, "bounds"),
        ({"bounds": [(0, 1e-310), (0, 250)]}, "too close together"),
        ({"bounds": [(1e12, 1e12 + 1), (0, 250)]}, "too close together"),
        ({"bounds": [(-1e308, 1e308), (0, 250)]}, "too large"),
        ({"bounds": [(0, 10**400), (0, 250)]}, "finite"),
        ({"bounds": pd.DataFrame({"lower": [18, 0], "upper": [90, 250]})}, "bounds must be"),
        ({"resolution": 1e-300}, "resolution"),
        ({"resolution": 1e6}, "resolution"),
        ({"geographic": ["latitude", "longitude"]}, "dictionary"),
        ({"random_state": -1}, "random_state"),
        ({"mechanism": "gaussian_input", "delta": 0}, "choose a pure mechanism"),
    ],
)
def test_a_bad_parameter_is_explained(parameters, words):
    model = _model(**parameters)
    with pytest.raises(PrivacyError if words != "choose a pure mechanism" else UserError, match=words):
        model.fit(_people(50))
    assert not hasattr(model, "weights_")


@pytest.mark.parametrize(
    "groups",
    [
        np.arange(9),
        np.ones((50, 2)),
        np.full(50, np.nan),
        [None] * 50,
        pd.Series(["Ann", np.nan] * 25),
        pd.Series(["Ann", None] * 25, dtype="string"),
        pd.Categorical(["Ann", None] * 25),
        pd.Series([pd.NaT, pd.Timestamp(0)] * 25),
        np.array([1, 1.0, "1", True, "Ann"] * 10, dtype=object),
        np.ma.array(np.arange(50), mask=[True] + [False] * 49),
    ],
    ids=range(10),
)
def test_bad_groups_are_explained_without_showing_them(groups):
    with pytest.raises(PrivacyError, match="groups") as raised:
        _model(unit="person").fit(_people(50), groups=groups)
    assert "Ann" not in str(raised.value)


def test_zero_and_minus_zero_are_one_person():
    persons = np.where(np.arange(50) % 2, 0.0, -0.0)
    model = _model(unit="person", max_records_per_person=3)
    assert len(model._bound_contributions(_people(50), persons, seed=1)[0]) == 3


@pytest.mark.parametrize(
    "X",
    [
        np.array([["SecretName", 1], [2, 3]], dtype=object),
        pd.DataFrame({"a": ["SecretName", "x"], "b": [1, 2]}),
        np.array([12345.678, 23456.789]),
        np.array([[12345.678 + 1j, 1]]),
        np.array([[12345.678, np.nan], [1, 2]]),
        np.ma.array([[12345.678, 2.0], [3, 4]], mask=[[True, False], [False, False]]),
        np.empty((0, 2)),
        [[12345.678, 1], [2]],
    ],
    ids=range(8),
)
def test_a_bad_table_is_refused_without_showing_a_value(X):
    with pytest.raises((ValueError, TypeError)) as raised:
        _model().fit(X)
    text = str(raised.value)
    assert "SecretName" not in text
    assert "12345" not in text
    assert text


def test_a_guarantee_weaker_than_asked_for_is_warned_about():
    X = _people(300)
    with pytest.warns(PrivacyWarning, match="replace_one"):
        local = _model(mechanism="randomized_response", relation="add_remove").fit(X)
    assert local.privacy_.relation == "replace_one"
    with pytest.warns(PrivacyWarning, match="groups is ignored"):
        _model().fit(X, groups=np.arange(300))


def test_a_changed_parameter_does_not_change_the_fitted_model():
    model = _model(random_state=0).fit(_people(300))
    model.set_params(bounds=[(0, 1), (0, 1)])
    assert model.sample(50)[0].max() > 1


def test_a_mechanism_that_cannot_serve_the_data_says_so():
    with pytest.raises(MechanismFailure, match="coordinates"):
        _model(mechanism="noisy_tree", bounds=(-5, 5)).fit(np.zeros((50, 5)))


def test_values_outside_the_bounds_count_as_the_bound(runs):
    inside = _people(500)
    outside = inside.copy()
    outside[0] = [1e6, -1e6]
    inside[0] = [90, 0]
    first, second = (_model(random_state=3).fit(X) for X in (inside, outside))
    np.testing.assert_array_equal(first.means_, second.means_)
    for run in runs:
        points, domain = run.records.points, run.spec.domain
        assert ((points >= domain.lower) & (points <= domain.upper)).all()


def test_many_values_outside_the_bounds_are_warned_about_without_numbers_of_the_records():
    with pytest.warns(UserWarning, match="outside the bounds") as caught:
        _model(bounds=[(18, 40), (0, 250)], random_state=0).fit(_people(500))
    text = next(str(each.message) for each in caught if each.category is UserWarning)
    assert "'x0'" in text
    assert "'x1'" not in text
    assert "500" not in text


def test_without_a_random_state_the_noise_is_exact_and_new_each_time(runs):
    X = _people(800)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        first, second = (_model().fit(X) for _ in range(2))
    assert [type(run.noise) for run in runs] == [ExactNoise, ExactNoise]
    assert not np.array_equal(first.means_, second.means_)
    assert first.privacy_.mode == "release"
    _model(random_state=0).fit(X)
    assert type(runs[-1].noise) is SeededNoise


@pytest.mark.parametrize("state", [0, np.int64(5), np.random.RandomState(1)])
def test_a_random_state_warns_that_the_model_must_not_be_published(state):
    with pytest.warns(PrivacyWarning, match="Do not publish"):
        model = _model(random_state=state).fit(_people(200))
    assert model.privacy_.mode == "benchmark"


def test_no_privacy_at_all_is_warned_about():
    with pytest.warns(PrivacyWarning, match="no privacy"):
        model = _model(mechanism="non_private").fit(_people(500))
    assert model.privacy_.epsilon == math.inf
    assert model.privacy_.ledger == ()
    assert model.privacy_.mode == "benchmark"


def test_the_same_seed_gives_the_same_model_and_another_seed_another():
    X = _people(500)
    first, again, other = (_model(random_state=state).fit(X) for state in (1, 1, 2))
    np.testing.assert_array_equal(first.means_, again.means_)
    assert not np.array_equal(first.means_, other.means_)
    np.testing.assert_array_equal(first.sample(20)[0], again.sample(20)[0])


def test_a_person_contributes_at_most_the_stated_number_of_records(runs):
    X = _people(900)
    persons = np.repeat([f"person {n}" for n in range(90)], 10)
    model = _model(unit="person", max_records_per_person=3, random_state=0).fit(X, groups=persons)
    held = np.unique(runs[0].records.persons, return_counts=True)[1]
    assert len(held) == 90
    assert set(held) == {3}
    assert (model.privacy_.unit, model.privacy_.relation) == ("person", "replace_one")


def test_the_chosen_records_of_a_person_do_not_depend_on_other_persons():
    """The property that contribution bounding rests on: leave one person out, and the others keep their records."""
    X, persons = _people(600), np.arange(600) // 6
    model = _model(unit="person", max_records_per_person=2)
    kept, whose = model._bound_contributions(X, persons, seed=4)
    others = persons != 17
    fewer, _ = model._bound_contributions(X[others], persons[others], seed=4)
    gone = whose == model._bound_contributions(X[~others], persons[~others], seed=4)[1][0]
    np.testing.assert_array_equal(kept[~gone], fewer)
    assert gone.sum() == 2


@pytest.mark.parametrize("groups", [np.arange(300), [f"p{n}" for n in range(300)], pd.Series(range(300))])
def test_groups_may_be_numbers_text_or_a_series(groups):
    assert _model(unit="person", random_state=0).fit(_people(300), groups=groups).privacy_.unit == "person"


def test_the_number_of_records_is_public_given_or_paid_for(runs):
    X, persons = _people(600), np.arange(600) // 2
    person = {"unit": "person", "max_records_per_person": 2, "random_state": 0}
    cases = [
        ({"random_state": 0}, 600, 0.0),
        ({"relation": "add_remove", "random_state": 0}, 1, module.COUNT_SHARE),
        ({"relation": "add_remove", "expected_rows": 550, "random_state": 0}, 550, 0.0),
        (person, 1, module.COUNT_SHARE),
        (person | {"expected_rows": 700}, 700, 0.0),
        (person | {"mechanism": "randomized_response"}, 600, 0.0),  # 300 persons with up to 2 records each
    ]
    for parameters, rows, share in cases:
        model = _model(**parameters).fit(X, groups=persons)
        assert (runs[-1].spec.domain.rows, runs[-1].spec.count_share) == (rows, share)
        labels = [row["label"] for row in model.privacy_.ledger]
        assert ("number of records" in labels) == (share > 0)
        assert model.privacy_.epsilon <= 1.0 + 1e-9


def test_what_a_local_mechanism_knows_of_persons_does_not_depend_on_their_records(runs):
    """A person with fewer records changes neither the public number of rows nor that of persons."""
    X, persons = _people(60), np.arange(60) // 3
    model = _model(unit="person", max_records_per_person=3, mechanism="randomized_response", random_state=0)
    for rows in (np.arange(60), np.arange(2, 60)):
        model.fit(X[rows], groups=persons[rows])
    domains = [run.spec.domain for run in runs]
    assert domains[0] == domains[1]
    assert (domains[0].persons, domains[0].rows) == (20, 60)


def test_data_frames_give_names_and_bounds_by_name():
    frame = pd.DataFrame(_people(400), columns=["age", "visits"])
    model = _model(
        bounds={"visits": (0, 250), "age": (18, 90)}, resolution={"age": 1, "visits": 2}, random_state=0
    )
    model.fit(frame)
    assert model.feature_names_in_.tolist() == ["age", "visits"]
    by_array = _model(resolution=[1, 2], random_state=0).fit(frame.to_numpy())
    np.testing.assert_array_equal(model.means_, by_array.means_)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["visits", "age"]])


def test_predictions_and_scores_are_those_of_the_mixture():
    X = _people(600)
    model = _model(random_state=0).fit(X)
    reference = GaussianMixture(2)
    reference.weights_, reference.means_, reference.covariances_ = (
        model.weights_,
        model.means_,
        model.covariances_,
    )
    reference.precisions_cholesky_ = np.array(
        [np.linalg.cholesky(np.linalg.inv(c)) for c in model.covariances_]
    )
    np.testing.assert_allclose(model.score_samples(X), reference.score_samples(X))
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))
    assert model.bic(X) == pytest.approx(reference.bic(X))
    assert model.aic(X) == pytest.approx(reference.aic(X))
    assert model.score(X) == pytest.approx(reference.score(X))


def test_synthetic_rows_lie_in_the_bounds_and_follow_the_model():
    model = _model(n_components=1, bounds=[(18, 90), (0, 250)], random_state=0).fit(_people(2000))
    rows, labels = model.sample(5000)
    assert (rows >= [18, 0]).all()
    assert (rows <= [90, 250]).all()
    assert set(labels) == {0}
    assert rows.mean(axis=0) == pytest.approx(model.means_[0], rel=0.05)
    with pytest.raises(ValueError, match="at least 1"):
        model.sample(0)


def test_an_unfitted_model_says_so():
    for call in ("predict", "predict_proba", "score_samples", "score", "bic", "aic"):
        with pytest.raises(NotFittedError):
            getattr(_model(), call)(_people(5))
    with pytest.raises(NotFittedError):
        _model().sample(1)


def test_clone_pickle_and_pipeline_work():
    X = _people(400)
    model = _model(random_state=0).fit(X)
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).score_samples(X), model.score_samples(X))
    pipeline = make_pipeline(
        FunctionTransformer(lambda values: values / 2),
        _model(bounds=[(9, 45), (0, 125)], unit="person", random_state=0),
    )
    pipeline.fit(X, privategaussianmixture__groups=np.arange(400))
    assert pipeline.score_samples(X).shape == (400,)


def test_a_pickle_holds_no_record_and_no_person():
    X = _people(300)
    X[7] = [43.21234567, 123.45678912]
    persons = [f"secret-person-{n}" for n in range(300)]
    content = pickle.dumps(_model(unit="person").fit(X, groups=persons))
    assert b"secret-person" not in content
    assert np.float64(43.21234567).tobytes() not in content


def test_the_number_of_components_can_be_chosen_privately():
    model = _model(n_components=[1, 2, 4], mechanism="noisy_moments", random_state=0).fit(_people(2000))
    assert len(model.weights_) in (1, 2, 4)
    assert model.privacy_.ledger[0]["kind"] == "selection"
    assert model.privacy_.epsilon <= 1.0 + 1e-9


def test_the_estimator_runs_the_same_code_as_the_pipeline():
    """The job, the domain and the randomness of the estimator give the pipeline's fit, number for number."""
    X = _people(700)
    model = _model(mechanism="noisy_moments", random_state=11).fit(X)
    job = model._job()
    domain, _ = model._domain(model._columns(), len(X), None, job)
    records = module.Records(domain.normalise(X))
    fitted, _ = job.fit_replicates(domain, [records], [job.randomness(domain, "estimator")])
    means = domain.denormalise(np.array(fitted[0].means))
    np.testing.assert_allclose(model.means_, means, rtol=1e-12)


def test_exact_randomness_is_what_a_release_uses():
    assert isinstance(exact_randomness().noise, ExactNoise)


@pytest.mark.parametrize("records", [2, 3])
@pytest.mark.parametrize("name", PRIVATE)
def test_two_or_three_records_are_enough(name, records):
    places = PLACES if name == "planar_laplace" else None
    model = _model(
        mechanism=name, bounds=[(18, 80), (0, 170)], geographic=places, random_state=0, **NEEDED.get(name, {})
    ).fit(np.clip(_people(records), [18, 0], [80, 170]))
    assert np.isfinite(model.means_).all()


def test_the_statement_is_plain_data():
    statement = _model(random_state=0).fit(_people(200)).privacy_
    assert json.loads(statement.model_dump_json())["unit"] == "record"
