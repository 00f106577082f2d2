"""Pictures and texts as sources: embedded with an encoder that the model then remembers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.own_data._examples import Columns, Examples
from firthshot.own_data._texts import lines_table, looks_like_texts, table_texts
from firthshot.progress import SILENT, ProgressListener

if TYPE_CHECKING:
    import polars as pl

    from firthshot.backbones.embed import EncoderMark
    from firthshot.backbones.encoders import Encoder

Encoded = Literal["image", "text"]
_SAMPLE = 100  # rows that show what a column holds


class Embedder:
    """The encoder of pictures or texts, loaded once, when the first source needs it.

    Parameters
    ----------
    given : str or object, optional
        Whatever `load_encoder` takes; else the encoder of the model, else the default.
    mark : EncoderMark, optional
        The encoder that a model was fitted with: another is refused.
    listener : ProgressListener, optional
        Hears what is downloaded, and how many pictures or texts are embedded.
    """

    def __init__(
        self,
        given: Any = None,
        mark: EncoderMark | None = None,
        listener: ProgressListener = SILENT,
    ) -> None:
        self.given, self.mark, self.listener = given, mark, listener
        self._loaded: dict[Encoded | None, Encoder] = {}

    @property
    def _hearing(self) -> ProgressListener | None:
        """Who hears of downloads: standard error, where nobody listens."""
        return None if self.listener is SILENT else self.listener

    def encoder(self, kind: Encoded) -> Encoder:
        """Return the encoder of the model, the one that is named, or the default."""
        loaded = self._of_model() if self.mark is not None else self._of_user(kind)
        if loaded.kind != kind:
            from firthshot.backbones.encoders import WORDS

            taken, held = WORDS[loaded.kind], WORDS[kind]
            out = f"name one of {held}" if self.mark is None else f"fit another model to {held}"
            raise FirthshotError(
                f"The encoder {loaded.name} takes {taken}, but the source holds {held}: give "
                f"{taken}, or {out}."
            )
        return loaded

    def _of_user(self, kind: Encoded) -> Encoder:
        from firthshot.backbones.encoders import DEFAULTS, load_encoder

        if kind not in self._loaded:
            wanted = DEFAULTS[kind] if self.given is None else self.given
            self.listener.doing(_loading(wanted))
            self._loaded[kind] = load_encoder(wanted, kind=kind, listener=self._hearing)
        return self._loaded[kind]

    def _of_model(self) -> Encoder:
        from firthshot.backbones.embed import recall_encoder

        assert self.mark is not None
        if None not in self._loaded:
            self.listener.doing(_loading(self.given or self.mark.spec))
            self._loaded[None] = recall_encoder(self.mark, self.given, listener=self._hearing)
        return self._loaded[None]

    def try_picture(self, picture: Path) -> np.ndarray | None:
        """Return the features (1, dim) of one picture; None where it cannot be read."""
        from firthshot.backbones.embed import embed
        from firthshot.backbones.images import PictureError

        try:
            return embed([picture], self.encoder("image"))
        except PictureError:
            return None

    @property
    def takes_texts(self) -> bool:
        """Whether the encoder of the model takes texts."""
        from firthshot.backbones.encoders import ENCODERS

        if self.mark is None or self.mark.fingerprint is None:
            return False
        known = ENCODERS.get(self.mark.spec) or self._of_model()
        return known.kind == "text"


def _loading(encoder: Any) -> str:
    """Return what is being done while a network is imported and read."""
    return f"Loading the encoder {encoder}" if isinstance(encoder, str) else "Loading the encoder"


def encoded_kind(source: str, columns: Columns, embedder: Embedder) -> Encoded | None:
    """Tell whether a source holds pictures or texts; None for features.

    A folder and a picture file are pictures. A table is one of texts when its column of texts is
    named, when the model was fitted to texts, or when its only column beside label and id holds
    words.
    """
    from firthshot.backbones.datasets import TABLES
    from firthshot.backbones.images import ENDINGS as PICTURES

    path = Path(source)
    if path.is_dir() or path.suffix.lower() in PICTURES:
        return "image"
    if path.suffix.lower() not in TABLES or not path.is_file():
        return None
    if columns.text is not None or embedder.takes_texts:
        return "text"
    return "text" if _table_of_texts(path, columns) else None


def read_encoded(
    source: str,
    kind: Encoded,
    columns: Columns,
    embedder: Embedder,
    *,
    needs_label: bool = True,
    skip_bad: bool = False,
) -> Examples:
    """Embed the pictures or texts of a source: a folder, a picture or a table.

    ``needs_label`` refuses pictures that are not in class folders, and a table without labels;
    ``skip_bad`` leaves out pictures that cannot be read.
    """
    from firthshot.backbones.datasets import load_table
    from firthshot.own_data._files import embed_files

    if kind == "image":
        _refuse_without_pictures(Path(source))
    mark = embedder.mark
    if mark is not None and mark.fingerprint is None and embedder.given is None:
        held = "pictures" if kind == "image" else "texts"
        raise FirthshotError(
            f"{source} holds {held}, but the model was fitted to features ({mark.spec}): give "
            "features made the same way."
        )
    if kind == "text":
        table = load_table(Path(source))
        return embed_table_texts(table, source, columns, embedder, needs_label)
    paths, labels = pictures_of(Path(source), needs_label=needs_label)
    return embed_files(paths, labels, source, embedder, skip_bad=skip_bad)


def embed_lines(
    text: str,
    embedder: Embedder,
    source: str = "Standard input",
    columns: Columns | None = None,
    *,
    needs_label: bool = False,
) -> Examples:
    """Embed texts, one per line, with the encoder of a model.

    With ``columns``, lines that are JSON objects or begin with a header are read as a table.
    """
    from firthshot.backbones.embed import embed

    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise FirthshotError(f"{source} is empty: give one text per line.")
    table = None if columns is None else lines_table(text, columns, source)
    if columns is not None and table is not None:
        return embed_table_texts(table, source, columns, embedder, needs_label)
    features = embed(lines, embedder.encoder("text"), listener=embedder.listener)
    return Examples(source, features, ids=np.array(lines), id_name="text", kind="text")


def embed_table_texts(
    table: pl.DataFrame, source: str, columns: Columns, embedder: Embedder, needs_label: bool
) -> Examples:
    """Embed the texts of a table, with what else it says of each row."""
    from firthshot.backbones.embed import embed

    texts, rows = table_texts(table, source, columns, needs_label=needs_label)
    encoder = embedder.encoder("text")
    return replace(
        rows,
        features=embed(texts, encoder, listener=embedder.listener),
        encoder=encoder.spec or encoder.name,
        fingerprint=encoder.fingerprint,
        texts=tuple(texts),
    )


def embed_picture(content: bytes, embedder: Embedder, source: str = "Standard input") -> Examples:
    """Embed one picture, given as the bytes of its file, with the encoder of a model."""
    from firthshot.backbones.embed import embed
    from firthshot.backbones.images import PictureError

    encoder = embedder.encoder("image")
    try:
        features = embed([content], encoder)
    except PictureError:
        raise FirthshotError(
            f"{source} is neither a picture nor text in UTF-8: give the content of one picture."
        ) from None
    return Examples(source, features, ids=np.array([source]), id_name="picture", kind="image")


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


def pictures_of(source: Path, *, needs_label: bool) -> tuple[list[Path], np.ndarray | None]:
    """Return the picture files of a source, and their class folders if it has any."""
    from firthshot.backbones.images import ENDINGS

    _refuse_without_pictures(source)
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


def _table_of_texts(path: Path, columns: Columns) -> bool:
    from firthshot.backbones.datasets import load_table

    try:
        return looks_like_texts(load_table(path, rows=_SAMPLE), columns)
    except FirthshotError:
        return False  # the reader of tables has its own words for it
