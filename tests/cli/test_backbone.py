"""``firthshot backbone extract`` says which encoder it uses, by the name that was given."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from backbones.digits import write_digits

pytest.importorskip("torch")


def test_extract_names_the_encoder_that_was_asked_for(tmp_path: Path) -> None:
    from firthshot.backbones.architectures import make_backbone
    from firthshot.backbones.training._files import write_tensors
    from firthshot.cli.backbone import app

    weights = tmp_path / "my-birds.safetensors"
    notes = {"setup": {"architecture": "resnet10", "size": 16}, "classes": ["a"] * 3}
    write_tensors(weights, make_backbone("resnet10", classes=3).state_dict(), notes)
    pictures = write_digits(tmp_path / "digits", per_class=2)
    words = ["extract", str(pictures), "--encoder", str(weights), "--out", str(tmp_path / "a.bank")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    said = next(line for line in result.output.splitlines() if line.startswith("Encoder"))
    assert said == f"Encoder: {weights} (resnet10 at 16 px)."


def test_fit_and_predict_share_the_options_of_an_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from firthshot.backbones.architectures import make_backbone
    from firthshot.cli import app
    from firthshot.errors import FirthshotError
    from firthshot.estimators import load_model

    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))
    torch.save(make_backbone("conv4").state_dict(), tmp_path / "c4.pth")
    pictures, model = write_digits(tmp_path / "digits", per_class=3), str(tmp_path / "d.firth")
    encoder = str(tmp_path / "c4.pth")
    words = ["fit", str(pictures), "--model", model, "--encoder"]
    refused = CliRunner().invoke(app, [*words, encoder])
    assert isinstance(refused.exception, FirthshotError)
    assert "name the architecture, as in c4.pth?architecture=" in str(refused.exception)
    options = "architecture=conv4&size=32&mean=0&std=1"
    fitted = CliRunner().invoke(app, [*words, f"{encoder}?{options}"])
    assert fitted.exit_code == 0, fitted.output
    assert "at 32 px" in " ".join(fitted.output.split())
    assert "size=32&mean=0.0,0.0,0.0" in load_model(model).encoder_name_
    (tmp_path / "c4.pth").rename(tmp_path / "moved.pth")
    moved = ["--encoder", str(tmp_path / "moved.pth")]
    predicted = CliRunner().invoke(app, ["predict", model, str(pictures), *moved])
    assert predicted.exit_code == 0, predicted.output
