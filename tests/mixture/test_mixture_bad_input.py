"""A fit to any input is correct or refused with one sentence. Its parameters are never NaN."""

from pathlib import Path

import numpy as np
import pytest

from privmix.errors import UserError
from privmix.mixture.em import fit, fit_many
from privmix.mixture.kernel import em_pass
from privmix.mixture.model import FitResult, Mixture
from privmix.mixture.moments import Prior, observe, observe_boxes
from privmix.mixture.stream import stream_batches

FLOOR = np.full(2, 1e-6)


def records(n: int = 300, d: int = 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = 3.0 * np.arange(3)[:, None] * np.ones(d) * [(-1.0) ** axis for axis in range(d)]
    return centres[rng.integers(3, size=n)] + rng.normal(0, 0.4, (n, d))


def fitted(points, k: int = 3, **options) -> FitResult:
    return fit(points, k, rng=np.random.default_rng(0), **{"relocations": 6, "starts": 3, **options})


def assert_sound(result: FitResult, points: np.ndarray, weights: np.ndarray | None = None) -> None:
    """Check that parameters are finite, and that likelihood and mean agree with the data."""
    mixture = result.mixture
    for part in (mixture.weights, mixture.means, mixture.covariances):
        assert np.isfinite(part).all()
    assert np.isfinite(result.log_likelihood)
    points = np.asarray(points, dtype=float)
    shares = (
        np.full(len(points), 1 / len(points)) if weights is None else np.asarray(weights) / np.sum(weights)
    )
    assert result.log_likelihood == pytest.approx(shares @ mixture.log_density(points), rel=1e-6, abs=1e-6)
    size = np.abs(points).max() + 1e-300
    np.testing.assert_allclose(mixture.weights @ mixture.means / size, shares @ points / size, atol=1e-6)


def assert_same(one: FitResult, other: FitResult, tolerance: float = 1e-9) -> None:
    orders = [np.argsort(each.mixture.means[:, 0]) for each in (one, other)]
    for name in ("weights", "means", "covariances"):
        got, expected = (
            getattr(each.mixture, name)[order] for each, order in zip((one, other), orders, strict=True)
        )
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("points", "weights", "sentence"),
    [
        ([[np.nan]], None, "finite"),
        ([[np.inf]], None, "finite"),
        ([[-np.inf]], None, "finite"),
        ([[1e200]], None, "finite"),
        ([[0.0], [np.nan]], [1.0, 0.0], "finite"),
        ([[0.0]], [-1.0], "non-negative"),
        ([[0.0]], [np.nan], "non-negative"),
        ([[0.0]], [np.inf], "non-negative"),
        ([[0.0]], [1.0, 1.0], "need weights of shape"),
        ([[0.0]], [[1.0]], "need weights of shape"),
        (np.empty((0, 2)), None, "n, d >= 1"),
        (np.empty((3, 0)), None, "n, d >= 1"),
        ([], None, "n, d >= 1"),
        ([0.0, 1.0], None, "n, d >= 1"),
        (np.zeros((2, 2, 2)), None, "n, d >= 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_bad_records_are_refused_with_a_sentence(points, weights, sentence):
    for refuse in (lambda: observe(points, weights), lambda: fitted(points, 1, weights=weights)):
        with pytest.raises(UserError, match=sentence) as refused:
            refuse()
        assert str(refused.value).endswith(".")
        assert "\n" not in str(refused.value)


def test_records_of_zero_weight_give_moments_but_no_fit():
    nothing = observe([[0.0]], [0.0])
    assert em_pass(nothing, Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))).counts == 0.0
    with pytest.raises(UserError, match="nothing to fit"):
        fitted([[0.0]], 1, weights=[0.0])


def test_weights_are_accepted_only_with_plain_points():
    with pytest.raises(UserError, match="already have weights"):
        fitted(observe(records()), weights=np.ones(300))


def test_a_spread_of_the_wrong_shape_is_refused():
    good = observe_boxes(np.zeros((4, 2)), np.ones((4, 2)))
    for spread in (good.spread[:3], good.spread[:, :2], good.spread * np.nan):
        with pytest.raises(UserError, match="spread of 4 records in 2 dimensions"):
            type(good)(good.points, good.weights, spread)


@pytest.mark.parametrize("k", [0, -1, 301])
def test_more_components_than_records_or_fewer_than_one_are_refused(k):
    with pytest.raises(UserError, match=f"cannot fit {k} components to 300 records"):
        fitted(records(), k)


@pytest.mark.parametrize(
    "options", [{"tol": -1e-9}, {"tol": np.nan}, {"max_iter": -1}, {"starts": 0}], ids=lambda each: str(*each)
)
def test_an_option_out_of_range_is_refused(options):
    with pytest.raises(UserError, match="a fit needs starts >= 1, max_iter >= 0 and tol >= 0"):
        fitted(records(), **options)


@pytest.mark.parametrize(
    "floor", [[0.0, 1.0], [1.0], [np.nan, 1.0], [-1.0, 1.0], [np.inf, 1.0], 1e-6, [[1.0, 1.0]]], ids=str
)
def test_a_bad_floor_is_refused(floor):
    with pytest.raises(UserError, match="floor must be 2 positive variances"):
        fitted(records(), floor=floor)


def test_a_start_of_another_size_is_refused():
    start = Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    with pytest.raises(UserError, match="start has 1 components in 2 dimensions, but 3 in 2"):
        fitted(records(), start=start)


@pytest.mark.parametrize(
    "options", [{"covariance": "diag"}, {"covariance": "tied", "prior": Prior()}], ids=str
)
def test_an_unsupported_covariance_is_refused(options):
    with pytest.raises(UserError, match="covariance"):
        fitted(records(), **options)


def forms(points: np.ndarray, folder: Path) -> dict[str, object]:
    frozen = points.copy()
    frozen.setflags(write=False)
    np.save(folder / "points.npy", points)
    return {
        "read-only": frozen,
        "columns first": np.asfortranarray(points),
        "every second": np.repeat(points, 2, axis=0)[::2],
        "backwards twice": points[::-1][::-1],
        "a part of a wider array": np.hstack([points, points])[:, :2],
        "lists": points.tolist(),
        "tuples": tuple(map(tuple, points)),
        "mapped from a file": np.load(folder / "points.npy", mmap_mode="r"),
        "other byte order": points.astype(">f8"),
    }


def test_the_type_and_memory_layout_of_an_array_do_not_matter(tmp_path):
    points = records()
    expected = fitted(points)
    for name, form in forms(points, tmp_path).items():
        result = fitted(form)
        np.testing.assert_array_equal(result.mixture.means, expected.mixture.means, err_msg=name)
        assert result.log_likelihood == expected.log_likelihood


def test_a_fit_does_not_change_the_records():
    points, weights = records(), np.arange(300.0)
    before = points.copy(), weights.copy()
    fitted(points, weights=weights)
    np.testing.assert_array_equal(points, before[0])
    np.testing.assert_array_equal(weights, before[1])


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16, np.float32, np.float16])
def test_integers_and_short_floats_are_accepted(kind):
    points = np.round(np.abs(records()) * 4).astype(kind)
    result = fitted(points, floor=FLOOR)
    assert_sound(result, points)
    assert_same(result, fitted(points.astype(float), floor=FLOOR))


