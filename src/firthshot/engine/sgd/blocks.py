"""Deferred updates: a step reaches a support row when the row is next needed, not at once.

It is the idea of blocked matrix factorisations, which collect updates to apply many in one pass.

For every column (class and coefficient) the projections ``p_v = X v`` and ``p_e = X e`` of all the
support rows are carried along. A step on the batch I with gradient ``X_I'Δ + decay · v`` does

    speed = p_e + decay p_v + G[:, I] Δ        p_v ← p_v − η speed        p_e ← μ speed

to each of them. Done at once it would stream two matrices (N, columns) through the processor for a
batch of a few rows. A batch needs its own rows only, and the order of rows is known. So a block of
steps is recorded, and `advance_rows` takes rows through all recorded steps while their projections
stay in registers: the rows of each batch when its turn comes, and all rows at the block's end.

Inside a block a row has two coordinates, and what decay and momentum do alike to all the rows of a
column is left to three numbers of the column:

    p_v = φ along        p_e = χ along + ψ speed

A step is then |I| + 1 multiply-adds for each row and column, against 2 |I| of products with both v
and e:

    speed ← speed + G[:, I] (Δ / ψ)        along ← along − (η ψ / φ') speed

    φ' = φ − η (χ + decay φ)        χ' = μ (χ + decay φ)        ψ' = μ ψ φ / φ'

The first step of a block adds its decay to the speed itself, so that it leaves φ = 1, χ = 0, ψ = μ
whatever the decay is. A step that would take φ far from 1 begins a block of its own (`follow`).

The coefficients ``v = s v_0 + X'a`` and ``e = s_e v_0 + X'velocity`` are needed when training ends.
`settle` takes them through a whole epoch, in which each row has had one gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firthshot.arrays import round_up
from firthshot.engine.sgd.training import aligned_zeros
from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, MANY_REGISTERS, emit_cases, unpack
from firthshot.kernels.vectors import (
    Vector,
    fma,
    ir_type,
    lanes_in,
    lanes_of,
    load,
    splat,
    store,
    vadd,
    vdiv,
    vfill,
    vfma,
    vload,
    vmul,
    vstore,
    vsub,
)

if TYPE_CHECKING:
    from firthshot.engine.sgd.momentum import Schedule

# Rows of a block, in whole batches. Fewer stream the projections more often; of more, the gradients
# leave the second-level cache. At 100 ways 28 to 80 rows cost the same, 120 up to 15 % more.
BLOCK_ROWS = 60
# ψ, about μ^t, stays above this in a block. Smaller values only matter below a momentum of 0.54.
_SMALLEST_POWER = 1e-4
# How far from 1 φ may go before a block ends: digits are lost as φ comes near zero. Training that
# is stable stays within a hundredth.
FARTHEST = 0.5
# Rows of a tile: both coordinates stay in registers (two each with AVX2), beside a gradient.
_TILE = 12 if MANY_REGISTERS else 3
# Rows whose part of a block's rows of G stays in the first-level cache, panel after panel.
_CHUNK = 4 * 12
UNROLLED = 4


class Projections(NamedTuple):
    """The projections of some rows, (panels, rows, lanes) each."""

    v: Any
    e: Any


class Record(NamedTuple):
    """The steps of an epoch, written by the head as they are taken."""

    batch: int
    longest: int  # the most steps of a block
    order: Any  # (N,) rows in the order of visits
    begins: Any  # (steps,), the first step of each one's block
    gram: Any  # (longest · batch, N + padding), rows of G that the block visits, in their order
    mine: Any  # (longest · batch, batch), of which a batch's own columns
    gradients: Any  # (panels, steps · batch, lanes), Δ / ψ in the order of visits, then zeros
    decays: Any  # (panels, steps, lanes), as all that follow
    rates: Any  # −η ψ / φ', the factor of the speed
    phi: Any  # φ, χ and ψ after each step
    chi: Any
    psi: Any
    end_v: Any  # (steps, lanes), room for what the gradients have become in v and e at the end
    end_e: Any


def block_steps(batch: int, momentum: float) -> int:
    """Return T, the most steps of a block."""
    steps = max(1, BLOCK_ROWS // batch)
    if momentum == 0:
        return 1
    return max(1, min(steps, int(np.log(_SMALLEST_POWER) / np.log(momentum))))


def new_record(schedule: Schedule, n: int, columns: int) -> Record:
    """Return room for the steps of an epoch over n rows."""
    batch, momentum, dtype = schedule.batch_size, schedule.momentum, schedule.momentum.dtype
    lanes, steps = lanes_of(dtype), -(-n // batch)
    panels = columns // lanes
    longest = block_steps(batch, momentum)
    # An odd number of cache lines, so that neighbours in a column do not drive each other out.
    wide = round_up(n, 2 * lanes) + lanes
    visits, ends = longest * batch, [(steps, lanes)] * 2
    shapes = ((visits, wide), (visits, batch), (panels, steps * batch, lanes))
    rooms = (
        aligned_zeros(shape, dtype) for shape in (*shapes, *[(panels, steps, lanes)] * 5, *ends)
    )
    order, begins = np.zeros(n, np.int64), np.zeros(steps, np.int64)
    return Record(batch, longest, order, begins, *rooms)


class _AdvanceTile:
    """Emits one register tile: the speeds of ``rows`` rows, one column vector each."""

    def __init__(self, builder: Any, vector: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.vector, self.values = builder, vector, values
        self.lanes = ir.Constant(INDEX, vector.count)

    def emit(self, rows: int, unrolled: bool) -> None:
        """Emit the passage of the tile through the recorded steps.

        Steps of `UNROLLED` visits have no loop over them, whose end processors do not foresee.
        """
        b, p = self.builder, self.values
        places = self._places("v", rows), self._places("e", rows)
        along, speed = (
            [cgutils.alloca_once_value(b, load(b, place, self.vector)) for place in mine]
            for mine in places
        )
        self._add("decays", p["first"], along, speed)
        with cgutils.for_range(b, p["steps"]) as loop:
            low = b.mul(loop.index, ir.Constant(INDEX, UNROLLED) if unrolled else p["batch"])
            if unrolled:
                for i in range(UNROLLED):
                    self._add_gradient(b.add(low, ir.Constant(INDEX, i)), speed)
            else:
                high = b.add(low, p["batch"])
                with cgutils.for_range_slice(b, low, high, ir.Constant(INDEX, 1)) as (visit, _):
                    self._add_gradient(visit, speed)
            self._add("rates", b.add(p["first"], loop.index), speed, along)
        self._write(along, speed, *places)

    def _add(self, name: str, step: Any, source: Any, target: Any) -> None:
        """Add the source, times the step's factor of each column, to the target."""
        b, factor = self.builder, self._factor(name, step)
        for mine, other in zip(source, target, strict=True):
            b.store(fma(b, factor, b.load(mine), b.load(other)), other)

    def _add_gradient(self, visit: Any, speed: Any) -> None:
        """Add what a visited row pushes."""
        b, p = self.builder, self.values
        place = b.add(b.mul(p["first"], p["batch"]), visit)
        gradient = self._panel("gradients", b.mul(p["n_steps"], p["batch"]), place)
        weights = b.gep(p["weights"], [b.add(b.mul(visit, p["wide"]), p["row"])])
        for i, cell in enumerate(speed):
            weight = b.load(b.gep(weights, [ir.Constant(INDEX, i)]))
            weight = splat(b, weight, self.vector)
            b.store(fma(b, weight, gradient, b.load(cell)), cell)

    def _write(self, along: Any, speed: Any, to_v: Any, to_e: Any) -> None:
        """Write the projections v = φ along and e = χ along + ψ speed."""
        b, p = self.builder, self.values
        last = b.sub(b.add(p["first"], p["steps"]), ir.Constant(INDEX, 1))
        phi, chi, psi = (self._factor(name, last) for name in ("phi", "chi", "psi"))
        for mine, fast, v, e in zip(along, speed, to_v, to_e, strict=True):
            value = b.load(mine)
            store(b, b.fmul(phi, value), v)
            store(b, fma(b, chi, value, b.fmul(psi, b.load(fast))), e)

    def _factor(self, name: str, step: Any) -> Any:
        return self._panel(name, self.values["n_steps"], step)

    def _panel(self, name: str, rows: Any, row: Any) -> Any:
        """Load a row of the tile's columns of an array (panels, rows, lanes)."""
        return load(self.builder, self._place(name, rows, row), self.vector)

    def _place(self, name: str, rows: Any, row: Any) -> Any:
        b, p = self.builder, self.values
        return b.gep(p[name], [b.mul(b.add(b.mul(p["panel"], rows), row), self.lanes)])

    def _places(self, name: str, rows: int) -> list[Any]:
        b, p, many = self.builder, self.values, self.vector.count
        first = self._place(name, p["n_rows"], p["row"])
        return [b.gep(first, [ir.Constant(INDEX, i * many)]) for i in range(rows)]


