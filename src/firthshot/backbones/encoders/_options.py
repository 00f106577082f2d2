"""What a user says about an encoder besides its name, and both in one line of text.

A model file keeps that line, ``net.ts?size=32&mean=0,0,0``, so that the encoder of a fit is the
one of its predictions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from firthshot.backbones.encoders._base import WORDS, Kind, check_kind
from firthshot.backbones.images import Preparation
from firthshot.errors import FirthshotError, check_choice

Three = tuple[float, float, float]
POOLINGS = ("pooler", "cls", "mean")


@dataclass(frozen=True)
class EncoderOptions:
    """Changes to how an encoder is loaded; None leaves what suits it."""

    size: int | None = None  # side of the pictures that the network sees
    resize: int | None = None  # length of the shorter side before the centre is cropped
    mean: Three | None = None  # subtracted from pixels of 0 … 1 …
    std: Three | None = None  # … which are then divided by this
    architecture: str | None = None  # the network of a state dict that does not name it
    takes: str | None = None  # which half of a network for both, such as CLIP; else pictures
    pooling: str | None = None  # how the tokens of transformers become a row: one of POOLINGS
    prompt: str | None = None  # the name of a sentence-transformers model's prompt

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            object.__setattr__(self, name, three_numbers(getattr(self, name), name))
        for name in {"size", "resize"} & set(self.given):
            if not str(getattr(self, name)).isdigit():
                raise FirthshotError(f"{name}={getattr(self, name)} of an encoder is not a number.")
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.takes is not None:
            check_choice("What the encoder takes", self.takes, ("image", "text"))
        if self.pooling is not None:
            check_choice("The pooling", self.pooling, POOLINGS)

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check(self, name: str, takes: Kind, *known: str) -> None:
        """Refuse the other kind of input, and options that the encoder of this name lacks."""
        check_kind(name, takes, self.takes)
        foreign = [one for one in self.given if one not in (*known, "takes")]
        if foreign:
            raise FirthshotError(
                f"Encoder {name} takes {WORDS[takes]} and has no such options: leave out "
                f"{' and '.join(foreign)}."
            )

    def mark(self, weights: str) -> str:
        """Return what identifies weights together with the options, but for the half taken."""
        own = replace(self, takes=None).given
        return f"{weights} {own}" if own else weights

    def prepare(self, usual: Preparation) -> Preparation:
        """Return the preparation of pictures with what was given changed."""
        colours = {k: v for k, v in self.given.items() if k in ("mean", "std")}
        return replace(usual.sized(self.size, self.resize), **colours)


@dataclass(frozen=True)
class Loading:
    """How an encoder is to be loaded."""

    options: EncoderOptions = field(default_factory=EncoderOptions)
    device: str = "auto"  # one of DEVICES
    offline: bool = False  # whether the hub may not be asked
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)  # told of downloads


def three_numbers(values: str | float | tuple[float, ...] | None, name: str) -> Three | None:
    """Return one number per colour, out of three, or of one for all, as numbers or as text."""
    if values is None:
        return None
    parts = values if isinstance(values, tuple) else str(values).replace(",", " ").split()
    try:
        numbers = tuple(float(part) for part in parts)
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, 3):
        raise FirthshotError(
            f"{name} {values} is not one number, nor three with commas between them: write for "
            f"instance {name} 0.5 or {name} 0.485,0.456,0.406."
        )
    return (numbers[0], numbers[-2], numbers[-1]) if len(numbers) == 3 else (numbers[0],) * 3


def join_spec(spec: str, options: EncoderOptions) -> str:
    """Return an encoder and its options in one line; a path is kept whole, for any later folder.

    The encoder may be such a line already: then the options are added to it and win.
    """
    if not options.given:
        return spec
    place, told = split_spec(spec)
    if Path(place).exists():
        place = str(Path(place).resolve())
    values = {
        name: ",".join(f"{number}" for number in value) if isinstance(value, tuple) else value
        for name, value in replace(told, **options.given).given.items()
    }
    return f"{place}?{urlencode(values, safe=',')}"


def split_spec(spec: str) -> tuple[str, EncoderOptions]:
    """Undo `join_spec`; a file that has such a name is itself."""
    place, mark, tail = spec.rpartition("?")
    if not mark or Path(spec).exists():
        return spec, EncoderOptions()
    told: dict[str, Any] = dict(parse_qsl(tail))
    strange = set(told) - {field.name for field in fields(EncoderOptions)}
    if strange or not told:
        unknown = ", ".join(sorted(strange)) or tail
        raise FirthshotError(f"There is no file {spec}, and an encoder has no option {unknown}.")
    return place, EncoderOptions(**told)
