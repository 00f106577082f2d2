"""Forest plots and profile plots say what the table says."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from golden_data import load

from firthshot.errors import FirthshotError
from firthshot.jeffreys import JeffreysLogisticRegression, regress

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def model():
    golden = load("binary_endometrial")
    return JeffreysLogisticRegression().fit(
        pd.DataFrame(golden.X, columns=golden.columns), golden.y
    )


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_the_forest_plot_shows_ratios_intervals_and_p_values(model):
    figure = model.plot()
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["NV", "PI", "EH"]
    assert texts(figure)[-2:] == ["odds ratio (95% CI)", "p"]
    assert texts(figure)[:2] == ["18.7 (1.84 to 2,578)", "0.009"]
    bars = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2]
    np.testing.assert_allclose(bars[:3], np.exp(model.conf_int()[1:]))
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "odds ratio (1 against 0), profile interval"


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_equal_fits_give_equal_files(model, tmp_path, ending):
    paths = [tmp_path / f"{k}.{ending}" for k in range(2)]
    for path in paths:
        model.plot(path, method="wald")
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_another_ending_is_refused(model, tmp_path):
    with pytest.raises(FirthshotError, match=r"or\.xyz is no figure: .* \.png, \.svg or \.pdf"):
        model.plot(tmp_path / "or.xyz", method="wald")
    assert not list(tmp_path.iterdir())


def test_contrasts_have_headings():
    golden = load("multinomial_hepatitis")
    fit = JeffreysLogisticRegression().fit(golden.X, golden.y, sample_weight=golden.weights)
    labels = fit.plot(method="wald").axes[0].get_yticklabels()
    assert [label.get_text() for label in labels if label.get_fontweight() == "bold"] == [
        "1 against 0",
        "2 against 0",
    ]


def test_bounds_that_are_far_away_have_arrows(model):
    golden = load("binary_endometrial")
    fit = JeffreysLogisticRegression().fit(golden.X * 1e-3, golden.y)
    assert {"<", ">"} <= {line.get_marker() for line in fit.plot(method="wald").axes[0].lines}
    assert not {"<", ">"} & {line.get_marker() for line in model.plot(method="wald").axes[0].lines}


def test_profiles_share_a_legend(model):
    figure = model.plot(kind="profiles")
    assert len(figure.axes) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "profile likelihood",
        "Wald approximation",
        "95% level",
    ]


def test_an_intercept_alone_has_nothing_to_draw():
    pytest.importorskip("formulaic")
    fit = regress("y ~ 1", {"y": [0, 1] * 3})
    for kind in ("forest", "profiles"):
        with pytest.raises(FirthshotError, match="There are 0"):
            fit.plot(kind=kind, method="wald")


def test_matplotlib_is_imported_by_plots_only():
    code = "import sys, firthshot.jeffreys; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
