"""Bad input is refused in a sentence, and nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from firthshot.errors import FirthshotError
from firthshot.objective import (
    CrossEntropy,
    Firth,
    LabelSmoothing,
    Objective,
    additive_formula_gap,
    amended_log_det,
    class_frequencies,
    closed_form_optimum,
    log_softmax,
    make_objective,
    make_penalty,
    normalisation_jacobian,
    theory_coefficient,
)

Z, EYE = np.zeros((2, 3)), np.eye(3)
BAD = {
    "one-class": (lambda: log_softmax([[1.0], [2.0]]), "two classes or more"),
    "flat-logits": (lambda: log_softmax([1.0, 2.0]), "give \\(..., samples, classes\\)"),
    "complex-logits": (lambda: log_softmax([[1j, 2]]), "give real numbers"),
    "label-high": (lambda: CrossEntropy().value(Z, [0, 3]), "from 0 to 3; with 3 classes"),
    "label-low": (lambda: CrossEntropy().gradient(Z, [-1, 0]), "must lie in 0..2"),
    "label-float": (lambda: CrossEntropy().value(Z, [0.0, 1.0]), "give integers"),
    "label-shape": (lambda: CrossEntropy().value(Z, [0, 1, 2]), "one label per sample"),
    "prior-sum": (lambda: Firth([0.5, 0.4]), "sums to 0.9"),
    "prior-batch-sum": (lambda: Firth([[0.5, 0.5], [0.5, 0.7]]), "sums to 1.2"),
    "prior-negative": (lambda: Firth([1.5, -0.5]), "negative or non-finite"),
    "prior-nan": (lambda: Firth([np.nan, 1.0]), "negative or non-finite"),
    "prior-scalar": (lambda: Firth(1.0), "one probability per class"),
    "prior-length": (lambda: Firth([0.5, 0.5]).value(Z), "2 entries but the logits have 3"),
    "prior-axes": (lambda: Firth(np.full((2, 3), 1 / 3)).value(np.zeros((4, 2, 3))), "broadcast"),
    "lambda-negative": (lambda: Objective(coefficient=-1), "λ is -1.0"),
    "lambda-nan": (lambda: Objective(coefficient=[0, np.nan]), "finite and not negative"),
    "lambda-infinite": (lambda: Objective(coefficient=np.inf), "finite and not negative"),
    "lambda-axes": (
        lambda: Objective(coefficient=[1, 2]).value(np.zeros((3, 2, 3)), [0, 1]),
        "broadcast",
    ),
    "epsilon-one": (lambda: LabelSmoothing(1.0), "ε is 1.0; it must be in \\[0, 1\\)"),
    "epsilon-negative": (lambda: LabelSmoothing(-0.1), "must be in"),
    "epsilon-nan": (lambda: LabelSmoothing(np.nan), "must be in"),
    "penalty-name": (lambda: make_penalty("fifth"), "called 'fifth'; choose from none, firth"),
    "objective-name": (lambda: make_objective("l2"), "called 'l2'; choose from"),
    "prior-unwanted": (lambda: make_penalty("confidence", [0.5, 0.5]), "takes no prior"),
    "frequencies-empty": (lambda: class_frequencies(np.empty(0, int), 2), "no labels to count"),
    "X-nan": (lambda: theory_coefficient([[np.nan, 1.0]], 2), "NaN or an infinity"),
    "X-flat": (lambda: theory_coefficient([1.0, 2.0], 2), "give \\(samples, features\\)"),
    "X-zero": (lambda: theory_coefficient(np.zeros((2, 2)), 2, intercept=False), "zero"),
    "X-samples": (lambda: amended_log_det(EYE, Z), "X has 3 samples but the logits have 2"),
    "classes": (lambda: theory_coefficient(EYE, 1), "two classes or more"),
    "optimum-zero": (lambda: closed_form_optimum(EYE, [0, 1, 0], 2, 0.0), "infinite; give λ > 0"),
    "optimum-negative": (lambda: closed_form_optimum(EYE, [0, 1, 0], 2, -1.0), "not negative"),
    "optimum-rank": (lambda: closed_form_optimum(EYE[[0, 0]], [0, 1], 2, 1.0), "use a solver"),
    "optimum-labels": (lambda: closed_form_optimum(EYE, [0, 1], 2, 1.0), "do not fit 3 samples"),
    "beta-zero": (lambda: normalisation_jacobian(np.zeros((2, 3))), "length zero"),
    "beta-shape": (lambda: additive_formula_gap(EYE, np.ones((2, 4))), "give \\(classes, 3\\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_a_sentence(name):
    act, message = BAD[name]
    with pytest.raises(FirthshotError, match=message) as caught:
        act()
    assert str(caught.value).endswith(".")


def test_a_stored_prior_cannot_be_changed_from_outside():
    prior = np.array([0.5, 0.5])
    penalty = Firth(prior)
    prior[0] = 7
    np.testing.assert_array_equal(penalty.prior, [0.5, 0.5])
    with pytest.raises(ValueError, match="read-only"):
        penalty.prior[0] = 1


def test_the_room_imports_numpy_and_nothing_heavier():
    code = (
        "import sys, firthshot.objective\n"
        "heavy = {'scipy', 'torch', 'sklearn', 'numba', 'matplotlib'} & set(sys.modules)\n"
        "ours = {m for m in sys.modules if m.startswith('firthshot.')\n"
        "        and not m.startswith(('firthshot.objective', 'firthshot.errors'))}\n"
        "assert not heavy | ours, heavy | ours\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
