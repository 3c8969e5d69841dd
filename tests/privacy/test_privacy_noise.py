"""Noise has the scale that the ledger says, and cannot be drawn elsewhere.

Goodness-of-fit tests are seeded and fail by chance with probability 1e-6 over seeds; each has a twin that must
reject 2/3 and 3/2 of the scale.
"""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import privmix
from privmix.errors import UserError
from privmix.privacy import noise
from privmix.privacy.ledger import Gaussian, Laplace, Ledger
from privmix.privacy.noise import SeededNoise
from privmix.privacy.streams import stream

ALPHA = 1e-6
DRAWS = 20_000


def _laplace(scale_factor: float, ledger: Ledger) -> np.ndarray:
    source = SeededNoise(stream(1, "laplace"))
    return noise.laplace(
        np.zeros(DRAWS), sensitivity=3.0 * scale_factor, epsilon=0.5, source=source, ledger=ledger, label="x"
    )


def _gaussian(scale_factor: float, ledger: Ledger) -> np.ndarray:
    source = SeededNoise(stream(1, "gaussian"))
    return noise.gaussian(
        np.zeros(DRAWS),
        sensitivity=3.0 * scale_factor,
        multiplier=2.0,
        source=source,
        ledger=ledger,
        label="x",
    )


@pytest.mark.parametrize(
    ("draw", "law"), [(_laplace, stats.laplace(scale=3.0 / 0.5)), (_gaussian, stats.norm(scale=6.0))]
)
def test_noise_has_the_stated_scale_and_no_other(draw, law):
    assert stats.kstest(draw(1.0, Ledger()), law.cdf).pvalue > ALPHA
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(draw(factor, Ledger()), law.cdf).pvalue < ALPHA


def test_every_draw_writes_the_ledger():
    ledger = Ledger()
    _laplace(1.0, ledger)
    _gaussian(1.0, ledger)
    assert ledger.events == [Laplace("x", 0.5), Gaussian("x", 2.0)]


def test_symmetric_noise_is_symmetric_with_the_same_scale_on_and_off_the_diagonal():
    ledger, source = Ledger(), SeededNoise(stream(2, "matrix"))
    matrix = noise.gaussian_symmetric(
        np.zeros((200, 200)), sensitivity=1.5, multiplier=2.0, source=source, ledger=ledger, label="m"
    )
    assert np.array_equal(matrix, matrix.T)
    assert len(ledger.events) == 1
    upper = matrix[np.triu_indices(200)]
    assert stats.kstest(upper, stats.norm(scale=3.0).cdf).pvalue > ALPHA
    assert stats.kstest(upper, stats.norm(scale=3.0 * 2 / 3).cdf).pvalue < ALPHA
    assert stats.kstest(np.diag(matrix), stats.norm(scale=3.0).cdf).pvalue > ALPHA


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_scales_are_refused_with_the_value(bad):
    source = SeededNoise(stream(1, "x"))
    for function, arguments in (
        (noise.laplace, {"sensitivity": bad, "epsilon": 1.0}),
        (noise.laplace, {"sensitivity": 1.0, "epsilon": bad}),
        (noise.gaussian, {"sensitivity": bad, "multiplier": 1.0}),
        (noise.gaussian, {"sensitivity": 1.0, "multiplier": bad}),
    ):
        ledger = Ledger()
        with pytest.raises(UserError, match="greater than 0"):
            function(np.zeros(2), source=source, ledger=ledger, label="x", **arguments)
        assert ledger.events == []


def test_streams_of_different_purposes_share_nothing():
    purposes = [
        ("checkins", "dp_em", 1.0, 0, "noise"),
        ("checkins", "dp_em", 3.0, 0, "noise"),
        ("checkins", "dp_em", 1.0, 1, "noise"),
        ("checkins", "dp_em", 1.0, 0, "search"),
        ("checkins", "dp", "_em", 1.0, 0, "noise"),
        ("mpls_stops", "dp_em", 1.0, 0, "noise"),
    ]
    draws = [stream(7, *purpose).random(1000) for purpose in purposes]
    draws.append(stream(8, *purposes[0]).random(1000))
    for i, first in enumerate(draws):
        assert np.array_equal(first, stream(7, *purposes[i]).random(1000)) if i < len(purposes) else True
        for second in draws[i + 1 :]:
            assert abs(np.corrcoef(first, second)[0, 1]) < 0.2


# Where privacy rests on it, randomness comes from the functions of privmix.privacy alone.
GUARDED = ("mechanisms", "evaluate", "stages", "clean")
DRAWING = {"laplace", "normal", "standard_normal", "gumbel", "exponential", "geometric", "random", "uniform",
           "integers", "choice", "permutation", "shuffle", "default_rng", "gaussian", "binomial"}  # fmt: skip


def _draws(path: Path) -> set[str]:
    """Calls of a drawing method, but for the functions of the module `noise`."""
    return {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in DRAWING
        and ast.unparse(node.func.value) != "noise"
    }


def test_privacy_noise_is_drawn_nowhere_else():
    package = Path(privmix.__file__).parent
    guarded = [path for group in GUARDED for path in (package / group).rglob("*.py")]
    assert len(guarded) > 20
    for path in guarded:
        text = path.read_text()
        assert not _draws(path), f"{path.name} draws {_draws(path)} past the ledger"
        assert ".noise." not in text.replace("rng.noise,", ""), f"{path.name} reaches into the noise source"
        assert "ledger.append" not in text, f"{path.name} writes the ledger itself"


def test_the_guard_sees_a_draw(tmp_path):
    culprit = tmp_path / "culprit.py"
    culprit.write_text("def fit(x, rng):\n    return x + rng.search.normal(0, 1) + noise.laplace(x)\n")
    assert _draws(culprit) == {"rng.search.normal"}


def test_only_the_noise_functions_write_the_ledger():
    package = Path(privmix.__file__).parent
    writers = {path.name for path in package.rglob("*.py") if "ledger.append(" in path.read_text()}
    assert writers == {"noise.py", "response.py"}
