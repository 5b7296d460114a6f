"""The gradient of an objective in two non-negative halves."""

from jaxshared.transforms.kinds import linear, multilinear
from jaxshared.transforms.pairs import Pair
from jaxshared.transforms.rules import register
from jaxshared.transforms.split import MissingRuleError, split_grad

__all__ = ["MissingRuleError", "Pair", "linear", "multilinear", "register", "split_grad"]
