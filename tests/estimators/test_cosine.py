"""The cosine estimator against its definition in the paper's own parametrisation."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from firthshot.errors import FirthshotError
from firthshot.estimators import FirthClassifier, FirthCosineClassifier
from firthshot.estimators._base import HeadEstimator
from firthshot.torch import CosineHead, firth_loss


@pytest.mark.filterwarnings("ignore:Column 0:firthshot.errors.ScaleWarning")  # 100 + noise
@parametrize_with_checks(
    [
        FirthCosineClassifier(),
        FirthCosineClassifier(lam="theory", l2=0.1, scale=3.0),
        FirthCosineClassifier(prior="class-frequency", class_weight="balanced", calibrate=False),
    ]
)
def test_estimator_follows_scikit_learn(estimator, check):
    check(estimator)


def support(n_classes=4, shots=3, d=10, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), shots)
    centres = rng.normal(size=(n_classes, d))
    return centres[y] + 0.7 * rng.normal(size=(len(y), d)), y


def module_of(model):
    """Return the fitted head as the PyTorch module, in the paper's v and g."""
    head = CosineHead(model.n_features_in_, len(model.classes_), model.scale_, dtype=torch.float64)
    weights = {"v": model.directions_, "g": model.norms_}
    head.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return head


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("lam", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_is_stationary_in_norms_and_directions(n_classes, lam, weighted):
    """Autograd on v and g, where the problem is not convex, finds nothing left to descend."""
    X, y = support(n_classes)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    model = FirthCosineClassifier(lam=lam, l2=0.3, class_weight=None, tol=1e-11).fit(X, y, weights)
    assert model.converged_
    head = module_of(model)
    losses = firth_loss(head(torch.from_numpy(X)), torch.from_numpy(y), lam, reduction="none")
    # for two classes ½ l2 ‖w_1 − w_0‖² is l2 (g_0² + g_1²), since the two are opposite
    factor = 2 if n_classes == 2 else 1
    ridge = 0.5 * 0.3 * factor * head.g.square().sum()
    total = (torch.from_numpy(weights) * losses).sum() + ridge
    for gradient in torch.autograd.grad(total, (head.v, head.g)):
        assert gradient.abs().max() < 1e-8


@pytest.mark.parametrize("n_classes", [2, 4])
def test_logits_are_those_of_the_paper(n_classes):
    X, y = support(n_classes)
    model = FirthCosineClassifier(calibrate=False).fit(X, y)
    new = support(n_classes, seed=5)[0]
    logits = module_of(model)(torch.from_numpy(new)).detach()
    np.testing.assert_allclose(model.predict_proba(new), logits.softmax(1), rtol=1e-12)
    assert model.intercept_.tolist() == [0.0] * len(model.coef_)
    np.testing.assert_allclose(np.linalg.norm(model.directions_, axis=1), 1.0)


def test_it_is_the_linear_head_without_intercept_on_rows_of_one_length():
    X, y = support()
    model = FirthCosineClassifier(lam=2.0, l2=0.7, tol=1e-12).fit(X, y)
    unit = 2.0 * X / (np.linalg.norm(X, axis=1, keepdims=True) + 1e-5)
    linear = FirthClassifier(lam=2.0, l2=0.7, fit_intercept=False, tol=1e-11).fit(unit, y)
    np.testing.assert_allclose(model.coef_, linear.coef_, rtol=1e-8, atol=1e-10)


def test_the_scale_and_l2_go_together():
    X, y = support()
    one = FirthCosineClassifier(scale=1.0, l2=0.2, calibrate=False).fit(X, y)
    five = FirthCosineClassifier(scale=5.0, l2=0.2 * 25, calibrate=False).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), five.predict_proba(X), rtol=1e-7)
    three, two = (FirthCosineClassifier(scale=s, calibrate=False).fit(X, y) for s in (3.0, None))
    np.testing.assert_allclose(three.predict_proba(X), two.predict_proba(X), rtol=1e-7)
    assert FirthCosineClassifier().fit(X, y).scale_ == 2.0
    rows = np.random.default_rng(0).normal(size=(201, 5))
    many = FirthCosineClassifier().fit(rows, np.arange(201))
    assert many.scale_ == 10.0


