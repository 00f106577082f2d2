"""Bad input is refused in a sentence, and nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from firthshot.errors import FirthshotError
from firthshot.objective import (
    PENALTIES,
    Penalty,
    SampleLoss,
    check_prior,
    class_prior,
    fisher_information,
    log_softmax,
    theory_coefficient,
    theory_lambda,
)

FIRTH, SMOOTHING = PENALTIES["firth"], PENALTIES["label-smoothing"]
Z, EYE, Y = np.zeros((2, 3)), np.eye(3), np.array([0, 1, 2])
BAD = {
    "one-class": (lambda: log_softmax([[1.0], [2.0]]), "two classes or more"),
    "flat-logits": (lambda: log_softmax([1.0, 2.0]), "give \\(..., samples, classes\\)"),
    "complex-logits": (lambda: log_softmax([[1j, 2]]), "give real numbers"),
    "label-high": (lambda: SampleLoss().value(Z, [0, 3]), "from 0 to 3; with 3 classes"),
    "label-low": (lambda: SampleLoss().gradient(Z, [-1, 0]), "must lie in 0..2"),
    "label-float": (lambda: SampleLoss().value(Z, [0.0, 1.0]), "give integers"),
    "label-shape": (lambda: SampleLoss().value(Z, [0, 1, 2]), "one label per sample"),
    "prior-sum": (lambda: FIRTH.loss(1.0, [0.5, 0.4]), "sums to 0.9"),
    "prior-batch-sum": (lambda: check_prior([[0.5, 0.5], [0.5, 0.7]]), "sums to 1.2"),
    "prior-negative": (lambda: check_prior([1.5, -0.5]), "negative or non-finite"),
    "prior-nan": (lambda: SMOOTHING.loss(0.1, [np.nan, 1.0]), "negative or non-finite"),
    "prior-array": (
        lambda: Penalty("firth", (1.0,), prior=np.array([0.2, 0.8])),  # type: ignore[arg-type]
        "or a tuple of probabilities",
    ),
    "prior-scalar": (lambda: check_prior(1.0), "one probability per class"),
    "prior-length": (
        lambda: FIRTH.loss(1.0, [0.5, 0.5]).value(Z, [0, 1]),
        "2 entries but the logits have 3",
    ),
    "prior-axes": (
        lambda: FIRTH.loss(1.0, np.full((2, 3), 1 / 3)).gradient(np.zeros((4, 2, 3)), [0, 1]),
        "the prior has leading axes",
    ),
    "prior-name": (lambda: class_prior("flat", Y, 3), "prior is 'flat'; give 'uniform'"),
    "prior-classes": (lambda: class_prior((0.5, 0.5), Y, 3), "must be 3 probabilities"),
    "prior-given-sum": (lambda: class_prior((1, 1, 0), Y, 3), "3 probabilities .* sums to 2;"),
    "prior-words": (lambda: class_prior(("a", "b", "c"), Y, 3), "must be 3 probabilities"),
    "prior-unwanted": (lambda: PENALTIES["confidence"].loss(1.0, [0.5, 0.5]), "takes no prior"),
    "lambda-negative": (lambda: FIRTH.loss(-1), "coefficient = -1.0 must be finite"),
    "lambda-nan": (lambda: FIRTH.loss([0, np.nan]), "coefficient = nan must be finite"),
    "lambda-infinite": (lambda: FIRTH.loss(np.inf), "coefficient = inf must be finite"),
    "lambda-axes": (
        lambda: FIRTH.loss([1, 2]).value(np.zeros((3, 2, 3)), [0, 1]),
        "give axes that broadcast",
    ),
    "lambda-of-none": (lambda: PENALTIES["none"].loss(0.1), "takes no coefficient but 0"),
    "epsilon-one": (lambda: SMOOTHING.loss(1.0), "coefficient = 1.0 must be below 1"),
    "epsilon-negative": (lambda: SMOOTHING.loss(-0.1), "not negative"),
    "epsilon-nan": (lambda: SMOOTHING.loss(np.nan), "must be below 1"),
    "X-nan": (lambda: theory_coefficient([[np.nan, 1.0]], 2), "NaN or an infinity"),
    "X-flat": (lambda: theory_coefficient([1.0, 2.0], 2), "give \\(samples, features\\)"),
    "X-zero": (lambda: theory_coefficient(np.zeros((2, 2)), 2, intercept=False), "zero"),
    "X-samples": (lambda: fisher_information(EYE, Z), "X has 3 samples but the logits have 2"),
    "classes": (lambda: theory_lambda(1, 3, 3), "two classes or more"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_a_sentence(name):
    act, message = BAD[name]
    with pytest.raises(FirthshotError, match=message) as caught:
        act()
    assert str(caught.value).endswith(".")


def test_a_stored_prior_cannot_be_changed_from_outside():
    prior = np.array([0.5, 0.5])
    loss = FIRTH.loss(1.0, prior)
    prior[0] = 7
    np.testing.assert_array_equal(loss.u, [0.5, 0.5])
    with pytest.raises(ValueError, match="read-only"):
        loss.u[0] = 1


def test_the_room_imports_numpy_and_nothing_heavier():
    code = (
        "import sys, firthshot.objective\n"
        "heavy = {'scipy', 'torch', 'sklearn', 'numba', 'matplotlib'} & set(sys.modules)\n"
        "ours = {m for m in sys.modules if m.startswith('firthshot.')\n"
        "        if m.split('.')[1] not in ('objective', 'errors', 'lazy')}\n"
        "assert not heavy | ours, heavy | ours\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
