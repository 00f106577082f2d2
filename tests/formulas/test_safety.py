"""A formula evaluates what is listed and nothing else, whoever wrote it or named the columns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from firthshot import regress
from firthshot.errors import FirthshotError
from firthshot.formulas._language import ELEMENTWISE
from firthshot.formulas._model_data import make_model_data, new_rows

pytest.importorskip("formulaic")
from formula_mutations import GOOD, TABLE

HERE = Path(__file__).parent
REFUSED = [
    ("y ~ I(open('owned','w').write('x'))", "the attribute \"open('owned', 'w').write\""),
    ("y ~ {open('owned', 'w')}", "calls 'open', which is no function here"),
    ("y ~ ns(x, df=3)", "write cr(x, df=3, constraints='center') for a natural"),
    ("y ~ rcs(x, 4)", "or bs(x, df=4) for a B-spline; knots=[…] sets the knots"),
    ("y ~ eval('1')", "calls 'eval'"),
    ("y ~ offset(exec('1'))", "calls 'exec'"),
    ("cbind(__import__('os').getpid(), n) ~ x", "the attribute \"__import__('os').getpid\""),
    ("cbind(r, n, x=open('owned', 'w')) ~ x", "is no expression that can be read"),
    ("y ~ x.to_csv('owned')", "calls 'x.to_csv'"),
    ("y ~ np.savetxt('owned', x)", "calls 'np.savetxt'"),
    ("y ~ I([c for c in ().__class__.__base__.__subclasses__()])", "the comprehension '[c for"),
    ("y ~ I((lambda: 1)())", "the function definition 'lambda: 1'"),
    ("y ~ I(f'{x}')", "the formatted text"),
    ("y ~ I((z := x))", "the assignment '(z := x)'"),
    ("y ~ I(x[0])", "the subscript 'x[0]'"),
    ("y ~ I(9**9**9)", "'9 ** 9 ** 9', which is a power above 100"),
    ("y ~ I('x' * 10**9)", "the constant \"'x'\""),
    ("y ~ I(g * n)", "no column of numbers"),
    ("y ~ I(1e999)", "the constant"),
    ("y ~ np", "no column 'np'"),
    ("y ~ log", "no column 'log'"),
    ("y ~ I(open)", "no column 'open'"),
    ("y ~ `__builtins__`", "no column '__builtins__'"),
    ("y ~ log(x, out=n)", "gives log the unknown argument 'out'"),
    ("y ~ log(x, n)", "gives log too many arguments"),
    ("y ~ scale(x, _state=n)", "the unknown argument '_state'"),
    ("y ~ bs(x, df=4, df=5)", "gives bs too many arguments"),
    ("y ~ poly(x, 10**9)", "'10 ** 9', which is no plain value"),
    ("y ~ poly(x, 1000000)", "asks for degree above 100"),
    ("y ~ C(g, open)", "'open', which is no contrast: there are Treatment"),
    ("y ~ C(g, Treatment(open('owned')))", "is no plain value"),
    ("y ~ log(petal.length)", "has the column 'petal.length': write it as `petal.length`."),
    ("y ~ I(x if n else r)", "'x if n else r', which is not allowed in a formula: use columns"),
    ("y ~ I(`lambda`: 1)", "is no expression that can be read"),
    ("y ~ I(" + "-" * 150 + "x)", "nests more than 100 operations"),
    ("y ~ (x + n)**999999999", "the power 999999999 of terms, above 10"),
    ("y ~ (x + n + g + r)**9", "more than 10000 terms"),
    ("y ~ " + "*".join(f"x{k}" for k in range(30)), "more than 10000 terms"),
    ("y ~ x:n:r:g:`the age`:petal.length:I(x)", "multiplies 7 columns, more than 6"),
    ("y ~ " + "+".join(["x"] * 10_001), "characters, more than 20000"),
]


@pytest.mark.parametrize(("formula", "message"), REFUSED, ids=[f[:40] for f, _ in REFUSED])
def test_what_is_not_listed_is_refused_by_name(formula, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FirthshotError) as caught:
        make_model_data(TABLE, formula)
    assert message in str(caught.value)
    assert str(caught.value).endswith((".", "?"))
    assert not list(tmp_path.iterdir())


def by_python(spec, rows):
    """Return the design of formulaic's own terms, or memory of them, evaluated by Python."""
    from formulaic import model_matrix
    from formulaic.transforms import TRANSFORMS

    names = {name: getattr(np, name) for name in ELEMENTWISE}
    names |= {"offset": lambda values: values, "factor": TRANSFORMS["C"]}
    return model_matrix(spec, rows, context=names)


