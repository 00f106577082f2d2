"""Steps in blocks against the same steps one by one, in plain NumPy."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firthshot.engine import Penalty, Sgd
from firthshot.engine._trial import Trial
from firthshot.engine.sgd import blocks, cosine
from firthshot.engine.sgd.blocks import (
    FARTHEST,
    Projections,
    advance,
    begin_block,
    follow,
    new_record,
    read_gram,
    settle,
    take_rows,
)
from firthshot.engine.sgd.cosine import CosineSgd, linear_layer_start
from firthshot.engine.sgd.linear import SpanStart
from firthshot.kernels import kernel
from firthshot.kernels.vectors import lanes_above, lanes_of, vfill, vload, vmul, vstore

COSINE_SGD = Sgd(0.05, 0.9, 0.9, batch_size=4, epochs=12, scale_partial=False)
CLOSE = {np.float32: {"rtol": 1e-4, "atol": 1e-4}, np.float64: {"rtol": 1e-10, "atol": 1e-10}}


def make_trial(n_classes, shots, dtype):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n_classes), shots)[: n_classes * shots - 1]
    support = rng.normal(size=(n_classes, 9))[labels] + rng.normal(size=(len(labels), 9))
    return Trial(0, 99, n_classes, support.astype(dtype), labels, support[:3].astype(dtype))


@kernel
def record_step(schedule, record, step, begin, decays, power):
    """Record a step whose gradients are in place, unscaled; return whether φ went far from 1."""
    (panels, _, lanes), n, far = record.decays.shape, record.order.size, False
    for panel in range(panels):
        decay = vload(decays, panel * lanes)
        scale, off = follow(schedule, record, panel, step, begin, decay, power)
        far |= lanes_above(off, vfill(decays, FARTHEST**2)) != 0
        for visit in range(step * record.batch, min((step + 1) * record.batch, n)):
            place = (panel * record.gradients.shape[1] + visit) * lanes
            vstore(record.gradients, place, vmul(scale, vload(record.gradients, place)))
    return far


class Case:
    """An epoch of random gradients, recorded in blocks, and a state to take through it."""

    def __init__(self, n, batch, panels, momentum, dtype, seed):
        self.rng, lanes = np.random.default_rng(seed), lanes_of(dtype)
        self.n, self.batch, self.dtype = n, batch, dtype
        self.steps = -(-n // batch)
        rows = self.rng.normal(size=(n, 5)) / 3
        sgd = Sgd(0.1, momentum, 0.0, batch_size=batch)
        trial = make_trial(n_classes=2, shots=2, dtype=dtype)
        form = Penalty("firth", (0.0,)).tables(trial.labels, 2, 20)
        task = cosine.make_task(trial, sgd, form, (rows @ rows.T).astype(dtype), np.zeros((n, 1)))
        self.task = task._replace(labels=np.zeros(n, np.int64))
        self.a, self.velocity = (self.normal(panels, n, lanes) for _ in range(2))
        self.record = new_record(self.task.schedule, n, panels * lanes)
        self.record.order[:] = self.rng.permutation(n)
        self.gradients = self.normal(n, panels * lanes)
        self.decays = 0.1 * self.normal(self.steps, panels * lanes)
        self.record.gradients[:, :n] = self.gradients.reshape(n, panels, lanes).transpose(1, 0, 2)
        begin, power = 0, 1.0
        for step in range(self.steps):
            if step == begin + self.record.longest:
                begin, power = step, 1.0
            decays = np.ascontiguousarray(self.decays[step])
            if record_step(task.schedule, self.record, step, begin, decays, power):
                begin_block(task.schedule, self.record, step, power)
                begin, power = step, 1.0
            self.record.begins[step] = begin
            power *= momentum

    def normal(self, *shape):
        return self.rng.normal(size=shape).astype(self.dtype)

    def by_steps(self, values, speeds, spread, first, last):
        """Take values and speeds (m, columns) through steps; ``spread`` (m, n) is K or 1."""
        values, speeds, momentum = values.astype(float), speeds.astype(float), self.momentum
        for step in range(first, last):
            mine = slice(step * self.batch, (step + 1) * self.batch)
            pushed = spread[:, self.record.order[mine]] @ self.gradients[mine]
            speeds = speeds + self.decays[step] * values + pushed
            values, speeds = values - 0.1 * speeds, momentum * speeds
        return values, speeds

    @property
    def momentum(self):
        return float(self.task.schedule.momentum)


CASES = {
    "n": st.integers(1, 40),
    "batch": st.integers(1, 13),
    "panels": st.integers(1, 3),
    "momentum": st.sampled_from([0.0, 0.2, 0.9]),
    "dtype": st.sampled_from([np.float32, np.float64]),
    "seed": st.integers(0, 99),
}


@given(**CASES)
def test_rows_pass_through_a_block_as_through_its_steps(n, batch, panels, momentum, dtype, seed):
    case = Case(n, batch, panels, momentum, dtype, seed)
    last_block = case.record.begins[-1]
    steps = case.steps - last_block
    rows = case.rng.permutation(n)[: case.rng.integers(1, n + 1)]
    lanes = lanes_of(dtype)
    whole = Projections(case.normal(panels, n, lanes), case.normal(panels, n, lanes))
    found = Projections(*(np.zeros((panels, len(rows) + 1, lanes), dtype) for _ in range(2)))

    def flat(values):
        return values.transpose(1, 0, 2).reshape(values.shape[1], -1)

    expected = case.by_steps(
        flat(whole.v)[rows], flat(whole.e)[rows], case.task.gram[rows], last_block, case.steps
    )
    read_gram(case.task.gram, case.record, last_block)
    for ours, theirs in zip(found, whole, strict=True):
        ours[:, :-1] = theirs[:, rows]
    gram = np.ascontiguousarray(case.record.gram[:, rows])
    advance(case.record, last_block, steps, gram, len(rows), found)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.allclose(flat(ours)[:-1], theirs, **CLOSE[dtype])
        assert not ours[:, -1].any()


def test_a_batch_takes_its_rows_and_their_products_along():
    case = Case(n=9, batch=4, panels=2, momentum=0.9, dtype=np.float32, seed=0)
    whole = Projections(*(case.normal(2, 9, lanes_of(np.float32)) for _ in range(2)))
    mine = Projections(*(np.zeros((2, 4, lanes_of(np.float32)), np.float32) for _ in range(2)))
    rows = np.array([7, 0, 3])
    read_gram(case.task.gram, case.record, 0)
    take_rows(case.record, rows, 2, whole, mine)
    for ours, theirs in zip(mine, whole, strict=True):
        assert np.array_equal(ours[:, :3], theirs[:, rows])
        assert not ours[:, 3].any()
    visited = case.task.gram[case.record.order[:8]]
    assert np.array_equal(case.record.mine[:8, :3], visited[:, rows])


@given(**CASES)
def test_settling_takes_coefficients_through_the_epoch(n, batch, panels, momentum, dtype, seed):
    case = Case(n, batch, panels, momentum, dtype, seed)
    s, s_velocity = case.normal(panels * lanes_of(dtype)), case.normal(panels * lanes_of(dtype))

    def flat(values):
        return values.transpose(1, 0, 2).reshape(n, -1)

    expected = case.by_steps(flat(case.a), flat(case.velocity), np.eye(n), 0, case.steps)
    alone = case.by_steps(s[None], s_velocity[None], np.zeros((1, n)), 0, case.steps)
    settle(case.task.schedule, case.record, case.a, case.velocity, s, s_velocity)
    for ours, theirs in zip((flat(case.a), flat(case.velocity)), expected, strict=True):
        assert np.allclose(ours, theirs, **CLOSE[dtype])
    for ours, theirs in zip((s, s_velocity), alone, strict=True):
        assert np.allclose(ours, theirs[0], **CLOSE[dtype])


def trained_state(sgd, dtype=np.float64, passes=12):
    trial = make_trial(n_classes=6, shots=5, dtype=dtype)
    form = Penalty("firth", (0.0, 0.5, 2.0), l2=0.5).tables(trial.labels, 6, 60)
    trial = dataclasses.replace(trial, support=cosine.unit_rows(trial.support))
    state = CosineSgd(SpanStart(trial, linear_layer_start(trial), 3), 2.0, sgd, form)
    state.train(0, passes)
    return state


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("rows", [1, 9, 60])
def test_the_length_of_a_block_changes_rounding_alone(rows, momentum, monkeypatch):
    sgd = dataclasses.replace(COSINE_SGD, momentum=momentum, dampening=momentum / 2)
    expected = trained_state(sgd).state
    monkeypatch.setattr(blocks, "BLOCK_ROWS", rows)
    for name, values in trained_state(sgd).state._asdict().items():
        assert np.allclose(values, getattr(expected, name), rtol=1e-9, atol=1e-11), name


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 1e-5), (np.float64, 1e-13)])
def test_carried_projections_stay_those_of_the_coefficients(dtype, bound):
    sgd = Sgd(0.01, 0.9, 0.9, 4, 301, True, False)
    head = trained_state(sgd, dtype, passes=301)
    state, used = head.state, 18
    for projected, a, s in (
        (state.p_v, state.a, state.s),
        (state.p_e, state.velocity, state.s_velocity),
    ):
        exact = head.task.gram @ a.transpose(1, 0, 2).reshape(len(head.task.gram), -1)
        exact += head.task.start * s
        size = np.abs(exact[:, :used]).max()
        carried = projected.transpose(1, 0, 2).reshape(exact.shape)
        assert np.abs(carried[:, :used] - exact[:, :used]).max() < bound * size
