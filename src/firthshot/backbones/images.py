"""Pictures of every kind to RGB pixels of one size, several at a time.

Nothing is repaired in silence: a picture either has one agreed reading (below) or is refused in a
sentence that names it.

- Rotation in EXIF is applied.
- Transparency, also of a palette, is laid over white.
- 16-bit greys are scaled by 1/257, not cut off at 255.
- CMYK, greyscale, palette, YCbCr and black-and-white become RGB; of an animation the first frame.
- Tiny pictures are enlarged.
- Truncated, foreign, floating-point and absurdly large pictures (above 67 million pixels) are
  refused, and so is every format but those of `FORMATS`: other decoders are never run.
"""

from __future__ import annotations

import io
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from firthshot.errors import FirthshotError, MissingExtraError, reason

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # names of Pillow
MOST_PIXELS = 1 << 26  # a camera of 64 megapixels; at most a gigabyte while it is decoded
Picture = Path | bytes | np.ndarray  # a file, the bytes of one, or pixels (height, width, 3) uint8
_STRIP = 1 << 20  # pixels that are worked on at once
_EIGHT_BITS = np.round(np.arange(65536) / 257).astype(np.uint8)
In = TypeVar("In")
Out = TypeVar("Out")


class PictureError(FirthshotError):
    """A picture that cannot be read; the message names it and says why."""


