"""Predictions with their probabilities, as a table or as JSON lines."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot.backbones.embed import EncoderMark
from firthshot.errors import FirthshotError
from firthshot.files import write_whole
from firthshot.own_data._examples import Array, Examples, named_rows

RESERVED = ("file", "prediction", "confidence")
KINDS = (".csv", ".tsv", ".parquet", ".jsonl")
DIGITS = 6


@dataclass(frozen=True)
class Predictions:
    """What a model says of some rows."""

    ids: Array  # (n,) …
    id_name: str  # … under this heading
    classes: Array  # (K,)
    probabilities: Array  # (n, K)
    predicted: Array  # (n,), the most probable class of each row
    truth: Array | None = None  # (n,) labels of the rows, where they have any
    files: Array | None = None  # (n,) the input of each row, where its id does not say it

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

    @property
    def unknown(self) -> Array:
        """Return which labels are no class of the model, (n,); none without labels."""
        if self.truth is None:
            return np.zeros(len(self), bool)
        return np.asarray(~np.isin(self.truth.astype(str), self.classes.astype(str)))

    def table(self) -> pl.DataFrame:
        """Return one line per row: id, prediction, confidence and a column ``p_CLASS`` each.

        A column ``file`` comes first where rows come from several inputs.
        """
        columns: dict[str, Any] = {name: each.tolist() for name, each in self.names().items()}
        columns["prediction"] = self.predicted.tolist()
        columns["confidence"] = self.confidence
        for at, name in enumerate(self.classes):
            columns[f"p_{name}"] = self.probabilities[:, at]
        return pl.DataFrame(columns)

    def names(self) -> dict[str, Array]:
        """Return what names each row: its id, after its input where there are several."""
        ids = {self.id_name: self.ids}
        return ids if self.files is None else {"file": self.files, **ids}


def model_features(model: Any) -> tuple[str, ...] | None:
    """Return the names of the features that a model was fitted to, or None."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def matched_features(examples: Examples, model: Any) -> Any:
    """Return the features as the model takes them, or refuse rows of another size."""
    wanted, found = int(model.n_features_in_), examples.features.shape[1]
    if found != wanted:
        has = f"{examples.source} has {found} feature{'s' * (found != 1)}"
        if model.encoder_fingerprint_ is not None and examples.kind == "features":
            raise FirthshotError(
                f"{has}, but this model takes {_taken(model)}: give those, or {wanted} features of "
                f"its encoder {model.encoder_name_}."
            )
        raise FirthshotError(
            f"{has}, but the model was fitted to {wanted}: give rows from the same encoder or with "
            "the same columns."
        )
    return named_rows(examples.features, model_features(model))


def _taken(model: Any) -> str:
    """Return what a model of pictures or texts takes."""
    from firthshot.own_data._encoded import Embedder

    mark = EncoderMark(model.encoder_name_, model.encoder_fingerprint_)
    return "texts" if Embedder(mark=mark).takes_texts else "pictures"


def predict(model: Any, examples: Examples) -> Predictions:
    """Predict every row of some examples with an estimator."""
    X = matched_features(examples, model)
    return as_predictions(examples, model.classes_, model.predict_proba(X), model.predict(X))


def as_predictions(
    examples: Examples, classes: Array, probabilities: Array, predicted: Array
) -> Predictions:
    """Return what was predicted of examples, under their names."""
    name = examples.id_name
    return Predictions(
        examples.row_ids(),
        "id" if name in RESERVED or name.startswith("p_") else name,
        np.asarray(classes),
        np.asarray(probabilities),
        np.asarray(predicted),
        examples.labels,
        examples.files,
    )


def render(predictions: Predictions, kind: str) -> bytes:
    """Return predictions as the content of a file of one of `KINDS`."""
    if kind == ".jsonl":
        return "".join(line + "\n" for line in _json_lines(predictions)).encode()
    table, content = predictions.table(), io.BytesIO()
    if kind == ".parquet":
        table.write_parquet(content)
    else:
        shown = [f"p_{name}" for name in predictions.classes]
        plain = {name: list(map(_plain, table[name].to_list())) for name in ("confidence", *shown)}
        table.with_columns(pl.Series(name, each) for name, each in plain.items()).write_csv(
            content, separator="\t" if kind == ".tsv" else ","
        )
    return content.getvalue()


def _json_lines(predictions: Predictions) -> list[str]:
    """Return one object per row; `json` itself would write small probabilities as 1.2e-05."""
    keys = [_json(str(name)) for name in predictions.classes]
    names = predictions.names()
    rows = zip(
        zip(*(each.tolist() for each in names.values()), strict=True),
        predictions.predicted.tolist(),
        predictions.confidence.tolist(),
        predictions.probabilities.tolist(),
        strict=True,
    )
    lines = []
    for row, predicted, confidence, each in rows:
        pairs = zip(keys, map(_plain, each), strict=True)
        members = {
            **{name: _json(one) for name, one in zip(names, row, strict=True)},
            "prediction": _json(predicted),
            "confidence": _plain(confidence),
            "probabilities": "{" + ", ".join(f"{key}: {p}" for key, p in pairs) + "}",
        }
        lines.append(
            "{" + ", ".join(f"{_json(key)}: {value}" for key, value in members.items()) + "}"
        )
    return lines


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(probability: float) -> str:
    """Return six digits of a probability without an exponent; only zero itself is zero.

    A likelihood computed from the file shall be that of the model.
    """
    if probability == 0 or probability >= 1e-4:
        return f"{probability:.{DIGITS}g}"
    return np.format_float_positional(probability, DIGITS, unique=False, fractional=False, trim="-")


def write(predictions: Predictions, path: Path) -> None:
    """Write predictions to a file whose ending says how; it appears whole or not at all."""
    content = render(predictions, path.suffix.lower())
    try:
        write_whole(path, content)
    except OSError as error:
        raise FirthshotError(f"{path} cannot be written: {error.strerror or error}.") from None
