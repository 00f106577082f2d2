"""Make the study's own banks of features from public texts and pictures.

    python -m studies.few_shot banks [SOURCES] --out FOLDER

SOURCES is a folder with the files that `RECIPES` names, as their projects publish them. Nothing of
them is in this repository: a bank whose files are not there is skipped by name. Features are those
of the package's encoders: MiniLM-L6-v2 for texts and EfficientNet-Lite0 (pictures of 128 pixels)
for pictures. Rows are the first of each class in the order of the source. A bank that exists is
kept.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.backbones.embed import embed_pictures, embed_texts
from firthshot.backbones.encoders import load_encoder
from firthshot.banks import load_bank, save_bank
from studies.few_shot.sources import BANKS

PIXELS = 128

Examples = Iterable[tuple[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """One bank: where its examples come from, rows of a class, and the splits of its classes.

    ``splits`` is dealt to the classes in sorted order, again and again. ``files`` are asked for in
    SOURCES, and ``origin`` says where they come from.
    """

    name: str
    read: Callable[[Path], Examples]
    pictures: bool
    rows: int
    splits: tuple[str, ...]
    licence: str
    files: tuple[str, ...] = ()
    origin: str = ""


def read_banking77(sources: Path) -> Examples:
    """Yield intent and question of Banking77."""
    for part in ("banking_train.csv", "banking_test.csv"):
        with (sources / part).open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                yield line["category"], line["text"]


def read_hwu64(sources: Path) -> Examples:
    """Yield intent and request of HWU64 (one training part of its cross-validation)."""
    data = json.loads((sources / "hwu.json").read_text(encoding="utf-8"))
    for one in data["rasa_nlu_data"]["common_examples"]:
        yield one["intent"], one["text"]


def read_tweets(task: str) -> Callable[[Path], Examples]:
    """Return a reader of a task of TweetEval: a class by number, and the tweet."""

    def read(sources: Path) -> Examples:
        labels = (sources / f"{task}_labels.txt").read_text(encoding="utf-8").split()
        texts = (sources / f"{task}_text.txt").read_text(encoding="utf-8").splitlines()
        yield from ((f"{int(label):02d}", text) for label, text in zip(labels, texts, strict=False))

    return read


def read_ag_news(sources: Path) -> Examples:
    """Yield topic and title with first sentence of AG news (its test part)."""
    with (sources / "agnews.csv").open(encoding="utf-8", newline="") as file:
        for topic, title, text in csv.reader(file):
            yield topic, f"{title}. {text}"


def read_trec(sources: Path) -> Examples:
    """Yield what a question of TREC asks for, by number, and the question."""
    for line in (sources / "TREC.train.all").read_text(encoding="latin-1").splitlines():
        kind, question = line.split(" ", 1)
        yield kind, question


def read_omniglot(sources: Path) -> Examples:
    """Yield character and drawing of Omniglot's two small sets of five alphabets."""
    for part in ("omni1.zip", "omni2.zip"):
        with zipfile.ZipFile(sources / part) as file:
            for name in sorted(file.namelist()):
                if name.endswith(".png"):
                    yield f"{Path(part).stem}/{'/'.join(name.split('/')[1:3])}", file.read(name)


def read_digits(_sources: Path) -> Examples:
    """Yield digit and picture, 64 pixels wide, of scikit-learn's digits."""
    from PIL import Image
    from sklearn.datasets import load_digits

    data = load_digits()
    for pixels, label in zip(data.images, data.target, strict=True):
        out = io.BytesIO()
        image = Image.fromarray(np.uint8(255 - 255 * pixels / 16)).convert("RGB")
        image.resize((64, 64), Image.Resampling.BILINEAR).save(out, "png")
        yield str(label), out.getvalue()


