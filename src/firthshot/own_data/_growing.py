"""A model that grows: more rows and classes, without the pictures or texts of the old ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.own_data._examples import Examples
from firthshot.own_data._predictions import matched_features
from firthshot.own_data._sources import read_examples

if TYPE_CHECKING:
    from firthshot.own_data._model import FittedModel


@dataclass(frozen=True)
class Changes:
    """What an update changed.

    Attributes
    ----------
    added : new rows; repeated : rows that the model had already, left out
    new_classes : names of classes that it did not have
    before, after : expected accuracy, or None where it cannot be tested
    flipped : (name of an old row, its class before, its class now), where the prediction changed
    """

    added: int
    repeated: int
    new_classes: tuple[str, ...]
    before: float | None
    after: float | None
    flipped: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        number = len(self.new_classes)
        classes = f" {number} new class{'es' * (number > 1)}." if number else ""
        scores = ""
        if self.before is not None and self.after is not None:
            scores = f" Expected accuracy {100 * self.before:.1f} → {100 * self.after:.1f} %."
        copies = f" {self.repeated} were there already." if self.repeated else ""
        flips = len(self.flipped)
        flipped = {0: "No old row is", 1: "1 old row is"}.get(flips, f"{flips} old rows are")
        return (
            f"{self.added} rows added.{copies}{classes}{scores} {flipped} predicted otherwise now."
        )


def grown(
    model: FittedModel, old: Examples, source: Any, y: Any, reading: dict[str, Any]
) -> FittedModel:
    """Return the model fitted to its old rows and those of a source."""
    from firthshot.own_data._fitting import fit_examples

    new = _new_rows(model, source, y, dict(reading))
    fresh = _fresh(old, new)
    joined = _joined(old, new, fresh)
    after = fit_examples(joined, model.head, model.parameters, model.embedder)
    after.changes = _changes(model, after, old, new, fresh)
    return after


def _new_rows(model: FittedModel, source: Any, y: Any, reading: dict[str, Any]) -> Examples:
    split, skip_bad = reading.pop("split", None), reading.pop("skip_bad", False)
    named = {name: reading.pop(name, None) for name in ("label", "id", "text")}
    columns = model.columns(**named, drop=tuple(reading.pop("drop", ())))
    if reading:
        raise FirthshotError(f"An update takes no {', '.join(reading)}: it keeps the old settings.")
    new = read_examples(
        source,
        replace(columns, classes=frozenset()),  # there may be new ones
        y=y,
        split=split,
        embedder=model.embedder,
        skip_bad=skip_bad,
    )
    matched_features(new, model.estimator)
    return new


def _fresh(old: Examples, new: Examples) -> np.ndarray:
    """Return which new rows the model does not have with the same label."""

    def contents(examples: Examples) -> list[tuple[bytes, str]]:
        rows = zip(examples.features.astype(np.float32), examples.given_labels(), strict=True)
        return [(row.tobytes(), str(label)) for row, label in rows]

    known = set(contents(old))
    return np.flatnonzero([content not in known for content in contents(new)])


def _joined(old: Examples, new: Examples, fresh: np.ndarray) -> Examples:
    labels = [old.given_labels(), new.given_labels()[fresh]]
    if len({part.dtype.kind for part in labels}) > 1:
        labels = [part.astype(str) for part in labels]
    return replace(
        old,
        source=f"{old.source} and {new.source}",
        features=np.concatenate([old.features, new.features[fresh].astype(old.features.dtype)]),
        labels=np.concatenate(labels),
        ids=None
        if old.ids is None or new.ids is None
        else np.concatenate([old.ids.astype(str), new.ids.astype(str)[fresh]]),
        texts=None,
        bad=new.bad,
    )


def _changes(
    before: FittedModel, after: FittedModel, old: Examples, new: Examples, fresh: np.ndarray
) -> Changes:
    was, now = (one.predict_examples(old)[1].astype(str) for one in (before, after))
    names = old.row_names()
    known = set(map(str, before.classes_.tolist()))
    scores = [
        None if one.answer.assessment is None else one.answer.assessment.estimate.accuracy
        for one in (before, after)
    ]
    return Changes(
        added=len(fresh),
        repeated=len(new) - len(fresh),
        new_classes=tuple(str(one) for one in after.classes_ if str(one) not in known),
        before=scores[0],
        after=scores[1],
        flipped=tuple((names[i], was[i], now[i]) for i in np.flatnonzero(was != now)),
    )