@dataclass(frozen=True)
class Preparation:
    """How a decoded picture becomes the input of an encoder."""

    size: int  # side of the square that the encoder sees, in pixels
    resize: int | None = None  # of the shorter side before the centre is cropped; None: ``size``
    interpolation: str = "bilinear"  # or bicubic, both with antialiasing
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)  # subtracted from pixels of 0 … 1 …
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)  # … which are then divided by this

    def __post_init__(self) -> None:
        if self.size < 1 or (self.resize is not None and self.resize < self.size):
            raise FirthshotError(
                f"Pictures of {self.size} px cannot be cut out of {self.resize} px: "
                "give a resize length of at least the size."
            )
        if not np.isfinite((*self.mean, *self.std)).all() or min(self.std) <= 0:
            raise FirthshotError(
                f"Pixels cannot be normalised with mean {self.mean} and std {self.std}: give "
                "finite numbers, and deviations above 0."
            )

    @property
    def words(self) -> str:
        """Say what is done in a few words."""
        mean, std = (" ".join(f"{v:g}" for v in values) for values in (self.mean, self.std))
        plain = set(self.mean) == {0} and set(self.std) == {1}
        return (
            f"shorter side to {self.resize or self.size} px ({self.interpolation}), centre "
            f"{self.size} x {self.size} px, pixels 0 … 1"
            f"{'' if plain else f' minus mean {mean}, over std {std}'}"
        )

    def sized(self, size: int | None, resize: int | None = None) -> Preparation:
        """Return the preparation for another size; ``resize`` keeps its ratio unless given."""
        if size is None and resize is None:
            return self
        side = size or self.size
        scaled = None if self.resize is None else round(self.resize * side / self.size)
        return replace(self, size=side, resize=resize or scaled)

    def pixels(self, picture: Picture, name: str = "") -> np.ndarray:
        """Decode, resize and crop one picture, (size, size, 3) uint8."""
        from PIL.Image import Resampling

        image = decode(picture, name)
        short, side = self.resize or self.size, self.size
        width, height = image.size
        if min(width, height) != short:
            scale = short / min(width, height)
            scaled = (max(short, int(scale * width)), max(short, int(scale * height)))
            image = image.resize(scaled, Resampling[self.interpolation.upper()])
            width, height = image.size
        left, top = round((width - side) / 2), round((height - side) / 2)
        return np.asarray(image.crop((left, top, left + side, top + side)))

    def normalise(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels (n, size, size, 3) uint8 as (n, 3, size, size) float32, normalised."""
        scale = np.float32(1) / (np.float32(255) * np.array(self.std, np.float32))
        shift = np.array(self.mean, np.float32) / np.array(self.std, np.float32)
        return np.moveaxis(pixels.astype(np.float32) * scale - shift, -1, 1)


@dataclass(frozen=True)
class LibraryPreparation:
    """Pictures prepared by the library that the network comes from."""

    size: int  # side of the square that the network sees, in pixels
    # what is done, in a few words
    words: str = field(repr=False)  # fingerprints shall not follow a library's wording
    # maps an upright RGB image to float32 (3, size, size), normalised
    process: Callable[[Any], np.ndarray] = field(repr=False)

    def pixels(self, picture: Picture, name: str = "") -> np.ndarray:
        """Decode and prepare one picture, (3, size, size) float32."""
        return np.asarray(self.process(decode(picture, name)), np.float32)

    def normalise(self, pixels: np.ndarray) -> np.ndarray:
        """Return the batch as it is: the library has normalised it."""
        return pixels


def decode(picture: Picture, name: str = "") -> Image:
    """Return a picture as an upright RGB image; a `PictureError` says why it cannot be read.

    It is a file, the bytes of one, or pixels (height, width) or (height, width, 3) uint8. ``name``
    is what a message calls it where it is no path.
    """
    image_module = _pillow()
    if isinstance(picture, np.ndarray):
        return _from_pixels(picture, name)
    called = name or (str(picture) if isinstance(picture, Path) else "the picture")
    try:
        with warnings.catch_warnings():
            # Pillow warns of odd metadata and of large pictures; only what stops it counts here.
            warnings.simplefilter("ignore")
            file = picture if isinstance(picture, Path) else io.BytesIO(picture)
            with image_module.open(file, formats=FORMATS) as image:
                width, height = image.size  # as it declares, before anything is decoded
                if width * height > MOST_PIXELS:
                    raise PictureError(
                        f"{called} cannot be decoded: it has {width} x {height} pixels, more than "
                        f"{MOST_PIXELS:,}; make it smaller."
                    )
                return _to_rgb(image)
    except PictureError:
        raise
    except image_module.UnidentifiedImageError:
        raise PictureError(
            f"{called} is not a picture in {', '.join(FORMATS)}: remove or convert it."
        ) from None
    except Exception as error:  # noqa: BLE001 - decoders raise anything on a damaged file
        raise PictureError(f"{called} cannot be decoded: {reason(error)}.") from None


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("Reading pictures", "torch") from None
    return Image


def _from_pixels(pixels: np.ndarray, name: str) -> Image:
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise PictureError(
            f"{name or 'A picture'} has pixels of shape {pixels.shape}, {pixels.dtype}: "
            "(height, width, 3) of uint8 is needed."
        )
    return _to_rgb(_pillow().fromarray(np.ascontiguousarray(pixels)))


def _to_rgb(image: Image) -> Image:
    """Return an upright RGB copy; the modes are Pillow's."""
    from PIL import ImageOps

    image.load()
    ImageOps.exif_transpose(image, in_place=True)  # large ones are not held twice
    if image.mode == "F":
        raise ValueError("its pixels are fractional numbers; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        image = _to_eight_bits(image)
    if image.has_transparency_data:
        return _over_white(image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _over_white(image: Image) -> Image:
    """Lay a picture over white, strip by strip: a large one is not held five times."""
    module = _pillow()
    width, height = image.size
    out = module.new("RGB", image.size)
    for top in range(0, height, step := max(1, _STRIP // width)):
        strip = image.crop((0, top, width, min(top + step, height))).convert("RGBA")
        white = module.new("RGBA", strip.size, (255, 255, 255, 255))
        out.paste(module.alpha_composite(white, strip).convert("RGB"), (0, top))
    return out  # type: ignore[no-any-return]


def _to_eight_bits(image: Image) -> Image:
    """Scale 16-bit greys to 8 bits; Pillow's own conversion would cut them off at 255."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError("its greys lie outside 0 … 65535; save it with 8 or 16 bits")
    scaled = np.empty(values.size, np.uint8)
    for start in range(0, values.size, _STRIP):  # an index of all at once takes 8 bytes a pixel
        part = slice(start, start + _STRIP)
        scaled[part] = _EIGHT_BITS[values.reshape(-1)[part]]
    return _pillow().fromarray(scaled.reshape(values.shape))  # type: ignore[no-any-return]


def map_ahead(
    function: Callable[[In], Out], items: Iterable[In], threads: int | None = None, ahead: int = 256
) -> Iterator[Out]:
    """Apply a function in threads; results come in order, at most ``ahead`` of them waiting."""
    waiting: deque[Any] = deque()
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
