"""Predictions with their probabilities, as a table or as JSON lines."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.experiments.store import write_whole
from firthshot.own_data._match import matched_features

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from firthshot.own_data._examples import Array, Examples

KINDS = (".csv", ".tsv", ".parquet", ".jsonl")
DECIMALS = 6


@dataclass(frozen=True)
class Predictions:
    """What a model says of some rows.

    Attributes
    ----------
    ids : (n,), under the heading ``id_name``
    classes : (K,)
    probabilities : (n, K)
    predicted : (n,), the most probable class of each row
    truth : (n,) labels of the rows, or None where they have none
    """

    ids: Array
    id_name: str
    classes: Array
    probabilities: Array
    predicted: Array
    truth: Array | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def confidence(self) -> Array:
        """Return the probability of each row's prediction, (n,)."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def accuracy(self) -> float | None:
        """Return the share of labelled rows that were predicted right, None without labels."""
        if self.truth is None:
            return None
        return float(np.mean(self.predicted.astype(str) == self.truth.astype(str)))

    def table(self) -> pl.DataFrame:
        """Return one line per row: id, prediction, confidence and a column ``p_CLASS`` each."""
        import polars as pl

        rounded = np.round(self.probabilities, DECIMALS)
        columns: dict[str, Any] = {self.id_name: self.ids.tolist()}
        columns["prediction"] = self.predicted.tolist()
        columns["confidence"] = np.round(self.confidence, DECIMALS)
        for at, name in enumerate(self.classes):
            columns[f"p_{name}"] = rounded[:, at]
        return pl.DataFrame(columns)


def predict(model: Any, examples: Examples) -> Predictions:
    """Predict every row of some examples."""
    X = matched_features(examples, model)
    name = examples.id_name
    return Predictions(
        examples.row_ids(),
        "id" if name in ("prediction", "confidence") or name.startswith("p_") else name,
        np.asarray(model.classes_),
        np.asarray(model.predict_proba(X)),
        np.asarray(model.predict(X)),
        examples.labels,
    )


def render(predictions: Predictions, kind: str) -> bytes:
    """Return predictions as the content of a file of one of `KINDS`."""
    if kind == ".jsonl":
        return "".join(line + "\n" for line in _json_lines(predictions)).encode()
    table, content = predictions.table(), io.BytesIO()
    if kind == ".parquet":
        table.write_parquet(content)
    else:
        table.write_csv(content, separator="\t" if kind == ".tsv" else ",")
    return content.getvalue()


def _json_lines(predictions: Predictions) -> list[str]:
    names = [str(name) for name in predictions.classes]
    rows = zip(
        predictions.ids.tolist(),
        predictions.predicted.tolist(),
        np.round(predictions.confidence, DECIMALS).tolist(),
        np.round(predictions.probabilities, DECIMALS).tolist(),
        strict=True,
    )
    return [
        json.dumps(
            {
                predictions.id_name: row,
                "prediction": predicted,
                "confidence": confidence,
                "probabilities": dict(zip(names, each, strict=True)),
            },
            ensure_ascii=False,
        )
        for row, predicted, confidence, each in rows
    ]


def write(predictions: Predictions, path: Path) -> None:
    """Write predictions to a file whose ending says how; it appears whole or not at all."""
    content = render(predictions, path.suffix.lower())
    try:
        write_whole(path, content)
    except OSError as error:
        raise FirthshotError(f"{path} cannot be written: {error.strerror or error}.") from None
