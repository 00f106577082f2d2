"""The vector operations, the sweep and the scores against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from firthshot.engine import _queries
from firthshot.engine._queries import Logits, Projector, Queries, locate_queries
from firthshot.engine.results import RELIABILITY_BINS
from firthshot.engine.scoring import score_queries
from firthshot.engine.sgd.momentum import rescale
from firthshot.engine.sgd.sweep import Swept, drift, sweep
from firthshot.kernels.products import multiply, pack, stand_up
from firthshot.kernels.softmax import to_class_layout, to_row_layout
from firthshot.kernels.vectors import lanes_in, lanes_of, vexp, vload, vmax, vstore

CLOSE = {np.float32: {"rtol": 1e-4, "atol": 1e-4}, np.float64: {"rtol": 1e-11, "atol": 1e-11}}


@njit
def exp_all(values):
    for at in range(0, values.size, lanes_in(values)):
        vstore(values, at, vexp(vload(values, at)))


@njit
def max_of(left, right, out):
    vstore(out, 0, vmax(vload(left, 0), vload(right, 0)))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-7), (np.float64, 4e-16)])
def test_exp_is_accurate_to_rounding(dtype, tolerance):
    lowest = {np.float32: -79.9, np.float64: -689.0}[dtype]
    values = np.linspace(lowest, 0, 1 << 14).astype(dtype)
    expected = np.exp(values.astype(np.longdouble))
    exp_all(values)
    assert np.abs(values / expected - 1).max() < tolerance


def test_exp_floors_and_keeps_nan():
    values = np.array([-np.inf, -1e4, -81, 0, np.nan, -1, -2, -3] * 2, np.float32)
    exp_all(values[:16])
    assert (values[:3] < 2e-35).all()
    assert (values[:3] > 0).all()
    assert values[3] == 1
    assert np.isnan(values[4])


def test_max_takes_the_larger_lane():
    left, right = np.arange(16, dtype=np.float32), np.arange(16, dtype=np.float32)[::-1].copy()
    out = np.zeros(16, np.float32)
    max_of(left, right, out)
    assert np.array_equal(out, np.maximum(left, right))


@given(
    n=st.integers(1, 40),
    rows=st.integers(1, 25),
    blocks=st.integers(1, 5),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 99),
)
def test_sweep_is_a_momentum_step_and_a_product(n, rows, blocks, dtype, seed):
    rng, lanes = np.random.default_rng(seed), lanes_of(dtype)
    gram = rng.normal(size=(n, n)).astype(dtype)
    a, e = (rng.normal(size=(blocks, n, lanes)).astype(dtype) for _ in range(2))
    decay = rng.random(blocks * lanes).astype(dtype)
    batch = rng.integers(0, n, rows)
    flat_a, flat_e = (x.transpose(1, 0, 2).reshape(n, -1).astype(float) for x in (a, e))
    speed = flat_e + decay * flat_a
    new_a, new_e = flat_a - 0.1 * speed, 0.9 * speed
    z = np.zeros((rows, blocks * lanes + lanes), dtype)
    sweep(Swept(gram, a, e, decay, z), batch, dtype(0.1), dtype(0.9))
    close = CLOSE[dtype]
    used = blocks * lanes
    assert np.allclose(a.transpose(1, 0, 2).reshape(n, -1), new_a, **close)
    assert np.allclose(e.transpose(1, 0, 2).reshape(n, -1), new_e, **close)
    assert np.allclose(z[:, :used], gram[batch] @ new_a, **close)


@given(
    n=st.integers(1, 40),
    rows=st.integers(1, 25),
    blocks=st.integers(1, 5),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 99),
)
def test_drift_moves_along_the_velocity_and_multiplies(n, rows, blocks, dtype, seed):
    rng, lanes = np.random.default_rng(seed), lanes_of(dtype)
    gram = rng.normal(size=(n, n)).astype(dtype)
    a, velocity = (rng.normal(size=(blocks, n, lanes)).astype(dtype) for _ in range(2))
    before, none = velocity.copy(), np.full(blocks * lanes, np.nan, dtype)
    batch, z = rng.integers(0, n, rows), np.zeros((rows, (blocks + 1) * lanes), dtype)
    moved = (a - 0.1 * velocity).transpose(1, 0, 2).reshape(n, -1)
    drift(Swept(gram, a, velocity, none, z), batch, dtype(0.1))
    assert np.array_equal(velocity, before)
    assert np.allclose(a.transpose(1, 0, 2).reshape(n, -1), moved, **CLOSE[dtype])
    assert np.allclose(z[:, : blocks * lanes], gram[batch] @ moved, **CLOSE[dtype])


@given(st.integers(1, 12), st.integers(2, 20), st.integers(1, 40))
def test_layouts_are_inverse_to_each_other(rows, n_classes, n_coefficients):
    lanes = lanes_of(np.float32)
    wide = -(-n_classes * n_coefficients // lanes) * lanes + lanes
    tall = -(-rows * n_coefficients // lanes) * lanes + lanes
    values = np.random.default_rng(0).normal(size=(rows, n_classes * n_coefficients))
    source = np.zeros((rows, wide), np.float32)
    source[:, : values.shape[1]] = values
    classes, back = np.zeros((n_classes, tall), np.float32), np.zeros((rows, wide), np.float32)
    to_class_layout(source, rows, n_coefficients, classes)
    expected = values.reshape(rows, n_classes, n_coefficients).transpose(1, 0, 2)
    assert np.allclose(classes[:, : rows * n_coefficients], expected.reshape(n_classes, -1))
    to_row_layout(classes, rows, n_coefficients, np.float32(2), back)
    assert np.allclose(back[:, : values.shape[1]], 2 * values)


def plain_scores(logits, labels):
    """Score (C, Q) logits the long way."""
    p = np.exp(logits - logits.max(0))
    p /= p.sum(0)
    confidence, hit = p.max(0), p.argmax(0) == labels
    onehot = np.eye(len(logits))[labels].T
    which = np.minimum((confidence * RELIABILITY_BINS).astype(int), RELIABILITY_BINS - 1)
    ece = sum(
        abs(hit[which == b].mean() - confidence[which == b].mean()) * (which == b).mean()
        for b in set(which)
    )
    nll = -np.log(p[labels, np.arange(len(labels))]).mean()
    return hit.mean(), nll, ((p - onehot) ** 2).sum(0).mean(), ece, np.bincount(which, minlength=15)


@given(st.integers(2, 9), st.integers(1, 70), st.integers(1, 3), st.floats(0.01, 20), st.data())
def test_scores_equal_their_definitions(n_classes, n_queries, n_coefficients, size, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    columns = -(-n_queries // 8) * 8
    logits = size * rng.normal(size=(n_classes, n_coefficients, columns))
    labels = np.full(columns, -1)
    places = rng.permutation(columns)[:n_queries]
    labels[places] = rng.integers(0, n_classes, n_queries)
    predicted = np.empty((n_coefficients, columns), np.int32)
    scores = [np.empty(n_coefficients) for _ in range(4)]
    bins = np.empty((n_coefficients, 15, 3))
    score_queries(logits, labels, predicted, *scores, bins)
    for l in range(n_coefficients):
        *expected, counts = plain_scores(logits[:, l, places], labels[places])
        assert np.allclose([score[l] for score in scores], expected, rtol=1e-9, atol=1e-12)
        assert np.array_equal(bins[l, :, 0], counts)
        assert np.array_equal(predicted[l, places], logits[:, l, places].argmax(0))


def test_ties_go_to_the_first_class_and_not_finite_is_nan():
    logits = np.zeros((3, 2, 8))
    logits[1, 1, 0] = np.nan
    labels = np.zeros(8, np.int64)
    scores, bins = [np.empty(2) for _ in range(4)], np.empty((2, 15, 3))
    score_queries(logits, labels, np.empty((2, 8), np.int32), *scores, bins)
    assert scores[0][0] == 1
    assert all(np.isnan(score[1]) for score in scores)
    assert bins[1].sum() == 0


@given(st.integers(0, 999), st.sampled_from(["scattered", "dense", "blocks"]))
def test_queries_are_found_wherever_they_lie(seed, how):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(1000, 3))
    rows = {
        "scattered": rng.permutation(1000)[:50],
        "dense": rng.permutation(300)[:280] + 100,
        "blocks": rng.permutation(np.concatenate([np.arange(a, a + 40) for a in (0, 200, 900)])),
    }[how]
    labels = rng.integers(0, 5, len(rows))
    queries, column_labels, columns = locate_queries(features, rows, labels)
    assert np.array_equal(queries.stack()[columns], features[rows])
    assert np.array_equal(column_labels[columns], labels)
    assert (column_labels >= 0).sum() == len(rows)
    assert (how == "scattered") == (len(queries.pieces) == 1 and len(queries) == 50)


@given(st.integers(1, 90), st.booleans(), st.booleans(), st.sampled_from([1, 700, 1 << 20]))
def test_logits_in_parts_are_those_of_the_whole(count, through_products, biased, size):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, 5)).astype(np.float32)
    queries = Queries((rows[: count // 3], rows[count // 3 :])).unit()
    left, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 3, 5), (2, 3)))
    products = np.ascontiguousarray(queries.project(np.eye(5, dtype=np.float32)))
    right = products if through_products else queries
    logits = Logits(left, right, bias if biased else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_queries, "_PART_BYTES", size)
        parts = [(columns, part.copy()) for columns, part in logits.parts()]
    assert np.array_equal(np.r_[tuple(columns for columns, _ in parts)], np.arange(queries.padded))
    expected = left @ queries.stack().T + (bias[:, :, None] if biased else 0)
    for found in (np.concatenate([part for _, part in parts], axis=2), logits.whole()):
        assert np.allclose(found[..., :count], expected, atol=1e-5)


@given(
    st.integers(1, 230), st.integers(1, 70), st.integers(1, 80), st.booleans(),
    st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_rows_times_packed_weights_are_their_products(n, d, m, scaled, dtype):
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)
    packed, lanes = pack(weights), lanes_of(dtype)
    found = np.full((n + 1, len(packed) * lanes), -7, dtype)
    factors = np.full(n if scaled else 0, -7, dtype)
    multiply(rows, packed, found[:n], factors)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    assert np.allclose(found[:n, :m], rows @ weights.T, **close)
    assert not found[:n, m:].any()
    assert (found[n] == -7).all()
    assert np.allclose(factors, 1 / (np.linalg.norm(rows, axis=1) + 1e-5)[: len(factors)], **close)


@given(st.integers(1, 4), st.integers(1, 50), st.sampled_from([np.float32, np.float64]))
def test_products_stand_up_with_their_factors_and_bias(blocks, columns, dtype):
    rng, lanes = np.random.default_rng(0), lanes_of(dtype)
    n, wide = blocks * lanes, -(-columns // lanes) * lanes
    products = rng.integers(-99, 99, (n, wide)).astype(dtype)
    factors, bias = (rng.integers(-9, 9, size).astype(dtype) for size in (n, columns))
    found = np.full((columns + 1, n), -7, dtype)
    stand_up(products, factors, bias, found[:columns])
    assert np.array_equal(found[:columns], (factors[:, None] * products[:, :columns] + bias).T)
    assert (found[columns] == -7).all()


@given(st.integers(1, 30), st.integers(1, 40), st.integers(2, 6), st.integers(1, 12))
def test_both_routes_give_the_same_logits(n, d, n_classes, n_coefficients):
    rng = np.random.default_rng(0)
    support, start = rng.normal(size=(n, d)), rng.normal(size=(d, n_classes))
    queries = Queries((rng.normal(size=(9, d)), rng.normal(size=(8, d)))).unit()
    columns = n_classes * n_coefficients
    a, s, bias = rng.normal(size=(n, columns)), rng.normal(size=columns), rng.normal(size=columns)

    def logits_of(projector):
        return projector.logits(a, s, bias).whole().reshape(columns, -1)[:, :17]

    projector = Projector(queries, support, start, n_coefficients)
    weights = support.T @ a + s * np.repeat(start, n_coefficients, axis=1)
    expected = queries.stack() @ weights + bias
    assert np.allclose(logits_of(projector), expected.T)
    products = np.ascontiguousarray(queries.project(np.vstack([support, start.T])))
    projector.products = None if projector.products is not None else products
    assert np.allclose(logits_of(projector), expected.T)


@given(st.integers(0, 70), st.sampled_from([np.float32, np.float64]))
def test_rescale_stays_inside_its_array(size, dtype):
    memory = np.arange(100, dtype=dtype)
    rescale(memory[:size], dtype(2))
    expected = np.arange(100, dtype=dtype)
    expected[:size] *= 2
    assert np.array_equal(memory, expected)
