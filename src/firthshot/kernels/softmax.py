"""Gradients of the loss with respect to logits, for a batch and all coefficients at once.

Two layouts of a batch of r rows, C classes and L coefficients:

* *row* layout, (r, C·L) with column c·L + l: what a product with the dual variables gives;
* *class* layout, (C, r·L) with column i·L + l: every lane is one softmax problem (row i,
  coefficient l), so that maxima and sums over classes run down the rows with no shuffling.

Chunks of L elements are moved as whole vectors: what a vector writes past its chunk belongs to the
next chunk, which is written later. Rows of both layouts therefore end in one vector of padding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from firthshot.kernels import kernel
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


class LossForm(NamedTuple):
    """The gradient of the loss by the logits, in the one form of all the penalties here.

    It is

        probability_l p_c − target_lc − label_l [c = y_i] + confidence_l p_c (log p_c − Σ p log p)

    with probability = 1 + λ, target = λ u_c for Firth with prior u (Eq. klobj); label = 1 − ε,
    target = ε u_c for label smoothing; confidence = λ for KL(p‖U). What has r·L columns is tiled
    over the rows of a batch, and padded.
    """

    probability: Any  # (r·L + padding,)
    target: Any  # (C, r·L + padding)
    label: Any  # (L,)
    confidence: Any  # (r·L + padding,)
    scratch: Any  # like target where any confidence is not zero, else of size 0


@kernel(allocates=False)
def to_class_layout(values, n_rows, n_coefficients, classes):
    """Copy ``values`` in row layout, (r, C·L + padding), to ``classes``, (C, r·L + padding)."""
    lanes, wide, tall = lanes_in(values), values.shape[1], classes.shape[1]
    for c in range(classes.shape[0]):
        for i in range(n_rows):
            for l in range(0, n_coefficients, lanes):
                value = vload(values, i * wide + c * n_coefficients + l)
                vstore(classes, c * tall + i * n_coefficients + l, value)


@kernel(allocates=False)
def to_row_layout(classes, n_rows, n_coefficients, scale, values):
    """Copy ``scale`` times ``classes`` back to ``values``."""
    lanes, wide, tall = lanes_in(values), values.shape[1], classes.shape[1]
    factor = vfill(values, scale)
    for i in range(n_rows):
        for c in range(classes.shape[0]):
            for l in range(0, n_coefficients, lanes):
                value = vload(classes, c * tall + i * n_coefficients + l)
                vstore(values, i * wide + c * n_coefficients + l, vmul(factor, value))


@kernel(allocates=False)
def logit_gradient(logits, labels, rows, n_coefficients, form):
    """Replace logits in class layout by dLoss/dlogits of every softmax problem.

    Parameters
    ----------
    logits : (C, r·L + padding), overwritten
    labels : (N,) class of each support row; rows : (r,), those of the batch
    form : LossForm
    """
    probability, target, label, confidence, scratch = form
    lanes, tall, n_classes = lanes_in(logits), logits.shape[1], logits.shape[0]
    for q in range(0, rows.size * n_coefficients, lanes):
        top = vload(logits, q)
        for c in range(1, n_classes):
            top = vmax(vload(logits, c * tall + q), top)
        total = vfill(logits, 0.0)
        for c in range(n_classes):
            value = vexp(vsub(vload(logits, c * tall + q), top))
            if scratch.size:
                vstore(scratch, c * tall + q, vsub(vload(logits, c * tall + q), top))
            vstore(logits, c * tall + q, value)
            total = vadd(total, value)
        scale = vdiv(vload(probability, q), total)
        if scratch.size:
            _add_confidence(logits, scratch, q, total, confidence, scale, target)
        else:
            for c in range(n_classes):
                at = c * tall + q
                vstore(logits, at, vsub(vmul(scale, vload(logits, at)), vload(target, at)))
    for i in range(rows.size):
        for l in range(n_coefficients):
            logits[labels[rows[i]], i * n_coefficients + l] -= label[l]


@kernel(allocates=False)
def _add_confidence(weights, shifted, q, total, confidence, scale, target):
    """Finish the gradient with p_c (log p_c − Σ p log p), in which log Σ exp cancels."""
    tall, n_classes = weights.shape[1], weights.shape[0]
    mean = vfill(weights, 0.0)
    for c in range(n_classes):
        mean = vfma(vload(weights, c * tall + q), vload(shifted, c * tall + q), mean)
    mean = vdiv(mean, total)
    pull = vdiv(vload(confidence, q), total)
    for c in range(n_classes):
        at = c * tall + q
        weight = vload(weights, at)
        value = vsub(vmul(scale, weight), vload(target, at))
        vstore(weights, at, vfma(vmul(pull, weight), vsub(vload(shifted, at), mean), value))
