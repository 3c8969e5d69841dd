"""The public API as a typed user calls it; mypy checks this file with the package and nothing runs it."""

from pathlib import Path

import numpy as np

import privmix
from privmix import PrivateGaussianMixture
from privmix.attacks import auc_ceiling, membership_attack
from privmix.audit import FunctionAudit, audit_function
from privmix.catalog import Entry, load_entry
from privmix.privacy import ExactNoise, Ledger, account, laplace

X = np.zeros((10, 2))
model: PrivateGaussianMixture = PrivateGaussianMixture(10, epsilon=1.0, bounds=[(18, 90), (0, 250)]).fit(X)
rows, components = model.sample(10)
mean: float = rows.mean() + model.score(X) + model.privacy_.epsilon
found: FunctionAudit = audit_function(len, ([1], [2]), epsilon=1.0)
violated: bool = found.violated
ledger: privmix.privacy.Ledger = Ledger()
noisy: np.ndarray = laplace(X, sensitivity=1.0, epsilon=1.0, source=ExactNoise(), ledger=ledger, label="x")
total: float = account(ledger.events, 0.0, "linear").epsilon
above: bool = membership_attack(model, X, X).auc > auc_ceiling(1.0, 0.0)
entry: Entry = load_entry(Path("entry.yaml"))
PrivateGaussianMixture(unit="household")  # type: ignore[arg-type]  # an unknown unit is an error for mypy too
