"""Firth's penalty and its rivals as PyTorch losses, and the paper's cosine head as a module.

For other people's training loops. Conventions are those of `torch.nn.CrossEntropyLoss`: logits
``input`` of shape (C,), (N, C) or (N, C, d1, …); ``target`` holds class indices of shape (), (N,)
or (N, d1, …), or probabilities in the shape of ``input``. Every value is computed in float32 where
the logits are float16 or bfloat16, and returned so, as under autocast.

One rule settles what class weights and ``ignore_index`` mean for a penalty: it is a part of the
sample's loss, so it carries the weight of the sample. With class indices that is ω_i = w[y_i], and
0 where the sample is ignored; with probabilities t it is ω_i = Σ_c w_c t_ic. The reduction
``"mean"`` is torch's: Σ_i ω_i ℓ_i / Σ_i ω_i with class indices, Σ_i ω_i ℓ_i / N with probabilities.
"""

from __future__ import annotations

from firthshot.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtraError("firthshot.torch", "torch") from None

from firthshot.torch._losses import (
    FirthBCELoss,
    FirthLoss,
    firth_bce_loss,
    firth_loss,
    label_smoothing_loss,
)
from firthshot.torch._modules import CosineHead, EpisodeSampler
from firthshot.torch._samples import confidence_penalty, firth_penalty, l2_penalty

__all__ = [
    "CosineHead", "EpisodeSampler", "FirthBCELoss", "FirthLoss", "confidence_penalty",
    "firth_bce_loss", "firth_loss", "firth_penalty", "l2_penalty", "label_smoothing_loss",
]  # fmt: skip
