"""The Boolean family: shared and specific 0/1 factors of several sources (Miettinen 2012).

In the order of the data: sources -> :func:`asso`, :func:`closed_itemsets` -> :func:`concat_asso`,
:func:`shared_asso`, :func:`dominated` (all end in :func:`update_factors`) ->
:func:`description_length`, :func:`select_ranks`, :func:`select_sharing` -> :func:`project`,
:func:`shares`, :func:`describe_factors`. :class:`JSBMF` and, for any sharing pattern,
:class:`SharedBMF` wrap the three methods for :func:`jaxshared.fit`. :func:`greedy_cover`,
:func:`flip` and :func:`cover_samples` are the same as pure functions, :func:`sweep` many fits in
one compiled call.
"""

from jaxshared.boolean.asso import asso
from jaxshared.boolean.closed import Tiles, TooManySets, closed_itemsets
from jaxshared.boolean.description import DescriptionLength, description_length
from jaxshared.boolean.flip import flip, update_factors
from jaxshared.boolean.joint import concat_asso, dominated, shared_asso
from jaxshared.boolean.lanes import greedy_cover
from jaxshared.boolean.matrices import (
    as_boolean,
    balanced_weights,
    boolean_product,
    weighted_error,
)
from jaxshared.boolean.model import JSBMF, SharedBMF
from jaxshared.boolean.pattern import BooleanFactors
from jaxshared.boolean.project import cover_samples, project, shares
from jaxshared.boolean.select import Selection, select_ranks
from jaxshared.boolean.select_sets import SharingSelection, select_sharing
from jaxshared.boolean.sweep import BooleanSweep, sweep
from jaxshared.boolean.synthetic import Planted, planted
from jaxshared.boolean.words import FactorWords, describe_factors, factors_in_words

__all__ = [
    "JSBMF",
    "BooleanFactors",
    "BooleanSweep",
    "DescriptionLength",
    "FactorWords",
    "Planted",
    "Selection",
    "SharedBMF",
    "SharingSelection",
    "Tiles",
    "TooManySets",
    "as_boolean",
    "asso",
    "balanced_weights",
    "boolean_product",
    "closed_itemsets",
    "concat_asso",
    "cover_samples",
    "describe_factors",
    "description_length",
    "dominated",
    "factors_in_words",
    "flip",
    "greedy_cover",
    "planted",
    "project",
    "select_ranks",
    "select_sharing",
    "shared_asso",
    "shares",
    "sweep",
    "update_factors",
    "weighted_error",
]
