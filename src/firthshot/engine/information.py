"""Steps of TIM: compiled loops over the trials of a block, all coefficients side by side.

The N + Q rows of a trial (`TrialRows`) are first the support's. Prototypes (T, L, K, d) start at
the class means; logits (T, L, K, at least N + Q) end in whole vectors. A loop returns False as soon
as a row is not finite.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firthshot.engine.prototypes import add_row, square
from firthshot.engine.rows import take
from firthshot.kernels import kernel
from firthshot.kernels.narrow import dots, gram, mixtures
from firthshot.kernels.vectors import (
    lanes_in,
    vadd,
    vdiv,
    vexp,
    vfill,
    vfma,
    vload,
    vmax,
    vmul,
    vstore,
    vsub,
)


class TimOptions(NamedTuple):
    """Temperature, weights of losses, and steps; ``rate`` and ``cosine`` are those of descent."""

    temperature: Any
    ce: Any
    alpha: Any
    steps: Any
    rate: Any
    cosine: Any
    close: Any


@kernel
def tim_logits(rows, options, prototypes, logits):
    """Write −τ/2 ‖w − x‖² but for what all classes share, or τ · cosine, of one trial."""
    shape = prototypes.shape
    flat = logits.reshape(shape[0] * shape[1], logits.shape[2])
    dots(prototypes.reshape(-1, shape[2]), rows, 0, len(rows), flat)
    for l in range(shape[0]):
        for k in range(shape[1]):
            size = square(prototypes[l, k])
            if options.cosine:
                logits[l, k] *= rows.dtype.type(options.temperature / np.sqrt(size))
            else:
                by_distance(logits[l, k], options.temperature, size)


@kernel(fastmath={"reassoc", "contract"})
def by_distance(products, temperature, size):
    """Replace ⟨w, x⟩ by τ (⟨w, x⟩ − ½‖w‖²)."""
    factor, shift = products.dtype.type(temperature), products.dtype.type(0.5 * size)
    for i in range(products.size):
        products[i] = factor * (products[i] - shift)


@kernel
def softmax(logits, p, totals):
    """Write p down the columns of logits (K, columns), of which the largest is taken off."""
    n_classes, columns = logits.shape
    for q in range(0, columns, lanes_in(p)):
        top = vload(logits, q)
        for k in range(1, n_classes):
            top = vmax(vload(logits, k * columns + q), top)
        total = vfill(p, 0.0)
        for k in range(n_classes):
            shifted = vsub(vload(logits, k * columns + q), top)
            vstore(logits, k * columns + q, shifted)
            value = vexp(shifted)
            vstore(p, k * columns + q, value)
            total = vadd(total, value)
        vstore(totals, q, total)
        share = vdiv(vfill(p, 1.0), total)
        for k in range(n_classes):
            vstore(p, k * columns + q, vmul(share, vload(p, k * columns + q)))


@kernel
def descend(rows, means, targets, weight, options, prototypes, logits):
    """Take all steps of Adam, and write prototypes and logits at the end.

    ``means`` (T, K, N) are the shares of support rows in class means, ``targets`` (T, L, K, N) are
    those of the support, ``weight`` (T, L) multiplies p beside them.
    """
    here = rows.here
    gradient = np.empty_like(prototypes[0])
    first, second = np.empty_like(gradient), np.empty_like(gradient)
    p, totals = np.empty_like(logits[0, 0]), np.empty(logits.shape[3], logits.dtype)
    for t in range(len(means)):
        if not take(rows, t):
            return False
        first[:], second[:] = 0.0, 0.0
        w, z = prototypes[t], logits[t]
        for l in range(len(w)):
            mixtures(means[t], here[: means.shape[2]], w[l])
        for step in range(options.steps):
            tim_logits(here, options, w, z)
            for l in range(len(w)):
                softmax(z[l], p, totals)
                _by_logits(z[l], p, targets[t, l], weight[t, l], options, len(here))
            _by_prototypes(here, options, w, z, gradient)
            _adam(
                step + 1, options.rate, w.ravel(), gradient.ravel(), first.ravel(), second.ravel()
            )
        tim_logits(here, options, w, z)
    return True


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def _by_logits(logits, p, targets, weight, options, n):
    """Replace shifted logits by the derivative of the objective, given p.

    Of a query it is p (slope − Σ p slope) / Q with slope = log(mean p) − α log p, in which what all
    classes of a query share cancels.
    """
    (n_classes, columns), shots = logits.shape, targets.shape[1]
    kind = logits.dtype.type
    alpha, each = vfill(p, kind(-options.alpha)), vfill(p, kind(1.0 / (n - shots)))
    log_means = np.empty(n_classes, logits.dtype)
    for k in range(n_classes):
        total = kind(0)
        for q in range(shots, n):
            total += p[k, q]
        log_means[k] = np.log(total / kind(n - shots))
    for q in range(0, columns, lanes_in(p)):
        mean = vfill(p, 0.0)
        for k in range(n_classes):
            at = k * columns + q
            slope = vfma(alpha, vload(logits, at), vfill(p, log_means[k]))
            vstore(logits, at, slope)
            mean = vfma(vload(p, at), slope, mean)
        for k in range(n_classes):
            at = k * columns + q
            slope = vsub(vload(logits, at), mean)
            vstore(logits, at, vmul(vmul(each, vload(p, at)), slope))
    for k in range(n_classes):
        for i in range(shots):
            logits[k, i] = kind(options.ce / shots) * (weight * p[k, i] - targets[k, i])


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def _by_prototypes(rows, options, w, by_logits, gradient):
    """Write the derivative by the prototypes, given that by the logits."""
    many, n_classes, d = w.shape
    flat = by_logits.reshape(many * n_classes, by_logits.shape[2])
    kind = rows.dtype.type
    mixtures(flat, rows, gradient.reshape(-1, d))
    for l in range(many):
        for k in range(n_classes):
            here, found = w[l, k], gradient[l, k]
            if options.cosine:
                along, size = kind(0), square(here)
                for j in range(d):
                    along += found[j] * here[j]
                pull, scale = along / size, options.temperature / np.sqrt(size)
            else:
                pull, scale = kind(0), options.temperature
                for i in range(len(rows)):
                    pull += by_logits[l, k, i]
            add_row(found, here, -pull)
            found *= kind(scale)


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def _adam(step, rate, w, gradient, first, second):
    """Take a step of Adam with its usual settings."""
    kind = w.dtype.type
    unbiased = np.sqrt(1 - 0.999**step)
    least, length = kind(1e-8 * unbiased), kind(rate * unbiased / (1 - 0.9**step))
    for j in range(w.size):
        first[j] += kind(0.1) * (gradient[j] - first[j])
        second[j] += kind(0.001) * (gradient[j] * gradient[j] - second[j])
        w[j] -= length * first[j] / (np.sqrt(second[j]) + least)


@kernel
def alternate(rows, means, targets, weight, options, prototypes, logits):
    """Take alternating steps in closed form until prototypes stand still, and write the logits.

    Arguments are those of `descend`. Prototypes stay combinations c X of the rows. Products c X X'
    come from the Gram matrix where rows are less than twice the features.
    """
    here, (many, n_classes), columns = rows.here, targets.shape[1:3], logits.shape[3]
    n, d = here.shape
    room = np.zeros((4, many, n_classes, columns), here.dtype)
    c, pulled, found, z = room[0], room[1], room[2], room[3]
    p, totals = np.empty_like(z[0]), np.empty(columns, here.dtype)
    products = np.zeros((n, columns if n < 2 * d else 0), here.dtype)
    for t in range(len(means)):
        if not take(rows, t):
            return False
        if products.size:
            gram(here, products)
        for l in range(many):
            c[l] = 0.0
            c[l, :, : means.shape[2]] = means[t]
        combine(c, here, products, prototypes[t], found)
        for _ in range(options.steps):
            for l in range(many):
                _by_turns(c[l], found[l], z[l], p, totals, targets[t, l], weight[t, l], options, n)
            pulled, z = z, pulled
            combine(pulled, here, products, prototypes[t], z)
            moved = np.abs(z - found).max()
            c, pulled = pulled, c
            found, z = z, found
            if moved < options.close:
                break
        mixtures(c.reshape(-1, columns), here, prototypes[t].reshape(-1, d))
        tim_logits(here, options, prototypes[t], logits[t])
    return True


@kernel
def combine(c, rows, products, prototypes, found):
    """Write c X X' (L, K, columns) of one trial."""
    columns, d = c.shape[2], rows.shape[1]
    flat, out = c.reshape(-1, columns), found.reshape(-1, columns)
    if products.size:
        mixtures(flat, products, out)
    else:
        mixtures(flat, rows, prototypes.reshape(-1, d))
        dots(prototypes.reshape(-1, d), rows, 0, len(rows), out)


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def _by_turns(c, products, out, p, totals, targets, weight, options, n):
    """Write the combinations (K, columns) after one step, given c and c X X'.

    Queries get the assignments that maximise the information: p^(1 + α), divided by the root of its
    sum over queries, then by that over classes.
    """
    (n_classes, columns), shots = c.shape, targets.shape[1]
    kind = c.dtype.type
    for k in range(n_classes):
        size = kind(0)
        for i in range(n):
            size += c[k, i] * products[k, i]
        out[k] = products[k]
        by_distance(out[k], options.temperature, size)
    softmax(out, p, totals)
    for q in range(columns):
        totals[q] = np.log(totals[q])
    power, share = vfill(p, kind(1 + options.alpha)), kind(options.ce / (1 + options.alpha))
    per_query = kind(shots / (n - shots))
    for k in range(n_classes):
        for q in range(0, columns, lanes_in(p)):
            at = k * columns + q
            vstore(out, at, vexp(vmul(power, vsub(vload(out, at), vload(totals, q)))))
        size = kind(0)
        for q in range(shots, n):
            size += out[k, q]
        out[k] *= kind(1) / np.sqrt(size)
    for q in range(shots, n):
        size = kind(0)
        for k in range(n_classes):
            size += out[k, q]
        for k in range(n_classes):
            out[k, q] *= per_query / size
    for k in range(n_classes):
        wanted, held = kind(0), kind(0)
        for i in range(n):
            if i < shots:
                out[k, i] = share * targets[k, i]
            wanted += out[k, i]
            p[k, i] *= share * weight if i < shots else per_query
            held += p[k, i]
        for i in range(n):
            out[k, i] = (out[k, i] - p[k, i] + held * c[k, i]) / wanted
        out[k, n:] = 0.0
