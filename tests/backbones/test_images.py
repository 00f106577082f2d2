from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from backbones.pictures import pixels
from firthshot.backbones import images
from firthshot.backbones.images import PictureError, Preparation, decode, map_ahead
from firthshot.errors import FirthshotError


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def rgb(path: Path) -> np.ndarray:
    return np.asarray(decode(path))


def test_greyscale_is_repeated_in_three_channels(tmp_path: Path) -> None:
    grey = pixels(0)[..., 0]
    out = rgb(saved(tmp_path / "a.png", Image.fromarray(grey)))
    np.testing.assert_array_equal(out, np.repeat(grey[..., None], 3, axis=2))


def test_sixteen_bits_are_scaled_not_cut_off(tmp_path: Path) -> None:
    deep = np.array([[0, 257, 128 * 257, 65535]], np.uint16)
    out = rgb(saved(tmp_path / "a.png", Image.fromarray(deep)))
    np.testing.assert_array_equal(out[0, :, 0], [0, 1, 128, 255])
    out = rgb(saved(tmp_path / "a.tif", Image.fromarray(deep)))
    np.testing.assert_array_equal(out[0, :, 2], [0, 1, 128, 255])


def test_transparency_is_laid_over_white(tmp_path: Path) -> None:
    colours = np.zeros((1, 3, 4), np.uint8)
    colours[0, :, 0] = 200
    colours[0, :, 3] = (0, 255, 51)
    out = rgb(saved(tmp_path / "a.png", Image.fromarray(colours)))
    np.testing.assert_array_equal(out[0], [[255, 255, 255], [200, 0, 0], [244, 204, 204]])


def test_palettes_with_and_without_transparency(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    np.testing.assert_array_equal(
        rgb(saved(tmp_path / "a.png", image))[0], [[10, 20, 30], [40, 50, 60]]
    )
    out = rgb(saved(tmp_path / "b.png", image, transparency=0))
    np.testing.assert_array_equal(out[0], [[255, 255, 255], [40, 50, 60]])


def test_black_and_white_and_cmyk(tmp_path: Path) -> None:
    bits = Image.fromarray(np.array([[False, True]]))
    np.testing.assert_array_equal(rgb(saved(tmp_path / "a.png", bits))[0, :, 1], [0, 255])
    ink = Image.new("CMYK", (16, 16), (0, 255, 255, 0))  # no cyan: red
    red = rgb(saved(tmp_path / "a.jpg", ink, quality=95))[8, 8]
    assert red[0] > 240
    assert red[1:].max() < 15


@pytest.mark.parametrize(
    ("orientation", "turned"), [(1, "none"), (3, "half"), (6, "right"), (8, "left"), (2, "mirror")]
)
def test_exif_rotation_is_applied(tmp_path: Path, orientation: int, turned: str) -> None:
    array = pixels(1, 16)[:8]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", Image.fromarray(array), exif=exif)
    turns = {
        "none": array,
        "half": array[::-1, ::-1],
        "right": np.rot90(array, -1),
        "left": np.rot90(array),
        "mirror": array[:, ::-1],
    }
    np.testing.assert_array_equal(rgb(path), turns[turned])


def test_first_frame_of_an_animation(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    path = saved(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(rgb(path)[0, 0], [255, 0, 0])


def test_bad_pictures_are_named(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jpg"
    Image.fromarray(pixels(2, 64)).save(whole)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole.read_bytes()[:700])
    words = tmp_path / "words.jpg"
    words.write_text("not a picture")
    (tmp_path / "empty.png").touch()
    fractions = saved(tmp_path / "f.tif", Image.fromarray(np.ones((2, 2), np.float32)))
    reasons = {
        cut: "truncated",
        words: "not a picture",
        tmp_path / "empty.png": "not a picture",
        fractions: "fractional numbers",
        tmp_path / "gone.png": "No such file",
    }
    for path, reason in reasons.items():
        with pytest.raises(PictureError, match=reason) as caught:
            decode(path)
        assert path.name in str(caught.value)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "big.png", Image.new("1", (400, 400)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(PictureError, match=r"big\.png"):
        decode(path)


def test_bytes_and_pixels_are_decoded_too() -> None:
    array = pixels(3)
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    np.testing.assert_array_equal(np.asarray(decode(file.getvalue())), array)
    np.testing.assert_array_equal(np.asarray(decode(array)), array)
    with pytest.raises(PictureError, match=r"cat/3 has pixels of shape \(4,\)"):
        decode(np.zeros(4, np.uint8), "cat/3")


def test_preparation_crops_the_centre() -> None:
    array = pixels(4, 20)
    out = Preparation(12, 20).pixels(array)
    np.testing.assert_array_equal(out, array[4:16, 4:16])
    np.testing.assert_array_equal(Preparation(20).pixels(array), array)


def test_preparation_resizes_the_shorter_side() -> None:
    wide = np.repeat(np.repeat(pixels(5, 4), 8, axis=0), 16, axis=1)  # 32 x 64
    out = Preparation(16).pixels(wide)
    reference = Image.fromarray(wide).resize((32, 16), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(out, np.asarray(reference)[:, 8:24])


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (37, 2)])
def test_tiny_and_narrow_pictures_are_enlarged(shape: tuple[int, int]) -> None:
    array = np.full((*shape, 3), 77, np.uint8)
    out = Preparation(24).pixels(array)
    assert out.shape == (24, 24, 3)
    assert (out == 77).all()


def test_normalisation_is_the_formula() -> None:
    preparation = Preparation(8)
    batch = np.stack([pixels(6, 8), pixels(7, 8)])
    mean, std = np.array(preparation.mean), np.array(preparation.std)
    expected = ((batch / 255 - mean) / std).transpose(0, 3, 1, 2)
    out = preparation.normalise(batch)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_another_size_keeps_the_ratio() -> None:
    usual = Preparation(224, 256)
    assert usual.sized(112).resize == 128
    assert usual.sized(112, 112).resize == 112
    with pytest.raises(FirthshotError, match="224 px cannot be cut out of 100 px"):
        usual.sized(None, 100)


def test_map_ahead_keeps_order_and_does_not_run_away() -> None:
    started = []
    lock = threading.Lock()

    def work(item: int) -> int:
        with lock:
            started.append(item)
        return item * item

    results = map_ahead(work, range(1000), threads=4, ahead=8)
    assert next(results) == 0
    assert len(started) <= 8
    assert list(results) == [item * item for item in range(1, 1000)]


def test_map_ahead_raises_where_the_item_stands() -> None:
    def work(item: int) -> int:
        if item == 5:
            raise ValueError("five")
        return item

    results = map_ahead(work, range(100), threads=2, ahead=4)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="five"):
        next(results)


def test_a_picture_is_refused_by_the_size_that_it_declares(tmp_path):
    for name in ("large.png", "large.tif", "large.gif"):
        Image.new("L", (8200, 8200)).save(tmp_path / name)
        with pytest.raises(PictureError, match=rf"{name} cannot .*8200 x 8200 pixels, more than"):
            decode(tmp_path / name)


def test_only_the_decoders_of_known_formats_are_run(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "icon.png", format="ICO", sizes=[(8, 8)])
    with pytest.raises(PictureError, match=r"icon\.png is not a picture in JPEG, PNG"):
        decode(tmp_path / "icon.png")


def test_transparency_of_many_strips_is_that_of_the_whole(monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 4), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    whole = np.asarray(decode(content.getvalue()))
    monkeypatch.setattr(images, "_STRIP", 64)
    assert (np.asarray(decode(content.getvalue())) == whole).all()
