"""Audits: is a privacy claim true?

`audit_function` audits your own mechanism. It runs the function many times on two neighbouring datasets, lets an
attacker guess which one was used, and turns the attacker's success into a lower bound on ε:

>>> import numpy as np
>>> from privmix.audit import audit_function
>>> rng = np.random.default_rng(0)
>>> def noisy_count(records):
...     return len(records) + rng.laplace(scale=0.25)  # claims ε = 1, but this is the noise for ε = 4
>>> found = audit_function(noisy_count, ([1, 1, 1], [1, 1]), epsilon=1.0)
>>> found.violated
True

The mechanisms of Privmix are audited more closely, by a replay of each run (`audit.replay`) and by a game that sees
every measurement (`audit.game`).
"""

from typing import TYPE_CHECKING

from privmix import lazy_names

if TYPE_CHECKING:
    from privmix.audit.black_box import FunctionAudit, audit_function

__all__ = ["FunctionAudit", "audit_function"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "black_box"))
