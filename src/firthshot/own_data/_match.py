"""Whether rows fit a model: the same features, by name where both sides have names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.own_data._examples import Examples


def model_features(model: Any) -> tuple[str, ...] | None:
    """Return the names of the features that a model was fitted to, or None."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def matched_features(examples: Examples, model: Any) -> Any:
    """Return the features as the model takes them, or refuse rows of another size."""
    wanted, found = int(model.n_features_in_), examples.features.shape[1]
    if found != wanted:
        raise FirthshotError(
            f"{examples.source} has {found} feature{'s' * (found != 1)}, but the model was fitted "
            f"to {wanted}: give rows from the same encoder or with the same columns."
        )
    names = model_features(model)
    if names is None:
        return examples.features
    import polars as pl

    return pl.DataFrame(examples.features, schema=list(names))
