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

from firthshot.engine.sgd.training import aligned_zeros
from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, TILE_ROWS, TILE_VECTORS, emit_cases, unpack
from firthshot.kernels.vectors import (
    Vector,
    any_above,
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
    vmax,
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
_FARTHEST = 0.5
# A row has two accumulators here, so that a tile has half the rows.
_MOST_ROWS = (TILE_ROWS + 1) // 2


class Projections(NamedTuple):
    """The projections of some rows, (rows, columns + padding) each."""

    v: Any
    e: Any


class Record(NamedTuple):
    """The steps of an epoch, written by the head as they are taken."""

    batch: int
    longest: int  # the most steps of a block
    order: Any  # (N,) rows in the order of visits
    begins: Any  # (steps,), the first step of each one's block
    gradients: Any  # (blocks of columns, N, lanes), Δ / ψ in the order of visits
    decays: Any  # (blocks of columns, steps, lanes), as all that follow
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
    shapes = ((panels, n, lanes), *[(panels, steps, lanes)] * 5, *[(steps, lanes)] * 2)
    rooms = (aligned_zeros(shape, dtype) for shape in shapes)
    order, begins = np.empty(n, np.int64), np.zeros(steps, np.int64)
    return Record(batch, block_steps(batch, momentum), order, begins, *rooms)


class _AdvanceTile:
    """Emits one register tile: ``rows`` rows times ``vectors`` column vectors."""

    def __init__(self, builder: Any, vector: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.vector, self.values = builder, vector, values
        self.lanes = ir.Constant(INDEX, vector.count)

    def emit(self, rows: int, vectors: int) -> None:
        """Emit the passage of the tile through the recorded steps."""
        b, p = self.builder, self.values
        places = [b.load(b.gep(p["rows"], [self._row(i)])) for i in range(rows)]
        along, speed = (self._read(p[name], places, vectors) for name in ("from_v", "from_e"))
        self._add("decays", p["first"], along, speed)
        with cgutils.for_range(b, p["steps"]) as loop:
            low = b.mul(loop.index, p["batch"])
            high = b.add(low, p["batch"])
            high = b.select(b.icmp_signed("<", high, p["visits"]), high, p["visits"])
            with cgutils.for_range_slice(b, low, high, ir.Constant(INDEX, 1)) as (visit, _):
                self._add_gradient(visit, places, speed)
            self._add("rates", b.add(p["first"], loop.index), speed, along)
        self._write(along, speed)

    def _add(self, name: str, step: Any, source: Any, target: Any) -> None:
        """Add the source, times the step's factor of each column, to the target."""
        b, p = self.builder, self.values
        for v in range(len(source[0])):
            factor = self._panel(name, v, p["n_steps"], step)
            for mine, other in zip(source, target, strict=True):
                b.store(fma(b, factor, b.load(mine[v]), b.load(other[v])), other[v])

    def _add_gradient(self, visit: Any, places: Any, speed: Any) -> None:
        """Add what a visited row pushes; its row of G has the tile's rows side by side."""
        b, p = self.builder, self.values
        place = b.add(b.mul(p["first"], p["batch"]), visit)
        parts = [self._panel("gradients", v, p["n"], place) for v in range(len(speed[0]))]
        visited = b.load(b.gep(p["order"], [place]))
        gram = b.gep(p["gram"], [b.mul(visited, p["n"])])
        for mine, row in zip(places, speed, strict=True):
            weight = splat(b, b.load(b.gep(gram, [mine])), self.vector)
            for part, cell in zip(parts, row, strict=True):
                b.store(fma(b, weight, part, b.load(cell)), cell)

    def _panel(self, name: str, v: int, rows: Any, row: Any) -> Any:
        """Load a row of column vector ``v`` of an array (blocks of columns, rows, lanes)."""
        b, p = self.builder, self.values
        block = b.add(p["block"], ir.Constant(INDEX, v))
        offset = b.mul(b.add(b.mul(block, rows), row), self.lanes)
        return load(b, b.gep(p[name], [offset]), self.vector)

    def _offset(self, row: Any, v: int) -> Any:
        """Return where a row of column vector ``v`` lies in the projections."""
        b, p = self.builder, self.values
        column = b.mul(b.add(p["block"], ir.Constant(INDEX, v)), self.lanes)
        return b.add(b.mul(row, p["wide"]), column)

    def _row(self, i: int) -> Any:
        return self.builder.add(self.values["row"], ir.Constant(INDEX, i))

    def _read(self, source: Any, places: Any, vectors: int) -> Any:
        b = self.builder

        def cell(place: Any, v: int) -> Any:
            value = load(b, b.gep(source, [self._offset(place, v)]), self.vector)
            return cgutils.alloca_once_value(b, value)

        return [[cell(place, v) for v in range(vectors)] for place in places]

    def _write(self, along: Any, speed: Any) -> None:
        """Write the projections v = φ along and e = χ along + ψ speed."""
        b, p = self.builder, self.values
        last = b.sub(b.add(p["first"], p["steps"]), ir.Constant(INDEX, 1))
        for v in range(len(along[0])):
            phi, chi, psi = (self._panel(x, v, p["n_steps"], last) for x in ("phi", "chi", "psi"))
            for i, (mine, fast) in enumerate(zip(along, speed, strict=True)):
                place, value = self._offset(self._row(i), v), b.load(mine[v])
                store(b, b.fmul(phi, value), b.gep(p["to_v"], [place]))
                value = fma(b, chi, value, b.fmul(psi, b.load(fast[v])))
                store(b, value, b.gep(p["to_e"], [place]))


@intrinsic
def _tile(typingctx, sizes, place, rows, gram, source, target, record):
    """Run the tile of sizes (rows, vectors) at place (see `advance_rows`)."""
    names = ("row", "block", "first", "steps", "visits", "wide", "n", "n_steps")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = (*cgutils.unpack_tuple(builder, args[0]), ir.Constant(INDEX, 0))
        values = dict(zip(names, cgutils.unpack_tuple(builder, args[1]), strict=True))
        for name, kind, value in (("rows", rows, args[2]), ("gram", gram, args[3])):
            values[name] = context.make_array(kind)(context, builder, value).data
        for prefix, kind, value in (("from", source, args[4]), ("to", target, args[5])):
            for name, part in unpack(context, builder, kind, value).items():
                values[f"{prefix}_{name}"] = part
        values |= unpack(context, builder, record, args[6])
        emitter = _AdvanceTile(builder, ir_type(Vector(gram.dtype)), values)

        def emit(rows: int, vectors: int, flag: int) -> None:
            emitter.emit(rows, vectors)

        emit_cases(builder, size, (_MOST_ROWS, TILE_VECTORS, 1), emit)
        return context.get_dummy_value()

    two, many = types.UniTuple(types.intp, 2), types.UniTuple(types.intp, len(names))
    return types.void(two, many, rows, gram, source, target, record), codegen


@kernel(inline="never")
def advance_rows(gram, record, first, steps, rows, source, target):
    """Take the projections of rows through the steps first … first + steps - 1 of the epoch.

    Parameters
    ----------
    first : the first step of a block
    rows : (m,) indices of support rows in ``source``
    source, target : Projections
        Row ``rows[i]`` is read from the source; what becomes of it is row i of the target.
    """
    batch, n, blocks = record.batch, record.order.size, record.decays.shape[0]
    if steps == 0:
        for i in range(rows.size):
            target.v[i], target.e[i] = source.v[rows[i]], source.e[rows[i]]
        return
    visits = min(steps * batch, n - first * batch)
    for row in range(0, rows.size, _MOST_ROWS):
        tall = min(_MOST_ROWS, rows.size - row)
        for block in range(0, blocks, TILE_VECTORS):
            place = (row, block, first, steps, visits)
            sizes = (source.v.shape[1], n, record.decays.shape[1])
            wide = min(TILE_VECTORS, blocks - block)
            _tile((tall, wide), place + sizes, rows, gram, source, target, record)


@kernel
def follow(schedule, record, step, begin):
    """Write the rates, φ, χ and ψ of a step whose decays are recorded; return whether it may be.

    A step that takes φ far from 1 may only be the first one, ``begin``, of its block.
    """
    decays, rates, phi, chi, psi = record.decays, record.rates, record.phi, record.chi, record.psi
    panels, n_steps, lanes = decays.shape
    eta, keep = vfill(decays, schedule.learning_rate), vfill(decays, schedule.momentum)
    one, farthest = vfill(decays, 1.0), vfill(decays, 0.0)
    for panel in range(panels):
        at = (panel * n_steps + step) * lanes
        if step == begin:
            vstore(rates, at, vsub(vfill(decays, 0.0), eta))
            vstore(phi, at, one)
            vstore(chi, at, vfill(decays, 0.0))
            vstore(psi, at, keep)
        else:
            before, speed = vload(phi, at - lanes), vload(psi, at - lanes)
            pull = vfma(vload(decays, at), before, vload(chi, at - lanes))
            after = vsub(before, vmul(eta, pull))
            share = vdiv(speed, after)
            vstore(rates, at, vsub(vfill(decays, 0.0), vmul(eta, share)))
            vstore(phi, at, after)
            vstore(chi, at, vmul(keep, pull))
            vstore(psi, at, vmul(vmul(keep, before), share))
            off = vsub(after, one)
            farthest = vmax(vmul(off, off), farthest)
    record.begins[step] = begin
    return not any_above(farthest, vfill(decays, _FARTHEST**2))


@kernel
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
    visit_of = np.empty(n, np.int64)
    for visit in range(n):
        visit_of[record.order[visit]] = visit
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
        for row in range(n):
            at = (block * n + row) * lanes
            mine, speed = vload(a, at), vload(velocity, at)
            gradient = vload(record.gradients, (block * n + visit_of[row]) * lanes)
            step = visit_of[row] // record.batch * lanes
            moved = vfma(v_v, mine, vmul(e_v, speed))
            sped = vfma(v_e, mine, vmul(e_e, speed))
            vstore(a, at, vfma(vload(end_v, step), gradient, moved))
            vstore(velocity, at, vfma(vload(end_e, step), gradient, sped))
        at = block * lanes
        mine, speed = vload(s, at), vload(s_velocity, at)
        vstore(s, at, vadd(vmul(v_v, mine), vmul(e_v, speed)))
        vstore(s_velocity, at, vadd(vmul(v_e, mine), vmul(e_e, speed)))
