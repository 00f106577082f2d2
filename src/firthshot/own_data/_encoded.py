"""Pictures and texts as sources: embedded with an encoder that the model then remembers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.own_data._examples import Columns, Examples
from firthshot.own_data._tables import index_column

if TYPE_CHECKING:
    import polars as pl

    from firthshot.backbones.embed import EncoderMark
    from firthshot.backbones.encoders import Encoder

Encoded = Literal["image", "text"]
Listener = Callable[[int, int], None]
_SAMPLE = 100  # rows that show what a column holds


def encoded_kind(source: str, columns: Columns, mark: EncoderMark | None = None) -> Encoded | None:
    """Tell whether a source holds pictures or texts; None for features.

    A folder and a picture file are pictures. A table is one of texts when the column ``--text`` is
    named, when the model was fitted to texts, or when its only column beside label and id holds
    words.

    Parameters
    ----------
    source : str
    columns : Columns
    mark : EncoderMark or None
        The encoder of the model, when there is one.
    """
    from firthshot.backbones.datasets._texts import ENDINGS as TABLES
    from firthshot.backbones.images import ENDINGS as PICTURES

    path = Path(source)
    if path.is_dir() or path.suffix.lower() in PICTURES:
        return "image"
    if path.suffix.lower() not in TABLES or not path.is_file():
        return None
    if columns.text is not None or takes_texts(mark):
        return "text"
    return "text" if _looks_like_texts(path, columns) else None


def read_encoded(
    source: str,
    kind: Encoded,
    columns: Columns,
    *,
    encoder: str | None = None,
    mark: EncoderMark | None = None,
    needs_label: bool = True,
    listener: Listener | None = None,
) -> Examples:
    """Embed the pictures or texts of a source.

    Parameters
    ----------
    source : str
        A folder of class folders, or, without labels, of pictures; a picture; a table of texts.
    kind : {"image", "text"}
        From `encoded_kind`.
    columns : Columns
        What the columns of a table mean.
    encoder : str, optional
        Name or path of the encoder; else that of the model, else the default.
    mark : EncoderMark, optional
        The encoder that a model was fitted with: another is refused.
    needs_label : bool
        Whether pictures that are not in class folders, or a table without labels, are refused.
    listener : callable, optional
        Hears how many are embedded, of how many.
    """
    from firthshot.backbones.embed import embed_pictures, embed_texts

    if mark is not None and mark.fingerprint is None and encoder is None:
        held = "pictures" if kind == "image" else "texts"
        raise FirthshotError(
            f"{source} holds {held}, but the model was fitted to features ({mark.spec}): give "
            "features made the same way."
        )
    loaded = choose_encoder(kind, encoder, mark)
    if kind == "image":
        paths, labels = _pictures(Path(source), needs_label)
        ids, heading = np.array([path.as_posix() for path in paths]), "picture"
        features = embed_pictures(paths, loaded, listener=listener)
    else:
        texts, labels, ids, heading = _texts(Path(source), columns, needs_label)
        features = embed_texts(texts, loaded, listener=listener)
    return Examples(
        source,
        features,
        labels,
        ids=ids,
        id_name=heading,
        kind=kind,
        encoder=_spec(encoder) or loaded.name,
        fingerprint=loaded.fingerprint,
        label_name=columns.label if kind == "text" and labels is not None else None,
    )


def embed_lines(text: str, mark: EncoderMark, source: str = "Standard input") -> Examples:
    """Embed texts, one per line, with the encoder of a model."""
    from firthshot.backbones.embed import embed_texts

    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise FirthshotError(f"{source} is empty: give one text per line.")
    features = embed_texts(lines, choose_encoder("text", None, mark))
    return Examples(source, features, ids=np.array(lines), id_name="text", kind="text")


def embed_picture(content: bytes, mark: EncoderMark, source: str = "Standard input") -> Examples:
    """Embed one picture, given as the bytes of its file, with the encoder of a model."""
    from firthshot.backbones.embed import embed_pictures

    encoder = choose_encoder("image", None, mark)
    try:
        features = embed_pictures([content], encoder)
    except FirthshotError:
        raise FirthshotError(
            f"{source} is neither a picture nor text in UTF-8: give the content of one picture."
        ) from None
    return Examples(source, features, ids=np.array([source]), id_name="picture", kind="image")


def choose_encoder(kind: Encoded, encoder: str | None, mark: EncoderMark | None) -> Encoder:
    """Load the encoder of the model, the one that is named, or the default."""
    from firthshot.backbones.embed import recall_encoder
    from firthshot.backbones.encoders import DEFAULTS, load_encoder

    loaded = (
        load_encoder(encoder or DEFAULTS[kind]) if mark is None else recall_encoder(mark, encoder)
    )
    if loaded.kind != kind:
        raise FirthshotError(
            f"The encoder {loaded.name} takes {loaded.kind}s, but the source holds {kind}s."
        )
    return loaded


def takes_texts(mark: EncoderMark | None) -> bool:
    """Tell whether the encoder of a model takes texts, without loading it."""
    from firthshot.backbones.encoders import ENCODERS

    if mark is None or mark.fingerprint is None:
        return False
    if mark.spec in ENCODERS:
        return ENCODERS[mark.spec].kind == "text"
    folder = Path(mark.spec)  # of transformers: no other path can be a text encoder
    return (folder / "config.json").is_file() and not (folder / "preprocessor_config.json").exists()


def _spec(encoder: str | None) -> str | None:
    """Return how to find the encoder again: a path is kept whole, for any later folder."""
    return (
        None
        if encoder is None
        else str(Path(encoder).resolve())
        if Path(encoder).exists()
        else encoder
    )


def _pictures(source: Path, needs_label: bool) -> tuple[list[Path], np.ndarray | None]:
    from firthshot.backbones.images import ENDINGS

    if source.is_file() or not source.is_dir():
        if needs_label:
            raise FirthshotError(f"{source} is one picture: give a folder of class folders.")
        return [source], None
    flat = sorted(path for path in source.iterdir() if path.suffix.lower() in ENDINGS)
    if flat and not needs_label:
        return flat, None
    from firthshot.backbones.datasets import open_dataset

    data = open_dataset(source)
    return list(data.contents), np.array(data.classes)[data.labels]


def _texts(
    path: Path, columns: Columns, needs_label: bool
) -> tuple[list[str], np.ndarray | None, np.ndarray, str]:
    """Return texts, labels, ids and their heading; without ids the texts name themselves."""
    from firthshot.backbones.datasets._texts import load_table, text_column

    table = load_table(path)
    if needs_label and columns.label not in table.columns:
        raise FirthshotError(
            f"{path} has no column {columns.label!r} of labels, but {', '.join(table.columns)}: "
            "name it with --label."
        )
    others = (columns.label, columns.id or "id", *columns.drop)
    column = text_column(table, path, columns.text, others)
    texts = _filled(table, column, path)
    labelled = columns.label in table.columns
    labels = np.array(_filled(table, columns.label, path)) if labelled else None
    ids = columns.id or ("id" if "id" in table.columns else column)
    if ids not in table.columns:
        raise FirthshotError(f"{path} has no column {ids!r}, but {', '.join(table.columns)}.")
    return texts, labels, np.array(table[ids].to_list()), ids


def _filled(table: pl.DataFrame, column: str, path: Path) -> list[str]:
    values = table[column].to_list()
    for row, value in enumerate(values, 1):
        if value is None or not str(value).strip():
            raise FirthshotError(
                f"{path} has an empty cell in row {row} of column {column!r}: fill it in or remove "
                "the row."
            )
    return [str(value) for value in values]


def _looks_like_texts(path: Path, columns: Columns) -> bool:
    """Tell whether the only column beside label and id holds words."""
    import polars as pl

    from firthshot.backbones.datasets._texts import load_table

    try:
        table = load_table(path, rows=_SAMPLE)
    except FirthshotError:
        return False  # the reader of tables has its own words for it
    special = {columns.label, columns.id or "id", *columns.drop}
    special |= {name for name in table.columns if name.lower() == "id" or index_column(name)}
    rest = [name for name in table.columns if name not in special]
    if len(rest) != 1 or table.schema[rest[0]] != pl.String:
        return "text" in rest and table.schema["text"] == pl.String and not _numeric(table["text"])
    return not _numeric(table[rest[0]])


def _numeric(column: pl.Series) -> bool:
    import polars as pl

    return bool(column.str.strip_chars().cast(pl.Float64, strict=False).is_not_null().all())
