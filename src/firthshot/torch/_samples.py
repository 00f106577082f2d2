"""Penalties and losses of samples from their logits: log-probabilities, weights, reductions."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from firthshot.errors import FirthshotError, check_choice
from firthshot.objective import L2_PARAMETRISATIONS, l2_curvature

Reduction = Literal["none", "mean", "sum"]
REDUCTIONS = ("none", "mean", "sum")


def class_dim(logits: Tensor) -> int:
    """Return the axis of the classes."""
    return 0 if logits.ndim == 1 else 1


def at_least_float32(values: Tensor) -> Tensor:
    """Return the values, in float32 where they are half as wide."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def log_softmax(logits: Tensor) -> Tensor:
    """Return log-probabilities along the class axis."""
    if not isinstance(logits, Tensor):
        raise FirthshotError(f"logits must be a torch tensor, got {type(logits).__name__}.")
    if not logits.ndim or not logits.shape[class_dim(logits)]:
        raise FirthshotError(f"logits have shape {tuple(logits.shape)}: there is no class in it.")
    logits = at_least_float32(logits)
    return functional.log_softmax(logits, dim=class_dim(logits))


def cross_entropy(
    log_p: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return what `torch.nn.functional.cross_entropy` does, of log-probabilities."""
    check_choice("reduction", reduction, REDUCTIONS)
    if target.shape == log_p.shape:
        if not target.is_floating_point():
            raise FirthshotError(
                f"target has the shape of the logits but type {target.dtype}: "
                "give probabilities as floating numbers."
            )
        if ignore_index >= 0:
            raise FirthshotError(
                f"ignore_index = {ignore_index} has no meaning for targets that are probabilities."
            )
        target = target.to(log_p.dtype)
        if not label_smoothing:
            terms = -log_p * _weighted_target(log_p, target, weight)
            return reduce(terms.sum(class_dim(log_p)), None, reduction)
    how: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction}
    if label_smoothing:  # log-probabilities are their own log-softmax
        how["label_smoothing"] = label_smoothing
        return functional.cross_entropy(log_p, target, weight, **how)
    return functional.nll_loss(log_p, target, weight, **how)


def _weighted_target(log_p: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    target = target.to(log_p.dtype)
    return target if weight is None else target * _along_classes(weight, log_p)


def sample_weights(
    log_p: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> Tensor:
    """Return ω, the weight of every sample: w[y_i] or Σ_c w_c t_ic."""
    if target.shape == log_p.shape:
        return _weighted_target(log_p, target, weight).sum(class_dim(log_p))
    counted = target != ignore_index
    if weight is None:
        return counted.to(log_p.dtype)
    # gather, because indexing takes uint8 for a mask and a single index under vmap for a number
    labels = torch.where(counted, target, 0).long()
    each = weight.gather(0, labels.reshape(-1)).reshape(labels.shape)
    return torch.where(counted, each, 0.0)


def as_numbers(values: ArrayLike | Tensor, name: str, **like: Any) -> Tensor:
    """Return a tensor as it is, and a list or an array as a tensor with the type of ``like``."""
    if isinstance(values, Tensor):
        return values
    try:
        return torch.as_tensor(values, **like)
    except (TypeError, ValueError, RuntimeError):
        raise FirthshotError(f"{name} = {values!r} is not a list of numbers.") from None


def per_class(values: ArrayLike | Tensor | None, name: str, log_p: Tensor) -> Tensor | None:
    """Return a prior or class weights as a tensor (C,) with the type of log-probabilities."""
    if values is None:
        return None
    tensor = as_numbers(values, name, dtype=log_p.dtype, device=log_p.device).to(log_p.dtype)
    size = log_p.shape[class_dim(log_p)]
    if tensor.shape != (size,):
        raise FirthshotError(
            f"the {name} has shape {tuple(tensor.shape)} but the logits have {size} classes; "
            "give one number per class."
        )
    return tensor


def _along_classes(values: Tensor, log_p: Tensor) -> Tensor:
    """Return one value per class so that it broadcasts with log-probabilities."""
    return values.reshape(-1, *[1] * (log_p.ndim - class_dim(log_p) - 1))


def cross_entropy_from(prior: Tensor | None, log_p: Tensor) -> Tensor:
    """Return CE(u‖p) = -Σ_k u_k log p_k of every sample, with 0 log 0 = 0."""
    dim = class_dim(log_p)
    if prior is None:
        return -log_p.mean(dim)
    u = _along_classes(prior, log_p)
    return -torch.where(u > 0, u * log_p, 0.0).sum(dim)


def divergence_from(prior: Tensor | None, log_p: Tensor) -> Tensor:
    """Return KL(u‖p) of every sample."""
    if prior is None:
        return cross_entropy_from(None, log_p) - math.log(log_p.shape[class_dim(log_p)])
    return cross_entropy_from(prior, log_p) + torch.xlogy(prior, prior).sum()


def reduce(
    values: Tensor, omega: Tensor | None, reduction: Reduction, per_sample: bool = True
) -> Tensor:
    """Weigh the samples and reduce; ``per_sample`` divides by their number, else by Σ ω."""
    check_choice("reduction", reduction, REDUCTIONS)
    if omega is not None:  # an ignored sample counts as nothing even where its value is infinite
        values = torch.where(omega == 0, 0.0, omega * values)
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    return values.mean() if omega is None or per_sample else values.sum() / omega.sum()


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
