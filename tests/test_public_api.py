"""The public names: small, documented, lazy, the same for people and type checkers; and the types of the package."""

import ast
import doctest
import importlib
import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import privmix
from privmix.attacks import auc_ceiling, membership_attack

ROOT = Path(__file__).parents[1]
NAMESPACES = (
    "privmix",
    "privmix.privacy",
    "privmix.audit",
    "privmix.attacks",
    "privmix.naive",
    "privmix.catalog",
)


@pytest.mark.parametrize("name", NAMESPACES)
def test_every_public_name_exists_and_is_documented(name):
    module = importlib.import_module(name)
    assert module.__all__
    assert set(module.__all__) <= set(dir(module))
    for public in module.__all__:
        value = getattr(module, public)
        assert inspect.getdoc(value), f"{name}.{public} has no docstring"
        assert name != "privmix" or public in module.__doc__, f"{public} is not on the page of {name}"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(module, "nothing")  # noqa: B009


@pytest.mark.parametrize("name", NAMESPACES)
def test_type_checkers_see_the_same_names(name):
    module = importlib.import_module(name)
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name for node in block.body for alias in node.names}
    assert seen == set(module.__all__)


def test_importing_privmix_imports_nothing_heavy():
    code = "import sys, privmix; print([m for m in ('numpy', 'sklearn', 'pyarrow', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_is_a_page_one_can_learn_from():
    text = pydoc.render_doc(privmix, renderer=pydoc.plaintext)
    for part in (
        "PrivateGaussianMixture(n_components=10",
        "privacy_.ledger",
        "privmix release",
        *privmix.__all__,
    ):
        assert part in text


@pytest.mark.parametrize("name", ["privmix.privacy", "privmix.audit", "privmix.attacks", "privmix.estimator"])
def test_the_examples_in_docstrings_run(name):
    tried = doctest.testmod(importlib.import_module(name))
    assert tried.attempted > 0
    assert tried.failed == 0


def test_the_membership_attack_takes_any_density_model():
    """An overfitted model gives its training records away; the limit of ε is above guessing."""
    rng = np.random.default_rng(0)
    members, others = rng.normal(size=(2, 300, 4))
    over = GaussianMixture(40, reg_covar=1e-9, random_state=0).fit(members)
    found = membership_attack(over, members, others, false_positive_rates=(1e-6, 0.01))
    assert found.auc > 0.9
    assert found.auc_interval[0] <= found.auc <= found.auc_interval[1]
    assert set(found.tpr_at_fpr) == {0.01}  # 300 others are too few for 1e-6
    fair = membership_attack(GaussianMixture(1, random_state=0).fit(members), members, others)
    assert abs(fair.auc - 0.5) < 0.1
    assert 0.5 < auc_ceiling(1.0, 0.0) < 1.0


def test_the_package_has_no_type_error():
    """mypy on the whole package, strict on the public API (see [tool.mypy] in pyproject.toml)."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert (ROOT / "src/privmix/py.typed").exists()
