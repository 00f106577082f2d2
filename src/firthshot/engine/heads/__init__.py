"""The heads, one file each: options, training, cost and names in one class.

A head is added by a file with one class and its name below, or from outside by `register_head`
(``docs/extending.md``).
"""

from firthshot.engine.heads.base import register_head
from firthshot.engine.heads.centroid import Centroid
from firthshot.engine.heads.cosine import Cosine
from firthshot.engine.heads.least_squares import LeastSquares
from firthshot.engine.heads.linear import Linear
from firthshot.engine.heads.mlp import Mlp

__all__ = ["Centroid", "Cosine", "LeastSquares", "Linear", "Mlp"]

for _head in (Linear, Cosine, Mlp, Centroid, LeastSquares):
    register_head(_head)
