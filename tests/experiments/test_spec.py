"""Specs: every problem named with its place; presets that say what the protocol says."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firthshot.experiments.spec.fields import (
    CalibrationSettings,
    ConvergedSettings,
    SgdSettings,
    Spec,
    to_toml,
)
from firthshot.experiments.spec.methods import spec_methods
from firthshot.experiments.spec.reading import (
    SpecError,
    build_spec,
    find_problems,
    load_spec,
    override,
    parse_assignment,
    preset_names,
    struct_problems,
)

F = (0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
L2 = (0, 1, 3, 10, 30, 100, 300, 1000)
SHOTS = (1, 5, 10, 15, 20, 25)
UNEQUAL = ("unbalanced-8", "unbalanced-15")
MANY = (5, 10, 15, 20, 50, 100, 150)
# protocol: head, grid, ways, shots, trials, passes, queries, fixed, first classes, shuffled
PROTOCOL: dict[str, tuple[Any, ...]] = {
    "logistic-firth": ("linear", F, (16,), SHOTS, 1000, 400, 60, True, True, True),
    "logistic-l2": ("linear", L2, (16,), SHOTS, 1000, 400, 60, True, True, True),
    "imbalanced": ("linear", F, (16,), UNEQUAL, 1000, 400, 60, True, False, False),
    "mlp-firth": ("mlp", F, (16,), SHOTS, 400, 100, 60, True, True, True),
    "mlp-l2": ("mlp", L2, (16,), SHOTS, 400, 100, 60, True, True, True),
    "imbalanced-mlp": ("mlp", F, (16,), UNEQUAL, 400, 100, 60, True, False, False),
    "ways-5-10": ("linear", F, (5, 10), SHOTS, 1000, 400, 15, False, False, False),
    "datasets-firth": ("linear", F, (16,), SHOTS, 1000, 400, 15, False, False, False),
    "datasets-l2": ("linear", L2, (16,), SHOTS, 1000, 400, 15, False, False, False),
    "simpleshot": ("linear", F, MANY, (1, 5, 10), 1000, 100, 15, False, False, False),
    "confidence": ("mlp", F, (16,), (5, 10, 15), 400, 100, 60, True, True, False),
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOCOL)
def test_presets_follow_the_protocol(name: str) -> None:
    spec = load_spec(name)
    method = next(spec_methods(spec, 5))
    sgd = method.solver_options
    stated = (
        method.head, method.coefficients, spec.ways, spec.shots, spec.trials, sgd["epochs"],
        spec.queries, spec.fixed_query, spec.first_classes, sgd["shuffle"],
    )  # fmt: skip
    assert stated == PROTOCOL[name]
    assert (sgd["learning_rate"], sgd["momentum"], sgd["batch_size"]) == (0.005, 0.9, 10)
    assert sgd["scale_partial"]
    assert (method.l2, method.l2_kind) == (0, "mean-square")
    assert set(spec.priors) == (
        {"uniform", "class-frequency"} if name.startswith("imbalanced") else {"uniform"}
    )
    assert spec.splits == ("val", "novel")


@pytest.mark.parametrize(("shots", "passes"), [(1, 301), (5, 101), (10, 101)])
def test_the_cosine_preset(shots: int, passes: int) -> None:
    spec = load_spec("cosine")
    method = next(spec_methods(spec, shots))
    assert method.coefficients == (0, 0.1, 0.3, 1, 3, 10, 30, 100)
    assert (method.l2, method.l2_kind) == (0.001, "weight-decay")
    assert method.solver_options == {
        "learning_rate": 0.01, "momentum": 0.9, "dampening": 0.9, "batch_size": 4,
        "epochs": passes, "shuffle": True, "scale_partial": False,
    }  # fmt: skip
    assert spec.trials == 10_000
    assert spec.ways == (5, 10, 15, 20, 50, 100, 150)
    assert spec.queries == "600 minus shots"


def test_all_presets_are_there() -> None:
    assert set(preset_names()) >= {*PROTOCOL, "cosine", "quickstart"}
    for name in preset_names():
        assert load_spec(name).name == name
        assert load_spec(name).question


def test_every_problem_is_listed_with_its_place() -> None:
    fields = {"name": "x", "shot": [1], "ways": [5, 1], "trials": "many"}
    found = find_problems({**fields, "sgd": {"epoch": 3, "momentum": 2}})
    assert [problem.place for problem in found] == [
        "shot", "ways[1]", "trials", "sgd.epoch", "sgd.momentum",
    ]  # fmt: skip
    assert "did you mean 'shots'?" in found[0].sentence
    assert "'int' >= 2" in found[1].sentence


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({"shots": ["unbalanced-9"]}, "shots[0]", "no scheme: use unbalanced-8"),
        ({"queries": "all"}, "queries", "use a number, 'rest'"),
        ({"fixed_query": True}, "fixed_query", "needs a number of queries"),
        ({"coefficients": [1, 2]}, "coefficients", "lacks 0"),
        ({"coefficients": [0, 2, 1]}, "coefficients[2]", "sort the grid"),
        ({"coefficients": [0, 1, 1]}, "coefficients[2]", "listed twice"),
        ({"smoothing": [0, 1]}, "smoothing[1]", "< 1"),
        ({"heads": ["cosine"], "solver": "converged"}, "cosine", "no solver 'converged'"),
        ({"max_trials": 5, "until_ci": 1}, "max_trials", "below the 100 trials"),
        ({"max_trials": 200}, "max_trials", "no effect without until_ci"),
        ({"solver": "converged", "sgd": {"epochs": 5}}, "sgd.epochs", "without solver = 'sgd'"),
        ({"converged": {"tolerance": 1e-3}}, "converged.tolerance", "solver = 'converged'"),
        ({"solver": "converged", "start": "zero"}, "start", "'linear' and solver = 'sgd'"),
        ({"hidden": [3, 3]}, "hidden", "without the head 'mlp'"),
        ({"scale": 3}, "scale", "without the head 'cosine'"),
        ({"smoothing": [0, 0.1]}, "smoothing", "without the penalty 'label-smoothing'"),
        ({"l2_coefficients": [0, 1]}, "l2_coefficients", "without the penalty 'l2'"),
        ({"penalties": ["l2"], "l2_coefficients": [0], "coefficients": [0]}, "coefficients",
         "a penalty that has this grid"),
        ({"penalties": ["l2"], "priors": ["class-frequency"]}, "priors", "such as 'firth'"),
        ({"l2_kind": "ridge"}, "l2_kind", "or an l2 above 0"),
        ({"references": False, "ridge": 3}, "ridge", "without references = true"),
        ({"until_ci": 0.1, "splits": ["novel"]}, "until_ci", "chosen on val"),
        ({"ways": [5, 5]}, "ways[1]", "listed twice"),
        ({"penalties": ["firht"]}, "penalties[0]", "no penalty 'firht': use firth, label-"),
        ({"heads": ["foo"]}, "heads[0]", "no head 'foo': use linear, cosine, mlp"),
        ({"heads": ["centroid"]}, "heads[0]", "'centroid' is a reference head"),
        ({"l2_kind": "foo"}, "l2_kind", "use 'mean-square' or 'ridge' or 'weight-decay'"),
        ({"name": "../../x"}, "name", "names no folder"),
        ({"name": ".hidden"}, "name", "names no folder"),
        ({"name": "a\\b"}, "name", "names no folder"),
        ({"ways": []}, "ways", "length >= 1"),
    ],
)  # fmt: skip
def test_contradictions_are_named(fields: dict[str, Any], place: str, words: str) -> None:
    (problem,) = find_problems({"name": "x", **fields})
    assert problem.place == place
    assert words in problem.sentence


@pytest.mark.parametrize(
    "fields",
    [
        {"hidden": [3, 3], "heads": ["linear", "mlp"]},
        {"l2_kind": "ridge", "l2": 0.1},
        {"l2_kind": "ridge", "heads": ["cosine"]},
        {"hidden": [100, 50], "smoothing": list(Spec(name="x").smoothing)},  # as a folder has them
    ],
)
def test_fields_that_are_read_or_say_the_default_are_in_order(fields: dict[str, Any]) -> None:
    assert find_problems({"name": "x", **fields}) == []


def test_what_a_preset_sets_gives_way_and_what_a_user_sets_does_not(tmp_path: Path) -> None:
    spec = load_spec("logistic-firth", {"solver": "converged"})
    assert spec.sgd == SgdSettings()
    assert "sgd" not in to_toml(spec)
    assert load_spec("logistic-l2", {"penalties": ["firth"]}).l2_kind is None
    with pytest.raises(SpecError, match=r"a problem: sgd\.epochs: It has no effect"):
        load_spec("logistic-firth", {"solver": "converged", "sgd.epochs": 5})
    (tmp_path / "mine.toml").write_text('name = "x"\nsolver = "converged"\n[sgd]\nepochs = 5\n')
    with pytest.raises(SpecError, match=r"sgd\.epochs: It has no effect"):
        load_spec(str(tmp_path / "mine.toml"))


def test_a_spec_with_problems_is_refused() -> None:
    with pytest.raises(SpecError, match=r"2 problems: shot: There is no such field; did you mean"):
        build_spec({"shot": 1})


def test_a_misspelt_preset() -> None:
    with pytest.raises(SpecError, match="Did you mean 'cosine'"):
        load_spec("cosin")


def test_flags_beat_files_beat_defaults(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\ntrials = 7\nways = [3]\n[sgd]\nepochs = 5\nshuffle = false\n')
    given = dict(map(parse_assignment, ["ways=[16]", "sgd.epochs=9", "transform=l2"]))
    spec = load_spec(str(file), given)
    assert (spec.trials, spec.ways, spec.transform, spec.shots) == (7, (16,), "l2", (1, 5))
    assert (spec.sgd.epochs, spec.sgd.shuffle) == (9, False)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("shots=[1,5]", ("shots", [1, 5])),
        ('shots=[1,"unbalanced-8"]', ("shots", [1, "unbalanced-8"])),
        ("coefficients=[0,0.1,1,10]", ("coefficients", [0, 0.1, 1, 10])),
        ("theory=false", ("theory", False)),
        ("transform=centre-l2", ("transform", "centre-l2")),
        ("sgd.epochs=3", ("sgd.epochs", 3)),
    ],
)
def test_assignments(text: str, pair: tuple[str, Any]) -> None:
    assert parse_assignment(text) == pair


def test_an_assignment_without_a_value() -> None:
    with pytest.raises(SpecError, match="must read key=value"):
        parse_assignment("shots")
    with pytest.raises(SpecError, match="ways is not a table"):
        override({"ways": [3]}, {"ways.x": 3})


@pytest.mark.parametrize("name", sorted(set(preset_names())))
def test_toml_round_trip(name: str, tmp_path: Path) -> None:
    spec = load_spec(name)
    (tmp_path / "spec.toml").write_text(to_toml(spec), "utf-8")
    assert load_spec(str(tmp_path / "spec.toml")) == spec


@given(st.text(min_size=1, max_size=40), st.text(max_size=40))
def test_toml_keeps_any_words(name: str, remark: str) -> None:
    import tomllib

    spec = Spec(name=name, remark=remark)
    assert msgspec.convert(tomllib.loads(to_toml(spec)), Spec) == spec


def test_label_smoothing_has_its_own_grid() -> None:
    spec = build_spec(
        {"name": "x", "penalties": ["firth", "label-smoothing", "l2"], "references": False}
    )
    grids = {method.family: method.coefficients for method in spec_methods(spec, 1)}
    assert max(grids["label-smoothing"]) < 1
    assert max(grids["firth"]) == 10


SPECS = (Path(__file__).parents[2] / "docs" / "specs.md").read_text("utf-8")
DOCUMENTED = {
    name: (default.strip(), setting)
    for name, default, setting in re.findall(
        r"^\| `([\w.]+)` \| ([^|]*) \| [^|]* \| `([^|]*)` \|$", SPECS, re.MULTILINE
    )
}
TABLES = {"sgd": SgdSettings, "converged": ConvergedSettings, "calibration": CalibrationSettings}


def test_every_field_is_documented_and_no_other() -> None:
    fields = set(Spec.__struct_fields__) - set(TABLES)
    inner = {f"{table}.{name}" for table, kind in TABLES.items() for name in kind.__struct_fields__}
    assert set(DOCUMENTED) == fields | inner


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_defaults_and_settings_are_true(name: str) -> None:
    default, setting = DOCUMENTED[name]
    key, value = parse_assignment(shlex.split(setting)[0])
    assert key == name
    beside: dict[str, Any] = {"calibration": {}} if name == "source" else {}
    assert struct_problems(override({"name": "x", **beside}, {key: value}), Spec) == []
    literal = re.fullmatch(r"`(.+)`", default)
    if literal and "." not in name:
        said = tomllib.loads(f"value = {literal[1]}")["value"]
        plain = msgspec.json.encode(getattr(Spec(name="x"), name))
        assert said == msgspec.json.decode(plain)
