"""scipy's signed-rank test by the normal approximation."""

from scipy import stats


def normal_wilcoxon(differences, **options):
    """Return the p-value of Pratt's test; scipy before 1.15 calls the approximation otherwise."""
    options |= {"zero_method": "pratt"}
    try:
        return stats.wilcoxon(differences, method="asymptotic", **options).pvalue
    except ValueError:
        return stats.wilcoxon(differences, method="approx", **options).pvalue
