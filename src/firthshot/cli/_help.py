"""What ``--help`` says beside the options: groups, two examples and a guide for each command."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
            "bank import --out my.bank --split val=val.npz --split novel=novel.npz",
            "bank import features.npz --val-classes 0.5 --out my.bank",
        ),
        "banks.md",
    ),
    "bank export": Help(
        ("bank export my.bank --out my.npz", "bank export my.bank --split novel --out novel.npz"),
        "banks.md",
    ),
    "backbone list": Help(("backbone list", "backbone list --help"), "backbones.md"),
    "backbone train": Help(
        ("backbone train photos/ --architecture resnet10 --out trained/", "backbone train --help"),
        "backbones.md",
    ),
    "backbone extract": Help(
        (
            "backbone extract photos/ --out p.bank --encoder hf:facebook/dinov2-small",
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


def add_help(app: typer.Typer, above: str = "") -> None:
    """Give every command of an app its examples and its guide."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = f"{above}{command.name or command.callback.__name__}"
        command.epilog = _epilog(HELP[ALIASES.get(name, name)])


def _epilog(words: Help) -> str:
    """Return paragraphs: a single line break would be lost."""
    examples = (f"firthshot {example}" for example in words.examples)
    return "\n\n".join(("Examples:", *examples, f"Guide: docs/{words.guide}"))
