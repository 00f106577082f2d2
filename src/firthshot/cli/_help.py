"""What ``--help`` says beside the options: groups, two examples and a guide for each command."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firthshot.cli._help_screen import PlainCommand, PlainGroup

if TYPE_CHECKING:
    import typer

OWN_DATA = "Classify your own photos, sentences and tables"
MEASURE = "Find out whether Firth helps on your features"
REGRESSION = "Estimate and test"


class Help(NamedTuple):
    """Examples of a command, and the page that explains it."""

    examples: tuple[str, str]
    guide: str


HELP = {
    "fit": Help(
        (
            "fit photos/ --model pets.firth",
            "fit tickets.csv --text text --label team --model t.firth",
        ),
        "tutorials/photos-and-sentences.md",
    ),
    "predict": Help(
        ("predict pets.firth new.jpg", "predict t.firth new.csv --out predictions.csv"),
        "tutorials/photos-and-sentences.md",
    ),
    "cache": Help(("cache", "cache --clear"), "backbones.md"),
    "run": Help(
        ("run quickstart --bank my.bank", "run cosine --trials 500 --set 'ways=[5,20]'"),
        "tutorials/my-backbone.md",
    ),
    "status": Help(("status runs/quickstart", "status runs/quickstart --json"), "specs.md"),
    "report": Help(("report runs/quickstart", "report runs/first runs/second"), "report.md"),
    "presets": Help(("presets", "presets cosine --bank my.bank"), "specs.md"),
    "validate": Help(("validate mine.toml", "validate quickstart --set 'shots=[1,5]'"), "specs.md"),
    "regress": Help(
        (
            'regress data.csv "y ~ x1 + C(group)"',
            'regress data.csv "y ~ ." --odds-ratios --out table.csv',
        ),
        "jeffreys.md",
    ),
    "bank list": Help(("bank list", "bank list --json"), "banks.md"),
    "bank show": Help(("bank show clinc150-minilm", "bank show my.bank --accuracy"), "banks.md"),
    "bank check": Help(("bank check my.bank", "bank check my.bank --json"), "banks.md"),
    "bank import": Help(
        (
            "bank import --split val=val.npz --split novel=test.npz --out my.bank",
            "bank import features.npz --val-classes 0.5 --out my.bank",
        ),
        "banks.md",
    ),
    "bank export": Help(
        ("bank export my.bank --out my.npz", "bank export my.bank --split novel --out novel.npz"),
        "banks.md",
    ),
    "backbone list": Help(("backbone list", "backbone list > encoders.txt"), "backbones.md"),
    "backbone train": Help(
        (
            "backbone train photos/ --architecture resnet10 --out trained/",
            "backbone train pics/ --recipe s2m2 --architecture wrn-28-10 --out w/",
        ),
        "backbones.md",
    ),
    "backbone extract": Help(
        (
            "backbone extract photos/ --encoder timm:resnet18 --out photos.bank",
            "backbone extract texts.csv --text text --out texts.bank",
        ),
        "backbones.md",
    ),
}
ALIASES = {
    "bank ls": "bank list",
    "bank info": "bank show",
    "bank doctor": "bank check",
    "backbone ls": "backbone list",
}


GROUPS = {
    "fit": {
        "What to read": ("text", "label", "id", "drop", "split", "skip-bad"),
        "What to write": ("model", "update", "report", "export", "rows", "quiet", "json"),
        "Head": ("head", "class-weight", "lam", "l2", "calibrate", "standardize"),
        "Encoder of pictures and texts": ("encoder", "device", "offline"),
    },
    "predict": {
        "What to answer": ("out", "unknown", "quiet", "json"),
        "What to read": ("text", "label", "id", "drop", "split", "skip-bad"),
        "Encoder of pictures and texts": ("encoder", "device", "offline"),
    },
    "regress": {
        "Model": ("reference", "tau", "weights", "offset", "missing", "collinear"),
        "Inference": ("profile", "level", "standard-errors", "robust", "clusters", "correction"),
        "What to write": ("odds-ratios", "out", "plot", "plot-kind", "json"),
    },
    "bank import": {
        "What to read": ("split", "val-classes", "seed", "label", "split-column"),
        "What to write": ("out", "name", "dtype"),
        "What to record": ("dataset", "backbone", "extraction", "licence", "provenance"),
    },
    "backbone train": {
        "Pictures": ("dataset", "split-file", "size", "stored", "smallest-crop", "cache"),
        "Network": ("architecture", "seed"),
        "Recipe": ("recipe", "one-cycle", "epochs", "batch", "rate", "weight-decay"),
        "Run": ("out", "precision", "lanes", "quiet"),
    },
    "backbone extract": {
        "What to read": ("dataset", "split-file", "text", "label", "rows-per-class", "skip-bad"),
        "Encoder": ("encoder", "architecture", "bn-train-sorted", "device", "offline"),
        "Pictures": ("size", "resize", "mean", "std", "threads"),
        "What to write": ("out", "name", "dtype", "licence", "provenance", "quiet"),
    },
}  # of commands with many options; what stands in no group comes last


def add_help(app: typer.Typer, above: str = "") -> None:
    """Give every command of an app its help screen, its examples and its guide."""
    app.info.cls = PlainGroup
    app.rich_markup_mode = None  # of two columns, and not of four
    for command in app.registered_commands:
        assert command.callback is not None
        name = f"{above}{command.name or command.callback.__name__}"
        words = HELP[ALIASES.get(name, name)]
        examples = (f"firthshot {example}" for example in words.examples)
        command.cls = PlainCommand
        command.epilog = "\n\n".join((*examples, f"Guide: docs/{words.guide}"))
