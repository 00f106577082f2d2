"""Penalties on predicted probabilities, and L2 on parameters."""

from __future__ import annotations

import math
from typing import Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from firthshot.errors import FirthshotError
from firthshot.objective import L2_PARAMETRISATIONS, l2_curvature
from firthshot.torch._samples import (
    Reduction,
    class_dim,
    divergence_from,
    log_softmax,
    per_class,
    reduce,
)


def firth_penalty(
    input: Tensor,  # noqa: A002, torch's name
    prior: ArrayLike | Tensor | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute KL(u‖p) = Σ_k u_k log(u_k / p_k), Firth's penalty of the predictions (Eq. klobj).

    A prior that does not sum to one is accepted, and used as it is: values are not checked here,
    so that the function compiles. `FirthLoss` checks them.

    Parameters
    ----------
    input : Tensor
        Logits of shape (C,), (N, C) or (N, C, d1, …).
    prior : array-like of shape (C,), optional
        The distribution u, uniform unless given. Where it is 0 the probability does not matter:
        a class masked by a logit of -inf wants the prior 0, the penalty is infinite otherwise.
    reduction : "mean", "sum" or "none"
        Over the samples; ``"none"`` gives the shape of ``input`` without its class axis.
    """
    log_p = log_softmax(input)
    return reduce(divergence_from(per_class(prior, "prior", log_p), log_p), None, reduction)


def confidence_penalty(
    input: Tensor,  # noqa: A002
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute KL(p‖U) = Σ_k p_k log p_k + log C, the negative entropy of the predictions.

    Parameters as in `firth_penalty`. A logit of -inf counts as the probability 0, 0 log 0 = 0.
    """
    log_p = log_softmax(input)
    dim = class_dim(log_p)
    # 0 · (-inf) is not a number, 0 · (the most negative one) is 0, and so are its derivatives
    finite = log_p.clamp(min=torch.finfo(log_p.dtype).min)
    divergence = (log_p.exp() * finite).sum(dim) + math.log(log_p.shape[dim])
    return reduce(divergence, None, reduction)


def l2_penalty(
    module: nn.Module,
    parametrisation: Literal["mean-square", "ridge", "weight-decay"] = "weight-decay",
    *,
    n_samples: int | None = None,
) -> Tensor:
    """Compute the L2 penalty of a module's trained parameters: ½ c_W ‖W‖² + ½ c_b ‖b‖².

    Parameters named ``bias`` are biases, all others weights; frozen ones do not count.

    Parameters
    ----------
    module : nn.Module
        Mostly the head alone.
    parametrisation : str
        ``"mean-square"``: Σ θ² / P over all P parameters (the paper's logistic heads).
        ``"ridge"``: ½‖W‖²/n without biases (scikit-learn with C = 1 beside the mean loss).
        ``"weight-decay"``: ½‖θ‖², what the ``weight_decay`` of `torch.optim.SGD` minimises.
    n_samples : int
        The n of ``"ridge"``: the number of training samples, not of the batch.
    """
    if parametrisation not in L2_PARAMETRISATIONS or (parametrisation == "ridge" and not n_samples):
        raise FirthshotError(
            f"L2 {parametrisation!r} with n_samples={n_samples}: choose from "
            f"{', '.join(L2_PARAMETRISATIONS)}, and give 'ridge' the number of training samples."
        )
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not trained:
        raise FirthshotError(f"{type(module).__name__} has no trained parameter to penalise.")
    size = sum(p.numel() for _, p in trained)
    c = l2_curvature(parametrisation, n_parameters=size, n_samples=n_samples or 1)
    halves = [
        0.5 * (c.bias if name.rpartition(".")[2] == "bias" else c.weights) * p.square().sum()
        for name, p in trained
    ]
    return torch.stack(halves).sum()
