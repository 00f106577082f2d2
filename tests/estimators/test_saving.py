"""Saved models: the same bits back, and one sentence for everything that is not a model."""

import contextlib
import json
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save
from sklearn.exceptions import NotFittedError

import firthshot
from firthshot.errors import FirthshotError
from firthshot.estimators import FirthClassifier, FirthCosineClassifier, FirthMLPClassifier
from firthshot.estimators._loading import load_model
from firthshot.estimators._saving import FORMAT, META_KEY, SAVED

SMALL = {"hidden": (5, 4), "tol": 1e-2}
ESTIMATORS = [FirthClassifier(), FirthCosineClassifier(), FirthMLPClassifier(**SMALL)]


def support(n_classes=3, shots=4, d=6, dtype=np.float64):
    rng = np.random.default_rng(0)
    y = np.arange(n_classes * shots) % n_classes
    return (rng.normal(size=(n_classes, d))[y] + 0.3 * rng.normal(size=(len(y), d))).astype(
        dtype
    ), y


@pytest.fixture
def saved(tmp_path):
    """Return a function that fits, saves and loads an estimator, and gives all three."""

    def run(estimator, X, y, **settings):
        path = tmp_path / "model.firth"
        estimator.fit(X, y)
        estimator.save(path, **settings)
        return estimator, path, load_model(path)

    return run


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_are_the_same_bits(saved, estimator, dtype, n_classes):
    X, y = support(n_classes, dtype=dtype)
    model, _, loaded = saved(estimator.set_params(calibrate=True), X, y)
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    for ask in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(loaded, ask)(X), getattr(model, ask)(X))
    for name in ("lam_", "l2_", "lam_source_", "l2_source_", "temperature_", "n_iter_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert loaded.converged_ is model.converged_
    assert loaded.score(X, y) == model.score(X, y)
    with pytest.raises(ValueError, match="7 features"):
        loaded.predict(np.zeros((1, 7), dtype))


@pytest.mark.parametrize(
    "labels",
    [
        ["plain", "ünïcödé 漢字 🦊", 'it\'s "quoted"'],
        ["", "new\nline\ttab", "back\\slash"],
        [" leading", "trailing ", "\u2028separator"],
        [10, -3, 7],
        np.array([3, 200, 7], np.uint8),
        np.array([1, 2, 3], np.int16),
        [1.0, 1e9, -2.0],
        np.array([1, 2, 3], np.float32),
        np.array(["one", "two", "three"], object),
        ["\ud800 lone surrogate", "b", "c"],
    ],
    ids=repr,
)
def test_labels_of_every_kind_survive(saved, labels):
    X, y = support()
    y = np.asarray(labels)[y]
    model, _, loaded = saved(FirthClassifier(), X, y)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert [type(one) for one in loaded.classes_] == [type(one) for one in model.classes_]


def test_truth_values_survive(saved):
    X, y = support(2)
    _, _, loaded = saved(FirthClassifier(), X, y == 1)
    assert loaded.classes_.tolist() == [False, True]
    assert loaded.predict(X).dtype == bool


def test_parameters_of_every_kind_survive(saved):
    X, y = support()
    names = np.array(["a", "b", "c"])[y]
    model, _, loaded = saved(
        FirthClassifier(
            lam=np.float64(0.5),
            prior=np.array([0.2, 0.3, 0.5]),
            class_weight={"a": 2, "b": np.float32(0.5), "c": 1.0},
        ),
        X,
        names,
    )
    assert loaded.class_weight == model.class_weight
    np.testing.assert_array_equal(loaded.prior, model.prior)
    again = loaded.fit(X, names)  # a loaded estimator can be fitted anew
    np.testing.assert_array_equal(again.coef_, model.coef_)
    _, _, network = saved(FirthMLPClassifier(random_state=np.random.RandomState(3), **SMALL), X, y)
    assert network.hidden == (5, 4)
    assert network.random_state is None


def test_the_path_of_leave_one_out_survives(saved):
    X, y = support()
    model, _, loaded = saved(FirthClassifier(lam="loo"), X, y)
    assert loaded.loo_path_.keys() == model.loo_path_.keys()
    for name, values in model.loo_path_.items():
        np.testing.assert_array_equal(loaded.loo_path_[name], values)


def test_feature_names_and_encoder_survive(saved, tmp_path):
    X, y = support()
    frame = pl.DataFrame(X, schema=[f"ξ {k}" for k in range(6)])
    model, _, loaded = saved(FirthClassifier(), frame, y, encoder="minilm", fingerprint="ab12")
    assert loaded.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename({"ξ 0": "other"}))
    assert (loaded.encoder_name_, loaded.encoder_fingerprint_) == ("minilm", "ab12")
    loaded.save(tmp_path / "second.firth")
    assert load_model(tmp_path / "second.firth").encoder_name_ == "minilm"
    _, _, bare = saved(FirthClassifier(), X, y)
    assert (bare.encoder_name_, bare.encoder_fingerprint_) == (None, None)


