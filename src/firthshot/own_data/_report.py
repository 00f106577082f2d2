"""What `fit` says of a model: the head and why, how good it is, what to look at.

As a record, and in sentences for a terminal, a notebook and the head of the page.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from firthshot.errors import listed
from firthshot.estimators import SMALL_GAIN, SMALL_LOSS
from firthshot.own_data._examples import Examples
from firthshot.own_data._heads import AUTO, counts_alike
from firthshot.own_data._remarks import count_torn, remarks
from firthshot.own_data.assessment import Assessment, assess, to_dict
from firthshot.own_data.assessment.rows import LabelledFit

FEWER = {"mlp": 3}  # rounds of left-out rows for a head whose fits take long
BLENDED = {
    "firth": "Firth",
    "gaussian": "Gaussian",
    "means": "class means",
    "neighbours": "neighbours",
}
PLACED = {
    "power": "normalised powers 3/4 of the features",
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
WORTHWHILE = 0.01  # a gain of accuracy that more rows are worth
MANY = 0.15  # share of the left-out rows: more contradictions are the features', not the labels'
HELD = {"features": "rows", "image": "pictures", "text": "texts"}


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


def title_line(report: FitReport) -> str:
    """Return what was fitted: the source, its rows and classes, and what made the features."""
    counts = list(report.counts.values())
    each = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    made = "" if report.encoder is None else f", by {report.encoder}"
    size = f", {report.features} feature{'s' * (report.features != 1)}"
    return (
        f"{report.source}: {report.rows} {HELD[report.kind]}"
        f"{size if report.kind == 'features' else ''}, {len(counts)} classes of {each}{made}"
    )


def short_name(name: str, label: str) -> str:
    """Return the name of a row without the folder that is its label."""
    return name.removeprefix(f"{label}/")


def answer_lines(report: FitReport) -> list[tuple[str, str]]:
    """Return names and sentences: head, accuracy, rivals, Firth, mistakes, labels, more rows."""
    head = [("head", " ".join(report.why))]
    found = report.assessment
    if found is None:
        untested = f"cannot be tested: every class has {one_row(report)}. Add a second."
        return [*head, ("accuracy", untested)]
    return [
        *head,
        ("accuracy", accuracy_words(report, found)),
        ("compared", rivals_words(found)),
        ("Firth", firth_words(found)),
        ("confused", confused_words(found)),
        ("labels", labels_words(report)),
        ("more rows", more_words(found)),
    ]


def one_row(report: FitReport) -> str:
    """Return what a class has that cannot be left out: one row, or copies of one."""
    single = len(report.counts) if report.assessment is None else report.assessment.estimate.single
    alone = sum(count == 1 for count in report.counts.values())
    return "one row" if alone >= single else "one row but for copies"


def chance_words(found: Assessment) -> str:
    """Return what guessing reaches, where the fit cannot be told from it; else nothing."""
    one = found.estimate
    return "" if one.low > one.chance else f" Guessing gets {100 * one.chance:.0f} %."


def accuracy_words(report: FitReport, found: Assessment) -> str:
    """Return the accuracy that new rows will see, and from what it is known."""
    one = found.estimate
    single = ""
    if one.single:
        are = "class has" if one.single == 1 else "classes have"
        alone = one.single_accuracy or 0.0
        single = (
            f" {one.single} {are} {one_row(report)} and cannot be left out; "
            f"{'it counts' if one.single == 1 else 'they count'} with the {100 * alone:.0f} % "
            "that other classes reach with one row."
        )
    return (
        f"{100 * one.accuracy:.1f} % expected of new rows ({100 * one.low:.0f} to "
        f"{100 * one.high:.0f}), from {one.rows} left-out rows.{chance_words(found)}{single}"
    )


def rivals_words(found: Assessment) -> str:
    """Return the accuracy of other methods on the same left-out rows, and why it is lower."""
    others = ", ".join(f"{one.name} {100 * one.accuracy:.1f}" for one in found.rivals)
    own = f"this head {100 * found.estimate.measured:.1f} %"
    return f"Fitted to fewer rows and tested on the rest: {own}, {others}."


def firth_words(found: Assessment) -> str:
    """Return what Firth's penalty adds, and whether that can be told from nothing."""
    without = found.rival("λ = 0")
    if without is None:
        return "The head has no λ."
    gain, nats, rows = without.points, without.nats, len(found.left)
    scores = (
        f"{100 * gain.mean:+.1f} points against λ = 0, log-loss {without.log_loss:.3f} → "
        f"{found.log_loss:.3f}"
    )
    if abs(gain.mean) < SMALL_GAIN and abs(nats.mean) < SMALL_LOSS:
        return f"{scores}: no practical difference."
    if not gain.certain and not nats.certain:
        return f"{scores}: not distinguishable from nothing with {rows} rows."
    better = (gain.mean if gain.certain else nats.mean) > 0
    return f"{scores}: it {'helps' if better else 'costs'} here ({rows} left-out rows)."


def confused_words(found: Assessment) -> str:
    """Return the pair of classes that is confused most often, and how many mistakes are left."""
    mixed = found.mixed_up
    if mixed is None:
        return "No two classes: every left-out row was right."
    there, back = (mixed.one, mixed.other), (mixed.other, mixed.one)
    counts = mixed.one_as_other, mixed.other_as_one
    if not counts[0]:
        there, counts = back, (counts[1], 0)
    reverse = f", the reverse {times(counts[1])}" if counts[1] else ""
    rest = len(found.left) - int(found.confusion.trace()) - sum(counts)
    more = f"; {rest} other mistake{'s' * (rest != 1)}" if rest else ""
    return f"{there[0]!r} taken for {there[1]!r} {times(counts[0])}{reverse}{more}."


def labels_words(report: FitReport) -> str:
    """Return how many labels look wrong, and the most doubtful one by name."""
    found = report.assessment
    assert found is not None
    if not found.doubts:
        if not report.torn:
            return "No label looks wrong."
        groups = "1 group" if report.torn == 1 else f"{report.torn} groups"
        return f"{groups} of equal rows with different labels."
    number, doubt = len(found.doubts), found.doubts[0]
    if number > MANY * len(found.left):
        return f"{number} look like another class, too many to be wrong labels."
    label, other = str(found.classes[doubt.label]), str(found.classes[doubt.other])
    first = f"{short_name(report.doubtful[0], label)} ({label}, rather {other})."
    return f"1 looks wrong: {first}" if number == 1 else f"{number} look wrong. First: {first}"


def more_words(found: Assessment) -> str:
    """Return whether more rows would help, and of which class first."""
    gain = found.more.accuracy - found.estimate.accuracy
    expected = (
        f"Twice as many: {100 * found.more.accuracy:.0f} % ({100 * found.more.low:.0f} to "
        f"{100 * found.more.high:.0f})"
    )
    if gain < WORTHWHILE:
        return f"{expected}, hardly a gain."
    worst = listed((repr(name) for name in weakest(found)), most=2)
    return f"{expected}. Begin with {worst}." if worst else f"{expected}."


def weakest(found: Assessment) -> list[str]:
    """Return the two classes with the most mistakes of left-out rows, if any."""
    mistakes = found.confusion.sum(axis=1) - found.confusion.diagonal()
    shares = mistakes / found.confusion.sum(axis=1).clip(1)
    order = shares.argsort(kind="stable")[::-1][:2]
    return [str(found.classes[k]) for k in order if shares[k] > 0]


def times(count: int) -> str:
    """Return a count in words: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