def test_booleans_count_as_zeros_and_ones():
    points = np.random.default_rng(0).random((200, 2)) < 0.3
    result = fitted(points, 2, floor=FLOOR)
    assert_sound(result, points)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("floor", [None, np.array([1e-4, 1e-6])], ids=["own floor", "given floor"])
@pytest.mark.parametrize(
    "points",
    [
        np.full((50, 2), 0.25),
        np.column_stack([np.linspace(-1, 1, 64), np.full(64, 0.5)]),
        np.repeat([[0.0, 0.0], [0.5, 0.5]], 25, axis=0),
        np.array([[0.1, 0.2], [0.3, 0.1], [0.2, 0.2]]),
        np.column_stack([np.linspace(-1, 1, 50), np.linspace(-1, 1, 50)]),
    ],
    ids=["all equal", "one coordinate constant", "two distinct", "three records", "on a line"],
)
def test_degenerate_data_give_a_mixture_at_the_floor_with_a_note(points, floor, k):
    result = fitted(points, k, floor=floor)
    assert_sound(result, points)
    if floor is not None:
        assert np.linalg.eigvalsh(result.mixture.covariances - np.diag(floor)).min() > -1e-12
    if np.linalg.matrix_rank(points - points.mean(axis=0)) < 2:
        assert any("as narrow as the floor allows" in note for note in result.notes)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_equal_records_give_exactly_the_floor(covariance):
    floor = np.array([1e-4, 1e-6])
    result = fitted(np.full((50, 2), 0.25), 2, floor=floor, covariance=covariance)
    np.testing.assert_allclose(result.mixture.covariances, [np.diag(floor)] * 2, atol=1e-12)
    assert result.notes == ("2 of 2 components are as narrow as the floor allows.",)


