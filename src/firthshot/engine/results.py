"""What training gives back, one row per trial and one column per coefficient."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from firthshot.arrays import Array

RELIABILITY_BINS = 15


class Status(IntEnum):
    """How the training of one trial and coefficient ended."""

    OK = 0
    DIVERGED = 1  # parameters or logits ceased to be finite
    NOT_CONVERGED = 2  # the iteration limit came first
    NO_OPTIMUM = 3  # separable data without any penalty: the weights would grow without end
    INVALID = 4  # the trial's input was refused; see Results.notes
    UNSTABLE = 5  # the steps were too long: the objective ended above that of zero weights


_SENTENCES = {
    Status.DIVERGED: "diverged: its weights are no longer finite; lower the learning rate",
    Status.UNSTABLE: "is unstable: its loss ended above that of zero weights; lower the learning "
    "rate, or use the converged solver",
    Status.NOT_CONVERGED: "had not converged at the iteration limit; raise max_iterations",
    Status.NO_OPTIMUM: "has no optimum: its support is separable, nothing is penalised; add an l2",
}


@dataclass(frozen=True)
class Results:
    """Scores on the query sets.

    Attributes
    ----------
    trials : (T,) trial numbers
    coefficients : (L,)
    accuracy, nll, brier, ece, norm : (T, L), NaN where there is nothing to score
        Negative log-likelihood is a mean in nats, ECE has 15 equal-width bins, ``norm`` is the sum
        of squares of all parameters.
    status : (T, L) codes of :class:`Status`
    bins : (T, L, 15, 3) count, sum of confidence and number correct per reliability bin
    notes : trial number → why its input was refused
    kept : what ``keep`` asked for ("predictions", "probabilities", "weights"), lists over trials
    earlier : results after earlier passes, by number of passes (``Sgd.score_after``)
    """

    trials: Array
    coefficients: Array
    accuracy: Array
    nll: Array
    brier: Array
    ece: Array
    norm: Array
    status: Array
    bins: Array
    notes: dict[int, str] = field(default_factory=dict)
    kept: dict[str, list[Any]] = field(default_factory=dict)
    earlier: dict[int, Results] = field(default_factory=dict)

    @classmethod
    def empty(
        cls, trials: Array, coefficients: tuple[float, ...], keep: tuple[str, ...] = ()
    ) -> Results:
        """Make results in which every trial is still to be filled in."""
        shape = (len(trials), len(coefficients))
        accuracy, nll, brier, ece, norm = (np.full(shape, np.nan) for _ in range(5))
        return cls(
            np.asarray(trials),
            np.array(coefficients),
            accuracy,
            nll,
            brier,
            ece,
            norm,
            status=np.full(shape, Status.INVALID, np.int8),
            bins=np.zeros((*shape, RELIABILITY_BINS, 3)),
            kept={name: [None] * len(trials) for name in keep},
        )

    def problems(self) -> list[str]:
        """Return one sentence for every trial and coefficient that did not end well."""
        sentences = [f"Trial {trial}: {why}" for trial, why in self.notes.items()]
        for t, l in np.argwhere((self.status != Status.OK) & (self.status != Status.INVALID)):
            what = _SENTENCES[Status(self.status[t, l])]
            sentences.append(
                f"Trial {self.trials[t]} with coefficient {self.coefficients[l]:g} {what}."
            )
        return sentences
