"""Pictures of profile likelihoods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.files import replacing
from firthshot.jeffreys._profile import chi2_quantile
from firthshot.jeffreys._separation import INTERCEPT

if TYPE_CHECKING:
    from pathlib import Path

    from firthshot.jeffreys._profile import Profile
    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

_MOST_PANELS = 24


def plot_profile(profile: Profile, ax: Any = None, label: str | None = None) -> Any:
    """Draw a profile, the parabola of the Wald approximation, and the interval.

    Parameters
    ----------
    profile : Profile
    ax : matplotlib axes, default=None
        New ones if None.
    label : str, default=None
        What to call the coefficient; its name if None.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    drop = 0.5 * chi2_quantile(profile.level)
    wald = -0.5 * ((profile.values - profile.estimate) / profile.standard_error) ** 2
    ax.plot(profile.values, wald, color="0.65", ls="--", lw=1.2, label="Wald approximation")
    ax.plot(profile.values, profile.loglik - profile.maximum, color="C0", lw=2, label="profile")
    ax.axhline(-drop, color="C3", lw=1, label=f"{100 * profile.level:g}% level")
    for bound in np.array(profile.interval)[np.isfinite(profile.interval)]:
        ax.plot([bound, bound], [-drop, -2.6 * drop], color="C3", lw=1, ls=":")
        ax.text(bound, -2.65 * drop, f"{bound:.3g}", ha="center", va="top", fontsize=9)
    ax.plot([profile.estimate], [0.0], "o", color="C0")
    ax.set_ylim(-3.0 * drop, 0.35 * drop)
    ax.set_xlim(profile.values[0], profile.values[-1])
    ax.set_xlabel(f"coefficient of {label or profile.name}")
    ax.set_ylabel("profile minus maximum")
    middle = float(np.mean(profile.interval))
    middle = middle if np.isfinite(middle) else profile.estimate
    inside = (middle - profile.values[0]) / np.ptp(profile.values)
    ax.legend(frameon=False, fontsize=9, loc="center", bbox_to_anchor=(inside, 0.33))
    return ax


def save_profiles(path: Path, model: JeffreysLogisticRegression, level: float = 0.95) -> None:
    """Draw the profile of every slope that the data determine, in one figure."""
    estimable = np.isfinite(model.bse())
    names = [
        name
        for name, determined in zip(model.parameter_names_, estimable, strict=True)
        if determined and not name.endswith(INTERCEPT)
    ]
    if not names or len(names) > _MOST_PANELS:
        raise FirthshotError(
            f"There are {len(names)} profiles to draw: draw one by one with plot_profile."
        )
    from matplotlib.figure import Figure

    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.4 * rows), layout="constrained")
    for k, name in enumerate(names):
        ax = figure.add_subplot(rows, columns, k + 1)
        model.plot_profile(name, level, ax)
        if k and (legend := ax.get_legend()) is not None:
            legend.remove()
        if k % columns:
            ax.set_ylabel("")
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix.lower().removeprefix(".") or "png")