def test_the_note_counts_only_components_at_the_floor():
    crowd = np.random.default_rng(0).normal(size=(200, 2))
    result = fitted(np.concatenate([crowd, np.full((100, 2), 5.0)]), 2, floor=FLOOR)
    assert result.notes == ("1 of 2 components are as narrow as the floor allows.",)


def test_the_default_floor_is_a_share_of_the_variance_of_each_axis():
    spike = np.concatenate([records(), np.full((300, 2), 20.0)]) * [1.0, 1000.0]
    narrowest = np.linalg.eigvalsh(
        fitted(spike, 4).mixture.covariances / np.outer(spike.std(0), spike.std(0))
    )
    assert narrowest.min() == pytest.approx(1e-8, rel=1e-3)


def test_records_of_zero_weight_do_not_count():
    points = records()
    weights = np.where(np.arange(300) % 3 == 0, 0.0, 1.5)
    result = fitted(points, weights=weights, floor=FLOOR)
    assert_sound(result, points, weights)
    assert_same(result, fitted(points[weights > 0], floor=FLOOR))
    with pytest.raises(UserError, match="cannot fit 3 components to 2 records"):
        fitted(points, weights=np.where(np.arange(300) < 2, 1.0, 0.0))


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e9, 1e200])
def test_the_unit_of_the_weights_does_not_matter(unit):
    points, weights = records(), np.random.default_rng(0).integers(1, 5, 300)
    expected = fitted(points, weights=weights, floor=FLOOR)
    assert_same(fitted(points, weights=weights * unit, floor=FLOOR), expected, 1e-6)


def test_weights_of_very_different_size_are_fitted():
    points = records()
    weights = 10.0 ** np.random.default_rng(0).integers(-30, 31, 300)
    assert_sound(fitted(points, weights=weights, floor=FLOOR), points, weights)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_a_single_component_is_the_mean_and_covariance(d, covariance):
    points = records(d=d)
    result = fitted(points, 1, covariance=covariance)
    expected = np.atleast_2d(np.cov(points.T, ddof=0))
    if covariance == "diagonal":
        expected = np.diag(np.diag(expected))
    np.testing.assert_allclose(result.mixture.means[0], points.mean(axis=0), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(result.mixture.covariances[0], expected, rtol=1e-9, atol=1e-12)
    assert result.converged
    assert result.notes == ()


def test_one_dimension_works():
    points = records(d=1)
    result = fitted(points)
    assert_sound(result, points)
    np.testing.assert_allclose(np.sort(result.mixture.means[:, 0]), [0, 3, 6], atol=0.2)


def test_as_many_components_as_records_work():
    points = records(6)
    assert_sound(fitted(points, 6, floor=FLOOR), points)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
@pytest.mark.parametrize("offset", [1e6, -1e6])
def test_data_far_from_the_origin_are_fitted_as_well_as_near_it(offset, covariance):
    points = records()
    near, far = (fitted(each, floor=FLOOR, covariance=covariance) for each in (points, points + offset))
    orders = [np.argsort(each.mixture.means[:, 0]) for each in (near, far)]
    np.testing.assert_allclose(
        far.mixture.means[orders[1]] - offset, near.mixture.means[orders[0]], atol=1e-6
    )
    np.testing.assert_allclose(far.mixture.weights[orders[1]], near.mixture.weights[orders[0]], atol=1e-6)
    np.testing.assert_allclose(
        far.mixture.covariances[orders[1]], near.mixture.covariances[orders[0]], atol=1e-6
    )
    assert far.log_likelihood == pytest.approx(near.log_likelihood, abs=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e6, 1e-100, 1e100])
