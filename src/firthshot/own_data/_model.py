"""A fitted model with everything around it: encoder, columns, rows, report."""

from __future__ import annotations

import hashlib
import warnings
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firthshot.backbones.embed import EncoderMark
from firthshot.errors import FirthshotError
from firthshot.own_data._encoded import Embedder
from firthshot.own_data._examples import Array, Columns, Examples
from firthshot.own_data._heads import AUTO, HEADS, export_head
from firthshot.own_data._predictions import matched_features, model_features
from firthshot.own_data._report import FitReport, answer_lines, report_fit, title_line
from firthshot.own_data._sources import is_text, read_examples
from firthshot.own_data.novelty import Novelty, fit_novelty
from firthshot.progress import ambient_listener

if TYPE_CHECKING:
    from firthshot.own_data._fitting import Changes

UNKNOWN = "unknown"


class FittedModel:
    """A classifier for a user's own pictures, texts or rows, as `firthshot.fit` returns it.

    Attributes
    ----------
    estimator : the fitted head, an estimator of scikit-learn's kind
    head : its name, "auto", "linear", "cosine" or "mlp"
    examples : the rows that it was fitted to, or None in a model that was saved without
    classes_ : (n_classes,), in the order of the probabilities
    changes : what an update changed, or None
    file_digest : SHA-256 of the file that it was read from, or ""
    """

    def __init__(
        self,
        estimator: Any,
        examples: Examples | None,
        head: str,
        parameters: dict[str, Any],
        embedder: Embedder,
        report: FitReport | None = None,
    ) -> None:
        self.estimator, self.examples, self.head = estimator, examples, head
        self.parameters, self.embedder, self._report = parameters, embedder, report
        self._novelty: Novelty | None = None
        self.changes: Changes | None = None
        self.file_digest = ""
        if examples is not None:
            estimator.encoder_name_ = examples.encoder
            estimator.encoder_fingerprint_ = examples.fingerprint
            estimator.label_name_, estimator.text_name_ = examples.label_name, examples.text_name

    @classmethod
    def load(cls, path: str | Path, encoder: Any = None) -> Self:
        """Read a model that `save` or `firthshot fit` wrote, or any estimator's file.

        Parameters
        ----------
        path : str or Path
        encoder : str or object, optional
            Where the model's encoder is now, if it has moved; or the object it was fitted with.
        """
        from firthshot.estimators import load_model

        estimator = load_model(path)
        mark = EncoderMark(
            estimator.encoder_name_ or "a table of them", estimator.encoder_fingerprint_
        )
        embedder = Embedder(encoder, mark, ambient_listener())
        kinds = {name: head for head, name in HEADS.items()}
        head = kinds.get(type(estimator).__name__, AUTO)
        parameters = dict(estimator.record_.get("parameters", {}))
        model = cls(estimator, _kept_examples(estimator), head, parameters, embedder)
        model.file_digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return model

    @property
    def classes_(self) -> Array:
        """The classes, in the order of the probabilities."""
        return np.asarray(self.estimator.classes_)

    # Predicting

    def predict(self, data: Any, *, unknown: float | None = None) -> Array:
        """Return the class of each picture, text or row.

        Parameters
        ----------
        data : str, Path, list, data frame or array
            As for `firthshot.fit`, without labels.
        unknown : float, optional
            Rows that lie outside what their class looks like are answered with "unknown", at this
            rate of false alarms: 0.05 takes 5 % of ordinary rows for unknown.
        """
        return self.predict_examples(self.take(data), unknown=unknown)[1]

    def predict_proba(self, data: Any) -> Array:
        """Return probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        return self.predict_examples(self.take(data))[0]

    def novelty_score(self, data: Any) -> Array:
        """Return how unlike its nearest class each row is: larger is stranger."""
        return self.novelty.score(self.take(data).features)

    def take(self, data: Any) -> Examples:
        """Return data as rows of the model's features."""
        if isinstance(data, str) and self._takes_texts and is_text(data):
            data = [data]
        found = read_examples(data, self.columns(), needs_label=False, embedder=self.embedder)
        for note in found.notes:
            warnings.warn(note, stacklevel=3)
        return found

    @property
    def _takes_texts(self) -> bool:
        known = self.examples
        return self.embedder.takes_texts if known is None else known.kind == "text"

    def columns(self, label: str | None = None, **others: Any) -> Columns:
        """Return which columns of a table the model asks for."""
        own = self.estimator
        return Columns(
            label or own.label_name_ or "label",
            features=model_features(own),
            classes=frozenset(map(str, own.classes_.tolist())),
            model_text=own.text_name_,
            **others,
        )

    def predict_examples(
        self, examples: Examples, *, unknown: float | None = None
    ) -> tuple[Array, Array]:
        """Return probabilities (n, K) and classes (n,) of rows that were read before."""
        X = matched_features(examples, self.estimator)
        probabilities = np.asarray(self.estimator.predict_proba(X))
        predicted = np.asarray(self.estimator.predict(X))
        if unknown is None:
            return probabilities, predicted
        strange = self.novelty.is_unknown(examples.features, unknown)
        if not strange.any():
            return probabilities, predicted
        words = predicted.astype(str) if predicted.dtype.kind in "US" else predicted.astype(object)
        return probabilities, np.where(strange, UNKNOWN, words)

    @property
    def novelty(self) -> Novelty:
        """What tells rows of no class; it needs the rows that the model was fitted to."""
        if self._novelty is None:
            examples = self._rows("say what is unknown")
            self._novelty = fit_novelty(examples.features, examples.coded_labels()[1])
        return self._novelty

    def _rows(self, purpose: str) -> Examples:
        if self.examples is None or self.examples.labels is None:
            raise FirthshotError(
                f"The model was saved without its rows and cannot {purpose}: fit it again and keep "
                "them."
            )
        return self.examples

    # Telling

    @property
    def answer(self) -> FitReport:
        """What left-out rows say of the model; a loaded model computes it again."""
        if self._report is None:
            self._report = report_fit(self.estimator, self._rows("be assessed"), self.head)
        return self._report

    def report(self, path: str | Path | None = None) -> str:
        """Return the page of the fit as one self-contained HTML text, and write it to a file."""
        from firthshot.files import write_whole
        from firthshot.own_data.page import render_fit

        page = render_fit(self.answer, self._rows("be shown"))
        if path is not None:
            write_whole(Path(path), page.encode())
        return page

    def __str__(self) -> str:
        lines = (f"{name}: {words}" for name, words in answer_lines(self.answer))
        return "\n".join([title_line(self.answer), *lines])

    def __repr__(self) -> str:
        return f"<FittedModel {self.head!r} of {len(self.classes_)} classes>"

    def _repr_html_(self) -> str:
        if self._report is None and self.examples is None:
            return f"<p>{escape(repr(self))}</p>"
        lines = "".join(
            f"<tr><th style='text-align:left;vertical-align:top'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(words)}</td></tr>"
            for name, words in answer_lines(self.answer)
        )
        return f"<p><b>{escape(title_line(self.answer))}</b></p><table>{lines}</table>"

    # Keeping

    def save(self, path: str | Path, *, rows: bool = True) -> None:
        """Write the model to a file that `firthshot.load` and `firthshot predict` read.

        Parameters
        ----------
        path : str or Path
            By custom it ends in ``.firth``.
        rows : bool
            Keep the features of the rows and their names, not the pictures or texts. Without, the
            model can neither grow nor say what is unknown. "auto" needs its rows to predict.
        """
        if not rows and self.head == AUTO:
            raise FirthshotError(
                "The head 'auto' predicts from its rows and cannot be saved without them: fit the "
                "linear head.",
                "head=linear",
            )
        support, record = {}, {}
        if rows and self.examples is not None and self.examples.labels is not None:
            labels = np.searchsorted(self.classes_, self.examples.labels).astype(np.float64)
            support = {"features": self.examples.features, "labels": labels}
            record = self._record(self.examples)
        self.estimator.support_, self.estimator.record_ = support, record
        self.estimator.save(path)

    def _record(self, examples: Examples) -> dict[str, Any]:
        kept = examples.id_name != "text" and examples.texts is None
        ids = examples.ids if kept else None
        return {
            "source": examples.source,
            "kind": examples.kind,
            "ids": None if ids is None else [str(one) for one in ids.tolist()],
            "id_name": "row" if ids is None else examples.id_name,
            "parameters": self.parameters,
        }

    def export(self, kind: str, path: str | Path) -> Path:
        """Write the head for use without this package, and return the path.

        Parameters
        ----------
        kind : {"onnx", "skops", "sklearn"}
            ONNX takes every head; the others take the linear and the cosine head, as a pipeline of
            scikit-learn's own classes. "sklearn" is a pickle: load only your own.
        path : str or Path
        """
        return export_head(self, kind, Path(path))

    def update(self, source: Any, y: Any = None, **reading: Any) -> FittedModel:
        """Return a model of the old rows and more of them, of old or new classes.

        The old pictures or texts are not needed. ``changes`` of the new model says what changed.

        Parameters
        ----------
        source, y : as for `firthshot.fit`
        **reading : how to read the source: ``label``, ``text``, ``id``, ``drop``, ``split``,
            ``skip_bad``
        """
        from firthshot.own_data._fitting import grown

        return grown(self, self._rows("grow"), source, y, reading)


def _kept_examples(estimator: Any) -> Examples | None:
    """Return the rows that a model file kept, if any."""
    kept, record = estimator.support_, estimator.record_
    if not kept:
        return None
    names, ids = model_features(estimator), record.get("ids")
    sound = ids is None or (isinstance(ids, list) and len(ids) == len(kept["labels"]))
    if not sound or record.get("kind") not in ("features", "image", "text"):
        raise FirthshotError("The model's record of its rows is damaged: fit and save it again.")
    return Examples(
        str(record.get("source", "the model")),
        kept["features"],
        np.asarray(estimator.classes_)[kept["labels"].astype(np.intp)],
        names,
        None if ids is None else np.array([str(one) for one in ids]),
        str(record.get("id_name", "row")),
        record["kind"],
        encoder=estimator.encoder_name_,
        fingerprint=estimator.encoder_fingerprint_,
        label_name=estimator.label_name_,
        text_name=estimator.text_name_,
    )


load = FittedModel.load
