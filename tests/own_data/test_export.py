"""Heads for use without this package, against the heads themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import firthshot
from firthshot.cli import app
from firthshot.errors import FirthshotError


def rows(classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), (9, 6, 5)[:classes])
    X = 2 * np.eye(classes, 12)[labels] + rng.normal(size=(len(labels), 12)) + 0.5
    return X.astype(np.float32), np.array(["ant", "bee", "cat"])[labels]


@pytest.mark.parametrize("head", ["auto", "linear", "cosine"])
def test_onnxruntime_agrees(tmp_path: Path, head: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, y = rows()
    model = firthshot.fit(X, y, head=head)
    path = model.export("onnx", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    labels, p = session.run(["label", "probabilities"], {"features": X})
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-5)
    assert list(labels) == model.predict(X).tolist()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("head", ["linear", "cosine"])
@pytest.mark.parametrize("kind", ["skops", "sklearn"])
def test_plain_pipelines_agree(tmp_path: Path, kind: str, head: str, classes: int) -> None:
    X, y = rows(classes)
    model = firthshot.fit(X, y, head=head, standardize=head == "linear")
    path = model.export(kind, tmp_path / "m")
    if kind == "skops":
        plain = pytest.importorskip("skops.io").load(path)
    else:
        import joblib

        plain = joblib.load(path)
    assert type(plain[-1]).__module__.startswith("sklearn")
    np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), atol=1e-5)
    assert (plain.predict(X) == model.predict(X)).all()


def test_what_scikit_learn_cannot_express_is_one_sentence(tmp_path: Path) -> None:
    for model in (firthshot.fit(*rows()), firthshot.fit(*rows(), head="cosine", standardize=True)):
        with pytest.raises(FirthshotError, match="has no classes for this head"):
            model.export("skops", tmp_path / "m.skops")


def test_the_command_writes_beside_the_model(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    X, y = rows()
    np.savez(tmp_path / "t.npz", X=X, y=y)
    words = ["fit", tmp_path / "t.npz", "--model", tmp_path / "m.firth", "--head", "linear"]
    words += ["--export", "onnx", "--export", "sklearn"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert {path.suffix for path in tmp_path.glob("m.*")} == {".firth", ".html", ".onnx", ".joblib"}
