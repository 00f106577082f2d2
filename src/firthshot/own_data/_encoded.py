"""Pictures and texts as sources: embedded with an encoder that the model then remembers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from firthshot.backbones.datasets import TABLES, load_table, open_dataset, pickles_in
from firthshot.backbones.embed import EncoderMark
from firthshot.backbones.encoders import DEFAULTS, ENCODERS, WORDS, Encoder
from firthshot.backbones.images import ENDINGS as PICTURES
from firthshot.backbones.images import PictureError
from firthshot.errors import FirthshotError, listed
from firthshot.own_data._examples import Array, Columns, Examples
from firthshot.own_data._texts import lines_table, looks_like_texts, table_texts
from firthshot.progress import SILENT, ProgressListener

Encoded = Literal["image", "text"]
_NONE = np.empty((0, 0))  # features that are still to be computed
_SAMPLE = 100  # rows that show what a column holds


class Embedder:
    """The encoder of pictures or texts, loaded once, when the first source needs it.

    It is ``given``, which is whatever `load_encoder` takes; else that of the model's ``mark``, and
    then no other is allowed; else the default. ``listener`` hears what is downloaded, and how many
    pictures or texts are embedded.
    """

    def __init__(
        self,
        given: Any = None,
        mark: EncoderMark | None = None,
        listener: ProgressListener = SILENT,
    ) -> None:
        self.given, self.mark, self.listener = given, mark, listener
        self._loaded: dict[Encoded | None, Encoder] = {}

    def encoder(self, kind: Encoded) -> Encoder:
        """Return the encoder of the model, the one that is named, or the default."""
        loaded = self._load(None if self.mark is not None else kind)
        if loaded.kind != kind:
            taken, held = WORDS[loaded.kind], WORDS[kind]
            out = f"name one of {held}" if self.mark is None else f"fit another model to {held}"
            raise FirthshotError(
                f"The encoder {loaded.name} takes {taken}, but the source holds {held}: give "
                f"{taken}, or {out}."
            )
        return loaded

    def _load(self, kind: Encoded | None) -> Encoder:
        """Return the encoder of a kind, or of the model; standard error hears of downloads."""
        from firthshot.backbones.embed import recall_encoder
        from firthshot.backbones.encoders import load_encoder

        if kind not in self._loaded:
            usual = DEFAULTS[kind] if kind is not None else getattr(self.mark, "spec", None)
            wanted = usual if self.given is None else self.given
            named = f" {wanted}" if isinstance(wanted, str) else ""
            self.listener.doing(f"Loading the encoder{named}")
            hearing = None if self.listener is SILENT else self.listener
            if kind is None:
                assert self.mark is not None
                self._loaded[kind] = recall_encoder(self.mark, self.given, listener=hearing)
            else:
                self._loaded[kind] = load_encoder(wanted, kind=kind, listener=hearing)
        return self._loaded[kind]

    def examples(
        self, kind: Encoded, items: Sequence[Any], rows: Examples, bad: list[int] | None = None
    ) -> Examples:
        """Return rows with the features of their pictures or texts, and what made these."""
        from firthshot.backbones.embed import embed

        encoder = self.encoder(kind)
        return replace(
            rows,
            features=embed(items, encoder, listener=self.listener, bad=bad),
            kind=kind,
            encoder=encoder.spec or encoder.name,
            fingerprint=encoder.fingerprint,
        )

    @property
    def takes_texts(self) -> bool:
        """Whether the encoder of the model takes texts."""
        if self.mark is None or self.mark.fingerprint is None:
            return False
        known = ENCODERS.get(self.mark.spec) or self._load(None)
        return known.kind == "text"


def holds_texts(path: Path, columns: Columns, embedder: Embedder) -> bool:
    """Tell whether a table is one of texts.

    It is when its column of texts is named, when the model was fitted to texts, or when its only
    column beside label and id holds words.
    """
    if path.suffix.lower() not in TABLES or not path.is_file():
        return False
    if columns.text is not None or embedder.takes_texts:
        return True
    with suppress(FirthshotError):  # the reader of tables has its own words for it
        return looks_like_texts(load_table(path, rows=_SAMPLE), columns)
    return False


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
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise FirthshotError(f"{source} is empty: give one text per line.")
    table = None if columns is None else lines_table(text, columns, source)
    if columns is not None and table is not None:
        return embed_table_texts(table, source, columns, embedder, needs_label)
    return embed_texts(lines, source, embedder)


def embed_texts(texts: list[str], source: str, embedder: Embedder) -> Examples:
    """Embed texts, which name themselves."""
    rows = Examples(source, _NONE, ids=np.array(texts), id_name="text", texts=tuple(texts))
    return embedder.examples("text", texts, rows)


def embed_table_texts(
    table: pl.DataFrame, source: str, columns: Columns, embedder: Embedder, needs_label: bool
) -> Examples:
    """Embed the texts of a table, with what else it says of each row."""
    texts, rows = table_texts(table, source, columns, needs_label=needs_label)
    return embedder.examples("text", texts, replace(rows, texts=tuple(texts)))


def embed_picture(content: bytes, embedder: Embedder, source: str = "Standard input") -> Examples:
    """Embed one picture, given as the bytes of its file, with the encoder of a model."""
    rows = Examples(source, _NONE, ids=np.array([source]), id_name="picture")
    try:
        return embedder.examples("image", [content], rows)
    except PictureError:
        raise FirthshotError(
            f"{source} is neither a picture nor text in UTF-8: give the content of one picture."
        ) from None


def embed_files(
    paths: Sequence[Path],
    labels: Array | None,
    source: str,
    embedder: Embedder,
    *,
    skip_bad: bool | None = False,
) -> Examples:
    """Embed picture files; those that cannot be read are named, all of them, in `Examples.bad`.

    They are refused together unless ``skip_bad`` leaves them out; None leaves that to the caller.
    ``source`` is what the user calls the files.
    """
    bad: list[int] = []
    rows = Examples(source, _NONE, id_name="picture")
    found = embedder.examples("image", paths, rows, bad)
    names = [path.as_posix() for path in paths]
    told = tuple(str(paths[row]) for row in bad)
    if skip_bad is not None:
        refuse_bad(told, len(paths), skip_bad=skip_bad)
    kept = np.setdiff1d(np.arange(len(paths)), np.array(bad, np.intp))
    return replace(
        found,
        labels=None if labels is None else labels[kept],
        ids=np.array(names)[kept],
        bad=told,
    )


def refuse_bad(bad: Sequence[str], total: int, *, skip_bad: bool) -> None:
    """Refuse bad files unless they are to be left out, and then only if nothing is left."""
    if bad and total == 1:
        raise FirthshotError(f"{bad[0]} cannot be read as a picture: mend it or take another.")
    if len(bad) == total:
        raise FirthshotError(f"None of {total} files can be read as a picture: {listed(bad)}.")
    if bad and not skip_bad:
        are = "1 file is no picture" if len(bad) == 1 else f"{len(bad)} files are no pictures"
        raise FirthshotError(
            f"{are} that can be read: {listed(bad, most=20)}. Mend or remove them, or leave such "
            "files out.",
            "skip_bad",
        )


def pictures_of(source: Path, *, needs_label: bool) -> tuple[list[Path], np.ndarray | None]:
    """Return the picture files of a source, and their class folders if it has any."""
    if not source.exists():
        raise FirthshotError(f"There is no file {source}: check the path.")
    if not source.is_dir():
        if needs_label:
            raise FirthshotError(f"{source} is one picture: give a folder of class folders.")
        return [source], None
    every = sorted(path for path in source.rglob("*") if path.suffix.lower() in PICTURES)
    if not every and not pickles_in(source):
        raise FirthshotError(
            f"{source} holds no pictures: give a folder of them, or the name of a file."
        )
    if not needs_label and any(path.parent == source for path in every):
        return every, None  # pictures beside folders: the folders are no classes
    data = open_dataset(source)
    return list(data.contents), np.array(data.classes)[data.labels]


def picture_files(sources: Sequence[str]) -> tuple[list[Path], Array | None]:
    """Return the pictures of folders and files, and their class folders where all have them."""
    found = [pictures_of(Path(source), needs_label=False) for source in sources]
    paths = [path for part, _ in found for path in part]
    labels = [part for _, part in found if part is not None]
    return paths, np.concatenate(labels) if len(labels) == len(found) else None


def read_pictures(
    sources: Sequence[str], embedder: Embedder, *, skip_bad: bool = False
) -> Examples:
    """Embed the pictures of folders and files as one list."""
    paths, labels = picture_files(sources)
    return embed_files(paths, labels, ", ".join(sources), embedder, skip_bad=skip_bad)
