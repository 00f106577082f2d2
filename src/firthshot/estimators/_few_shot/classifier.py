"""`FewShotClassifier`: the head to pick when you do not want to pick one."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.estimators._class_prior import class_frequencies
from firthshot.estimators._few_shot import words
from firthshot.estimators._few_shot.blend import (
    NOTHING,
    SHARES,
    SHARPEST,
    USUAL,
    Blend,
    blend,
    mixed,
    rule,
    settle,
)
from firthshot.estimators._few_shot.heads import HEADS, FirthPenalty, fit_heads, ridge
from firthshot.estimators._few_shot.rows import (
    EMBEDDING,
    KINDS,
    dense_part,
    place,
    refuse_overflow,
    suitable_kinds,
)
from firthshot.estimators._few_shot.sets import sets_of
from firthshot.estimators._input import Input
from firthshot.estimators._left_out import LeftOut
from firthshot.estimators._saving import Saving
from firthshot.estimators._support import WORTH_SINGLE
from firthshot.machine import one_thread_for_few_rows
from firthshot.objective import log_softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


AT_ONCE = 4_000_000  # distances between new and known rows that are held at once


class FewShotClassifier(Saving, Input, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The head to pick for a few labelled rows: nothing needs setting.

    Four heads are fitted to the rows: logistic regression with Firth bias reduction, a Gaussian
    with one shrunk covariance for all classes, class means, and neighbours. Their log
    probabilities are added up, each with a sharpness of its own. For a table this is done with
    scaled columns and with unit rows, and the two are mixed. With few rows, rules decide; rows
    that are left out in turn correct them, the more, the more rows there are. Classes count alike,
    however many rows they have. `explain` says what was settled.

    Parameters
    ----------
    columns : {"auto", "unit", "scaled", "plain"}, default="auto"
        What is done to rows first. "unit" brings them to length 1, "scaled" divides columns by
        their spread, "plain" does neither. "auto" takes unit rows from 64 columns on, and with
        fewer columns mixes unit rows and scaled columns.
    heads : "auto", a sequence of names or a dict of shares by name, default="auto"
        Of "firth", "gaussian", "means" and "neighbours". A dict fixes the shares.
    lam : float or "shots", default="shots"
        Strength of the bias reduction; "shots" is (K / N)² for K classes and N rows.
    l2 : float or "scale", default="scale"
        Ridge of the Firth head, for rows at a mean squared distance of 1 from their mean; "scale"
        as in `FirthClassifier`.
    class_prior : "uniform", "training", dict or array of shape (n_classes,), default="uniform"
        How frequent classes will be among new rows: all alike, as in the rows to fit, or as given
        (by label, or in the order of ``classes_``).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    choice_ : Choice
        What was settled: ``columns``, ``weights``, ``shares``, ``sharpness``, ``lam``, ``l2``,
        ``left_out``.
    left_out_ : LeftOut
        What the blend says of rows that were left out: ``accuracy`` and ``nll`` are estimates for
        new rows, from somewhat fewer rows than there are.
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

    # Fitting

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the row given twice, weight 0 the row left away.
        """
        self._check_parameters()
        rows, self.classes_, labels, weights = self._labelled(X, y, sample_weight)
        self._columns = None if isinstance(rows, np.ndarray) else np.unique(rows.indices)
        self._rows = dense_part(rows, self._columns)[0]
        with one_thread_for_few_rows(self._rows):
            self._settle(labels, weights)
        if not any(head.margin for heads in self._heads for head in heads.values()):
            warnings.warn(
                "Nothing in the rows tells the classes apart, as when all rows are equal: "
                "every new row gets the probabilities of class_prior.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _check_parameters(self) -> None:
        for name, word in (("lam", "shots"), ("l2", "scale")):
            value = getattr(self, name)
            is_number = isinstance(value, int | float | np.number) and 0 <= value < np.inf
            if not is_number and not (isinstance(value, str) and value == word):
                raise FirthshotError(
                    f"{name} is {value!r}; give a number that is not negative, or {word!r}."
                )
        if self.columns not in ("auto", *KINDS):
            kinds = ", ".join(map(repr, KINDS))
            raise FirthshotError(f"columns is {self.columns!r}; give 'auto', {kinds}.")
        self._shares()

    def _shares(self) -> dict[str, float]:
        """Return the shares of the heads before any row, or refuse heads that are not there."""
        given = self.heads
        if isinstance(given, str) and given == "auto":
            shares = dict(SHARES)
        elif isinstance(given, Mapping):
            shares = dict(given)
        else:
            shares = {name: SHARES.get(name, 0.0) for name in given} if given is not None else {}
        sound = set(shares) <= set(HEADS) and all(0 <= one < np.inf for one in shares.values())
        if not sound or not sum(shares.values()) or (isinstance(given, str) and given != "auto"):
            raise FirthshotError(
                f"heads is {given!r}; give 'auto', some of {', '.join(HEADS)}, or a dictionary of "
                "their shares."
            )
        total = sum(shares.values())
        return {name: shares[name] / total for name in HEADS if shares.get(name)}

    def _settle(self, labels: Array, weights: Array) -> None:
        """Fit every head in every kind of columns, and settle how much each counts."""
        dense, K = self._rows, len(self.classes_)
        refuse_overflow(dense)
        columns = np.arange(dense.shape[1]) if self._columns is None else self._columns
        along = dense @ np.sin(columns + 1)
        self._sets = sets = sets_of(along, labels, weights, K)
        self.class_prior_ = class_frequencies(self.class_prior, self.classes_, sets.counts[0])
        single = dense.shape[1] >= EMBEDDING and K * len(dense) * min(dense.shape) >= WORTH_SINGLE
        dtype = np.float32 if single else np.float64
        self._places = [
            place(dense, sets, kind, sparse=self._columns is not None, dtype=dtype)
            for kind in self._kinds()
        ]
        nothing = np.zeros(len(dense))
        seen = [one.apply(dense, nothing) for one in self._places]
        self._examples = np.stack(seen, dtype=dtype, casting="same_kind")
        self._penalty = self._settled_penalty()
        shares = self._shares()
        fitted = fit_heads(self._examples, sets, tuple(shares), self._penalty, self.n_features_in_)
        fixed = isinstance(self.heads, Mapping)
        start = rule(np.array([*shares.values()]), fitted.margins, fitted.apart, fixed=fixed)
        self._blend = self._blended(fitted.left_out, start, fixed=fixed)
        self._heads = fitted.heads
        self._left_out_logits = fitted.left_out
        self._note_choice(shares)

    def _kinds(self) -> tuple[str, ...]:
        if self.columns != "auto":
            return (self.columns,)
        return suitable_kinds(self._rows, self.n_features_in_, sparse=self._columns is not None)

    @property
    def _is_table(self) -> bool:
        return self.n_features_in_ < EMBEDDING and self._columns is None

    def _settled_penalty(self) -> FirthPenalty:
        sets = self._sets
        shots = float(sets.weights[0].sum()) / sets.n_classes
        lam = shots**-2 if isinstance(self.lam, str) else float(self.lam)
        by_rows = isinstance(self.l2, str)
        l2 = [
            ridge(one, sets, table=self._is_table) if by_rows else float(self.l2)
            for one in self._examples
        ]
        return FirthPenalty(lam, np.array(l2))

    def _blended(self, left_out: Array, start: Array, *, fixed: bool) -> Blend:
        """Return sharpness and weights, from the rule and from left-out rows (S, H, R, K)."""
        sets = self._sets
        kinds = [one.kind for one in self._places]
        head_start = [USUAL * (kind == "scaled" and len(kinds) > 1) for kind in kinds]
        head_start.append(NOTHING["table" if self._is_table else "embedding"])
        return blend(
            left_out,
            sets.labels[sets.left_out()],
            sets.evidence(self.class_prior_),
            start,
            np.array(head_start),
            fixed=fixed,
            log_prior=np.log(self.class_prior_),
        )

    def _note_choice(self, names: Iterable[str]) -> None:
        weights, best = self._blend.weights, int(self._blend.weights.argmax())
        a = self._blend.sharpness[best]
        self.choice_ = words.Choice(
            columns=self._places[best].kind,
            weights={one.kind: float(w) for one, w in zip(self._places, weights, strict=True)},
            shares=dict(zip(names, (a / a.sum()).tolist(), strict=True)),
            sharpness=float(a.sum()),
            lam=self._penalty.lam,
            l2=float(self._penalty.l2[best]),
            left_out=self._sets.left_out().size,
        )

    # Telling

    def explain(self) -> str:
        """Return five lines of plain words: what was settled, and what Firth adds."""
        check_is_fitted(self)
        return words.explain(
            self.choice_,
            self.columns,
            self.n_features_in_,
            self._sets.counts[0],
            self.class_prior_,
            self.firth_effect(),
        )

    @property
    def left_out_(self) -> LeftOut:
        """What the blend says of rows that were left out."""
        sets, rows = self._sets, self._sets.left_out()
        kinds = zip(self._blend.sharpness, self._left_out_logits, strict=True)
        log_p = [log_softmax(np.tensordot(a, z, 1)) for a, z in kinds]
        return LeftOut(rows, sets.labels[rows], sets.weights[0][rows], self._mixed(log_p))

    def firth_effect(self) -> words.FirthEffect:
        """Return what Firth bias reduction adds on these rows, from rows that are left out.

        The Firth head alone is fitted with its λ and with λ = 0, without the rows of each round.
        Both are calibrated on the left-out rows.
        """
        check_is_fitted(self)
        with_it, without = (self._firth_alone(lam) for lam in (self._penalty.lam, 0.0))
        return words.FirthEffect(
            lam=self._penalty.lam,
            rows=len(with_it.rows),
            accuracy=with_it.accuracy,
            accuracy_without=without.accuracy,
            accuracy_ci=with_it.mean_ci(with_it.hits - without.hits),
            log_loss=with_it.nll,
            log_loss_without=without.nll,
            log_loss_ci=with_it.mean_ci(without.losses - with_it.losses),
        )

    def _firth_alone(self, lam: float) -> LeftOut:
        """Return what the Firth head says of left-out rows, calibrated; classes count alike."""
        sets, best = self._sets, int(self._blend.weights.argmax())
        penalty = FirthPenalty(lam, self._penalty.l2[best : best + 1])
        fitted = fit_heads(
            self._examples[best : best + 1], sets, ("firth",), penalty, self.n_features_in_
        )
        rows, weights = sets.left_out(), sets.evidence()
        start = np.full((1, 1), SHARPEST)
        a, _ = settle(fitted.left_out, sets.labels[rows], weights, start)
        counted = weights if weights.sum() else sets.weights[0][rows]
        return LeftOut(rows, sets.labels[rows], counted, a[0, 0] * fitted.left_out[0, 0])

    # Predicting

    def _scores(self, X: ArrayLike) -> Array:
        """Return log probabilities (n, K) of new rows."""
        check_is_fitted(self)
        rows = self._new_rows(X)
        some = max(1, AT_ONCE // len(self._rows))
        parts = [self._some(rows[at : at + some]) for at in range(0, rows.shape[0], some)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _some(self, rows: Any) -> Array:
        """Return log probabilities of as many rows as there is memory for."""
        new = dense_part(rows, self._columns)
        log_p, dtype = [], self._examples.dtype
        kinds = zip(
            self._places, self._heads, self._blend.sharpness, self._blend.weights, strict=True
        )
        for one, heads, sharpness, weight in kinds:
            rows = one.apply(*new).astype(dtype, copy=False) if weight else np.empty((0, 0))
            parts = zip(sharpness, heads.values(), strict=True)
            logits = sum(a * head.logits(rows) for a, head in parts) if weight else 0.0
            log_p.append(log_softmax(logits) if weight else np.zeros((len(new[0]), 1)))
        return self._mixed(log_p)

    def _mixed(self, log_p: list[Array]) -> Array:
        n_rows = float(self._sets.weights[0].sum())
        return mixed(log_p, self._blend.weights, np.log(self.class_prior_), n_rows)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        with one_thread_for_few_rows(X):
            return np.exp(self._scores(X))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        return self._scores(X)

    # Saving

    def _fitted_parameters(self) -> dict[str, Array]:
        """Return the rows, from which a loaded model is fitted again."""
        arrays = {
            "rows": self._rows,
            "labels": self._sets.labels.astype(np.float64),
            "weights": self._sets.weights[0],
        }
        if self._columns is not None:
            arrays["columns"] = self._columns.astype(np.float64)
        return arrays

    def _fitted_numbers(self) -> dict[str, Any]:
        return {}

    def _restore(self, _numbers: Any, arrays: dict[str, Array]) -> None:
        """Fit again to the rows of a file, or refuse rows that no fit has seen."""
        check_rows(arrays, self.n_features_in_, len(self.classes_))
        columns = arrays.get("columns")
        self._columns = None if columns is None else columns.astype(np.intp)
        self._rows = arrays["rows"]
        with one_thread_for_few_rows(self._rows):  # the bits of the first fit
            self._settle(arrays["labels"].astype(np.intp), arrays["weights"])


def check_rows(arrays: dict[str, Array], n_features: int, n_classes: int) -> None:
    """Refuse arrays of a file that are no labelled rows."""
    columns = arrays.get("columns", np.arange(n_features))
    rows, labels, weights = (arrays.get(name) for name in ("rows", "labels", "weights"))
    sound = (
        set(arrays) <= {"rows", "labels", "weights", "columns"}
        and rows is not None
        and labels is not None
        and weights is not None
        and rows.ndim == 2
        and rows.shape[1] == len(columns)
        and labels.shape == weights.shape == (len(rows),)
        and np.isfinite(rows).all()
        and np.array_equal(np.unique(labels), np.arange(n_classes))
        and ((weights > 0) & (weights < np.inf)).all()
        and np.array_equal(np.intersect1d(columns, np.arange(n_features)), columns)
    )
    if not sound:
        raise FirthshotError("its rows are not those of its classes and features")
