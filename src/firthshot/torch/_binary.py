"""Firth's penalty for one logit of two classes, beside `torch.nn.BCEWithLogitsLoss`."""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

from torch import Tensor
from torch.nn import functional

from firthshot.errors import FirthshotError
from firthshot.torch._losses import FirthLoss, _check_lam, not_negative
from firthshot.torch._samples import Reduction, at_least_float32, reduce


def firth_bce_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    lam: float | Tensor,
    prior: float = 0.5,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute BCE(y‖p) + λ KL(u‖p) of logits; p = σ(input) is the probability of class 1.

    It is `firth_loss` of the two logits (0, input), entry by entry, so that it also serves labels
    that do not exclude one another.

    Parameters
    ----------
    input, target : Tensor of the same shape
        Logits, and labels or probabilities of class 1.
    lam : float or Tensor of shape ()
    prior : float
        The prior probability of class 1, in (0, 1).
    reduction : "mean", "sum" or "none"
    """
    _check_lam(lam)
    _check_prior(prior)
    z = at_least_float32(input)
    data = functional.binary_cross_entropy_with_logits(z, target.to(z.dtype), reduction="none")
    entropy = -prior * math.log(prior) - (1 - prior) * math.log1p(-prior)
    penalty = functional.softplus(z) - prior * z - entropy
    return reduce(data + not_negative(lam) * penalty, None, reduction)


def _check_prior(prior: float) -> None:
    if not isinstance(prior, SupportsFloat) or not 0 < float(prior) < 1:
        raise FirthshotError(f"prior must be a number between 0 and 1, got {prior!r}.")


class FirthBCELoss(FirthLoss):
    """BCE(y‖p) + λ KL(u‖p) for one logit per label, for `torch.nn.BCEWithLogitsLoss`.

    Parameters
    ----------
    lam : float or Tensor of shape ()
        As in `FirthLoss`.
    prior : float
        The prior probability of class 1.
    reduction : "mean", "sum" or "none"
    """

    def __init__(
        self, lam: float | Tensor, *, prior: float = 0.5, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(lam, reduction=reduction)
        _check_prior(prior)
        self.positive = prior

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # noqa: A002
        """Return the loss of logits and labels of the same shape."""
        lam: Any = self.lam
        return firth_bce_loss(input, target, lam, self.positive, reduction=self.reduction)
