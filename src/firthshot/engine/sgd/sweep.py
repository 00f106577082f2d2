"""The fused sweep: one momentum step of the dual variables, and the batch's product with them.

State of a layer: dual variables ``a`` and ``velocity``, the velocity times the momentum plus the
gradients that arrived since. `sweep` does, for every row j and column c,

    v = velocity + decay_c · a        a ← a − η v        velocity ← μ v

and on the way, while the row is in registers, accumulates the product with the batch's rows of G,

    z_i = Σ_j G[i, j] a_j.

Memory is read once per step instead of three times. A tile of accumulators (batch rows × column
vectors) stays in registers for the whole pass over j, which is what brings the loop near the speed
of a large matrix product.

Without decay a velocity that no gradient reaches only shrinks, everywhere alike. `drift` then
leaves the arrays as they are and keeps the common factor m on its own (as Bottou's "Stochastic
gradient descent tricks" does with weight decay): with velocity = m·v a step is

    a ← a − (η m) v        m ← μ m        and a gradient g arrives as v ← v + g / m,

which spares the sweep a third of its arithmetic and half of its stores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, TILE_ROWS, TILE_VECTORS, emit_cases, unpack
from firthshot.kernels.vectors import Vector, fma, ir_type, load, splat, store


class Swept(NamedTuple):
    """What a sweep reads and writes; G is square, so its rows are as long as ``a`` has rows."""

    gram: Any  # (N, N), G
    a: Any  # (blocks, N, lanes)
    velocity: Any  # like a
    decay: Any  # (columns,), not read by `drift`
    z: Any  # (batch, columns + lanes)


class _SweepTile:
    """Emits one register tile: ``rows`` batch rows times ``vectors`` column vectors."""

    def __init__(self, builder: Any, vector: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.vector, self.values = builder, vector, values
        self.lanes = ir.Constant(INDEX, vector.count)

    def emit(self, rows: int, vectors: int, update: bool) -> None:
        """Emit the pass over j."""
        b, p = self.builder, self.values
        starts = [b.mul(self._column(v), p["n"]) for v in range(vectors)]
        gram_rows = [self._gram_row(i) for i in range(rows)]
        decays = [self._decay(v) for v in range(vectors)]
        zero = ir.Constant(self.vector, None)
        sums = [[cgutils.alloca_once_value(b, zero) for _ in range(vectors)] for _ in range(rows)]
        with cgutils.for_range(b, p["n"]) as loop:
            offset = b.mul(loop.index, self.lanes)
            moved = [
                self._move(b.add(starts[v], offset), decays[v], update) for v in range(vectors)
            ]
            for i in range(rows):
                weight = splat(b, b.load(b.gep(gram_rows[i], [loop.index])), self.vector)
                for a, cell in zip(moved, sums[i], strict=True):
                    b.store(fma(b, weight, a, b.load(cell)), cell)
        self._write(sums)

    def _move(self, offset: Any, decay: Any, update: bool) -> Any:
        """Move one row of one column vector by a step if ``update``; return it."""
        b, p = self.builder, self.values
        a_pointer, v_pointer = b.gep(p["a"], [offset]), b.gep(p["velocity"], [offset])
        a = load(b, a_pointer, self.vector)
        if update:
            velocity = load(b, v_pointer, self.vector)
            back = b.fneg(splat(b, p["steps"][0], self.vector))
            if decay is not None:
                velocity = fma(b, decay, a, velocity)
            a = fma(b, back, velocity, a)
            store(b, a, a_pointer)
            if decay is not None:
                velocity = b.fmul(splat(b, p["steps"][1], self.vector), velocity)
                store(b, velocity, v_pointer)
        return a

    def _decay(self, v: int) -> Any:
        """Return the decay of column vector ``v``; None where velocities drift."""
        if len(self.values["steps"]) == 1:
            return None
        pointer = self.builder.gep(self.values["decay"], [self._column(v)])
        return load(self.builder, pointer, self.vector)

    def _column(self, v: int) -> Any:
        """Return where column vector ``v`` of the tile begins among the columns."""
        b = self.builder
        return b.mul(b.add(self.values["block"], ir.Constant(INDEX, v)), self.lanes)

    def _row(self, i: int) -> Any:
        return self.builder.add(self.values["row"], ir.Constant(INDEX, i))

    def _gram_row(self, i: int) -> Any:
        b, p = self.builder, self.values
        return b.gep(p["gram"], [b.mul(b.load(b.gep(p["rows"], [self._row(i)])), p["n"])])

    def _write(self, sums: Any) -> None:
        b, p = self.builder, self.values
        for i, row in enumerate(sums):
            start = b.mul(self._row(i), p["z_stride"])
            for v, cell in enumerate(row):
                store(b, b.load(cell), b.gep(p["z"], [b.add(start, self._column(v))]))


@intrinsic
def _tile(typingctx, sizes, place, rows, steps, arrays):
    """Run the tile of sizes (rows, vectors, update) at place (block, row, n, z's stride)."""
    dtype = arrays.types[1].dtype
    three, four = (types.UniTuple(types.intp, many) for many in (3, 4))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sizes, place, steps = (cgutils.unpack_tuple(builder, args[at]) for at in (0, 1, 3))
        values = unpack(context, builder, arrays, args[4])
        values |= dict(zip(("block", "row", "n", "z_stride"), place, strict=True))
        values["rows"] = context.make_array(rows)(context, builder, args[2]).data
        values["steps"] = steps
        emitter = _SweepTile(builder, ir_type(Vector(dtype)), values)

        def emit(rows: int, vectors: int, flag: int) -> None:
            emitter.emit(rows, vectors, bool(flag))

        emit_cases(builder, sizes, (TILE_ROWS, TILE_VECTORS, 2), emit)
        return context.get_dummy_value()

    moved = types.UniTuple(dtype, len(steps))
    return types.void(three, four, rows, moved, arrays), codegen


@kernel(allocates=False, inline="never")
def _sweep(arrays, rows, steps):
    blocks, n, z_stride = arrays.a.shape[0], arrays.a.shape[1], arrays.z.shape[1]
    for block in range(0, blocks, TILE_VECTORS):
        vectors = min(TILE_VECTORS, blocks - block)
        for row in range(0, rows.size, TILE_ROWS):
            sizes = min(TILE_ROWS, rows.size - row), vectors, 1 if row == 0 else 0
            _tile(sizes, (block, row, n, z_stride), rows, steps, arrays)


@kernel(allocates=False)
def sweep(arrays, rows, learning_rate, momentum):
    """Take a momentum step of ``arrays.a``; write the product G[rows] a to ``arrays.z``."""
    _sweep(arrays, rows, (learning_rate, momentum))


@kernel(allocates=False)
def drift(arrays, rows, step):
    """Move ``arrays.a`` by −step · velocity; write the product G[rows] a to ``arrays.z``."""
    _sweep(arrays, rows, (step,))
