"""The core in NumPy, for small problems: nothing is compiled."""

from firthshot.jeffreys._kernels.solve import (
    maximise,
    profile_bound,
    profile_each,
    restricted_fits,
)
from firthshot.jeffreys._kernels.together import maximise_each
from firthshot.jeffreys._kernels.words import gradient, value

__all__ = [
    "gradient",
    "maximise",
    "maximise_each",
    "profile_bound",
    "profile_each",
    "restricted_fits",
    "value",
]
