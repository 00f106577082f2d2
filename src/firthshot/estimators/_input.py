"""What an estimator is given: parameters, and rows and labels validated as scikit-learn does."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from firthshot.arrays import FLOATS, Array, is_plain
from firthshot.errors import FirthshotError, ScaleWarning
from firthshot.estimators._class_prior import class_frequencies
from firthshot.estimators._columns import ColumnScale, column_scale, wide_columns
from firthshot.estimators._support import (
    Support,
    check_labels,
    check_weights,
    encode,
    used_rows,
    weigh_classes,
)
from firthshot.objective import class_prior

# What a coefficient may be beside a number.
COEFFICIENT_WORDS = {"lam": ("shots", "theory", "loo"), "l2": ("scale", "loo")}


def check_coefficient(name: str, value: Any) -> None:
    """Refuse a coefficient that is neither a number that can be used nor one of its words."""
    words = COEFFICIENT_WORDS[name]
    if isinstance(value, str) and value in words:
        return
    if not is_number(value) or not 0.0 <= value < np.inf:
        allowed = " or ".join(f"'{word}'" for word in words)
        raise FirthshotError(
            f"{name} is {value!r}; give a number that is not negative, or {allowed}.", name
        )


def is_number(value: Any) -> TypeGuard[float]:
    """Tell whether a value is a number of Python or of NumPy."""
    return isinstance(value, Real)


class Input:
    """What lets an estimator take rows: plain arrays without ado, all else by `validate_data`.

    Expected parameters: ``prior`` and ``class_weight``, and ``standardize`` and ``class_prior``
    where a head has them.
    """

    prior: Any
    class_weight: Any
    standardize: bool = False
    class_prior: Any = None
    column_scale_: ColumnScale | None = None

    _prior_shift: Array | None = None  # (K,), added to logits that are over the temperature
    _accepts_sparse: ClassVar[bool] = False

    def _prepare(self, X: Any) -> Any:
        """Return validated rows as the head sees them; ``support.X`` holds them so."""
        return X

    def _labelled(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, reset: bool = True
    ) -> tuple[Any, Array, Array, Array]:
        """Return validated rows of positive weight, the classes, class numbers and weights."""
        if is_plain(X, 2, "f") and is_plain(y, 1, "iubU") and len(X) == len(y):
            self._note_features(X, reset)
        else:
            X, y = validate_data(
                self, X, y, accept_sparse=self._sparse_format, dtype=FLOATS, reset=reset
            )
            check_labels(y)
        classes, labels = encode(y)
        weights = check_weights(sample_weight, len(labels))
        if sample_weight is not None:
            used = used_rows(weights, classes, labels)
            X, labels, weights = X[used], labels[used], weights[used]
        return X, classes, labels, weights

    def _support(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, reset: bool = True
    ) -> Support:
        """Validate everything; with ``reset`` set what describes classes and features."""
        X, classes, labels, given = self._labelled(X, y, sample_weight, reset)
        weights = weigh_classes(self.class_weight, classes, labels, given)
        if reset:
            self.classes_ = classes
            self._warn_of_columns(X)
            self.column_scale_ = column_scale(X, given) if self.standardize else None
            self._prior_shift = None
            if self.class_prior is not None:
                wanted = class_frequencies(self.class_prior, classes, np.bincount(labels, given))
                trained = np.bincount(labels, weights)
                self._prior_shift = np.log(wanted) - np.log(trained / trained.sum())
        X = self._as_seen(X)
        return Support(X, labels, weights, class_prior(self.prior, labels, len(classes), weights))

    def _as_seen(self, X: Any) -> Any:
        """Return validated rows with columns on one scale, if wished, as the head sees them."""
        return self._prepare(X if self.column_scale_ is None else self.column_scale_.apply(X))

    def _column_faults(self, X: Any) -> list[tuple[Array, str]]:
        """Return columns of the user's rows that decide alone, and in what way."""
        return [(wide_columns(X), "varies so much more than most that it decides alone")]

    def _warn_of_columns(self, X: Any) -> None:
        faults = [] if self.standardize else self._column_faults(X)
        for found, what in faults:
            if len(found):
                names = getattr(self, "feature_names_in_", range(X.shape[1]))
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                also = "standardize" in self.get_params()  # type: ignore[attr-defined]
                remedy = "put a StandardScaler in front" + ", or set standardize=True" * also
                fault = f"Column {names[found[0]]!r}{more} {what}: {remedy}."
                warnings.warn(fault, ScaleWarning, stacklevel=4)  # where fit was called

    def _note_features(self, X: Array, reset: bool) -> None:
        """Do for a plain array what `validate_data` does: set, or compare, the features."""
        if reset:
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        elif X.shape[1] != self.n_features_in_ or hasattr(self, "feature_names_in_"):
            validate_data(self, X, reset=False)  # raises, or warns, in scikit-learn's own words

    def _new_rows(self, X: Any) -> Any:
        """Validate rows to predict and return them as the head sees them."""
        if is_plain(X, 2, "f"):
            self._note_features(X, reset=False)
        else:
            X = validate_data(self, X, accept_sparse=self._sparse_format, dtype=FLOATS, reset=False)
        return self._as_seen(X)

    def _scores(self, X: ArrayLike) -> Array:
        """Return logits (n, K) of new rows."""
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> Array:
        """Return logits, (n_samples, n_classes), or for two classes their difference (n_samples,).

        Calibration does not change them.
        """
        logits = self._scores(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each row."""
        best = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @property
    def _sparse_format(self) -> str | bool:
        return "csr" if self._accepts_sparse else False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = self._accepts_sparse
        return tags