def parts(matrix):
    """Return formulaic's columns and the sum of its offsets, without the intercept."""
    shifts = [name for name in matrix.columns if name in ("offset(log(n))",)]
    return matrix.drop(columns=["Intercept", *shifts], errors="ignore"), matrix[shifts]


@pytest.mark.parametrize("formula", GOOD)
def test_what_is_listed_has_the_values_that_formulaic_gives(formula):
    """formulaic's own evaluation by Python is the reference, of the fit and of new rows."""
    terms = formula.partition("~")[2]
    table = pd.DataFrame(TABLE).drop(columns="y")
    ours, theirs = make_model_data(TABLE, formula), by_python(terms, table)
    rows = table.iloc[1:4].reset_index(drop=True)
    pairs = [((ours.frame, ours.offset), theirs)]
    pairs.append((new_rows(ours, rows), by_python(theirs.model_spec, rows)))
    for (design, shift), reference in pairs:
        columns, shifts = parts(reference)
        times = len(design) // len(columns)  # cbind has each row twice
        np.testing.assert_allclose(design, np.tile(columns, (times, 1)).astype(float), rtol=1e-14)
        assert ours.intercept == ("Intercept" in reference)
        assert (shift is None) == (not len(shifts.columns))
        if shift is not None:
            np.testing.assert_allclose(shift, shifts.sum(axis=1), rtol=1e-14)


def test_the_name_of_a_column_is_never_read_as_a_formula(tmp_path, monkeypatch):
    """A term that fails is looked for one by one: names with backticks must stay names."""
    monkeypatch.chdir(tmp_path)
    hostile = "a` + I(open('owned', 'w')) + `b"
    table = {"y": [0, 1, 0, 1], hostile: [1.0, 2.0, 4.0, 3.0], "g": list("abab")}
    assert list(make_model_data(table, "y ~ .").frame.columns) == [hostile, "g[b]"]
    with pytest.raises(FirthshotError, match=r"'log\(g\)' is no column of numbers"):
        make_model_data(table, "y ~ . + log(g)")
    assert not list(tmp_path.iterdir())


def test_a_column_called_offset_is_a_column():
    table = {"y": [0, 1, 0, 1], "offset(x)": [1.0, 2.0, 4.0, 3.0]}
    made = make_model_data(table, "y ~ .")
    assert list(made.frame.columns) == ["offset(x)"]
    assert made.offset is None


def test_levels_beyond_memory_are_refused():
    many = {"y": [0, 1] * 20_000, "g": [f"g{k}" for k in range(40_000)]}
    with pytest.raises(FirthshotError, match="40001 columns of 40000 rows, more than fit"):
        make_model_data(many, "y ~ g")


def test_python_must_be_allowed_by_name():
    formula = "y ~ x.clip(1, 2)"
    with pytest.raises(FirthshotError, match=r"calls 'x\.clip'"):
        regress(formula, TABLE)
    fit = regress(formula, TABLE, allow_python=True)
    np.testing.assert_array_equal(fit.design.iloc[:, 0], np.clip(TABLE["x"], 1, 2))
    assert fit.predict_proba({"x": [9.0]}) == pytest.approx(fit.predict_proba({"x": [2.0]}))
    logs = (regress("y ~ np.log(x)", TABLE, allow_python=allowed) for allowed in (False, True))
    np.testing.assert_allclose(*(fit.design for fit in logs))


def attacked(count, seed):
    """Attack in a process of its own: an audit hook cannot be removed."""
    code = f"import json, formula_mutations as f; print(json.dumps(f.attack({count}, {seed})))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, check=False, cwd=HERE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "count", [300, pytest.param(10_000, marks=pytest.mark.slow)]
)  # some 10 ms each
def test_mutated_formulas_run_nothing(count):
    outcomes = attacked(count, seed=7)
    assert sum(outcomes.values()) == count
    assert outcomes["accepted"] > count // 50  # the hook saw formulas that were evaluated too
    assert outcomes["refused"] > count // 2