def test_it_is_a_public_name_and_takes_text(tmp_path):
    path = str(tmp_path / "m.firth")
    FirthClassifier().fit(*support()).save(path)
    assert isinstance(firthshot.load_model(path), FirthClassifier)


def test_no_pickle_is_read(saved, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a pickle was read")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    saved(FirthMLPClassifier(**SMALL), *support())


# What is refused


def test_an_unfitted_or_foreign_estimator_is_not_saved(tmp_path):
    class Mine(FirthClassifier):
        pass

    with pytest.raises(NotFittedError):
        FirthClassifier().save(tmp_path / "m.firth")
    with pytest.raises(FirthshotError, match="A Mine cannot be saved"):
        Mine().fit(*support()).save(tmp_path / "m.firth")
    assert not list(tmp_path.iterdir())


def test_parameters_that_json_does_not_know_are_not_saved(tmp_path):
    model = FirthClassifier(lam=Fraction(1, 2)).fit(*support())
    with pytest.raises(FirthshotError, match="A Fraction cannot be saved"):
        model.save(tmp_path / "m.firth")


def test_a_failed_write_leaves_the_old_file(saved, tmp_path, monkeypatch):
    model, path, _ = saved(FirthClassifier(), *support())
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(FirthshotError, match="cannot be written: No space left"):
        model.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FirthshotError, match="cannot be written"):
        model.save(tmp_path / "nowhere" / "m.firth")


def refused(path, sentence):
    with pytest.raises(FirthshotError, match=sentence) as caught:
        load_model(path)
    text = str(caught.value)
    assert str(path) in text
    assert text.endswith(".")
    assert "\n" not in text


def test_files_that_are_no_models(tmp_path):
    refused(tmp_path / "absent.firth", "no model file")
    refused(tmp_path, "no model file")
    for name, content in {
        "empty": b"",
        "text": b"label,x\na,1\n",
        "pickle": pickle.dumps({"a": 1}),
        "zeros": bytes(100),
    }.items():
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, "damaged, cut short, or another kind")
    (tmp_path / "tensors").write_bytes(save({"x": np.zeros(2)}))
    refused(tmp_path / "tensors", "not a firthshot model")


