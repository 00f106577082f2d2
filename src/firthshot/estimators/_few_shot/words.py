"""What was settled, as records and in plain words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array

COLUMNS = {
    "unit": "Rows are brought to length 1",
    "scaled": "Columns are divided by their spread",
    "plain": "Rows stay as they are",
}
OTHERWISE = {"unit": "unit rows", "scaled": "scaled columns"}
NAMES = {
    "firth": "Firth logistic regression",
    "gaussian": "Gaussian",
    "means": "class means",
    "neighbours": "neighbours",
}
NOTICEABLE = 0.005  # of a weight: less is not worth a word
SMALL_GAIN, SMALL_LOSS = 0.001, 0.005  # differences in accuracy and log-loss of no use


@dataclass(frozen=True)
class Choice:
    """What `FewShotClassifier` settled from its rows.

    Attributes
    ----------
    columns : "unit", "scaled" or "plain": the one of most weight
    weights : of all that were tried, by name; what they lack to 1 is for all classes alike
    shares : of each head in the blend with these columns, by name; they sum to 1
    sharpness : factor on that blend's logits
    lam, l2 : of the Firth head with these columns
    left_out : rows that were left out to settle all this; 0 if the rules did alone
    """

    columns: str
    weights: dict[str, float]
    shares: dict[str, float]
    sharpness: float
    lam: float
    l2: float
    left_out: int


@dataclass(frozen=True)
class FirthEffect:
    """What Firth bias reduction adds on the rows of a fit, from rows that were left out.

    Attributes
    ----------
    lam : the λ of the fit
    rows : how many rows were left out; 0 if none could be, and the scores are NaN
    accuracy, log_loss : of the Firth head with λ, calibrated
    accuracy_without, log_loss_without : the same with λ = 0
    accuracy_ci, log_loss_ci : half-widths of the 95 % intervals of the two differences
    """

    lam: float
    rows: int
    accuracy: float
    accuracy_without: float
    accuracy_ci: float
    log_loss: float
    log_loss_without: float
    log_loss_ci: float

    def __str__(self) -> str:
        if not self.rows:
            return "What Firth adds cannot be said: no row can be left out."
        scores = (
            f"left-out accuracy {100 * self.accuracy:.1f} % with it and "
            f"{100 * self.accuracy_without:.1f} % without, log-loss {self.log_loss:.3f} and "
            f"{self.log_loss_without:.3f}"
        )
        return f"Firth (λ = {self.lam:.3g}) {self._verdict()}: {scores}."

    def _verdict(self) -> str:
        points = self.accuracy - self.accuracy_without
        nats = self.log_loss_without - self.log_loss
        if abs(points) < SMALL_GAIN and abs(nats) < SMALL_LOSS:
            return "adds nothing here"
        certain = ((points, self.accuracy_ci), (nats, self.log_loss_ci))
        gains = {gain > 0 for gain, ci in certain if abs(gain) > ci}
        if not gains:
            return f"cannot be told from nothing with {self.rows} left-out rows"
        if len(gains) == 2:
            return "helps in one score and costs in the other"
        return "helps here" if gains == {True} else "costs here"


def explain(
    choice: Choice, asked: str, n_columns: int, shots: Array, prior: Array, effect: FirthEffect
) -> str:
    """Return five lines: the rows, the columns, the blend, the classes, and Firth."""
    return "\n".join(
        [
            f"{_number(shots.sum())} rows of {len(shots)} classes, {_range(shots)} each.",
            f"{COLUMNS[choice.columns]}, {_why(choice, asked, n_columns)}.",
            _blend(choice),
            _classes(shots, prior),
            str(effect),
        ]
    )


def _why(choice: Choice, asked: str, n_columns: int) -> str:
    if asked != "auto":
        return "as you asked"
    if len(choice.weights) > 1:
        other, weight = min(choice.weights.items(), key=lambda one: one[1])
        by = "by left-out rows" if choice.left_out else "by the rule for tables"
        rest = f"; {OTHERWISE[other]} count for {100 * weight:.0f} %"
        return by + (rest if weight >= NOTICEABLE else "")
    if choice.columns == "unit":
        return f"because {n_columns} columns look like an embedding"
    return "because the columns vary on very different scales"


def _blend(choice: Choice) -> str:
    order = sorted(choice.shares, key=lambda name: -choice.shares[name])
    parts = ", ".join(f"{NAMES[name]} {100 * choice.shares[name]:.0f} %" for name in order)
    by = f"{choice.left_out} left-out rows and rules" if choice.left_out else "rules alone"
    return f"The blend is {parts}, set by {by}."


def _classes(shots: Array, prior: Array) -> str:
    if np.ptp(prior) < 1e-12:
        words = "All classes are taken to be equally frequent among new rows"
        if np.ptp(shots):
            return f"{words}; set class_prior if they are not."
        return f"{words}."
    low, high = 100 * prior.min(), 100 * prior.max()
    return f"Classes are taken to make up {low:.1f} to {high:.1f} % each of new rows."


def _range(shots: Array) -> str:
    low, high = _number(shots.min()), _number(shots.max())
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.1f}"
