"""The gradient of an objective in two non-negative halves."""

from jaxshared.transforms.kinds import by_value, linear, multilinear
from jaxshared.transforms.pairs import Pair, one_sided
from jaxshared.transforms.rules import register
from jaxshared.transforms.split import MissingRuleError, split_grad

__all__ = [
    "MissingRuleError",
    "Pair",
    "by_value",
    "linear",
    "multilinear",
    "one_sided",
    "register",
    "split_grad",
]
