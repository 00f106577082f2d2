"""What `fit` says of a model: the head and why, how good it is, what to look at."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.own_data._heads import AUTO, counts_alike
from firthshot.own_data._remarks import count_torn, remarks
from firthshot.own_data.assessment import Assessment, LabelledFit, assess, to_dict

if TYPE_CHECKING:
    from firthshot.own_data._examples import Examples

FEWER = {"mlp": 3}  # rounds of left-out rows for a head whose fits take long
BLENDED = {
    "firth": "Firth",
    "gaussian": "Gaussian",
    "means": "class means",
    "neighbours": "neighbours",
}
PLACED = {
    "unit": "normalised features",
    "scaled": "columns on one scale",
    "plain": "the rows as they are",
}
SOURCES = {
    "given": "as given",
    "shots": "one over the square of the rows per class",
    "default": "the default",
    "theory": "Firth's own value, K·rank(X)/(2N)",
    "loo": "chosen by leave-one-out",
    "fallback": "stated fallback: no row could be left out",
    "scale": "from the spread of the rows",
}


@dataclass(frozen=True)
class FitReport:
    """Everything that `fit` has to say."""

    source: str
    kind: str
    head: str
    why: tuple[str, ...]  # sentences on what was settled
    rows: int
    features: int
    counts: dict[str, int]  # examples per class
    settings: dict[str, Any]  # the numbers that were settled, by name
    assessment: Assessment | None  # what left-out rows say; None where every class has one row
    remarks: list[str]  # sentences about the data
    encoder: str | None = None  # what made the features, where it is known
    doubtful: tuple[str, ...] = ()  # names of the rows in ``assessment.doubts``
    torn: int = 0  # groups of equal rows with different labels

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        found = asdict(replace(self, assessment=None))
        return found | {"assessment": None if self.assessment is None else to_dict(self.assessment)}


def report_fit(model: Any, examples: Examples, head: str) -> FitReport:
    """Say what is to be said of a fitted estimator and the examples it was fitted to."""
    classes, labels = examples.coded_labels()
    counts = np.bincount(labels)
    task = LabelledFit(
        model, examples.features, labels, classes, counts_alike(model), FEWER.get(head, 10)
    )
    assessment, names = assess(task), examples.row_names()
    return FitReport(
        source=examples.source,
        kind=examples.kind,
        head=head,
        why=why_this_head(model, head),
        rows=len(examples),
        features=int(examples.features.shape[1]),
        counts={str(name): int(count) for name, count in zip(classes, counts, strict=True)},
        settings=settings_of(model, head),
        assessment=assessment,
        remarks=remarks(
            examples,
            classes,
            counts,
            standardized=head == AUTO or bool(model.standardize),
            directions=head == "cosine",
            left_out=assessment is not None,
            balanced=counts_alike(model),
        ),
        encoder=examples.encoder,
        doubtful=() if assessment is None else tuple(names[one.row] for one in assessment.doubts),
        torn=count_torn(examples),
    )


def why_this_head(model: Any, head: str) -> tuple[str, ...]:
    """Return sentences on what was settled, and from what."""
    if head == AUTO:
        return (_blend_words(model.choice_),)
    found = settings_of(model, head)
    ended = "" if found["converged"] else " It has NOT converged."
    lam, l2 = (SOURCES.get(found[f"{name}_source"], "") for name in ("lam", "l2"))
    return (
        f"The {head} head, as asked.{ended}",
        f"λ is {found['lam']:.3g} ({lam}), l2 {found['l2']:.3g} ({l2}).",
    )


def _blend_words(choice: Any) -> str:
    """Return the blend of `FewShotClassifier` in one sentence."""
    order = sorted(choice.shares, key=lambda name: -choice.shares[name])
    parts = ", ".join(f"{BLENDED[name]} {100 * choice.shares[name]:.0f} %" for name in order)
    by = f"{choice.left_out} left-out rows" if choice.left_out else "rules alone"
    return f"A blend set by {by}: {parts}, on {PLACED[choice.columns]}."


def settings_of(model: Any, head: str) -> dict[str, Any]:
    """Return the numbers that a fit settled, by name."""
    if head == AUTO:
        return asdict(model.choice_)
    return {
        "lam": float(model.lam_),
        "lam_source": str(model.lam_source_),
        "l2": float(model.l2_),
        "l2_source": str(model.l2_source_),
        "temperature": float(model.temperature_),
        "converged": bool(model.converged_),
        "standardized": bool(model.standardize),
    }