def test_cuts_and_flipped_bits_are_refused_or_harmless(saved, tmp_path):
    X, y = support(d=3)
    model, path, _ = saved(FirthClassifier(), X, y)
    whole, broken = path.read_bytes(), tmp_path / "broken.firth"
    for length in range(0, len(whole), 9):
        broken.write_bytes(whole[:length])
        refused(broken, "cannot be loaded")
    broken.write_bytes(whole + b"x")
    refused(broken, "cannot be loaded")
    for at in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[at] ^= 1 << (at // 3 % 8)
        broken.write_bytes(changed)
        with contextlib.suppress(FirthshotError):  # nothing else may come out
            loaded = load_model(broken)
            np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_changed_content_is_refused_and_files_without_a_checksum_pass(saved):
    model, path, _ = saved(FirthClassifier(), *support())
    rewrite(path, put("fitted", "temperature_", 2.0))
    refused(path, "content has changed since it was saved: fit and save it again")
    rewrite(path, lambda meta: meta.pop("sha256"))
    assert load_model(path).temperature_ == 2.0
    rewrite(path, lambda meta: meta.pop("label_name"))  # as before there was one
    assert load_model(path).label_name_ is None
    model.save(path)
    rewrite(path, tensors={"parameters/coef_": 2 * model.coef_})
    refused(path, "content has changed")


def test_the_names_of_columns_survive(saved, tmp_path):
    _, _, loaded = saved(FirthClassifier(), *support(), label="species", text="notes")
    assert (loaded.label_name_, loaded.text_name_) == ("species", "notes")
    loaded.save(tmp_path / "second.firth")
    again = load_model(tmp_path / "second.firth")
    assert (again.label_name_, again.text_name_) == ("species", "notes")


def rewrite(path, change=None, tensors=None):
    """Write the model file anew with changed metadata or tensors."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        meta = json.loads(file.metadata()[META_KEY])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if change:
        change(meta)
    path.write_bytes(save({**arrays, **(tensors or {})}, metadata={META_KEY: json.dumps(meta)}))


def test_a_few_bytes_cannot_ask_for_much_memory(saved):
    _, path, _ = saved(FirthClassifier(), *support())
    many = {"dtype": "<U9999", "values": [str(k) for k in range(20_000)]}  # 800 MB
    rewrite(path, lambda meta: meta.update(classes=many))
    refused(path, "classes are wider than any names")


def put(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(meta):
        for key in keys:
            meta = meta[key]
        meta[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put("format", FORMAT + 1), "firthshot 0.1.0 in format 3.*upgrade"),
        (put("format", FORMAT - 1), "format 1, from before the first release: fit and save it"),
        (put("format", "1"), "which format"),
        (put("format", 0), "which format"),
        (put("class", "os.system"), "not one of FewShotClassifier"),
        (put("class", "load_model"), "not one of"),
        (put("class", ["FirthClassifier"]), "not one of"),
        (put("class", "FirthMLPClassifier"), "parameters are not those of"),
        (put("params", "extra", 1), "parameters are not those of FirthClassifier: extra"),
        (put("params", None), "parameters are not those of"),
        (put("params", "lam", -1), "lam is -1"),
        (put("params", "lam", {"code": "x"}), "unknown kind 'code'"),
        (put("params", "lam", {}), "ill-formed"),
        (put("params", "lam", [1]), "lam is .1.; give a number"),
        (put("n_features", 5), "arrays do not fit"),
        (put("n_features", -1), "ill-formed: .*>= 1.*n_features"),
        (put("n_features", 6.5), "ill-formed: .*n_features"),
        (put("feature_names", ["a"]), "names of its features"),
        (put("feature_names", [1] * 6), "ill-formed: .*feature_names"),
        (put("classes", {"dtype": "<i8", "values": [0, 1, 2, 3]}), "arrays do not fit"),
        (put("classes", {"dtype": "<i8", "values": [0, 0, 1]}), "not all different"),
        (put("classes", {"dtype": "<i8", "values": [0]}), "fewer than two"),
        (put("classes", {"dtype": "|i1", "values": [0, 1, 300]}), "classes|ill-formed"),
        (put("classes", {"dtype": "<U1", "values": ["a", "b", "long"]}), "do not fit their type"),
        (put("classes", {"dtype": "V8", "values": [0, 1, 2]}), "not labels"),
        (put("classes", {"dtype": "i8,f8", "values": [0, 1, 2]}), "not labels"),
        (put("classes", {"dtype": "<U999999999", "values": ["a", "b", "c"]}), "not labels"),
        (put("classes", 3), "ill-formed"),
        (put("fitted", "temperature_", 0), "ill-formed: .*temperature_"),
        (put("fitted", "temperature_", {"float": "nan"}), "ill-formed: .*temperature_"),
        (put("fitted", "lam_", "1"), "ill-formed: .*lam_"),
        (put("fitted", "lam_", float("inf")), "ill-formed: .*lam_"),
        (put("fitted", "lam_source_", "magic"), "ill-formed: .*lam_source_"),
        (put("fitted", {}), "ill-formed"),
        (put("encoder", 3), "encoder"),
        (lambda meta: meta.pop("classes"), "ill-formed"),
    ],
)
def test_hostile_or_newer_descriptions_are_refused(saved, change, sentence):
    _, path, _ = saved(FirthClassifier(lam=1.0, l2=1.0), *support())
    rewrite(path, change)
    refused(path, sentence)


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"parameters/coef_": np.zeros((3, 5))}, "arrays do not fit"),
        ({"parameters/coef_": np.zeros((4, 6))}, "arrays do not fit"),
        ({"parameters/coef_": np.zeros(18)}, "arrays do not fit"),
        ({"parameters/coef_": np.full((3, 6), np.nan)}, "NaN or an infinity"),
        ({"parameters/coef_": np.zeros((3, 6), np.int64)}, "tensors of type I64"),
        ({"parameters/fit": np.zeros(3)}, "arrays do not fit"),
        ({"parameters/__class__": np.zeros(3)}, "arrays do not fit"),
        ({"other": np.zeros(3)}, "a tensor 'other'"),
    ],
)
def test_hostile_arrays_are_refused(saved, tensors, sentence):
    _, path, _ = saved(FirthClassifier(), *support())
    rewrite(path, tensors=tensors)
    refused(path, sentence)


def test_a_network_whose_layers_disagree_is_refused(saved):
    _, path, _ = saved(FirthMLPClassifier(**SMALL), *support())
    rewrite(path, put("params", "hidden", {"tuple": [4, 5]}))
    refused(path, "arrays do not fit")
    rewrite(path, put("params", "hidden", {"tuple": ["x"]}))
    refused(path, "hidden is")


@pytest.mark.parametrize("head", [FirthClassifier, FirthCosineClassifier, FirthMLPClassifier])
def test_the_scale_of_the_columns_is_saved(tmp_path, head):
    X, y = support()
    X = X * 10.0 ** np.arange(X.shape[1]) + 5
    model = head(standardize=True).fit(X, y)
    model.save(tmp_path / "m.firth")
    again = load_model(tmp_path / "m.firth")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for name in ("mean", "spread"):
        rewrite_to = getattr(model.column_scale_, name)[1:]
        model.save(tmp_path / "m.firth")
        rewrite(tmp_path / "m.firth", tensors={f"columns/{name}": rewrite_to})
        refused(tmp_path / "m.firth", "arrays do not fit")
    model.save(tmp_path / "m.firth")
    rewrite(tmp_path / "m.firth", tensors={"columns/spread": np.zeros(X.shape[1])})
    refused(tmp_path / "m.firth", "not above zero")


def test_every_public_estimator_of_one_support_set_can_be_saved():
    from firthshot import estimators

    heads = ("FewShot", "Firth")
    assert set(SAVED) == {name for name in estimators.__all__ if name.startswith(heads)}
