"""Methods by name. The module of a method is imported only when the method is used."""

import importlib
from typing import Any

from pydantic import ValidationError

from privmix.errors import UserError, suggest, to_user_error
from privmix.mechanisms.base import Mechanism

CENTRAL = {
    "non_private": "NonPrivate",
    "dp_em": "DpEm",
    "noisy_tree": "NoisyTree",
    "noisy_grid": "NoisyGrid",
    "noisy_moments": "NoisyMoments",
    "tree_then_moments": "TreeThenMoments",
    "output_noise": "OutputNoise",
    "dp_sgd": "DpSgd",
    "posterior_sample": "PosteriorSample",
}
LOCAL = {
    "laplace_input": "LaplaceInput",
    "gaussian_input": "GaussianInput",
    "planar_laplace": "PlanarLaplaceInput",
    "randomized_response": "RandomizedResponse",
    "tree_response": "TreeResponse",
    "adaptive_tree_response": "AdaptiveTreeResponse",
}
METHODS = CENTRAL | LOCAL


def module_of(method: str) -> str:
    """Return the name of the module that holds a method."""
    return f"privmix.mechanisms.{'central' if method in CENTRAL else 'local'}.{method}"


def method_class(method: str, where: str = "mechanism") -> type[Mechanism]:
    """Return the class of a method. The error for an unknown name suggests the nearest known name."""
    if method not in METHODS:
        raise UserError(f"{where}: unknown method {method!r}; {suggest(method, METHODS)}")
    return getattr(importlib.import_module(module_of(method)), METHODS[method])


def build(method: str, parameters: dict[str, Any], where: str = "mechanism") -> Mechanism:
    """Build a mechanism with checked parameters."""
    chosen = method_class(method, where)
    try:
        return chosen(**parameters)
    except ValidationError as error:
        known = [str(field.validation_alias or name) for name, field in chosen.__pydantic_fields__.items()]
        raise to_user_error(error, where, [*known, "method"]) from error
