"""The bias of exact Firth: theory, a small simulation, and a page that is that of its CSV."""

import numpy as np
import polars as pl
import pytest

from studies.jeffreys_bias import page
from studies.jeffreys_bias.simulation import (
    Truth,
    first_order_bias,
    mean_with_controls,
    simulate,
    truths,
)


def test_first_order_bias_of_one_proportion_is_the_textbook_one():
    """The log odds of a proportion p has bias (2p - 1) / (2 p (1 - p)) / N."""
    p = 0.8
    alone = Truth("", np.ones((1, 1)), np.array([[np.log(p / (1 - p))]]), (0, 0))
    assert first_order_bias(alone) == pytest.approx([(2 * p - 1) / (2 * p * (1 - p))], rel=1e-4)


def test_controls_take_away_what_they_explain():
    rng = np.random.default_rng(0)
    control = rng.normal(size=(4000, 1))
    noise = 0.1 * rng.normal(size=(4000, 1))
    mean, half = mean_with_controls(2.0 + 3.0 * control + noise, control)
    assert mean == pytest.approx([2.0], abs=0.01)
    assert half == pytest.approx([1.96 * 0.1 / np.sqrt(4000)], rel=0.1)


def test_firth_takes_away_the_leading_bias():
    rows = pl.DataFrame(simulate(truths()[0], 128, 2000, np.random.default_rng(1)))
    slope = {row["estimator"]: row for row in rows.filter(coefficient="x1").iter_rows(named=True)}
    assert slope["ML"]["N_bias"] > 4
    assert abs(slope["Firth"]["N_bias"]) < 1
    assert slope["ridge"]["N_bias"] < -3


def test_the_page_has_the_table_that_the_csv_file_makes():
    results = pl.read_csv(page.FOLDER / "results.csv")
    text = (page.FOLDER / "README.md").read_text("utf-8")
    assert "\n".join(page.bias_table(results)) in text
