"""scikit-learn's conventions: samples as rows, ``n_components``, ``random_state``, what fits in a Pipeline.

::

    from jaxshared.estimators import NMF, SharedNMF
    topics = SharedNMF(n_shared=10, n_specific=5, random_state=0).fit(X, groups=outlet)
    topics.transform(new, groups=outlet_of_new)

Several sources come as one matrix with a group per row (``groups=``, or ``group_column`` inside of X), or
as a list of matrices over the same columns. Views of the same rows are a list of matrices, or one
matrix with ``views=`` (:class:`MultiViewNMF`). Sizes are rounded up (:mod:`jaxshared.padded`), so a grid
search compiles a program per round size. Precision is that of X: float32 is twice as fast.
"""

from jaxshared.estimators.groups import INMF, NMF, BooleanMF, SharedNMF
from jaxshared.estimators.multiview import MultiViewNMF

__all__ = ["INMF", "NMF", "BooleanMF", "MultiViewNMF", "SharedNMF"]
