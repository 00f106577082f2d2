"""The paper's cosine classifier as a module, and its trials as batches of a ``DataLoader``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Sampler

from firthshot.episodes import Episodes
from firthshot.errors import FirthshotError
from firthshot.objective import cosine_scale
from firthshot.torch._losses import NO_SCRIPT
from firthshot.torch._samples import at_least_float32


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
        self.scale = scale if scale is not None else cosine_scale(classes)
        self.v = nn.Parameter(torch.empty(classes, in_features, device=device, dtype=dtype))
        self.g = nn.Parameter(torch.empty(classes, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw v as `torch.nn.Linear` does and set g to the norms of its rows."""
        bound = 1 / math.sqrt(self.in_features)
        nn.init.uniform_(self.v, -bound, bound)
        with torch.no_grad():
            self.g.copy_(torch.linalg.vector_norm(self.v, dim=1))

    def __prepare_scriptable__(self) -> NoReturn:
        """Say why ``torch.jit.script`` does not take the module."""
        raise FirthshotError(NO_SCRIPT.format("CosineHead"))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Return logits (…, classes) of features (…, in_features)."""
        # lengths that float16 cannot hold are lengths all the same
        x, v = at_least_float32(input), at_least_float32(self.v)
        unit = x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) + 1e-5)
        # a class whose fitted norm is 0 has no direction: its logit is 0, not 0/0
        lengths = torch.linalg.vector_norm(v, dim=1).clamp_min(torch.finfo(v.dtype).tiny)
        factor = self.scale * self.g / lengths
        return functional.linear(unit.to(input.dtype), (factor[:, None] * v).to(self.v.dtype))

    def extra_repr(self) -> str:
        """Describe the sizes and the scale."""
        return f"in_features={self.in_features}, classes={self.classes}, scale={self.scale:g}"


class EpisodeSampler(Sampler):  # type: ignore[misc]
    """Yield the rows of one trial after another: its support, then its queries.

    For ``DataLoader(dataset, batch_sampler=EpisodeSampler(episodes))``, where the data set has the
    rows of the bank that the episodes were sampled from. The trials are those of
    `firthshot.sample_episodes`, so that a loop in torch sees what runs see.
    """

    def __init__(self, episodes: Episodes) -> None:
        if not isinstance(episodes, Episodes):
            raise FirthshotError(
                f"EpisodeSampler takes trials of sample_episodes, not {type(episodes).__name__}."
            )
        self.episodes = episodes

    def __len__(self) -> int:
        return len(self.episodes)

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(len(self.episodes)):
            trial = self.episodes[number]
            yield [*trial.support.tolist(), *trial.query.tolist()]

    @property
    def support_size(self) -> int:
        """Return how many rows of a batch are its support: the first ones."""
        return int(self.episodes.support.shape[1])

    def labels(self, number: int) -> Tensor:
        """Return the labels 0 … ways − 1 of a batch by its place, support first."""
        if not 0 <= number < len(self):
            raise FirthshotError(
                f"There is no trial {number}: give a number from 0 to {len(self) - 1}."
            )
        trial = self.episodes[number]
        return torch.as_tensor([*trial.support_labels.tolist(), *trial.query_labels.tolist()])
