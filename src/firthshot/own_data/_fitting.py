"""`firthshot.fit`: from pictures, texts or rows to a model that answers for itself, and grows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from firthshot.errors import Advice, FirthshotError, ScaleWarning, listed
from firthshot.own_data._encoded import Embedder
from firthshot.own_data._examples import Columns, Examples, refuse_contradictions
from firthshot.own_data._heads import AUTO, make_head
from firthshot.own_data._model import FittedModel
from firthshot.own_data._predictions import matched_features
from firthshot.own_data._report import report_fit
from firthshot.own_data._sources import read_examples
from firthshot.progress import ambient_listener

SCALED = (
    "Columns vary on very different scales, so they were brought to one scale for fitting (mean 0, "
    "spread 1). Give new rows as they are. standardize=False switches this off."
)


def fit(
    source: Any,
    y: ArrayLike | None = None,
    *,
    head: str = AUTO,
    label: str = "label",
    text: str | None = None,
    id: str | None = None,  # noqa: A002
    drop: Sequence[str] = (),
    encoder: Any = None,
    split: str | None = None,
    skip_bad: bool = False,
    **parameters: Any,
) -> FittedModel:
    """Fit a classifier to a few labelled pictures, texts or rows.

    Parameters
    ----------
    source : str, Path, list, data frame or array
        A folder of class folders of pictures; a table of texts or of features (.csv, .tsv,
        .parquet, .jsonl); a feature file (.npz, …); the name of a bank; or, in memory, a list of
        picture files or of texts, a data frame, or an array (n_samples, n_features).
    y : array-like of shape (n_samples,), optional
        The labels, where ``source`` does not hold them.
    head : {"auto", "linear", "cosine", "mlp"}
        "auto" is `FewShotClassifier`; the others are the explicit Firth heads.
    label, text, id : str
        Columns of a table: the class of each row, the text to embed, and what names the row.
    drop : sequence of str
        Columns to leave out.
    encoder : str or object, optional
        Name or path of the encoder of pictures or texts, such as ``hf:facebook/dinov2-small``; an
        `Encoder` of `load_encoder`; a torch or sentence-transformers model; or a function from a
        list to an array. Else the default one.
    split : str, optional
        Only this split of a bank.
    skip_bad : bool
        Leave out pictures that cannot be read; else they are refused, all of them by name.
    **parameters
        Parameters of the head, such as ``lam``, ``l2`` or ``class_weight`` ("balanced" or "none").

    Returns
    -------
    FittedModel
        With `predict`, `predict_proba`, `novelty_score`, `report`, `save` and `update`.

    Examples
    --------
    >>> model = firthshot.fit("photos/")                       # doctest: +SKIP
    >>> model.predict(["new/1.jpg", "new/2.jpg"])              # doctest: +SKIP
    """
    refuse_contradictions(label, drop, text)
    make_head(head, parameters)  # refuses before anything is read
    columns = Columns(label, id, tuple(drop), text=text)
    embedder = Embedder(encoder, listener=ambient_listener())
    examples = read_examples(
        source, columns, y=y, split=split, embedder=embedder, skip_bad=skip_bad
    )
    return fit_examples(examples, head, parameters, embedder)


def fit_examples(
    examples: Examples, head: str, parameters: dict[str, Any], embedder: Embedder
) -> FittedModel:
    """Fit a head to examples, and assess it by them."""
    _refuse_equal_rows(examples)
    estimator = make_head(head, parameters, examples)
    embedder.listener.doing("Fitting, and testing the fit on left-out rows")
    notes = _fitted(estimator, examples)
    if head != AUTO and estimator.standardize and "standardize" not in parameters:
        notes.append(SCALED)
    report = report_fit(estimator, examples, head)
    report = replace(
        report,
        remarks=[*_skipped(examples), *notes, *report.remarks],
        encoder=_encoder_words(examples, embedder),
    )
    return FittedModel(estimator, examples, head, parameters, embedder, report)


def _encoder_words(examples: Examples, embedder: Embedder) -> str | None:
    """Return the encoder, and how large it sees pictures."""
    if examples.kind != "image" or examples.encoder is None:
        return examples.encoder
    from firthshot.backbones.encoders import split_spec

    place, side = split_spec(examples.encoder)[0], embedder.encoder("image").side
    return place if side is None else f"{place} at {side} px"


def _skipped(examples: Examples) -> list[str]:
    """Say which files were left out."""
    if not examples.bad:
        return []
    count = "1 file was" if len(examples.bad) == 1 else f"{len(examples.bad)} files were"
    return [f"{count} left out, as no picture that can be read: {listed(examples.bad, most=20)}."]


def _refuse_equal_rows(examples: Examples) -> None:
    if len(examples) > 1 and not (examples.features != examples.features[0]).any():
        raise FirthshotError(
            f"All rows of {examples.source} are equal: nothing can be learned from them."
        )


def _fitted(estimator: Any, examples: Examples) -> list[str]:
    """Fit, and return what the estimator warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ScaleWarning)  # the report has it
        try:
            estimator.fit(examples.as_input(), examples.labels)
        except FirthshotError as error:
            raise error.reworded(f"{examples.source} cannot be fitted: {error}") from None
    return [_in_our_words(warning, examples) for warning in caught]


def _in_our_words(warning: Any, examples: Examples) -> str:
    """Return a warning with what a table's owner can do about it."""
    from sklearn.exceptions import ConvergenceWarning

    told = str(warning.message)
    if not issubclass(warning.category, ConvergenceWarning) or "max_iter" not in told:
        return told
    largest = int(abs(examples.features).max(axis=0).argmax())
    column = repr(examples.names[largest]) if examples.names else str(largest + 1)
    return Advice(
        f"The solver stopped before reaching its tolerance; the largest numbers are in column "
        f"{column}: bring the columns to one scale, or leave that column out.",
        "standardize",
        "drop",
    )


@dataclass(frozen=True)
class Changes:
    """What an update changed."""

    added: int  # new rows …
    repeated: int  # … and those that the model had already, left out
    new_classes: tuple[str, ...]  # names of classes that it did not have
    before: float | None  # expected accuracy, None where it cannot be tested
    after: float | None
    flipped: tuple[tuple[str, str, str], ...]  # old rows: name, class before, class now

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
