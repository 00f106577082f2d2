"""Pictures and texts as sources: embedded with an encoder that the model then remembers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.own_data._examples import Columns, Examples
from firthshot.own_data._tables import index_column
from firthshot.own_data._texts import Texts, lines_table, numeric, table_texts
from firthshot.progress import SILENT, ProgressListener

if TYPE_CHECKING:
    from firthshot.backbones.embed import EncoderMark
    from firthshot.backbones.encoders import Encoder

Encoded = Literal["image", "text"]
_SAMPLE = 100  # rows that show what a column holds


def encoded_kind(source: str, columns: Columns, mark: EncoderMark | None = None) -> Encoded | None:
    """Tell whether a source holds pictures or texts; None for features.

    A folder and a picture file are pictures. A table is one of texts when its column of texts is
    named, when the model was fitted to texts, or when its only column beside label and id holds
    words.

    Parameters
    ----------
    source : str
    columns : Columns
    mark : EncoderMark or None
        The encoder of the model, when there is one.
    """
    from firthshot.backbones.datasets import TABLES
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
    listener: ProgressListener = SILENT,
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
    listener : ProgressListener, optional
    """
    from firthshot.backbones.datasets import load_table
    from firthshot.backbones.embed import embed_pictures

    if kind == "image":
        _refuse_without_pictures(Path(source))
    if mark is not None and mark.fingerprint is None and encoder is None:
        held = "pictures" if kind == "image" else "texts"
        raise FirthshotError(
            f"{source} holds {held}, but the model was fitted to features ({mark.spec}): give "
            "features made the same way."
        )
    loaded = choose_encoder(kind, encoder, mark)
    spec = _spec(encoder) or loaded.name
    if kind == "text":
        texts = table_texts(load_table(Path(source)), source, columns, needs_label=needs_label)
        return replace(_text_examples(texts, source, columns, loaded, listener), encoder=spec)
    paths, labels = _pictures(Path(source), needs_label)
    return Examples(
        source,
        embed_pictures(paths, loaded, listener=listener),
        labels,
        ids=np.array([path.as_posix() for path in paths]),
        id_name="picture",
        kind="image",
        encoder=spec,
        fingerprint=loaded.fingerprint,
    )


def embed_lines(
    text: str,
    mark: EncoderMark,
    source: str = "Standard input",
    columns: Columns | None = None,
    *,
    needs_label: bool = False,
) -> Examples:
    """Embed texts, one per line, with the encoder of a model.

    With ``columns``, lines that are JSON objects or begin with a header are read as a table.
    """
    from firthshot.backbones.embed import embed_texts

    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise FirthshotError(f"{source} is empty: give one text per line.")
    encoder = choose_encoder("text", None, mark)
    table = None if columns is None else lines_table(text, columns, source)
    if columns is not None and table is not None:
        texts = table_texts(table, source, columns, needs_label=needs_label)
        return _text_examples(texts, source, columns, encoder)
    features = embed_texts(lines, encoder)
    return Examples(source, features, ids=np.array(lines), id_name="text", kind="text")


def _text_examples(
    texts: Texts,
    source: str,
    columns: Columns,
    encoder: Encoder,
    listener: ProgressListener = SILENT,
) -> Examples:
    from firthshot.backbones.embed import embed_texts

    return Examples(
        source,
        embed_texts(texts.texts, encoder, listener=listener),
        texts.labels,
        ids=texts.ids,
        id_name=texts.heading,
        kind="text",
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        label_name=None if texts.labels is None else columns.label,
        text_name=texts.column,
        notes=texts.notes,
    )


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


def _refuse_without_pictures(source: Path) -> None:
    """Refuse a picture that is not there, and a folder in which there are none."""
    from firthshot.backbones.datasets import pickles_in
    from firthshot.backbones.images import ENDINGS

    if not source.exists():
        raise FirthshotError(f"There is no file {source}: check the path.")
    if not source.is_dir() or pickles_in(source):
        return
    if not any(path.suffix.lower() in ENDINGS for path in source.rglob("*")):
        raise FirthshotError(
            f"{source} holds no pictures: give a folder of them, or the name of a file."
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


def _looks_like_texts(path: Path, columns: Columns) -> bool:
    """Tell whether the only column beside label and id holds words."""
    import polars as pl

    from firthshot.backbones.datasets import load_table

    try:
        table = load_table(path, rows=_SAMPLE)
    except FirthshotError:
        return False  # the reader of tables has its own words for it
    special = {columns.label, columns.id or "id", *columns.drop}
    special |= {name for name in table.columns if name.lower() == "id" or index_column(name)}
    rest = [name for name in table.columns if name not in special]
    if len(rest) != 1 or table.schema[rest[0]] != pl.String:
        return "text" in rest and table.schema["text"] == pl.String and not numeric(table["text"])
    return not numeric(table[rest[0]])
