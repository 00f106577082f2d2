"""What `firthshot fit` says of a model: counts, leave-one-out scores, confusion, remarks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import Advice
from firthshot.estimators import leaves_out_exactly
from firthshot.objective import softmax
from firthshot.own_data._remarks import remarks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firthshot.own_data._examples import Array, Examples

ECE_BINS = 15


@dataclass(frozen=True)
class LeftOutScores:
    """How each row is predicted by a head that was fitted without it.

    ``nll`` and ``ece`` are those of the probabilities before and after the temperature; it was
    fitted to rows of the same support set, so that "after" is a little too good.
    """

    rows: int
    accuracy: float
    nll: float
    nll_calibrated: float
    ece: float
    ece_calibrated: float


@dataclass(frozen=True)
class MixedUp:
    """The two classes that are taken for one another most often."""

    one: str
    other: str
    one_as_other: int
    other_as_one: int


@dataclass(frozen=True)
class FitReport:
    """Everything that `firthshot fit` prints.

    Attributes
    ----------
    counts : examples per class
    lam, l2 : the coefficients used, and where they come from (``lam_source``, ``l2_source``)
    left_out : scores, or None where no row could be left out or there are too many
    remarks : sentences about the data
    encoder : what made the features, where it is known
    standardized : whether the model brings columns to one scale
    """

    source: str
    head: str
    rows: int
    features: int
    counts: dict[str, int]
    lam: float
    lam_source: str
    l2: float
    l2_source: str
    temperature: float
    converged: bool
    left_out: LeftOutScores | None
    mixed_up: MixedUp | None
    remarks: list[str]
    encoder: str | None = None
    standardized: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return asdict(self)


def report_fit(model: Any, examples: Examples, head: str) -> FitReport:
    """Say what is to be said of a fitted estimator and the examples it was fitted to."""
    assert examples.labels is not None
    classes, counts = np.unique(examples.labels, return_counts=True)
    scores, mixed, scaled = None, None, bool(model.standardize)
    if counts.max() > 1 and leaves_out_exactly(len(examples), len(classes)):
        left = model.leave_one_out(examples.as_input(), examples.labels)
        scores = _scores(left.logits, left.labels, float(model.temperature_))
        mixed = _mixed_up(left.labels, left.predicted, model.classes_)
    return FitReport(
        source=examples.source,
        head=head,
        rows=len(examples),
        features=int(examples.features.shape[1]),
        counts={str(name): int(count) for name, count in zip(classes, counts, strict=True)},
        lam=float(model.lam_),
        lam_source=str(model.lam_source_),
        l2=float(model.l2_),
        l2_source=str(model.l2_source_),
        temperature=float(model.temperature_),
        converged=bool(model.converged_),
        left_out=scores,
        mixed_up=mixed,
        remarks=[
            *remarks(
                examples,
                classes,
                counts,
                standardized=scaled,
                directions=head == "cosine",
                left_out=scores is not None,
                balanced=model.class_weight == "balanced",
            ),
            *_worse(scores),
        ],
        encoder=examples.encoder,
        standardized=scaled,
    )


def _worse(scores: LeftOutScores | None) -> Iterator[str]:
    """Say where the temperature makes probabilities worse, in the digits that are shown."""
    if scores is not None and round(scores.nll_calibrated, 3) > round(scores.nll, 3):
        yield Advice(
            f"By the left-out rows calibrated probabilities (nll {scores.nll_calibrated:.3f}) are "
            f"worse than raw ones ({scores.nll:.3f}). With few rows per class that is weak "
            "evidence; otherwise leave out the calibration.",
            "no_calibrate",
        )


def _scores(logits: Array, labels: Array, temperature: float) -> LeftOutScores:
    before, after = (softmax(logits / t) for t in (1.0, temperature))
    return LeftOutScores(
        rows=len(labels),
        accuracy=float((logits.argmax(axis=1) == labels).mean()),
        nll=_nll(before, labels),
        nll_calibrated=_nll(after, labels),
        ece=expected_calibration_error(before, labels),
        ece_calibrated=expected_calibration_error(after, labels),
    )


def _nll(probabilities: Array, labels: Array) -> float:
    own = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(own, np.finfo(float).tiny)).mean())


def expected_calibration_error(probabilities: Array, labels: Array) -> float:
    """Return the mean gap between confidence and accuracy over 15 bins of the confidence."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    which = np.minimum((confidence * ECE_BINS).astype(int), ECE_BINS - 1)
    gaps = np.bincount(which, confidence, ECE_BINS) - np.bincount(which, right, ECE_BINS)
    return float(np.abs(gaps).sum() / len(labels))


def _mixed_up(labels: Array, predicted: Array, classes: Array) -> MixedUp | None:
    """Return the pair of classes with the most mistakes between them."""
    K = len(classes)
    table = np.bincount(labels * K + predicted, minlength=K * K).reshape(K, K)
    np.fill_diagonal(table, 0)
    both = np.triu(table + table.T)
    if not both.any():
        return None
    one, other = (int(at) for at in np.unravel_index(both.argmax(), both.shape))
    return MixedUp(
        str(classes[one]), str(classes[other]), int(table[one, other]), int(table[other, one])
    )