RECIPES = (
    Recipe("digits-efficientnet-lite0", read_digits, True, 120, ("val", "novel"), "CC BY 4.0"),
    Recipe(
        "banking77-minilm",
        read_banking77,
        False,
        60,
        ("base", "novel", "val", "base", "novel"),
        "CC BY 4.0",
        ("banking_train.csv", "banking_test.csv"),
        "PolyAI-LDN/task-specific-datasets on GitHub, banking_data/",
    ),
    Recipe(
        "emoji-minilm",
        read_tweets("emoji"),
        False,
        120,
        ("val", "novel"),
        "see TweetEval",
        ("emoji_labels.txt", "emoji_text.txt"),
        "cardiffnlp/tweeteval on GitHub, datasets/emoji/",
    ),
    Recipe(
        "emotion-minilm",
        read_tweets("emotion"),
        False,
        120,
        ("novel",),
        "see TweetEval",
        ("emotion_labels.txt", "emotion_text.txt"),
        "cardiffnlp/tweeteval on GitHub, datasets/emotion/, training part",
    ),
    Recipe(
        "hwu64-minilm",
        read_hwu64,
        False,
        50,
        ("novel",),
        "CC BY 4.0",
        ("hwu.json",),
        "xliuhw/NLU-Evaluation-Data on GitHub, one training part in Rasa's format",
    ),
    Recipe(
        "omniglot-efficientnet-lite0",
        read_omniglot,
        True,
        20,
        ("novel",),
        "MIT",
        ("omni1.zip", "omni2.zip"),
        "brendenlake/omniglot on GitHub, images_background_small1.zip and …_small2.zip",
    ),
    Recipe(
        "ag-news-minilm",
        read_ag_news,
        False,
        200,
        ("novel",),
        "non-commercial",
        ("agnews.csv",),
        "AG's corpus of news articles, its test part as CSV",
    ),
    Recipe(
        "trec-minilm",
        read_trec,
        False,
        200,
        ("novel",),
        "see TREC",
        ("TREC.train.all",),
        "AcademiaSinicaNLPLab/sentiment_dataset on GitHub, data/",
    ),
)


def chosen_examples(examples: Examples, rows: int, least: int) -> dict[str, list[Any]]:
    """Return the first ``rows`` different examples of each class that has at least ``least``."""
    found: dict[str, dict[Any, None]] = defaultdict(dict)
    for label, example in examples:
        if len(found[label]) < rows and (not isinstance(example, str) or example.strip()):
            found[label][example] = None
    return {label: list(found[label]) for label in sorted(found) if len(found[label]) >= least}


def encode(examples: Sequence[Any], pictures: bool) -> np.ndarray:
    """Return the features of texts or pictures."""
    if pictures:
        encoder = load_encoder("efficientnet-lite0", size=PIXELS, resize=PIXELS)
        return embed_pictures(examples, encoder)
    return embed_texts(examples)


def build(recipe: Recipe, sources: Path, out: Path) -> None:
    """Write one bank, unless it is there."""
    path = out / f"{recipe.name}.bank"
    if not path.exists():
        chosen = chosen_examples(recipe.read(sources), recipe.rows, min(20, recipe.rows))
        classes = list(chosen)
        save_bank(
            path,
            encode([one for name in classes for one in chosen[name]], recipe.pictures),
            np.repeat(np.arange(len(classes)), [len(chosen[name]) for name in classes]),
            name=recipe.name,
            classes=classes,
            class_splits=[recipe.splits[i % len(recipe.splits)] for i in range(len(classes))],
            licence=f"features derived from data under: {recipe.licence}; encoder Apache-2.0",
            provenance="made by python -m studies.few_shot banks",
            dtype="float16",
        )
    print(load_bank(path), flush=True)


def build_all(sources: Path, out: Path) -> None:
    """Write every bank of the study that can be made here, and name the others."""
    out.mkdir(parents=True, exist_ok=True)
    made = {recipe.name for recipe in RECIPES}
    for name in BANKS:
        if name not in made:
            print(f"{name}: shipped with this repository.", flush=True)
    for recipe in RECIPES:
        missing = [name for name in recipe.files if not (sources / name).is_file()]
        if missing and not (out / f"{recipe.name}.bank").exists():
            print(
                f"{recipe.name}: skipped, {' and '.join(missing)} not in {sources.resolve()}. "
                f"From: {recipe.origin}.",
                flush=True,
            )
        else:
            build(recipe, sources, out)
