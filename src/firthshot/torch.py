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

import math
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat

from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.objective import L2_PARAMETRISATIONS, Firth, l2_curvature

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError:
    raise MissingExtraError("firthshot.torch", "torch") from None

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    Reduction = Literal["none", "mean", "sum"]

__all__ = [
    "CosineHead",
    "FirthLoss",
    "confidence_penalty",
    "firth_loss",
    "firth_penalty",
    "l2_penalty",
    "label_smoothing_loss",
]

REDUCTIONS = ("none", "mean", "sum")


def firth_penalty(
    input: Tensor,  # noqa: A002, torch's name
    prior: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute KL(u‖p) = Σ_k u_k log(u_k / p_k), Firth's penalty of the predictions (Eq. klobj).

    Parameters
    ----------
    input : Tensor
        Logits of shape (C,), (N, C) or (N, C, d1, …).
    prior : Tensor of shape (C,), optional
        The distribution u, uniform unless given. Where it is 0 the probability does not matter:
        a class masked by a logit of -inf wants the prior 0, the penalty is infinite otherwise.
        The values are not checked here, so that the function compiles; `FirthLoss` checks them.
    reduction : "mean", "sum" or "none"
        Over the samples; ``"none"`` gives the shape of ``input`` without its class axis.
    """
    log_p = _log_softmax(input)
    return _reduce(_divergence_from(prior, log_p), None, reduction)


def confidence_penalty(
    input: Tensor,  # noqa: A002
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute KL(p‖U) = Σ_k p_k log p_k + log C, the negative entropy of the predictions.

    Parameters as in `firth_penalty`. A logit of -inf counts as the probability 0, 0 log 0 = 0.
    """
    log_p = _log_softmax(input)
    dim = _class_dim(log_p)
    # 0 · (-inf) is not a number, 0 · (the most negative one) is 0, and so are its derivatives
    finite = log_p.clamp(min=torch.finfo(log_p.dtype).min)
    divergence = (log_p.exp() * finite).sum(dim) + math.log(log_p.shape[dim])
    return _reduce(divergence, None, reduction)


def firth_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    lam: float | Tensor,
    prior: Tensor | None = None,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute CE(y‖p) + λ KL(u‖p), the function behind `FirthLoss`; see there."""
    _check_lam(lam)
    log_p = _log_softmax(input)
    data = _cross_entropy(log_p, target, weight, ignore_index, reduction)
    if not isinstance(lam, Tensor) and lam == 0:
        return data
    omega = _sample_weights(log_p, target, weight, ignore_index)
    penalty = _reduce(_divergence_from(prior, log_p), omega, reduction, target.shape == input.shape)
    if isinstance(lam, Tensor):  # λ = 0 is cross-entropy even where the penalty is infinite
        return data + torch.where(lam == 0, 0.0, lam * penalty)
    return data + lam * penalty


def label_smoothing_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    epsilon: float,
    prior: Tensor | None = None,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute cross-entropy with labels smoothed towards a prior: CE((1-ε) y + ε u ‖ p).

    (1+λ) times this loss with ε = λ/(1+λ) is `firth_loss` up to the constant λ × entropy of u: the
    same optimum without L2, another learning rate and another balance with weight decay.

    Without class weights and with the uniform prior this is ``label_smoothing`` of
    `torch.nn.functional.cross_entropy`. With class weights it is not: torch weights the smoothed
    part class by class, here a sample's weight counts for the whole of its loss.

    Parameters
    ----------
    epsilon : float
        Share of the prior in the labels, in [0, 1).
    input, target, prior, weight, ignore_index, reduction
        As in `FirthLoss`.
    """
    if not 0 <= epsilon < 1:
        raise FirthshotError(f"the label smoothing ε is {epsilon}; it must be in [0, 1).")
    log_p = _log_softmax(input)
    data = _cross_entropy(log_p, target, weight, ignore_index, reduction)
    omega = _sample_weights(log_p, target, weight, ignore_index)
    towards = _cross_entropy_from(prior, log_p)
    smooth = _reduce(towards, omega, reduction, target.shape == input.shape)
    return (1 - epsilon) * data + epsilon * smooth if epsilon else data


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


class FirthLoss(nn.Module):  # type: ignore[misc]
    """Cross-entropy plus Firth's penalty, CE(y‖p) + λ KL(u‖p), for `torch.nn.CrossEntropyLoss`.

    With ``lam=0`` the loss is that of torch, bit for bit with class indices.

    Parameters
    ----------
    lam : float or Tensor of shape ()
        The coefficient λ. To schedule it, assign to ``lam`` between steps. A tensor becomes a
        buffer, to be changed in place (``loss.lam.fill_(…)``): it is saved, moves with the module,
        and `torch.compile` does not specialise on its value.
    prior : array-like of shape (C,), optional
        Probabilities u of the classes, uniform unless given; frequencies of the training labels
        make the penalty unigram label smoothing.
    weight : Tensor of shape (C,), optional
        Class weights. They multiply the whole loss of a sample, penalty included: see the module.
    ignore_index : int
        A label that counts neither in the loss nor in its mean.
    reduction : "mean", "sum" or "none"

    Examples
    --------
    >>> import torch
    >>> loss = FirthLoss(1.5)
    >>> loss(torch.zeros(2, 3), torch.tensor([0, 2]))
    tensor(1.0986)
    """

    prior: Tensor | None
    weight: Tensor | None

    def __init__(
        self,
        lam: float | Tensor,
        prior: ArrayLike | Tensor | None = None,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        _check_lam(lam)
        _check_reduction(reduction)
        if isinstance(lam, Tensor):
            self.register_buffer("lam", lam)
        else:
            self.lam = float(lam)
        self.register_buffer("prior", None if prior is None else _checked_prior(prior))
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # noqa: A002
        """Return the loss of logits and class indices or probabilities."""
        return firth_loss(
            input,
            target,
            self.lam,
            self.prior,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """Describe the settings that differ from those of a plain loss."""
        parts = [f"lam={float(self.lam):g}"]
        if self.prior is not None:
            parts.append(f"prior=<{len(self.prior)} classes>")
        if self.weight is not None:
            parts.append(f"weight=<{len(self.weight)} classes>")
        if self.ignore_index != -100:
            parts.append(f"ignore_index={self.ignore_index}")
        return ", ".join([*parts, f"reduction={self.reduction!r}"])


class CosineHead(nn.Module):  # type: ignore[misc]
    """The paper's cosine classifier: logits s · g_k ⟨v_k/‖v_k‖, x/(‖x‖ + 1e-5)⟩, no bias.

    The norms g are trained, so it is not a pure cosine. The start is that of `torch.nn.Linear`
    (uniform ± 1/√d) for v, and g the norms of its rows.

    Parameters
    ----------
    in_features : int
    classes : int
    scale : float, optional
        The factor s; by the published rule 2, and 10 above 200 classes.

    Attributes
    ----------
    v : Parameter of shape (classes, in_features)
    g : Parameter of shape (classes,)
    """

    def __init__(
        self,
        in_features: int,
        classes: int,
        scale: float | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in_features < 1 or classes < 2:
            raise FirthshotError(
                f"CosineHead({in_features}, {classes}) needs one feature and two classes or more."
            )
        if scale is not None and not 0 < scale < math.inf:
            raise FirthshotError(f"scale = {scale} must be finite and above 0.")
        self.in_features, self.classes = in_features, classes
        self.scale = scale if scale is not None else (2.0 if classes <= 200 else 10.0)
        self.v = nn.Parameter(torch.empty(classes, in_features, device=device, dtype=dtype))
        self.g = nn.Parameter(torch.empty(classes, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw v as `torch.nn.Linear` does and set g to the norms of its rows."""
        bound = 1 / math.sqrt(self.in_features)
        nn.init.uniform_(self.v, -bound, bound)
        with torch.no_grad():
            self.g.copy_(torch.linalg.vector_norm(self.v, dim=1))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Return logits (…, classes) of features (…, in_features)."""
        # lengths that float16 cannot hold are lengths all the same
        x, v = _at_least_float32(input), _at_least_float32(self.v)
        unit = x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) + 1e-5)
        # a class whose fitted norm is 0 has no direction: its logit is 0, not 0/0
        lengths = torch.linalg.vector_norm(v, dim=1).clamp_min(torch.finfo(v.dtype).tiny)
        factor = self.scale * self.g / lengths
        return functional.linear(unit.to(input.dtype), (factor[:, None] * v).to(self.v.dtype))

    def extra_repr(self) -> str:
        """Describe the sizes and the scale."""
        return f"in_features={self.in_features}, classes={self.classes}, scale={self.scale:g}"


def _class_dim(logits: Tensor) -> int:
    return 0 if logits.ndim == 1 else 1


def _at_least_float32(values: Tensor) -> Tensor:
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def _log_softmax(logits: Tensor) -> Tensor:
    logits = _at_least_float32(logits)
    return functional.log_softmax(logits, dim=_class_dim(logits))


def _cross_entropy(
    log_p: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: Reduction
) -> Tensor:
    """Return what `torch.nn.functional.cross_entropy` does, of log-probabilities."""
    _check_reduction(reduction)
    weight = None if weight is None else weight.to(log_p.dtype)
    if target.shape != log_p.shape:
        return functional.nll_loss(
            log_p, target, weight, ignore_index=ignore_index, reduction=reduction
        )
    if not target.is_floating_point():
        raise FirthshotError(
            f"target has the shape of the logits but type {target.dtype}: "
            "give probabilities as floating numbers."
        )
    if ignore_index >= 0:
        raise FirthshotError(
            f"ignore_index = {ignore_index} has no meaning for targets that are probabilities."
        )
    terms = -log_p * _weighted_target(log_p, target, weight)
    return _reduce(terms.sum(_class_dim(log_p)), None, reduction)


def _weighted_target(log_p: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    target = target.to(log_p.dtype)
    return target if weight is None else target * _along_classes(weight, log_p)


def _sample_weights(
    log_p: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> Tensor:
    """Return ω, the weight of every sample: w[y_i] or Σ_c w_c t_ic."""
    if target.shape == log_p.shape:
        return _weighted_target(log_p, target, weight).sum(_class_dim(log_p))
    counted = target != ignore_index
    if weight is None:
        return counted.to(log_p.dtype)
    return torch.where(counted, weight.to(log_p.dtype)[torch.where(counted, target, 0)], 0.0)


def _along_classes(values: Tensor, log_p: Tensor) -> Tensor:
    """Return one value per class, broadcasting with log-probabilities and of their type."""
    size = log_p.shape[_class_dim(log_p)]
    if values.shape != (size,):
        raise FirthshotError(
            f"prior or weight has shape {tuple(values.shape)} but the logits have {size} classes; "
            "give one number per class."
        )
    return values.to(log_p.dtype).reshape(size, *[1] * (log_p.ndim - _class_dim(log_p) - 1))


def _cross_entropy_from(prior: Tensor | None, log_p: Tensor) -> Tensor:
    """Return CE(u‖p) = -Σ_k u_k log p_k of every sample, with 0 log 0 = 0."""
    dim = _class_dim(log_p)
    if prior is None:
        return -log_p.mean(dim)
    u = _along_classes(prior, log_p)
    return -torch.where(u > 0, u * log_p, 0.0).sum(dim)


def _divergence_from(prior: Tensor | None, log_p: Tensor) -> Tensor:
    """Return KL(u‖p) of every sample."""
    if prior is None:
        return _cross_entropy_from(None, log_p) - math.log(log_p.shape[_class_dim(log_p)])
    u = prior.to(log_p.dtype)
    return _cross_entropy_from(prior, log_p) + torch.xlogy(u, u).sum()


def _reduce(
    values: Tensor, omega: Tensor | None, reduction: Reduction, per_sample: bool = True
) -> Tensor:
    """Weigh the samples and reduce; ``per_sample`` divides by their number, else by Σ ω."""
    _check_reduction(reduction)
    if omega is not None:  # an ignored sample counts as nothing even where its value is infinite
        values = torch.where(omega == 0, 0.0, omega * values)
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    return values.mean() if omega is None or per_sample else values.sum() / omega.sum()


def _check_lam(lam: float | Tensor) -> None:
    """Refuse a bad λ; the value of a tensor is not looked at, which would stall a GPU."""
    if isinstance(lam, Tensor):
        if lam.ndim:
            raise FirthshotError(f"lam has shape {tuple(lam.shape)}; give one number.")
    elif not isinstance(lam, SupportsFloat) or not 0 <= float(lam) < math.inf:
        raise FirthshotError(f"lam = {lam!r} must be a number, finite and not negative.")


def _check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise FirthshotError(
            f"reduction = {reduction!r} is unknown; choose from {', '.join(REDUCTIONS)}."
        )


def _checked_prior(prior: ArrayLike | Tensor | Sequence[float]) -> Tensor:
    tensor = torch.as_tensor(prior)
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.get_default_dtype())
    if tensor.ndim != 1:
        raise FirthshotError(
            f"the prior has shape {tuple(tensor.shape)}; give one probability per class."
        )
    Firth(tensor.detach().cpu().double().numpy())  # refuses what is no distribution
    return tensor
