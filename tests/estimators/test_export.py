"""Fitted heads elsewhere: the probabilities of a torch module and of an ONNX file are ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from firthshot import (
    DistributionCalibrationClassifier,
    FewShotClassifier,
    FirthClassifier,
    FirthCosineClassifier,
    FirthMLPClassifier,
)
from firthshot.errors import FirthshotError

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")


def rows(classes: int, shots: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return labelled rows far from zero, of unlike columns."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), shots)
    spread = np.exp(random.normal(size=d))
    return (
        random.normal(size=(classes, d))[labels] + random.normal(size=(len(labels), d)) + 2
    ) * spread, labels


HEADS = {
    "linear": FirthClassifier(),
    "linear, scaled": FirthClassifier(standardize=True),
    "linear, no temperature": FirthClassifier(calibrate=False, fit_intercept=False),
    "linear, class prior": FirthClassifier(class_prior="training"),
    "cosine": FirthCosineClassifier(standardize=True),
    "3-layer": FirthMLPClassifier(hidden=(7, 5), max_iter=400, tol=1e-3, standardize=True),
    "few-shot": FewShotClassifier(),
    "few-shot, class prior": FewShotClassifier(class_prior="training"),
    "few-shot, unit": FewShotClassifier(columns="unit"),
    "few-shot, power": FewShotClassifier(columns="power"),
    "few-shot, plain": FewShotClassifier(columns="plain", heads=["gaussian", "neighbours"]),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", HEADS)
def test_probabilities_are_the_same_everywhere(name: str, classes: int, tmp_path: Path) -> None:
    X, y = rows(classes, 4, 9)
    some = np.r_[0, 1, 2, 3, 4 : len(y) : 2]  # unequal shots
    model = HEADS[name].fit(X[some], np.array(["a", "b", "c", "d"])[y[some]])
    new = X.astype(np.float32)
    expected = model.predict_proba(new.astype(np.float64))
    module = model.to_torch()
    found = module(torch.as_tensor(new.astype(np.float64))).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-9)
    other = HEADS[name].fit(X[some], np.array(["p", "q", "r", "s"])[y[some]]).to_torch()
    other.load_state_dict(module.state_dict())
    assert other.classes == module.classes == list("abcd"[:classes])
    path = model.to_onnx(tmp_path / "head.onnx")
    label, probabilities = onnxruntime.InferenceSession(path).run(None, {"features": new})
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert label.tolist() == model.predict(new.astype(np.float64)).tolist()


def test_few_rows_of_many_columns_and_sparse_ones(tmp_path: Path) -> None:
    """Rows then lie in a space of few dimensions, and new ones beside it."""
    X, y = rows(3, 2, 80)
    X[:, 5:9] = 0
    new = rows(3, 5, 80, seed=1)[0].astype(np.float32)
    for fitted in (FewShotClassifier().fit(X, y), FewShotClassifier().fit(csr_array(X), y)):
        path = fitted.to_onnx(tmp_path / "head.onnx")
        label, probabilities = onnxruntime.InferenceSession(path).run(None, {"features": new})
        expected = fitted.predict_proba(new.astype(np.float64))
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
        assert label.dtype == np.int64


def test_what_has_no_such_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        FirthshotError, match="DistributionCalibrationClassifier cannot be exported"
    ):
        DistributionCalibrationClassifier().to_onnx(tmp_path / "head.onnx")


def test_the_module_in_a_network(tmp_path: Path) -> None:
    """A cast leaves its numbers, it is saved whole, and compiled without a break."""
    X, y = rows(3, 4, 9)
    model = FewShotClassifier().fit(X, y)
    module, new = model.to_torch(), torch.as_tensor(X)
    expected = torch.as_tensor(model.predict_proba(X))
    network = torch.nn.Sequential(torch.nn.Identity(), module).half()
    torch.testing.assert_close(network(new), expected)
    assert network(new.float()).dtype == torch.float32
    torch.testing.assert_close(module(new.round().long()), module(new.round().float()))
    torch.save(module, tmp_path / "module.pt")
    loaded = torch.load(tmp_path / "module.pt", weights_only=False)
    torch.testing.assert_close(loaded(new), expected)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(new), expected)
    assert module.classes == [0, 1, 2]
    assert repr(module) == "FittedModule(n_features=9, classes=3)"


def test_a_module_refuses_what_it_cannot_take(tmp_path: Path) -> None:
    X, y = rows(3, 4, 9)
    model = FewShotClassifier().fit(X, y)
    with pytest.raises(FirthshotError, match=r"shape \(3, 1\); the head takes \(n, 9\)"):
        model.to_torch()(torch.rand(3, 1))
    with pytest.raises(FirthshotError, match=r"cannot compile a fitted head: use torch\.compile"):
        model.to_torch().__prepare_scriptable__()  # what torch.jit.script calls first
    with pytest.raises(FirthshotError, match=str(tmp_path)):
        model.to_onnx(tmp_path)