def test_lengths_do_not_matter_and_a_row_without_one_says_nothing():
    X, y = support()
    model = FirthCosineClassifier().fit(X, y)
    longer = FirthCosineClassifier().fit(X * np.linspace(1, 9, len(X))[:, None], y)
    np.testing.assert_allclose(longer.coef_, model.coef_, atol=2e-4)
    zero = model.predict_proba(np.zeros((1, X.shape[1])))
    np.testing.assert_allclose(zero, 0.25)
    with pytest.raises(FirthshotError, match="Row 1 is too long"):
        model.predict(np.array([[1.0] * 10, [1e200] * 10]))


def test_sparse_and_short_floats():
    X, y = support()
    X[np.abs(X) < 0.5] = 0
    model = FirthCosineClassifier().fit(X, y)
    thin = FirthCosineClassifier().fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.coef_, model.coef_, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(
        thin.predict_proba(sparse.csr_array(X)), model.predict_proba(X), rtol=1e-7
    )
    short = FirthCosineClassifier().fit(X.astype(np.float32), y)
    assert short.coef_.dtype == np.float32
    np.testing.assert_allclose(short.coef_, model.coef_, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_left_out_rows_are_as_by_refitting(n_classes):
    X, y = support(n_classes, shots=4)
    model = FirthCosineClassifier(lam=1.0, l2=0.5).fit(X, y)
    model._refit_work = 0
    fast = model.leave_one_out(X, y)
    prepared = model._support(X, y, None)
    brute = HeadEstimator._left_out_logits(model, prepared, fast.rows, [(1.0, 0.5)], [])[0]
    np.testing.assert_allclose(fast.logits, brute, atol=0.02)


def test_coefficients_from_the_support_set_alone():
    X, y = support(shots=5)
    model = FirthCosineClassifier(lam="loo", l2="loo", tol=1e-11).fit(X, y)
    assert (model.lam_source_, model.l2_source_) == ("loo", "loo")
    model._refit_work = 0  # the path is by one Newton step each
    assert model.loo_path_["nll"].min() == pytest.approx(model.leave_one_out(X, y).nll, rel=1e-6)
    assert model.temperature_ != 1.0
    theory = FirthCosineClassifier(lam="theory").fit(X, y)
    rank = np.linalg.matrix_rank(X / np.linalg.norm(X, axis=1, keepdims=True))
    assert theory.lam_ == 4 * rank / (2 * len(X))


def test_scikit_learns_tools():
    X, y = support(shots=6)
    y = np.array(["a", "b", "c", "d"])[y]
    pipeline = make_pipeline(StandardScaler(), FirthCosineClassifier())
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.6
    search = GridSearchCV(FirthCosineClassifier(), {"lam": [0.0, 1.0], "scale": [1.0, 4.0]}, cv=3)
    assert search.fit(X, y).best_params_["scale"] in (1.0, 4.0)
    calibrated = CalibratedClassifierCV(FirthCosineClassifier(), cv=3).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1)
    copy = clone(FirthCosineClassifier(scale=7.0, lam="theory"))
    assert (copy.scale, copy.lam) == (7.0, "theory")


def test_it_scores_as_well_as_scikit_learn_asks_of_classifiers():
    """The tag ``poor_score`` is there for class weights on two features only."""
    X, y = make_blobs(n_samples=300, random_state=0)
    X = StandardScaler().fit_transform(X)
    assert FirthCosineClassifier().fit(X, y).score(X, y) > 0.83


@pytest.mark.parametrize("scale", [0, -1.0, np.inf])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(FirthshotError, match="scale"):
        FirthCosineClassifier(scale=scale).fit(*support())
