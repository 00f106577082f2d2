"""Deferred updates: a step reaches a support row when the row is next needed, not at once.

It is the idea of blocked matrix factorisations, which collect updates to apply many in one pass.

For every column (class and coefficient) the projections ``p_v = X v`` and ``p_e = X e`` of all the
support rows are carried along. A step on the batch I with gradient ``X_I'Δ + decay · v`` does

    speed = p_e + decay p_v + G[:, I] Δ        p_v ← p_v − η speed        p_e ← μ speed

to each of them. Done at once it would stream two matrices (N, columns) through the processor for a
batch of a few rows. A batch needs its own rows only, and the order of rows is known. So a block of
steps is recorded, and `advance_rows` takes rows through all recorded steps while their projections
stay in registers: the rows of each batch when its turn comes, and all rows at the block's end.

Inside a block p_e is kept divided by μ^t, t being the steps since the block's start. A step is then

    p_e ← p_e + (decay / μ^t) p_v + G[:, I] (Δ / μ^t)        p_v ← p_v − η μ^t p_e

or |I| + 2 multiply-adds for each row and column, against 2 |I| of products with both v and e.

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
    fma,
    ir_type,
    lanes_in,
    lanes_of,
    load,
    splat,
    store,
    vadd,
    vfill,
    vfma,
    vload,
    vmul,
    vstore,
)

if TYPE_CHECKING:
    from firthshot.engine.sgd.momentum import Schedule

# Rows of a block, in whole batches. Fewer stream the projections more often; of more, the gradients
# leave the second-level cache. At 100 ways 28 to 80 rows cost the same, 120 up to 15 % more.
BLOCK_ROWS = 60
# μ^t stays above this within a block. Smaller values only matter below a momentum of 0.54.
_SMALLEST_POWER = 1e-4
# A row has two accumulators here, so that a tile has half the rows.
_MOST_ROWS = (TILE_ROWS + 1) // 2


class Projections(NamedTuple):
    """The projections of some rows, (rows, columns + padding) each."""

    v: Any
    e: Any


class Record(NamedTuple):
    """The steps of an epoch, written by the head as they are taken.

    Those of the current block are ``first`` … ; ``gradients`` are in the order of visits, and they
    and ``decays`` are divided by μ^t.
    """

    batch: int
    order: Any  # (N,) rows in the order of visits
    gradients: Any  # (blocks of columns, N, lanes)
    decays: Any  # (blocks of columns, steps, lanes)
    powers: Any  # (T + 1,), μ^t
    rates: Any  # (T,), −η μ^t
    end_v: Any  # (steps, lanes), room for what the gradients have become in v and e at the end
    end_e: Any


def block_steps(batch: int, momentum: float) -> int:
    """Return T, the number of steps of a block."""
    steps = max(1, BLOCK_ROWS // batch)
    if momentum == 0:
        return 1
    return max(1, min(steps, int(np.log(_SMALLEST_POWER) / np.log(momentum))))


def new_record(schedule: Schedule, n: int, columns: int) -> Record:
    """Return room for the steps of an epoch over n rows."""
    batch, momentum, dtype = schedule.batch_size, schedule.momentum, schedule.momentum.dtype
    lanes, steps = lanes_of(dtype), -(-n // batch)
    powers = momentum ** np.arange(block_steps(batch, momentum) + 1, dtype=dtype)
    panels = columns // lanes
    shapes = (panels, n, lanes), (panels, steps, lanes), (steps, lanes), (steps, lanes)
    gradients, decays, end_v, end_e = (aligned_zeros(shape, dtype) for shape in shapes)
    rates = -schedule.learning_rate * powers[:-1]
    return Record(batch, np.empty(n, np.int64), gradients, decays, powers, rates, end_v, end_e)


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
        with cgutils.for_range(b, p["steps"]) as loop:
            self._pull(loop.index, along, speed)
            low = b.mul(loop.index, p["batch"])
            high = b.add(low, p["batch"])
            high = b.select(b.icmp_signed("<", high, p["visits"]), high, p["visits"])
            with cgutils.for_range_slice(b, low, high, ir.Constant(INDEX, 1)) as (visit, _):
                self._add_gradient(visit, places, speed)
            back = splat(b, b.load(b.gep(p["rates"], [loop.index])), self.vector)
            for v_row, e_row in zip(along, speed, strict=True):
                for v_cell, e_cell in zip(v_row, e_row, strict=True):
                    b.store(fma(b, back, b.load(e_cell), b.load(v_cell)), v_cell)
        power = splat(b, b.load(b.gep(p["powers"], [p["steps"]])), self.vector)
        self._write(along, p["to_v"], None)
        self._write(speed, p["to_e"], power)

    def _pull(self, step: Any, along: Any, speed: Any) -> None:
        """Add the decay's share to the speed."""
        b, p = self.builder, self.values
        for v in range(len(along[0])):
            decay = self._panel("decays", v, p["n_steps"], b.add(p["first"], step))
            for v_row, e_row in zip(along, speed, strict=True):
                b.store(fma(b, decay, b.load(v_row[v]), b.load(e_row[v])), e_row[v])

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

    def _write(self, cells: Any, target: Any, factor: Any) -> None:
        b = self.builder
        for i, row in enumerate(cells):
            for v, cell in enumerate(row):
                value = b.load(cell) if factor is None else b.fmul(factor, b.load(cell))
                store(b, value, b.gep(target, [self._offset(self._row(i), v)]))


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
    rows : (m,) indices of support rows in ``source``
    source, target : Projections
        Row ``rows[i]`` is read from the source; what becomes of it is row i of the target.
    """
    batch, n, blocks = record.batch, record.order.size, record.decays.shape[0]
    visits = min(steps * batch, n - first * batch)
    for row in range(0, rows.size, _MOST_ROWS):
        tall = min(_MOST_ROWS, rows.size - row)
        for block in range(0, blocks, TILE_VECTORS):
            place = (row, block, first, steps, visits)
            sizes = (source.v.shape[1], n, record.decays.shape[1])
            wide = min(TILE_VECTORS, blocks - block)
            _tile((tall, wide), place + sizes, rows, gram, source, target, record)


@kernel
def settle(schedule, record, a, velocity, s, s_velocity):
    """Take the coefficients (blocks, N, lanes) and the shares of v_0 through a whole epoch.

    A step is linear in (v, e, Δ), so that an epoch multiplies 2 × 2 transition matrices. They are
    multiplied from the last step backwards, which also gives the factors with which the Δ of each
    step enters v and e at the end (``end_v``, ``end_e``).
    """
    batch, order, gradients, decays, powers, rates, end_v, end_e = record
    span, n_steps = rates.size, decays.shape[1]
    lanes, n = lanes_in(a), order.size
    one, zero = vfill(a, 1.0), vfill(a, 0.0)
    back, keep = vfill(a, -schedule.learning_rate), vfill(a, schedule.momentum)
    for block in range(a.shape[0]):
        # The transition matrix from here to the end: e_v is the factor of e, now, in v, then.
        v_v, e_v, v_e, e_e = one, zero, zero, one
        for step in range(n_steps - 1, -1, -1):
            power = vfill(a, powers[step % span])
            decay = vmul(power, vload(decays, (block * n_steps + step) * lanes))
            e_v = vfma(back, v_v, vmul(keep, e_v))
            e_e = vfma(back, v_e, vmul(keep, e_e))
            v_v, v_e = vfma(decay, e_v, v_v), vfma(decay, e_e, v_e)
            vstore(end_v, step * lanes, vmul(power, e_v))
            vstore(end_e, step * lanes, vmul(power, e_e))
        for visit in range(n):
            at = (block * n + order[visit]) * lanes
            mine, speed = vload(a, at), vload(velocity, at)
            gradient = vload(gradients, (block * n + visit) * lanes)
            step = visit // batch * lanes
            moved = vfma(v_v, mine, vmul(e_v, speed))
            sped = vfma(v_e, mine, vmul(e_e, speed))
            vstore(a, at, vfma(vload(end_v, step), gradient, moved))
            vstore(velocity, at, vfma(vload(end_e, step), gradient, sped))
        at = block * lanes
        mine, speed = vload(s, at), vload(s_velocity, at)
        vstore(s, at, vadd(vmul(v_v, mine), vmul(e_v, speed)))
        vstore(s_velocity, at, vadd(vmul(v_e, mine), vmul(e_e, speed)))
