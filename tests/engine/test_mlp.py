"""The 3-layer head against the textbook loop, for every penalty and option."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firthshot.engine import Mlp, Penalty, Sgd, train
from firthshot.engine._trial import Trial
from firthshot.engine.sgd import mlp, training
from firthshot.engine.sgd.dense import OCTET, Descent, OctetMatrix, descend, product
from firthshot.engine.sgd.training import xavier_uniform
from firthshot.episodes import sample_episodes
from oracles.banks import PlainBank
from oracles.textbook import EVERY_PENALTY, train_by_autograd

HEAD = Mlp(hidden=(21, 10))
SGD = Sgd(learning_rate=0.05, batch_size=4, epochs=6)
PENALTIES = [
    *EVERY_PENALTY,
    # More coefficients than an octet, in groups of unequal size.
    Penalty("firth", tuple(np.linspace(0, 2, 11))),
]
SOLVERS = {
    "in order": {"shuffle": False},
    "partial batch unscaled": {"scale_partial": False},
    "no momentum": {"momentum": 0.0},
    "no momentum, so no dampening": {"momentum": 0.0, "dampening": 0.5},
    "little momentum": {"momentum": 0.3},
    "dampened": {"dampening": 0.5},
    "batch larger than a tile": {"batch_size": 13},
    "batch larger than a vector": {"batch_size": 50},
    "batch of one": {"batch_size": 1, "epochs": 2},
    # Drifting velocities are brought back to scale on the way.
    "velocities that shrink fast": {"momentum": 0.6, "epochs": 15},
}
SHAPES = [
    {"n_classes": 2, "shots": 1},
    {"n_classes": 2, "shots": 2, "d": 1},
    {"n_classes": 2, "shots": 20, "d": 4},
    {"n_classes": 20, "shots": 1, "d": 30},
    {"n_classes": 33, "shots": 2, "d": 7},
]


def make_trial(n_classes=5, shots=3, d=12, queries=11, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), shots)[: max(2, n_classes * shots - 1)]
    means = rng.normal(size=(n_classes, d))
    asked = rng.integers(0, n_classes, queries)
    support, query = (means[which] + rng.normal(size=(len(which), d)) for which in (labels, asked))
    return Trial(seed, 99, n_classes, support.astype(dtype), labels, query.astype(dtype)), asked


def fit(trial, sgd, penalty, head=HEAD):
    widths = (trial.support.shape[1], *head.hidden, trial.n_classes)
    n_parameters = sum((n + 1) * m for n, m in pairwise(widths))
    form = penalty.tables(trial.labels, trial.n_classes, n_parameters)
    return head.fit(trial, sgd, form, True)


def by_autograd(trial, sgd, penalty, coefficient, head=HEAD):
    """Return query logits and the parameters (W_1, W_2, W_3, b_1, b_2, b_3)."""
    widths = (trial.support.shape[1], *head.hidden, trial.n_classes)
    weights = [
        torch.tensor(xavier_uniform(trial, layer, *shape).astype(float), requires_grad=True)
        for layer, shape in enumerate(pairwise(widths))
    ]
    biases = [torch.zeros(w.shape[1], dtype=torch.float64, requires_grad=True) for w in weights]

    def logits_of(rows):
        for weight, bias in zip(weights[:2], biases[:2], strict=True):
            rows = torch.relu(rows @ weight + bias)
        return rows @ weights[2] + biases[2]

    X, queries = (torch.tensor(rows.astype(float)) for rows in (trial.support, trial.query.stack()))
    train_by_autograd(
        trial, lambda rows: logits_of(X[rows]), weights, biases, sgd, penalty, coefficient
    )
    return logits_of(queries).detach().numpy(), [p.detach().numpy() for p in (*weights, *biases)]


def check_against_autograd(trial, sgd, penalty, head=HEAD, tolerance=1e-8):
    fitted = fit(trial, sgd, penalty, head)[sgd.epochs]
    for l, coefficient in enumerate(penalty.coefficients):
        logits, parameters = by_autograd(trial, sgd, penalty, coefficient, head)
        ours = fitted.logits[:, l, : len(trial.query)].T
        assert np.abs(ours - logits).max() < tolerance * np.abs(logits).max()
        norm = sum((p**2).sum() for p in parameters)
        assert fitted.norms[l] == pytest.approx(norm, rel=tolerance)
        for layer in range(3):
            coef, intercept = (fitted.weights[f"{n}_{layer + 1}"][l] for n in ("coef", "intercept"))
            assert np.abs(coef.T - parameters[layer]).max() < tolerance
            assert np.abs(intercept - parameters[3 + layer]).max() < tolerance


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: f"{p.family}-{p.prior}-{p.l2_kind}")
def test_every_penalty_follows_the_textbook(penalty):
    check_against_autograd(make_trial()[0], SGD, penalty)


@pytest.mark.parametrize("option", SOLVERS)
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_every_solver_option_follows_the_textbook(option, l2):
    sgd = dataclasses.replace(SGD, **SOLVERS[option])
    check_against_autograd(make_trial()[0], sgd, Penalty("firth", (0.0, 1.0), l2=l2))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_follows_the_textbook(shape):
    check_against_autograd(make_trial(**shape)[0], SGD, Penalty("firth", (0.0, 1.0), l2=0.5))


@pytest.mark.parametrize("hidden", [(1, 1), (3, 2), (7, 16), (8, 8), (15, 17), (16, 3), (100, 50)])
def test_every_width_follows_the_textbook(hidden):
    penalty = Penalty("firth", (0.0, 0.5, 1.0))
    check_against_autograd(make_trial()[0], SGD, penalty, Mlp(hidden))


def test_scoring_after_some_passes_equals_stopping_there():
    trial, penalty = make_trial()[0], Penalty("firth", (0.0, 1.0))
    # Long enough for drifting velocities to be brought back to scale between the two scores.
    sgd = dataclasses.replace(SGD, epochs=80)
    on_the_way = fit(trial, dataclasses.replace(sgd, score_after=(3, 7)), penalty)
    assert set(on_the_way) == {3, 7, 80}
    for passes, fitted in on_the_way.items():
        stopped = fit(trial, dataclasses.replace(sgd, epochs=passes), penalty)[passes]
        assert np.array_equal(fitted.logits, stopped.logits)
        assert np.array_equal(fitted.norms, stopped.norms)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_threads_and_groups_change_no_bit(dtype, l2, monkeypatch):
    bank = PlainBank(n_classes=6, rows=20, d=10)
    episodes = sample_episodes(bank, "novel", ways=5, shots=3, trials=6)
    penalty = Penalty("firth", (0.0, 0.1, 0.3, 1.0, 3.0), l2=l2)

    def scores(threads):
        results = train(bank.features, episodes, HEAD, SGD, penalty, dtype=dtype, threads=threads)
        return np.stack([results.nll, results.accuracy, results.norm])

    reference = scores(1)
    assert np.isfinite(reference).all()
    assert np.array_equal(scores(2), reference)
    monkeypatch.setattr(mlp, "even_groups", lambda n, _most: [slice(l, l + 1) for l in range(n)])
    assert np.array_equal(scores(1), reference)


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_neighbour_that_diverges_changes_no_bit(l2):
    """Coefficients share vectors of the first layer: what overflows there must stay there."""
    trial = make_trial(dtype=np.float32)[0]
    together = fit(trial, SGD, Penalty("firth", (1e30, 0.0, 1e30, 1.0), l2=l2))[SGD.epochs]
    alone = fit(trial, SGD, Penalty("firth", (0.0, 1.0), l2=l2))[SGD.epochs]
    assert not np.isfinite(together.logits[:, [0, 2], : len(trial.query)]).any()
    assert not np.isfinite(together.norms[[0, 2]]).any()
    assert np.array_equal(together.logits[:, [1, 3]], alone.logits)
    assert np.array_equal(together.norms[[1, 3]], alone.norms)


def test_float32_stays_close_over_the_published_number_of_steps():
    """Stated bound: logits within 1e-4 of float64's, relative to the largest, after all passes."""
    sgd, penalty = Sgd(epochs=100), Penalty("firth", (0.0, 0.1, 1.0, 10.0))
    shape = {"n_classes": 16, "shots": 5, "d": 64, "queries": 40}
    double, single = (
        fit(make_trial(**shape, dtype=dtype)[0], sgd, penalty, Mlp())[100].logits[:, :, :40]
        for dtype in (np.float64, np.float32)
    )
    assert np.abs(single - double).max() < 1e-4 * np.abs(double).max()


