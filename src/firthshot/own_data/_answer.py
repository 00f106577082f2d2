"""The short answer of a fit, in sentences: for a terminal, a notebook and the head of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firthshot.errors import listed

if TYPE_CHECKING:
    from firthshot.own_data._report import FitReport
    from firthshot.own_data.assessment import Assessment

WORTHWHILE = 0.01  # a gain of accuracy that more rows are worth
SMALL_GAIN, SMALL_LOSS = 0.001, 0.005  # differences in accuracy and log-loss of no use
MANY = 0.15  # share of the left-out rows: more contradictions are the features', not the labels'
HELD = {"features": "rows", "image": "pictures", "text": "texts"}


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
