"""Cross-entropy with Firth's penalty or with smoothed labels, of many classes or of one logit."""

from __future__ import annotations

import math
from typing import Any, NoReturn, SupportsFloat

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from firthshot.errors import FirthshotError, check_choice
from firthshot.objective import check_prior
from firthshot.torch._samples import (
    REDUCTIONS,
    Reduction,
    as_numbers,
    at_least_float32,
    cross_entropy,
    cross_entropy_from,
    divergence_from,
    log_softmax,
    per_class,
    reduce,
    sample_weights,
)

NO_SCRIPT = (
    "torch.jit.script cannot compile {}, whose settings may be numbers or tensors: use "
    "torch.compile, torch.export or torch.jit.trace."
)


def firth_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    lam: float | Tensor,
    prior: ArrayLike | Tensor | None = None,
    *,
    weight: ArrayLike | Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Compute CE(y‖p) + λ KL(u‖p), the function behind `FirthLoss`; see there.

    A prior that does not sum to one is used as it is, and a tensor λ below 0 counts as 0: values
    are not checked here, so that the function compiles. `FirthLoss` checks them.
    """
    _check_lam(lam)
    _check_smoothing(label_smoothing)
    log_p = log_softmax(input)
    prior, weight = per_class(prior, "prior", log_p), per_class(weight, "weight", log_p)
    data = cross_entropy(log_p, target, weight, ignore_index, reduction, label_smoothing)
    if not isinstance(lam, Tensor) and lam == 0:
        return data
    omega = sample_weights(log_p, target, weight, ignore_index)
    penalty = reduce(divergence_from(prior, log_p), omega, reduction, target.shape == input.shape)
    if isinstance(lam, Tensor):  # λ = 0 is cross-entropy even where the penalty is infinite
        lam = not_negative(lam).to(log_p.dtype)
        penalty = torch.where((lam == 0) & penalty.isinf(), 0.0, penalty)
    return data + lam * penalty


def label_smoothing_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    epsilon: float,
    prior: ArrayLike | Tensor | None = None,
    *,
    weight: ArrayLike | Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute cross-entropy with labels smoothed towards a prior: CE((1-ε) y + ε u ‖ p).

    (1+λ) times this loss with ε = λ/(1+λ) is `firth_loss` up to the constant λ × entropy of u: the
    same optimum without L2, another learning rate and another balance with weight decay.

    Without class weights and with the uniform prior this is ``label_smoothing`` of
    `torch.nn.functional.cross_entropy`. With class weights it is not: torch weights the smoothed
    part class by class, here a sample's weight counts for the whole of its loss.

    A prior that does not sum to one is accepted, and used as it is: values are not checked here,
    so that the function compiles. `FirthLoss` checks them.

    Parameters
    ----------
    epsilon : float
        Share of the prior in the labels, in [0, 1].
    input, target, prior, weight, ignore_index, reduction
        As in `FirthLoss`.
    """
    _check_smoothing(epsilon)
    log_p = log_softmax(input)
    prior, weight = per_class(prior, "prior", log_p), per_class(weight, "weight", log_p)
    data = cross_entropy(log_p, target, weight, ignore_index, reduction)
    omega = sample_weights(log_p, target, weight, ignore_index)
    towards = cross_entropy_from(prior, log_p)
    smooth = reduce(towards, omega, reduction, target.shape == input.shape)
    return (1 - epsilon) * data + epsilon * smooth if epsilon else data


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
    that do not exclude one another. The target has the shape of the logits and holds labels or
    probabilities of class 1; ``prior`` is that of class 1, in (0, 1).
    """
    _check_lam(lam)
    _check_prior(prior)
    z = at_least_float32(input)
    data = functional.binary_cross_entropy_with_logits(z, target.to(z.dtype), reduction="none")
    entropy = -prior * math.log(prior) - (1 - prior) * math.log1p(-prior)
    penalty = functional.softplus(z) - prior * z - entropy
    return reduce(data + not_negative(lam) * penalty, None, reduction)


class FirthLoss(nn.Module):  # type: ignore[misc]
    """Cross-entropy plus Firth's penalty, CE(y‖p) + λ KL(u‖p), for `torch.nn.CrossEntropyLoss`.

    With ``lam=0`` the loss is that of torch, bit for bit with class indices.

    Parameters
    ----------
    lam : float or Tensor of shape ()
        The coefficient λ. To learn it, give a ``torch.nn.Parameter``: it is one of the module's
        parameters. On the loss itself it always falls to 0: unroll training steps and minimise the
        cross-entropy of held-out rows. A λ below 0 counts as 0. To schedule it, assign to ``lam``
        between steps. Another tensor becomes a buffer: it is saved, moves with the module, and
        `torch.compile` does not specialise on its value. A number assigned to it later fills it; a
        tensor assigned to a number becomes one. The buffer is a floating copy of the tensor, except
        that a tensor which requires grad is the buffer itself, so that gradients reach it.
    prior : array-like of shape (C,), optional
        Probabilities u of the classes, uniform unless given; frequencies of the training labels
        make the penalty unigram label smoothing. One that does not sum to one is refused here,
        and accepted by the functions. It is copied as λ is, and so is ``weight``.
    weight : array-like of shape (C,), optional
        Class weights. They multiply the whole loss of a sample, penalty included: see the module.
    ignore_index : int
        A label that counts neither in the loss nor in its mean.
    reduction : "mean", "sum" or "none"
    label_smoothing : float
        Share of the uniform distribution in the labels, as in `torch.nn.CrossEntropyLoss`.

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
        *,
        prior: ArrayLike | Tensor | None = None,
        weight: ArrayLike | Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice("reduction", reduction, REDUCTIONS)
        _check_smoothing(label_smoothing)
        self.lam = lam
        self.register_buffer("prior", None if prior is None else _checked_prior(prior))
        self.register_buffer("weight", None if weight is None else _one_per_class(weight, "weight"))
        if not isinstance(ignore_index, int):
            raise FirthshotError(f"ignore_index must be an integer, got {ignore_index!r}.")
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def __prepare_scriptable__(self) -> NoReturn:
        """Say why ``torch.jit.script`` does not take the module."""
        raise FirthshotError(NO_SCRIPT.format("FirthLoss"))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; λ is checked, and a tensor stays or becomes a parameter or buffer."""
        if name != "lam":
            super().__setattr__(name, value)
            return
        _check_lam(value)
        if isinstance(value, Tensor) and value.detach() < 0:
            raise FirthshotError(f"lam must be a finite number ≥ 0, got {float(value.detach()):g}.")
        held = self._parameters.get("lam", self._buffers.get("lam"))
        if isinstance(value, Tensor):
            for place in (self.__dict__, self._buffers, self._parameters):
                place.pop("lam", None)  # whatever it was before
            if isinstance(value, nn.Parameter):
                self.register_parameter("lam", value)
            else:
                self.register_buffer("lam", _own(value))
        elif held is None:
            super().__setattr__("lam", float(value))
        else:  # in place: what was compiled reads this very tensor
            with torch.no_grad():
                held.fill_(float(value))

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
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """Describe the settings that differ from those of a plain loss."""
        lam = self.lam.detach() if isinstance(self.lam, Tensor) else self.lam
        parts = [f"lam={float(lam):g}"]
        for name in ("prior", "weight"):
            values = getattr(self, name)
            parts += [] if values is None else [f"{name}=<{len(values)} classes>"]
        parts += [f"ignore_index={self.ignore_index}"] if self.ignore_index != -100 else []
        parts += [f"label_smoothing={self.label_smoothing:g}"] if self.label_smoothing else []
        return ", ".join([*parts, f"reduction={self.reduction!r}"])


class FirthBCELoss(FirthLoss):
    """BCE(y‖p) + λ KL(u‖p) for one logit per label, for `torch.nn.BCEWithLogitsLoss`.

    λ is as in `FirthLoss`, and ``prior`` the prior probability of class 1.
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


