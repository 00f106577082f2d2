"""`FewShotClassifier`: the head to pick when you do not want to pick one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from firthshot.arrays import FLOATS, Array, is_plain
from firthshot.errors import FirthshotError
from firthshot.estimators._few_shot import words
from firthshot.estimators._few_shot.blend import APART, DOUBT, SHARES, SHARPNESS, settle
from firthshot.estimators._few_shot.heads import (
    HEADS,
    FirthPenalty,
    fit_heads,
    left_out_rounds,
    ridge,
)
from firthshot.estimators._few_shot.rows import KINDS, LabelledRows, place
from firthshot.estimators._few_shot.state import restored, saved_arrays
from firthshot.estimators._input import Input
from firthshot.estimators._left_out import LeftOut
from firthshot.estimators._saving import Saving
from firthshot.estimators._support import check_labels, check_weights, encode, used_rows
from firthshot.objective import log_softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


class FewShotClassifier(Saving, Input, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The head to pick for a few labelled rows: nothing needs setting.

    Four heads are fitted to the rows: logistic regression with Firth bias reduction, a Gaussian
    with one shrunk covariance for all classes, class means, and neighbours. Their log
    probabilities are added up, each with a sharpness of its own. With few rows, rules set these;
    rows that are left out in turn correct them, the more, the more rows there are. Classes count
    alike, however many rows they have. `explain` says what was settled.

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
        Ridge of the Firth head, for rows at a mean squared distance of 1 from their mean; "scale"
        as in `FirthClassifier`.
    class_prior : "uniform", "training", dict or array of shape (n_classes,), default="uniform"
        How frequent classes will be among new rows: all alike, as in the rows to fit, or as given
        (by label, or in the order of ``classes_``).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    choice_ : Choice
        What was settled: ``columns``, ``shares``, ``sharpness``, ``lam``, ``l2``, ``left_out``.
    left_out_ : LeftOut or None
        What the blend says of rows that were left out: ``accuracy`` and ``nll`` are estimates for
        new rows, from somewhat fewer rows than there are. None in a loaded model.
    class_prior_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where the features have names
    """

    left_out_: LeftOut | None

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
        rows, labels, weights = self._labelled(X, y, sample_weight)
        K, d = len(self.classes_), rows.shape[1]
        self._place = place(rows, labels, weights, K, self.columns)
        self._examples = LabelledRows(self._place.apply(rows), labels, weights, K)
        self.class_prior_ = self._prior()
        self._penalty = self._settled_penalty()
        along = np.asarray(rows @ np.sin(np.arange(1, d + 1)), np.float64)
        self._rounds = left_out_rounds(along, self._examples)
        self._heads, left = fit_heads(
            self._examples, tuple(self._shares()), self._penalty, d, self._rounds
        )
        self._settle(left)
        if not any(head.margin for head in self._heads.values()):
            warnings.warn(
                "Nothing in the rows tells the classes apart, as when all rows are equal: "
                "every new row gets the probabilities of class_prior.",
                UserWarning,
                stacklevel=2,
            )
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

    def _settled_penalty(self) -> FirthPenalty:
        examples = self._examples
        shots = float(examples.weights.sum()) / examples.n_classes
        lam = shots**-2 if isinstance(self.lam, str) else float(self.lam)
        return FirthPenalty(lam, ridge(examples) if isinstance(self.l2, str) else float(self.l2))

    def _settle(self, left: Array) -> None:
        """Set how sharply each head speaks, from the rule and from left-out rows (H, R, K)."""
        examples = self._examples
        rows = np.concatenate([np.empty(0, np.intp), *self._rounds])
        a = np.array(list(self._shares().values())) * SHARPNESS[self._place.kind]
        labels, weights = examples.labels[rows], examples.weights[rows]
        if len(rows):
            fixed = isinstance(self.heads, Mapping)
            a = settle(left, labels, _alike(labels, weights), a, apart=0.0 if fixed else APART)
        self._sharpness = a
        self.left_out_ = LeftOut(rows, labels, weights, self._doubted(np.tensordot(a, left, 1)))
        self._note_choice()

    def _note_choice(self) -> None:
        a = self._sharpness
        self.choice_ = words.Choice(
            columns=self._place.kind,
            shares=dict(zip(self._heads, (a / a.sum()).tolist(), strict=True)),
            sharpness=float(a.sum()),
            lam=self._penalty.lam,
            l2=self._penalty.l2,
            left_out=sum(len(rows) for rows in self._rounds),
        )

    def _prior(self) -> Array:
        """Return the frequencies of classes among new rows."""
        given, K = self.class_prior, len(self.classes_)
        if isinstance(given, str):
            if given not in ("uniform", "training"):
                raise FirthshotError(
                    f"class_prior is {given!r}; give 'uniform', 'training' or probabilities."
                )
            counts = np.ones(K) if given == "uniform" else self._examples.counts
            return np.asarray(counts / counts.sum())
        if isinstance(given, Mapping):
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

    # Telling

    def explain(self) -> str:
        """Return five lines of plain words: what was settled, and what Firth adds."""
        check_is_fitted(self)
        return words.explain(
            self.choice_,
            self.columns,
            self.n_features_in_,
            self._examples.counts,
            self.class_prior_,
            self.firth_effect(),
        )

    def firth_effect(self) -> words.FirthEffect:
        """Return what Firth bias reduction adds on these rows, from rows that are left out.

        The Firth head alone is fitted with its λ and with λ = 0, without the rows of each round.
        Both are calibrated on the left-out rows.
        """
        check_is_fitted(self)
        with_it, without = (
            self._firth_alone(FirthPenalty(lam, self._penalty.l2))
            for lam in (self._penalty.lam, 0.0)
        )
        return words.FirthEffect(
            lam=self._penalty.lam,
            rows=len(with_it.rows),
            accuracy=with_it.accuracy,
            accuracy_without=without.accuracy,
            log_loss=with_it.nll,
            log_loss_without=without.nll,
        )

    def _firth_alone(self, penalty: FirthPenalty) -> LeftOut:
        """Return what the Firth head says of left-out rows, calibrated; classes count alike."""
        examples = self._examples
        rows = np.concatenate([np.empty(0, np.intp), *self._rounds])
        _, left = fit_heads(examples, ("firth",), penalty, self.n_features_in_, self._rounds)
        labels, weights = (
            examples.labels[rows],
            _alike(examples.labels[rows], examples.weights[rows]),
        )
        prior = np.array([SHARPNESS[self._place.kind]])
        a = settle(left, labels, weights, prior) if len(rows) else prior
        return LeftOut(rows, labels, weights, np.tensordot(a, left, 1))

    # Predicting

    def _prepare(self, X: Any) -> Array:
        return self._place.apply(X)

    def _log_probabilities(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        rows = self._new_rows(X)
        heads = zip(self._sharpness, self._heads.values(), strict=True)
        return self._doubted(sum(a * head.logits(rows) for a, head in heads))

    def _doubted(self, logits: Any) -> Array:
        """Return log probabilities by the blend's logits, the prior and a little doubt."""
        doubt = DOUBT / float(self._examples.weights.sum())
        log_prior = np.log(self.class_prior_)
        log_p = log_softmax(np.asarray(logits) + log_prior)
        mixed: Array = np.logaddexp(log_p + np.log1p(-doubt), np.log(doubt) + log_prior)
        return mixed

    def decision_function(self, X: ArrayLike) -> Array:
        """Return log probabilities, or for two classes their difference, (n_samples,)."""
        log_p = self._log_probabilities(X)
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each row."""
        best = self._log_probabilities(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        return np.exp(self._log_probabilities(X))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        return self._log_probabilities(X)

    # Saving

    def _fitted_parameters(self) -> dict[str, Array]:
        return saved_arrays(
            self._place, self._examples, self._rounds, self._heads, self._sharpness
        ) | {"prior": self.class_prior_}

    def _fitted_numbers(self) -> dict[str, Any]:
        return {"kind": self._place.kind, "size": self._place.size, **vars(self._penalty)}

    def _restore(self, numbers: Any, arrays: dict[str, Array]) -> None:
        """Take the fitted state out of a file, or refuse what no fit can give."""
        K, names = len(self.classes_), tuple(self._shares())
        state = restored(numbers, arrays, names, self.n_features_in_, K)
        self._place, self._examples, self._rounds = state.place, state.examples, state.rounds
        self._penalty, self._heads, self._sharpness = state.penalty, state.heads, state.sharpness
        self.class_prior_, self.left_out_ = state.prior, None
        self._note_choice()


def _alike(labels: Array, weights: Array) -> Array:
    """Return weights of left-out rows in which classes count alike; their sum stays."""
    totals = np.bincount(labels, weights)
    return np.asarray(weights * (weights.sum() / ((totals > 0).sum() * totals[labels])))
