"""The host loop of a search: part after part, with a bar, a checkpoint and Ctrl-C between two of them."""

from __future__ import annotations

import jax
import numpy as np

from jaxshared.checkpoint import Checkpoint
from jaxshared.processes import agreed, several

__all__ = ["in_turn"]


def in_turn(count, part, like, *, unit, progress=False, checkpoint=None):
    """``part(number)`` for every number below ``count``, trees as ``like``: a list, shorter after Ctrl-C.

    What the checkpoint has is not made again.
    """
    from tqdm.auto import tqdm

    checkpoint = Checkpoint(None, "") if checkpoint is None else checkpoint
    tree, (_, kept) = jax.tree.structure(like), checkpoint.load() or (None, {})
    found = [tree.unflatten(kept[f"part{number}"]) for number in range(len(kept))]
    with tqdm(total=count, initial=len(found), unit=unit, disable=not progress) as bar:
        try:
            while len(found) < count:
                found.append(jax.tree.map(np.asarray, part(len(found))))
                bar.update()
                if agreed(checkpoint.due())[0]:
                    _save(checkpoint, found)
        except KeyboardInterrupt:
            if not found or several():
                raise  # there is nothing to return yet, or other processes go on
    _save(checkpoint, found)
    return found


def _save(checkpoint, found):
    checkpoint.save({}, {f"part{number}": tree for number, tree in enumerate(found)})
