"""Readers of pictures and texts in the layouts in which people have them, and class splits."""

from __future__ import annotations

from pathlib import Path

from firthshot.backbones.datasets._examples import (
    TITLES,
    Dataset,
    Example,
    Found,
    Homes,
    arrange,
    published,
    published_homes,
    read_homes,
    recognise,
    split_counts,
)
from firthshot.backbones.datasets._pickles import ENDINGS as PICKLES
from firthshot.backbones.datasets._pickles import pickles_in, read_pickles
from firthshot.backbones.datasets._readers import (
    TABLES,
    load_table,
    read_folder,
    read_texts,
    split_lists,
    text_column,
)
from firthshot.errors import FirthshotError

__all__ = [
    "TABLES", "TITLES", "Dataset", "Example", "load_table", "open_dataset", "pickles_in",
    "published", "published_homes", "read_homes", "recognise", "text_column",
]  # fmt: skip


def open_dataset(
    source: str | Path,
    *,
    split_file: str | Path | None = None,
    dataset: str | None = None,
    text: str | None = None,
    label: str = "label",
) -> Dataset:
    """Read pictures or texts and say which class belongs to which split.

    Parameters
    ----------
    source : path
        A folder of class folders, alone or under train, val and test; the CSV splits of Ravi and
        Larochelle beside an ``images`` folder; the public cache pickles of mini-ImageNet,
        tiered-ImageNet, CIFAR-FS and CIFAR-100, one or a folder of them; or a table of texts.
    split_file : path, optional
        The class split: JSON, or a folder of lists (`read_homes`). It decides over everything
        else; classes that it does not name are left out.
    dataset : str, optional
        ``mini-imagenet``, ``cifar-fs`` or ``cub``: take its published split. Otherwise the split
        that the layout itself gives, or that of a published data set with exactly these classes;
        failing these, every class is novel.
    text, label : str
        The columns of a table of texts.
    """
    source = Path(source)
    found = _read(source, text, label)
    homes, known, words = _choose_homes(source, found, split_file, dataset)
    name = TITLES.get(known or "", source.resolve().name)
    notes = {"layout": found.layout, "class split": f"{words} ({split_counts(homes)})"}
    return arrange(found, homes, name, notes)


def _read(source: Path, text: str | None, label: str) -> Found:
    if source.is_dir():
        pickles = [] if split_lists(source) else pickles_in(source)
        return read_pickles(pickles) if pickles else read_folder(source)
    if not source.is_file():
        raise FirthshotError(f"There is nothing at {source}: check the path.")
    ending = source.suffix.lower()
    if ending in PICKLES:
        return read_pickles([source])
    if ending in TABLES:
        return read_texts(source, text, label)
    raise FirthshotError(
        f"{source} has the ending {source.suffix!r}: a folder, {', '.join((*PICKLES, *TABLES))} "
        "can be read."
    )


def _choose_homes(
    source: Path, found: Found, split_file: str | Path | None, dataset: str | None
) -> tuple[Homes, str | None, str]:
    """Return the split of each class, the published data set if it is one, and words for it."""
    classes = {example.owner for example in found.examples}
    known = dataset or recognise(classes)
    if split_file is not None:
        return read_homes(Path(split_file)), known, f"as in {Path(split_file).name}"
    if dataset is not None and dataset != "tiered-imagenet":
        return published_homes(dataset), dataset, str(published()[dataset]["source"])
    if homes := found.homes():
        return homes, known, "as the source is laid out"
    if known in published():
        return published_homes(known), known, str(published()[known]["source"])
    return dict.fromkeys(classes, "novel"), known, f"none given, so all of {source.name} is novel"
