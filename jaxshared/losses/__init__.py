"""Losses: what a source is compared with its approximation by, one file each."""

from jaxshared.checks import short
from jaxshared.losses.base import Loss
from jaxshared.losses.beta import Beta
from jaxshared.losses.kl import KL
from jaxshared.losses.squared import Squared

__all__ = ["KL", "Beta", "Loss", "Squared", "as_loss"]

#: The losses that have names.
NAMED = {"squared": Squared(), "kl": KL()}


def as_loss(loss, name="loss"):
    """A loss from its name, or as it is.

    >>> as_loss("kl")
    KL()
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in NAMED:
        raise ValueError(
            f"{name} is {short(loss)}: use {', '.join(map(repr, NAMED))}, or js.Beta(b)."
        )
    return NAMED[loss]
