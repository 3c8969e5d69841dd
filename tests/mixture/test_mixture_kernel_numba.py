"""The compiled loops: their exp and log, the parts of the softmax, and the cache for later processes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import logsumexp

from privmix.mixture import kernel_numba
from privmix.mixture.kernel import LOG_ZERO, coefficients, log_joint
from privmix.mixture.model import Mixture
from privmix.mixture.moments import Parameters, observe, observe_boxes

FEW_UNITS = 6e-16  # relative: between two and three units in the last place
BLOCKS_AND_A_BIT = 2 * kernel_numba.BLOCK + 37


def wide(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, dtype=np.longdouble)


def random_joint(k: int, n: int = BLOCKS_AND_A_BIT, seed: int = 0) -> np.ndarray:
    """Draw log joint densities of very different size, with one component per row."""
    rng = np.random.default_rng(seed)
    return rng.normal(-20, 30, (k, n))


def test_exponential_is_accurate_over_its_whole_range():
    x = np.concatenate([-np.logspace(-18, np.log10(707.99), 4000), np.linspace(-40, 0, 4001)])
    got = np.array([kernel_numba.exponential(each) for each in x])
    assert np.abs(wide(got) / np.exp(wide(x)) - 1).max() < FEW_UNITS
    assert kernel_numba.exponential(0.0) == 1.0


@pytest.mark.parametrize("x", [-708.0, -708.5, -745.0, -1e5, LOG_ZERO, 2 * LOG_ZERO, -np.inf])
def test_exponential_is_zero_below_the_normal_numbers(x):
    assert kernel_numba.exponential(x) == 0.0


def test_logarithm_is_accurate_for_every_sum_of_shares():
    x = np.concatenate(
        [np.linspace(np.sqrt(0.5), 4, 5000), np.logspace(0, 12, 3000), 1 + np.logspace(-15, -1, 500)]
    )
    got = np.array([kernel_numba.logarithm(each) for each in x])
    exact = np.log(wide(x))
    assert np.abs(wide(got) - exact).max() <= 2e-15  # at ln 1e12, about half a unit
    some = np.abs(exact) > 0
    assert np.abs(wide(got)[some] / exact[some] - 1).max() < FEW_UNITS
    assert kernel_numba.logarithm(1.0) == 0.0


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_log_joints_are_the_weighted_densities_of_every_record(d):
    rng = np.random.default_rng(d)
    factors = rng.normal(size=(3, d, d))
    mixture = Mixture(
        [0.5, 0.3, 0.2], rng.normal(size=(3, d)), factors @ factors.transpose(0, 2, 1) + np.eye(d)
    )
    points = rng.normal(size=(BLOCKS_AND_A_BIT, d))
    joint = log_joint(observe(points), mixture)
    for k in range(3):
        alone = Mixture([1.0], mixture.means[k : k + 1], mixture.covariances[k : k + 1])
        np.testing.assert_allclose(
            joint[k], alone.log_density(points) + np.log(mixture.weights[k]), rtol=1e-11
        )


def test_log_joints_of_boxes_lose_half_the_trace_of_their_spread():
    mixture = Mixture([1.0], [[0.1, -0.2]], [np.diag([0.5, 0.25])])
    lower = np.random.default_rng(0).normal(size=(300, 2))
    side = np.array([0.3, 0.6])
    boxes, centres = observe_boxes(lower, lower + side), observe(lower + side / 2)
    lost = log_joint(centres, mixture) - log_joint(boxes, mixture)
    np.testing.assert_allclose(lost, 0.5 * (0.3**2 / 12 / 0.5 + 0.6**2 / 12 / 0.25), rtol=1e-10)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_log_sums_leave_out_the_given_component(k):
    joint = random_joint(k)
    out = np.empty(joint.shape[1])
    for without in range(-1, k if k > 1 else 0):
        kernel_numba.log_sums(joint, without, out)
        kept = [j for j in range(k) if j != without]
        np.testing.assert_allclose(out, logsumexp(joint[kept], axis=0), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_removal_costs_are_the_loss_of_the_weighted_log_sums(k):
    joint = random_joint(k)
    joint[0] = np.where(np.arange(joint.shape[1]) % 5 == 0, LOG_ZERO, joint[0])
    weights = np.random.default_rng(1).exponential(size=joint.shape[1])
    costs = np.zeros(k)
    kernel_numba.removal_costs(joint, weights, costs)
    for gone in range(k):
        rest = logsumexp(np.delete(joint, gone, axis=0), axis=0)
        lost = weights @ (logsumexp(joint, axis=0) - rest)
        assert costs[gone] == pytest.approx(lost, rel=1e-9)


def test_removing_an_unused_component_costs_nothing():
    joint = np.array([[-3.0, -1.0], [LOG_ZERO, LOG_ZERO]])
    costs = np.zeros(2)
    kernel_numba.removal_costs(joint, np.ones(2), costs)
    assert costs[1] == 0.0
    assert costs[0] > 1e299


def test_gains_are_the_log_likelihood_with_each_candidate_beside_the_rest():
    joint, rest = random_joint(4), random_joint(1, seed=7)[0]
    joint[1, ::3], rest[::4] = LOG_ZERO, -900.0
    weights = np.random.default_rng(2).exponential(size=len(rest))
    out = np.empty(4)
    kernel_numba.gains(rest, joint, weights, out)
    np.testing.assert_allclose(out, np.logaddexp(rest, joint) @ weights, rtol=1e-12)


def test_coefficients_are_padded_with_zeros_to_whole_groups():
    for d in (1, 2, 3, 4):
        mixture = Mixture([1.0], np.ones((1, d)), [np.eye(d)])
        table = coefficients(Parameters.of([mixture]))
        features = (d + 1) * (d + 2) // 2
        assert table.shape[2] % kernel_numba.GROUP == 0
        assert 0 <= table.shape[2] - features < kernel_numba.GROUP
        assert not table[..., features:].any()


FIT_TWICE = """
import json
import numpy as np
from privmix.mixture import em
points = np.random.default_rng(0).normal(size=(50, 2))
for _ in range(2):
    fit = em.fit(points, 1, rng=np.random.default_rng(0))
import privmix.mixture.kernel_numba as loops
stats = loops.fused_pass.stats
print(json.dumps([sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), fit.log_likelihood]))
"""

SMALL_PASS = """
import sys
import numpy as np
from privmix.mixture import em, kernel
from privmix.mixture.model import Mixture
kernel.em_pass(np.zeros((1000, 2)), Mixture([1.0], np.zeros((1, 2)), [np.eye(2)]))
assert not {"numba", "llvmlite"} & set(sys.modules), "a job that does not fit has paid for numba"
"""


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_the_first_process_compiles(tmp_path):
    hits, misses, first = json.loads(run(FIT_TWICE, NUMBA_CACHE_DIR=str(tmp_path)))
    assert (hits, misses) == (0, 1)
    kinds = {path.suffix for path in tmp_path.rglob("*") if "fused_pass" in path.name}
    assert kinds == {".nbi", ".nbc"}
    hits, misses, second = json.loads(run(FIT_TWICE, NUMBA_CACHE_DIR=str(tmp_path)))
    assert (hits, misses) == (1, 0)
    assert first == second


def test_a_small_pass_does_not_import_numba():
    run(SMALL_PASS)
