"""Pictures of profile likelihoods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import MissingExtraError
from firthshot.jeffreys._profile import chi2_quantile

if TYPE_CHECKING:
    from firthshot.jeffreys._profile import Profile


def plot_profile(profile: Profile, ax: Any = None) -> Any:
    """Draw a profile, the parabola of the Wald approximation, and the interval.

    Parameters
    ----------
    profile : Profile
    ax : matplotlib axes, default=None
        New ones if None.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("Drawing a profile", "plot") from None
    if ax is None:
        _, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    drop = 0.5 * chi2_quantile(profile.level)
    wald = -0.5 * ((profile.values - profile.estimate) / profile.standard_error) ** 2
    ax.plot(profile.values, wald, color="0.65", ls="--", lw=1.2, label="Wald approximation")
    ax.plot(profile.values, profile.loglik - profile.maximum, color="C0", lw=2, label="profile")
    ax.axhline(-drop, color="C3", lw=1, label=f"{100 * profile.level:g}% level")
    for bound in profile.interval:
        ax.plot([bound, bound], [-drop, -3.0 * drop], color="C3", lw=1, ls=":")
        ax.annotate(
            f"{bound:.3g}",
            (bound, -2.9 * drop),
            ha="center",
            va="bottom",
            backgroundcolor="white",
            fontsize=9,
        )
    ax.plot([profile.estimate], [0.0], "o", color="C0")
    ax.set_ylim(-3.0 * drop, 0.35 * drop)
    ax.set_xlim(profile.values[0], profile.values[-1])
    ax.set_xlabel(f"coefficient of {profile.name}")
    ax.set_ylabel("penalised log-likelihood below its maximum")
    ax.legend(frameon=False, loc="upper right" if _room_right(profile) else "upper left")
    return ax


def _room_right(profile: Profile) -> bool:
    middle = 0.5 * (profile.values[0] + profile.values[-1])
    return bool(profile.estimate < middle + 1e-9 * np.ptp(profile.values))