def test_mean_accuracy_in_float32_equals_the_float64_textbook():
    """Over 40 trials the mean difference lies within its own confidence interval of zero."""
    penalty, differences = Penalty("firth", (1.0,)), []
    for seed in range(40):
        trial, labels = make_trial(shots=2, queries=40, dtype=np.float32, seed=seed)
        ours = fit(trial, SGD, penalty)[SGD.epochs].logits[:, 0, :40].argmax(0) == labels
        exact = by_autograd(trial, SGD, penalty, 1.0)[0].argmax(1) == labels
        differences.append(ours.mean() - exact.mean())
    half_width = 1.96 * np.std(differences, ddof=1) / np.sqrt(40)
    assert abs(np.mean(differences)) <= half_width
    assert np.abs(differences).max() <= 1 / 40  # a tie or two may fall the other way


def matrix(flat, row, column):
    return OctetMatrix(flat, row * OCTET, column * OCTET)


def close(dtype):
    return {"rtol": 1e-4, "atol": 1e-4} if dtype is np.float32 else {"rtol": 1e-11, "atol": 1e-11}


@given(
    rows=st.integers(1, 25),
    columns=st.integers(1, 20),
    n=st.integers(1, 30),
    transposed=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 99),
)
def test_product_is_the_matrix_product_of_each_coefficient(
    rows, columns, n, transposed, dtype, seed
):
    rng = np.random.default_rng(seed)
    left, right = (
        rng.normal(size=(*shape, 8)).astype(dtype) for shape in ((rows, n), (n, columns))
    )
    out = np.full((rows, columns + 2, 8), 7, dtype)
    if transposed:
        flat = np.ascontiguousarray(left.swapaxes(0, 1)).ravel()
        first = matrix(flat, 1, rows)
    else:
        first = matrix(left.ravel(), n, 1)
    product(
        first, matrix(right.ravel(), columns, 1), matrix(out.ravel(), columns + 2, 1),
        rows, columns, n,
    )  # fmt: skip
    expected = np.einsum("xkl,kyl->xyl", left.astype(float), right)
    assert np.allclose(out[:, :columns], expected, **close(dtype))
    assert (out[:, columns:] == 7).all()


