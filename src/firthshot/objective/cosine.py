"""What the cosine head's logits are multiplied by."""

from __future__ import annotations


def cosine_scale(n_classes: int) -> float:
    """Return the published factor of the cosines: 2, and 10 above 200 classes."""
    return 2.0 if n_classes <= 200 else 10.0
