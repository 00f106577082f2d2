"""Whether SGD has come anywhere: its own objective says so, without a query.

A head whose weights are all zero has the mean loss log K per unit of the targets' weight. Training
that ends above it has gone astray, or has hardly begun. By theory it goes astray where the step is
too long: heavy ball contracts a direction of curvature h only while rate · h < 2 (1 + momentum),
and the penalised loss has up to h = (1 + λ)/2 times the largest eigenvalue of the rows' second
moments. A batch of few rows can be twice as steep as all rows together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.results import Status

if TYPE_CHECKING:
    from firthshot.engine.options import Sgd
    from firthshot.objective import PenaltyTables

_FAR = 2.0  # times the loss of the zero head: no start is that bad
_LONG = 0.5  # of the longest step that is stable on all rows


def ended(
    logits: Array, labels: Array, form: PenaltyTables, sgd: Sgd, gram: Array | None = None
) -> Array:
    """Return the status (L,) of training that ended with these logits of the support rows.

    Parameters
    ----------
    logits : (N, C · L), each class for all coefficients
    gram : (N, N), where the head is linear in the rows and has an intercept
        Products of the support rows, from which the longest stable step follows.
    """
    loss = _mean_loss(logits.reshape(len(labels), *form.target.shape), labels, form)
    worse = loss > np.log(form.target.shape[0])
    unstable = loss > _FAR * np.log(form.target.shape[0])
    if gram is not None and worse.any():
        unstable |= worse & _too_long(form, sgd, gram)
    return np.where(unstable, Status.UNSTABLE, Status.OK)


def _mean_loss(z: Array, labels: Array, form: PenaltyTables) -> Array:
    """Return −Σ T log p over the weight of the targets T, the mean over the rows (L,)."""
    z = z.astype(np.float64)
    top = z.max(1)
    log_sum = top + np.log(np.exp(z - top[:, None]).sum(1))
    hard = np.take_along_axis(z, labels[:, None, None], 1)[:, 0]
    soft = np.einsum("ncl,cl->nl", z, form.target)
    return np.asarray((log_sum - (soft + form.label * hard) / form.probability).mean(0))


def _too_long(form: PenaltyTables, sgd: Sgd, gram: Array) -> Array:
    """Return whether SGD may swing ever wider along the steepest direction of the loss."""
    moments = float(np.linalg.eigvalsh(gram.astype(np.float64) + 1.0)[-1]) / len(gram)
    curvature = form.probability / 2 * moments
    rate = sgd.learning_rate * (1 - sgd.dampening)
    return np.asarray(rate * curvature > _LONG * 2 * (1 + sgd.momentum))