@given(
    rows=st.integers(1, 25),
    columns=st.integers(1, 20),
    n=st.integers(1, 14),
    decays=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 99),
)
def test_descend_is_a_momentum_step_of_each_coefficient(rows, columns, n, decays, dtype, seed):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=(*shape, 8)).astype(dtype)

    left, right, decay = draw(rows, n), draw(n, columns), np.abs(draw(rows))
    weights, velocity = draw(rows, columns), draw(rows, columns)
    speed = np.einsum("xkl,kyl->xyl", left.astype(float), right)
    speed += 0.9 * velocity + 0.5 * decay[:, None] * weights if decays else velocity
    moved = weights - 0.1 * speed
    descent = Descent(
        matrix(left.ravel(), n, 1), matrix(right.ravel(), columns, 1),
        *(matrix(values.ravel(), columns, 1) for values in (weights, velocity)),
        matrix(decay.ravel(), 1, 0), dtype(0.5), dtype(0.1), dtype(0.9),
    )  # fmt: skip
    descend(descent, rows, columns, n, decays)
    assert np.allclose(velocity, speed, **close(dtype))
    assert np.allclose(weights, moved, **close(dtype))


@pytest.mark.parametrize("ways", [2, 3, 5, 16])
@pytest.mark.parametrize("size", [1, 3, 8, 9])
@pytest.mark.parametrize("hidden", [(100, 50), (7, 5)])
def test_nothing_is_written_outside_the_state(ways, size, hidden, monkeypatch):
    """Every array of the state lies between two guards that must stay as they are."""
    guards = []

    def guarded(shape, dtype):
        count, room = int(np.prod(shape)), 64 // dtype.itemsize
        memory = np.full(count + 3 * room, 12345, dtype)
        first = room + (-memory.ctypes.data % 64) // dtype.itemsize
        array = memory[first : first + count]
        array[:] = 0
        guards.append((memory[:first], memory[first + count :]))
        return array.reshape(shape)

    for module in (mlp, training):
        monkeypatch.setattr(module, "aligned_zeros", guarded)
    labels = np.repeat(np.arange(ways), 5)
    rng = np.random.default_rng(0)
    support = rng.normal(size=(len(labels), 20)).astype(np.float32)
    trial = Trial(0, 1, ways, support, labels, support[:3])
    penalty = Penalty("firth", tuple(np.linspace(0, 2, size)))
    form = penalty.tables(labels, ways, 1000)
    # Long enough for drifting velocities to be brought back to scale.
    Mlp(hidden).fit(trial, Sgd(epochs=90), form, False)
    assert guards
    for before, after in guards:
        assert (before == 12345).all()
        assert (after == 12345).all()