def not_negative(lam: float | Tensor) -> Any:
    """Return λ, or 0 where an optimizer took it below: the loss would have no minimum.

    The gradient is that of λ itself, so that a λ below 0 can come back.
    """
    return lam + (lam.clamp(min=0) - lam).detach() if isinstance(lam, Tensor) else lam


def _check_smoothing(epsilon: float) -> None:
    if not 0 <= epsilon <= 1:
        raise FirthshotError(f"the label smoothing ε is {epsilon}; it must be in [0, 1].")


def _check_lam(lam: float | Tensor) -> None:
    """Refuse a bad λ; the value of a tensor is not looked at, which would stall a GPU."""
    if isinstance(lam, Tensor):
        if lam.ndim:
            raise FirthshotError(f"lam has shape {tuple(lam.shape)}; give one number.")
    elif not isinstance(lam, SupportsFloat) or not 0 <= float(lam) < math.inf:
        raise FirthshotError(f"lam must be a finite number ≥ 0, got {lam!r}.")


def _checked_prior(prior: ArrayLike | Tensor) -> Tensor:
    tensor = _one_per_class(prior, "prior")
    check_prior(tensor.detach().cpu().double().numpy())
    return tensor


def _one_per_class(values: ArrayLike | Tensor, name: str) -> Tensor:
    tensor = as_numbers(values, name)
    if tensor.ndim != 1:
        raise FirthshotError(
            f"the {name} has shape {tuple(tensor.shape)}; give one number per class."
        )
    return _own(tensor)


def _own(tensor: Tensor) -> Tensor:
    """Return a floating copy, or the tensor itself where gradients are to reach it."""
    if tensor.requires_grad:
        return tensor
    dtype = tensor.dtype if tensor.is_floating_point() else torch.get_default_dtype()
    return tensor.detach().to(dtype, copy=True)


def _check_prior(prior: float) -> None:
    if not isinstance(prior, SupportsFloat) or not 0 < float(prior) < 1:
        raise FirthshotError(f"prior must be a number between 0 and 1, got {prior!r}.")
