"""Tables of a summary in other formats; made by hand, so that no fit is needed."""

from __future__ import annotations

import numpy as np

from firthshot.jeffreys._summary import Row, Summary


def summary(contrasts=1):
    header = {"contrasts": contrasts, "level": 0.95, "kind": "Binary", "method": "m", "tau": 0.0,
              "rows": 9, "classes": {"a<b": 4.0, "c": 5.0}, "reference": "a<b", "weights": None,
              "offset": None, "correction": "none", "loglik": -1.0, "reason": "converged",
              "overall_df": 0, "overall_chi2": np.nan, "overall_p_value": np.nan,
              "overall_test": "Wald"}  # fmt: skip
    row = Row("c", "x_1|50%", -1.25, 0.5, -np.inf, np.nan, 6.25, 0.0124)
    return Summary(header, (row,), ("A <note>.",))


def test_markdown():
    assert summary().to_markdown() == (
        "|  | estimate | SE | 2.5% | 97.5% | χ² | p |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| x_1\\|50% | -1.2500 | 0.5000 | -∞ | – | 6.2500 | 0.0124 |\n"
    )
    assert "| c | x_1" in summary(2).to_markdown()


def test_latex():
    lines = summary().to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrr}"
    assert lines[2] == r" & estimate & SE & 2.5\% & 97.5\% & $\chi^2$ & p \\"
    assert lines[4] == (
        r"x\_1\textbar{}50\% & $-$1.2500 & 0.5000 & $-$$\infty$ & -- & 6.2500 & 0.0124 \\"
    )
    assert summary(2).to_latex().startswith(r"\begin{tabular}{llrrrrrr}")


def test_html_is_escaped_and_has_the_notes():
    page = summary()._repr_html_()
    assert "reference a&lt;b" in page
    assert "<p>A &lt;note&gt;.</p>" in page
    assert page.count("<tr>") == 2


def test_frame_has_all_digits():
    frame = summary().to_frame()
    assert frame.loc[0, ["term", "estimate", "p_value"]].tolist() == ["x_1|50%", -1.25, 0.0124]
