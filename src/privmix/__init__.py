"""Privmix: private Gaussian mixtures, and checks of their privacy claims.

You hold records about people and want to publish a model of them, or synthetic rows. Privmix fits Gaussian mixtures
with differential privacy, measures what privacy costs, and attacks its own models to check what they claim.

From Python::

    from privmix import PrivateGaussianMixture

    model = PrivateGaussianMixture(n_components=10, epsilon=1.0, bounds=[(18, 90), (0, 250)]).fit(X)
    rows, components = model.sample(1000)   # synthetic rows
    model.score_samples(X)                  # log density of each row
    model.privacy_.ledger                   # what was measured, with how much noise

`bounds` are public knowledge and never taken from the records. The noise is exact and comes from the operating
system; `random_state=0` makes it reproducible for experiments, with a `PrivacyWarning`.

From the command line, `snakemake --cores 8 reports/summary.html` compares mechanisms and ε on your datasets, and
`privmix release` makes what you may publish.

Public names:

PrivateGaussianMixture   the estimator, with the interface of scikit-learn
UserError                raised for anything you can fix; the message says what to do
PrivacyError             a UserError for a request that would break the guarantee
PrivacyWarning           issued for a result that must not be published
privmix.privacy          noise, ledger and accounting: how ε is spent and added up
privmix.audit            audit your own mechanism: a function and a claim in, a lower bound on ε out
privmix.attacks          membership attacks on a density, and the limits that ε sets them
privmix.catalog          catalog entries: the public description of a dataset

`privmix.naive.k_anonymity` is public too, after `import privmix.naive`: k, l and t of any table.

Everything else may change between versions. Each name loads on first use.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privmix import attacks, audit, catalog, privacy
    from privmix.errors import PrivacyError, PrivacyWarning, UserError
    from privmix.estimator import PrivateGaussianMixture

__all__ = [
    "PrivacyError",
    "PrivacyWarning",
    "PrivateGaussianMixture",
    "UserError",
    "attacks",
    "audit",
    "catalog",
    "privacy",
]


def lazy_names(
    package: str, names: Mapping[str, str], public: Sequence[str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names load on first use (PEP 562).

    `names` maps each name to its module, relative to the package; a name that maps to itself is the module. `public`
    are the names to list, by default all.
    """

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{names[name]}")
        return module if names[name] == name else getattr(module, name)

    return load, lambda: sorted(names if public is None else public)


_PACKAGES = ("attacks", "audit", "catalog", "evaluate", "mechanisms", "mixture", "privacy", "release")

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "PrivacyError": "errors",
        "PrivacyWarning": "errors",
        "PrivateGaussianMixture": "estimator",
        "UserError": "errors",
        **dict(zip(_PACKAGES, _PACKAGES, strict=True)),
    },
    __all__,
)