def test_the_unit_of_the_records_does_not_matter(unit):
    points = records()
    result, expected = fitted(points * unit), fitted(points)
    orders = [np.argsort(each.mixture.means[:, 0]) for each in (result, expected)]
    for name, power in (("means", 1), ("covariances", 2)):
        got, wanted = (
            getattr(each.mixture, name)[order] for each, order in zip((result, expected), orders, strict=True)
        )
        np.testing.assert_allclose(got / unit**power, wanted, rtol=1e-6, atol=1e-6)
    assert result.log_likelihood == pytest.approx(expected.log_likelihood - 2 * np.log(unit), abs=1e-6)


def test_axes_of_very_different_units_are_fitted_alike():
    points, units = records(), np.array([1e-5, 1e7])
    result, expected = fitted(points * units), fitted(points)
    assert_same(
        FitResult(result.mixture.normalise(np.zeros(2), 1 / units), 0.0, 0.0, 0, True), expected, 1e-6
    )


def test_one_extremely_distant_record_does_not_spoil_the_fit():
    points = np.vstack([records(), [[1e12, -1e12]]])
    assert_sound(fitted(points, 2), points)


def test_a_note_reports_an_empty_component():
    points, far = records(), [1e3, 1e3]
    start = Mixture([0.5, 0.5], [[3.0, -3.0], far], [4 * np.eye(2), 1e-4 * np.eye(2)])
    result = fitted(points, 2, start=start, relocations=0, floor=FLOOR)
    assert result.mixture.weights.tolist() == [1.0, 0.0]
    assert "1 of 2 components are empty." in result.notes
    assert_sound(result, points)


RECORDS = np.random.default_rng(0).normal(size=(300, 2))


def test_no_subsets_give_no_fits():
    assert fit_many(RECORDS, 2, [], rng=np.random.default_rng(0)) == []


@pytest.mark.parametrize("threads", [0, -1])
def test_a_number_of_threads_below_one_is_refused(threads):
    with pytest.raises(UserError, match="threads"):
        em_pass(RECORDS, Mixture([1.0], np.zeros((1, 2)), [np.eye(2)]), threads=threads)


def test_a_start_of_other_dimensions_is_refused():
    with pytest.raises(UserError, match="start"):
        fit(RECORDS, 1, rng=np.random.default_rng(0), start=Mixture([1.0], np.zeros((1, 3)), [np.eye(3)]))


def test_a_stream_takes_no_weights_and_no_subsets():
    stream = stream_batches(lambda: [RECORDS])
    with pytest.raises(UserError, match="weights"):
        fit(stream, 1, rng=np.random.default_rng(0), weights=np.ones(300))
    with pytest.raises(UserError):
        fit_many(stream, 1, [np.ones(300, dtype=bool)], rng=np.random.default_rng(0))


@pytest.mark.parametrize("batches", [[RECORDS], (each for each in [RECORDS])], ids=["a list", "an iterator"])
def test_a_stream_needs_a_callable(batches):
    with pytest.raises(UserError):
        stream_batches(batches)


@pytest.mark.parametrize("constant", [0.3, 0.25, 0.1, 1e6 + 0.1])
def test_the_default_floor_of_a_constant_coordinate_is_that_of_the_others(constant):
    points = np.column_stack([np.linspace(-1, 1, 50), np.full(50, constant)])
    found = fit(points, 1, rng=np.random.default_rng(0)).mixture.covariances[0]
    assert found[1, 1] == pytest.approx(1e-8 * found[0, 0], rel=1e-6)


def test_weights_whose_sum_overflows_are_refused():
    with pytest.raises(UserError, match="weights"):
        fit(RECORDS, 2, rng=np.random.default_rng(0), weights=np.full(300, 1e307))


def test_a_pass_beyond_floating_point_is_refused():
    far = Mixture([0.5, 0.5], np.zeros((2, 2)), [np.eye(2) * 1e-20] * 2)
    with pytest.raises(UserError, match="too far"):
        em_pass(observe(RECORDS * 1e149), far)


@pytest.mark.parametrize(
    "points",
    [5, None, [["a", "b"]], [[1.0, 2.0], [1.0]], RECORDS + 1j],
    ids=["number", "None", "text", "ragged", "complex"],
)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_input_that_is_not_an_array_of_records_is_refused(points):
    with pytest.raises(UserError):
        fit(points, 1, rng=np.random.default_rng(0))


@pytest.mark.parametrize("k", [2.5, "2"])
def test_a_number_of_components_that_is_not_an_integer_is_refused(k):
    with pytest.raises(UserError):
        fit(RECORDS, k, rng=np.random.default_rng(0))
