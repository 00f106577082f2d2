"""The heads, one file each: options, training, cost and names in one class.

A head is added by a file with one class and its name below, or from outside by `register_head`
(``docs/extending.md``).
"""

from firthshot.engine.heads.base import register_head
from firthshot.engine.heads.base_classes import BaseFacts
from firthshot.engine.heads.centroid import Centroid
from firthshot.engine.heads.cosine import Cosine
from firthshot.engine.heads.gaussian import BaseGaussian, SharedGaussian
from firthshot.engine.heads.least_squares import LeastSquares
from firthshot.engine.heads.linear import Linear
from firthshot.engine.heads.mlp import Mlp
from firthshot.engine.heads.neighbour import NearestNeighbour
from firthshot.engine.heads.ridge import ClassWeights, LogitAdjustment, RidgeLogistic
from firthshot.engine.heads.simpleshot import SimpleShot, SimpleShotL2N
from firthshot.engine.heads.tim import Tim, TimGd
from firthshot.engine.heads.transductive import BdCspn, LaplacianShot, PtMap

_HEADS = (
    *(Linear, Cosine, Mlp, Centroid, LeastSquares),
    *(SimpleShot, SimpleShotL2N, NearestNeighbour, SharedGaussian, BaseGaussian),
    *(RidgeLogistic, ClassWeights, LogitAdjustment),
    *(BdCspn, LaplacianShot, PtMap, Tim, TimGd),
)
__all__ = [
    "BaseFacts",
    "BaseGaussian",
    "BdCspn",
    "Centroid",
    "ClassWeights",
    "Cosine",
    "LaplacianShot",
    "LeastSquares",
    "Linear",
    "LogitAdjustment",
    "Mlp",
    "NearestNeighbour",
    "PtMap",
    "RidgeLogistic",
    "SharedGaussian",
    "SimpleShot",
    "SimpleShotL2N",
    "Tim",
    "TimGd",
]  # fmt: skip

for _head in _HEADS:
    register_head(_head)
