"""`FewShotClassifier`: the head to pick when you do not want to pick one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from firthshot.errors import FirthshotError
from firthshot.estimators._few_shot.blend import APART, rule, settle
from firthshot.estimators._few_shot.heads import (
    HEADS,
    Penalty,
    Scaled,
    fit_heads,
    left_out_rounds,
    ridge,
)
from firthshot.estimators._few_shot.rows import KINDS, Coordinates, Examples, place
from firthshot.estimators._input import Input, check_coefficient
from firthshot.estimators._support import (
    FLOATS,
    Array,
    check_labels,
    check_weights,
    encode,
    is_plain,
    used_rows,
)
from firthshot.objective import log_softmax

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Choice:
    """What `FewShotClassifier` settled from its rows.

    Attributes
    ----------
    columns : "unit", "scaled" or "plain"
    shares : of each head in the blend, by name; they sum to 1
    sharpness : factor on the blend's logits
    lam, l2 : of the Firth head
    left_out : rows that were left out to settle shares and sharpness; 0 if the rules did alone
    """

    columns: str
    shares: dict[str, float]
    sharpness: float
    lam: float
    l2: float
    left_out: int


class FewShotClassifier(Input, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The head to pick for a few labelled rows: nothing needs setting.

    Four heads are fitted to the rows: logistic regression with Firth bias reduction, a Gaussian
    with one shrunk covariance for all classes, class means, and neighbours. Their log
    probabilities are added up, each with a sharpness of its own. With few rows, rules set these;
    rows that are left out in turn correct them, the more, the more rows there are. Classes count
    alike, however many rows they have.

    Parameters
    ----------
    columns : {"auto", "unit", "scaled", "plain"}, default="auto"
        What is done to rows first. "unit" brings them to length 1, "scaled" divides columns by
        their spread, "plain" does neither. "auto" scales where columns are of unlike spread, and
        else takes unit rows from 64 columns on.
    heads : "auto", a sequence of names or a dict of shares by name, default="auto"
        Of "firth", "gaussian", "means" and "neighbours". A dict fixes the shares.
    lam : float or "shots", default="shots"
        Strength of the bias reduction; "shots" is (K / N)² for K classes and N rows.
    l2 : float or "scale", default="scale"
        Ridge of the Firth head, for rows at a mean squared distance of 1 from their mean.
    class_prior : "uniform", "training", dict or array of shape (n_classes,), default="uniform"
        How frequent classes will be among new rows: all alike, as in the rows to fit, or as given
        (by label, or in the order of ``classes_``).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    choice_ : Choice
        What was settled.
    class_prior_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where the features have names
    """

    _accepts_sparse: ClassVar[bool] = True

    def __init__(
        self,
        *,
        columns: str = "auto",
        heads: str | Sequence[str] | Mapping[str, float] = "auto",
        lam: float | str = "shots",
        l2: float | str = "scale",
        class_prior: Any = "uniform",
    ) -> None:
        self.columns = columns
        self.heads = heads
        self.lam = lam
        self.l2 = l2
        self.class_prior = class_prior

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the row given twice, weight 0 the row left away.
        """
        shares = self._check_parameters()
        X, labels, weights = self._labelled(X, y, sample_weight)
        K = len(self.classes_)
        self._place = place(X, labels, weights, K, self.columns)
        examples = Examples(self._place.apply(X), labels, weights, K)
        self._shots = examples.counts
        self.class_prior_ = self._prior()
        penalty = self._penalty(examples)
        along = np.asarray(X @ np.sin(np.arange(1, X.shape[1] + 1)), np.float64)
        rounds = list(left_out_rounds(along, examples))
        self._heads, left = fit_heads(examples, tuple(shares), penalty, X.shape[1], rounds)
        self._settle(shares, penalty, examples, rounds, left)
        return self

    def _labelled(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[Any, Array, Array]:
        """Return validated rows, class numbers and weights; rows of weight 0 are left away."""
        if is_plain(X, 2, "f") and is_plain(y, 1, "iubU") and len(X) == len(y):
            self._note_features(X, reset=True)
        else:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS)
            check_labels(y)
        self.classes_, labels = encode(y)
        weights = check_weights(sample_weight, len(labels))
        if sample_weight is not None:
            used = used_rows(weights, self.classes_, labels)
            X, labels, weights = X[used], labels[used], weights[used]
        return X, labels, weights

    def _check_parameters(self) -> dict[str, float]:
        """Refuse parameters that mean nothing, and return the heads' shares before any row."""
        for name in ("lam", "l2"):
            value = getattr(self, name)
            check_coefficient(name, value)
            if value in ("loo", "theory"):
                raise FirthshotError(f"{name} is {value!r}, which FirthClassifier takes: give a number.")
        if self.columns not in ("auto", *KINDS):
            raise FirthshotError(
                f"columns is {self.columns!r}; give 'auto', {', '.join(map(repr, KINDS))}."
            )
        names = HEADS if isinstance(self.heads, str) and self.heads == "auto" else self.heads
        if isinstance(names, str) or not names or not set(names) <= set(HEADS):
            raise FirthshotError(
                f"heads is {self.heads!r}; give 'auto', or some of {', '.join(HEADS)}."
            )
        given = dict(names) if isinstance(names, dict) else dict.fromkeys(names, 1.0)
        total = sum(given.values())
        if not all(0 <= one < np.inf for one in given.values()) or not total:
            raise FirthshotError(f"heads is {self.heads!r}; give shares that are not negative.")
        return {name: given[name] / total for name in HEADS if given.get(name)}

    def _penalty(self, examples: Examples) -> Penalty:
        total = float(examples.weights.sum())
        lam = (examples.n_classes / total) ** 2 if self.lam == "shots" else float(self.lam)
        return Penalty(lam, ridge(examples) if self.l2 == "scale" else float(self.l2))

    def _settle(
        self,
        shares: dict[str, float],
        penalty: Penalty,
        examples: Examples,
        rounds: list[Array],
        left: Array,
    ) -> None:
        """Set how sharply each head speaks, from the rule and from left-out rows."""
        a = rule(np.array(list(shares.values())), examples.n_classes)
        rows = np.concatenate([np.empty(0, np.intp), *rounds])
        if len(rows):
            labels = examples.labels[rows]
            a = settle(
                left,
                labels,
                _evidence(labels, examples.weights[rows]),
                a,
                apart=0.0 if isinstance(self.heads, dict) else APART,
            )
        self._sharpness = a
        total = float(a.sum())
        self.choice_ = Choice(
            columns=self._place.kind,
            shares=dict(zip(shares, (a / total).tolist(), strict=True)),
            sharpness=total,
            lam=penalty.lam,
            l2=penalty.l2,
            left_out=len(rows),
        )

    def _prior(self) -> Array:
        """Return the frequencies of classes among new rows."""
        given, K = self.class_prior, len(self.classes_)
        if isinstance(given, str):
            if given not in ("uniform", "training"):
                raise FirthshotError(
                    f"class_prior is {given!r}; give 'uniform', 'training' or probabilities."
                )
            return np.full(K, 1 / K) if given == "uniform" else self._shots / self._shots.sum()
        if isinstance(given, dict):
            missing = [label for label in self.classes_.tolist() if label not in given]
            if missing:
                raise FirthshotError(f"class_prior has no probability of class {missing[0]!r}.")
            given = [given[label] for label in self.classes_.tolist()]
        values = np.asarray(given, np.float64)
        if values.shape != (K,) or not (values > 0).all() or not np.isfinite(values).all():
            raise FirthshotError(
                f"class_prior is {given!r}; give {K} probabilities above zero, one for each class."
            )
        return np.asarray(values / values.sum())

    # Predicting

    def _prepare(self, X: Any) -> Array:
        return self._place.apply(X)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return logits, (n_samples, n_classes), or for two classes their difference (n_samples,).

        Their softmax are the probabilities.
        """
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def _logits(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        rows = self._new_rows(X)
        found = [a * head.logits(rows) for a, head in zip(self._sharpness, self._heads.values(), strict=True)]
        return np.asarray(sum(found) + np.log(self.class_prior_ * len(self.class_prior_)))

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each row."""
        return np.asarray(self.classes_[self._logits(X).argmax(axis=1)])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        return np.asarray(log_softmax(self._logits(X)))


def _evidence(labels: Array, weights: Array) -> Array:
    """Return weights of left-out rows in which classes count alike; their sum stays."""
    totals = np.bincount(labels, weights)
    present = totals > 0
    return np.asarray(weights * (weights.sum() / (present.sum() * totals[labels])))


__all__ = ["Choice", "Coordinates", "FewShotClassifier", "Scaled"]
