"""Noise, ledger and accounting: how ε is spent and added up.

Each function that draws noise also writes the ledger, and the accountant reads nothing but the ledger:

>>> import numpy as np
>>> from privmix.privacy import ExactNoise, Ledger, account, laplace
>>> ledger = Ledger()
>>> noisy = laplace(
...     np.array([120.0, 80.0]), sensitivity=1, epsilon=0.5, source=ExactNoise(), ledger=ledger, label="counts"
... )
>>> account(ledger.events, delta=0.0, composition="linear")
Claim(epsilon=0.5, delta=0.0)

Noise: `laplace`, `gaussian`, `exponential`, `report_noisy_max`, from `ExactNoise` (to publish) or `SeededNoise` (for
experiments). Accounting: `Ledger`, `Budget`, `Claim`, `account`, and for one Gaussian measurement `gaussian_delta`,
`gaussian_epsilon`, `gaussian_mu`. `Neighbours` states what is protected.
"""

from typing import TYPE_CHECKING

from privmix import lazy_names

if TYPE_CHECKING:
    from privmix.privacy.accounting import (
        Budget,
        Claim,
        account,
        gaussian_delta,
        gaussian_epsilon,
        gaussian_mu,
    )
    from privmix.privacy.exact import ExactNoise
    from privmix.privacy.ledger import Ledger
    from privmix.privacy.noise import SeededNoise, gaussian, laplace
    from privmix.privacy.selection import exponential, report_noisy_max
    from privmix.privacy.sensitivity import Neighbours

__all__ = [
    "Budget",
    "Claim",
    "ExactNoise",
    "Ledger",
    "Neighbours",
    "SeededNoise",
    "account",
    "exponential",
    "gaussian",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "laplace",
    "report_noisy_max",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Budget": "accounting",
        "Claim": "accounting",
        "ExactNoise": "exact",
        "Ledger": "ledger",
        "Neighbours": "sensitivity",
        "SeededNoise": "noise",
        "account": "accounting",
        "exponential": "selection",
        "gaussian": "noise",
        "gaussian_delta": "accounting",
        "gaussian_epsilon": "accounting",
        "gaussian_mu": "accounting",
        "laplace": "noise",
        "report_noisy_max": "selection",
    },
)