@intrinsic
def _tile(typingctx, tall, unrolled, place, gram, projections, record):
    """Run the tile of so many rows at place (see `advance`)."""
    names = ("row", "panel", "first", "steps", "n_rows", "n_steps", "wide")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = dict(zip(names, cgutils.unpack_tuple(builder, args[2]), strict=True))
        values |= unpack(context, builder, projections, args[4])
        values |= unpack(context, builder, record, args[5])
        values["weights"] = context.make_array(gram)(context, builder, args[3]).data
        emitter = _AdvanceTile(builder, ir_type(Vector(projections.types[0].dtype)), values)

        def emit(rows: int, columns: int, flag: int) -> None:
            emitter.emit(rows, bool(flag))

        emit_cases(builder, (args[0], ir.Constant(INDEX, 1), args[1]), (_TILE, 1, 2), emit)
        return context.get_dummy_value()

    many = types.UniTuple(types.intp, len(names))
    return types.void(types.intp, types.intp, many, gram, projections, record), codegen


@kernel(allocates=False, inline="never")
def advance(record, first, steps, gram, many, projections):
    """Take the first rows of ``projections`` through the steps first … first + steps - 1.

    Parameters
    ----------
    first : the first step of a block
    gram : (longest · batch, at least many), products of the rows that the block visits with them
    many : number of rows
    """
    if steps == 0:
        return
    panels, n_steps, _ = record.decays.shape
    n_rows, wide, unrolled = projections.v.shape[1], gram.shape[1], record.batch == UNROLLED
    for low in range(0, many, _CHUNK):
        high = min(low + _CHUNK, many)
        # Tiles of even heights: 2 + 2 rows of a batch, not 3 + 1.
        tall = -(-(high - low) // -(-(high - low) // _TILE))
        for panel in range(panels):
            for row in range(low, high, tall):
                place = (row, panel, first, steps, n_rows, n_steps, wide)
                _tile(min(tall, high - row), 1 if unrolled else 0, place, gram, projections, record)


@kernel(allocates=False)
def read_gram(gram, record, first):
    """Copy the rows of G that a block visits, beginning at step ``first``; then zeros."""
    begin, n = first * record.batch, record.order.size
    for visit in range(min(len(record.gram), record.gradients.shape[1] - begin)):
        if begin + visit < n:
            row = record.order[begin + visit]
            for j in range(n):
                record.gram[visit, j] = gram[row, j]
        else:
            record.gram[visit] = 0.0


@kernel(allocates=False)
def take_rows(record, rows, steps, source, target):
    """Copy the projections of rows, and their products with those visited in ``steps`` steps."""
    for visit in range(steps * record.batch):
        for i in range(rows.size):
            record.mine[visit, i] = record.gram[visit, rows[i]]
    panels, n_rows, lanes = source.v.shape
    for i in range(rows.size):
        for panel in range(panels):
            here, there = (panel * n_rows + rows[i]) * lanes, panel * target.v.shape[1] + i
            vstore(target.v, there * lanes, vload(source.v, here))
            vstore(target.e, there * lanes, vload(source.e, here))


@kernel(allocates=False, inline="always")
def follow(schedule, record, panel, step, begin, decay, power):
    """Record the decay of a step, its rates, φ, χ and ψ in a panel; ``power`` is μ^(step − begin).

    Return the factor of the step's gradients, 1 / ψ = φ / μ^t before the step, and (φ − 1)² after.
    """
    rates, phi, chi, psi = record.rates, record.phi, record.chi, record.psi
    _, n_steps, lanes = rates.shape
    eta, keep = vfill(rates, schedule.learning_rate), vfill(rates, schedule.momentum)
    one, zero = vfill(rates, 1.0), vfill(rates, 0.0)
    at = (panel * n_steps + step) * lanes
    vstore(record.decays, at, decay)
    if step == begin:
        vstore(rates, at, vsub(zero, eta))
        vstore(phi, at, one)
        vstore(chi, at, zero)
        vstore(psi, at, keep)
        return one, zero
    before, speed = vload(phi, at - lanes), vload(psi, at - lanes)
    pull = vfma(decay, before, vload(chi, at - lanes))
    after = vsub(before, vmul(eta, pull))
    share = vdiv(speed, after)
    vstore(rates, at, vsub(zero, vmul(eta, share)))
    vstore(phi, at, after)
    vstore(chi, at, vmul(keep, pull))
    vstore(psi, at, vmul(vmul(keep, before), share))
    off = vsub(after, one)
    return vmul(vfill(rates, 1.0 / power), before), vmul(off, off)


@kernel(allocates=False)
def begin_block(schedule, record, step, power):
    """Make a recorded step, ``power`` as it was in `follow`, the first one of a block."""
    panels, n_steps, lanes = record.decays.shape
    gradients, n = record.gradients, record.order.size
    for panel in range(panels):
        at = (panel * n_steps + step) * lanes
        scale, _ = follow(schedule, record, panel, step, -1, vload(record.decays, at), power)
        for visit in range(step * record.batch, min((step + 1) * record.batch, n)):
            place = (panel * gradients.shape[1] + visit) * lanes
            vstore(gradients, place, vdiv(vload(gradients, place), scale))
        follow(schedule, record, panel, step, step, vload(record.decays, at), 1.0)


@kernel(allocates=False)
def settle(schedule, record, a, velocity, s, s_velocity):
    """Take the coefficients (blocks, N, lanes) and the shares of v_0 through a whole epoch.

    A step is linear in (v, e, Δ), so that an epoch multiplies 2 × 2 transition matrices. They are
    multiplied from the last step backwards, which also gives the factors with which the Δ of each
    step enters v and e at the end (``end_v``, ``end_e``).
    """
    decays, psi, end_v, end_e = record.decays, record.psi, record.end_v, record.end_e
    n_steps, lanes, n = decays.shape[1], lanes_in(a), record.order.size
    one, zero = vfill(a, 1.0), vfill(a, 0.0)
    back, keep = vfill(a, -schedule.learning_rate), vfill(a, schedule.momentum)
    for block in range(a.shape[0]):
        # The transition matrix from here to the end: e_v is the factor of e, now, in v, then.
        v_v, e_v, v_e, e_e = one, zero, zero, one
        for step in range(n_steps - 1, -1, -1):
            at = (block * n_steps + step) * lanes
            decay = vload(decays, at)
            e_v = vfma(back, v_v, vmul(keep, e_v))
            e_e = vfma(back, v_e, vmul(keep, e_e))
            v_v, v_e = vfma(decay, e_v, v_v), vfma(decay, e_e, v_e)
            scale = one if record.begins[step] == step else vload(psi, at - lanes)
            vstore(end_v, step * lanes, vmul(scale, e_v))
            vstore(end_e, step * lanes, vmul(scale, e_e))
        for step in range(n_steps):
            to_v, to_e = vload(end_v, step * lanes), vload(end_e, step * lanes)
            for visit in range(step * record.batch, min((step + 1) * record.batch, n)):
                at = (block * n + record.order[visit]) * lanes
                mine, speed = vload(a, at), vload(velocity, at)
                pushed = (block * n_steps * record.batch + visit) * lanes
                gradient = vload(record.gradients, pushed)
                moved = vfma(v_v, mine, vmul(e_v, speed))
                sped = vfma(v_e, mine, vmul(e_e, speed))
                vstore(a, at, vfma(to_v, gradient, moved))
                vstore(velocity, at, vfma(to_e, gradient, sped))
        at = block * lanes
        mine, speed = vload(s, at), vload(s_velocity, at)
        vstore(s, at, vadd(vmul(v_v, mine), vmul(e_v, speed)))
        vstore(s_velocity, at, vadd(vmul(v_e, mine), vmul(e_e, speed)))
