"""Draw the figures of README.md from the kept tables, as the report draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from firthshot.experiments.summary import RunSummary
from firthshot.experiments.summary.columns import ALL, CHOSEN, CONTRASTS
from firthshot.files import write_whole
from firthshot.report.gather import Gathered
from firthshot.report.plots import drawings
from firthshot.report.plots.style import Drawing, style, write_drawing
from studies.reproduction.compared import published_entries
from studies.reproduction.kept import Kept
from studies.words import SHORT


@dataclass(frozen=True)
class Picture:
    """A figure of the page: the report's, of some studies (and banks).

    Attributes
    ----------
    name : str
        Of its file.
    begins : str
        How the report's name of the figure begins.
    words : str
        Its caption on the page.
    studies, banks : tuple of str
        All banks where none is named.
    published : str
        The paper's curve beside ours: a data set and a backbone, none where it has none.
    """

    name: str
    begins: str
    words: str
    studies: tuple[str, ...]
    banks: tuple[str, ...] = ()
    published: str = ""

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return f"{self.name}.png"


EVAL, SORTED = "mini-resnet10", "mini-resnet10-bn-train-sorted"
PICTURES = (
    Picture(
        "figure-2",
        "methods",
        "Figure 2 on our banks: Firth and L2, linear head, 16 ways",
        ("logistic-firth", "logistic-l2"),
        published="mini-ImageNet, ResNet-10",
    ),
    Picture(
        "figure-3",
        "unbalanced",
        "Figure 3 on our banks: unequal shots, linear head",
        ("imbalanced",),
        published="mini-ImageNet, ResNet-10",
    ),
    Picture(
        "figure-4",
        "improvement-ways",
        "Figure 4 on our banks: Firth, cosine head",
        ("cosine",),
        published="mini-ImageNet, WRN-28-10",
    ),
    Picture(
        "figure-a6",
        "improvement-shots",
        "Figure A6 on our banks: Firth, linear head, 5 and 10 ways",
        ("ways-5-10",),
        published="mini-ImageNet, ResNet-10",
    ),
    Picture(
        "figure-a7",
        "methods",
        "Figure A7 on our banks: Firth and L2, 3-layer head, 16 ways",
        ("mlp-firth", "mlp-l2"),
        published="mini-ImageNet, ResNet-10",
    ),
    Picture(
        "figure-a10",
        "unbalanced",
        "Figure A10 on our banks: unequal shots, 3-layer head",
        ("imbalanced-mlp",),
        published="mini-ImageNet, ResNet-10",
    ),
    Picture(
        "figure-a11",
        "improvement-ways",
        "Figure A11 on our banks: Firth, linear head on centred rows of unit length",
        ("simpleshot",),
        published="tiered-ImageNet, DenseNet-121",
    ),
    Picture(
        "figure-a12-eval",
        "lambda",
        "Figure A12 on mini-ImageNet in evaluation mode: validation accuracy along λ",
        ("logistic-firth",),
        (EVAL,),
    ),
    Picture(
        "figure-a12-sorted",
        "lambda",
        "Figure A12 on the same pictures with sorted batches",
        ("logistic-firth",),
        (SORTED,),
    ),
    Picture(
        "figure-a13",
        "methods",
        "Figure A13 on our banks: Firth and L2, linear head, 16 ways",
        ("datasets-firth", "datasets-l2"),
        published="CIFAR-FS, ResNet-10",
    ),
    Picture(
        "converged", "methods", "Firth and L2, both trained to the optimum, 16 ways", ("converged",)
    ),
    Picture(
        "tradeoff",
        "tradeoff",
        "Accuracy against calibration error along λ, mini, trained to the optimum",
        ("converged",),
        (EVAL,),
    ),
)


def draw_figures(kept: Kept, folder: Path) -> list[Path]:
    """Draw every figure for which there are runs, as PNG; return the files."""
    written = []
    with style((*SHORT.values(), "", "paper")):  # the paper is the grey star
        for picture in PICTURES:
            drawing = _draw(picture, kept)
            if drawing is not None:
                written.append(_write(picture, drawing, folder))
    return written


def picture_lines(picture: Picture, kept: Kept) -> list[str]:
    """Return the Markdown that shows a figure, nothing where its studies have not been run."""
    if not set(picture.studies) <= set(kept.chosen["study"]):
        return []
    beside = f"; the paper's curve is that of {picture.published}" if picture.published else ""
    return [f"![{picture.words}](images/{picture.file})", "", f"*{picture.words}{beside}.*"]


def _draw(picture: Picture, kept: Kept) -> Drawing | None:
    """Return the first figure of the report whose name begins so, None where there is none."""
    return next(drawings(_gathered(picture, kept), picture.begins), None)


def _gathered(picture: Picture, kept: Kept) -> Gathered:
    """Return what the report would gather of the runs; Holm's family is that of the page."""
    chosen = _part(kept.chosen, picture).with_columns(p_holm=pl.col("p_family"))
    chosen = pl.concat([chosen, _published(picture, chosen)], how="diagonal_relaxed")
    tables = [_part(kept.all, picture), chosen, _part(kept.contrasts, picture)]
    frames = [frame.select(*schema) for frame, schema in zip(tables, _SCHEMAS, strict=True)]
    return Gathered(RunSummary(frames[0], frames[1], frames[2], []), ())


def _published(picture: Picture, ours: pl.DataFrame) -> pl.DataFrame:
    """Return the paper's gains in settings of ours, as rows of a bank called paper."""
    columns = ("head", "penalty", "prior", "ways", "shots", "shots_scheme")
    gains = [
        {name: getattr(entry, name) for name in columns}
        | {"improvement": entry.improvement, "improvement_ci": entry.ci}
        | {"coefficient": entry.coefficient, "p_holm": float(abs(entry.improvement) <= entry.ci)}
        for study in picture.studies
        for entry in published_entries(study)
        if f"{entry.dataset}, {entry.backbone}" == picture.published
    ]
    if not gains:
        return ours.clear()
    settings = ours.unique(columns, keep="first", maintain_order=True).drop(
        "improvement", "improvement_ci", "coefficient", "p_holm"
    )
    theirs = pl.DataFrame(gains).cast({name: ours.schema[name] for name in columns})
    return settings.join(theirs, on=columns).with_columns(bank=pl.lit("paper"))


_SCHEMAS: Sequence[dict[str, object]] = (ALL, CHOSEN, CONTRASTS)


def _part(frame: pl.DataFrame, picture: Picture) -> pl.DataFrame:
    banks = picture.banks or tuple(frame["bank"].unique())
    mine = frame.filter(pl.col("study").is_in(picture.studies), pl.col("bank").is_in(banks))
    return mine.with_columns(pl.col("bank").replace(SHORT))


def _write(picture: Picture, drawing: Drawing, folder: Path) -> Path:
    """Keep the PNG of a drawing alone, under the page's name for it."""
    import tempfile

    path = folder / picture.file
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as beside:
        write_whole(path, write_drawing(drawing, Path(beside))["png"].read_bytes())
    return path
