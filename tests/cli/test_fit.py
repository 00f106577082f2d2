"""``firthshot fit`` and ``firthshot predict`` on tables, banks and standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from firthshot import load_bank
from firthshot.cli import app
from firthshot.cli._screen import with_options
from firthshot.errors import FirthshotError
from firthshot.estimators import FewShotClassifier, FirthClassifier

COLUMNS = [f"e{j}" for j in range(384)]


def sentences(first, last, n_classes=4):
    """Return rows first … last of some validation classes as a table with labels."""
    bank = load_bank("clinc150-minilm")
    names = bank.classes("val")[:n_classes]
    rows = [bank.rows("val", name)[first:last] for name in names]
    X = np.concatenate([bank.features[part] for part in rows]).astype(np.float32)
    labels = np.repeat(names, last - first)
    return pl.DataFrame(X, schema=COLUMNS).with_columns(label=pl.Series(labels))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("own")
    sentences(0, 5).write_csv(path / "train.csv")
    new = sentences(60, 70).with_columns(id=pl.Series([f"s{i}" for i in range(40)]))
    new.select(reversed(new.columns)).write_csv(path / "new.csv")  # columns in another order
    new.drop("label", "id").write_parquet(path / "bare.parquet")
    run("fit", path / "train.csv", "--model", path / "m.firth")
    return path


def run(*words, stdin=None):
    """Run a command that must succeed, and return what it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def refused(*words, stdin=None):
    """Run a command that must be refused, and return the sentence."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    assert isinstance(result.exception, FirthshotError), result.output
    return with_options(result.exception)


def test_the_report_says_what_was_fitted_and_what_to_do_next(folder, tmp_path):
    model = tmp_path / "m.firth"
    said = " ".join(run("fit", folder / "train.csv", "--model", model).output.split())
    for words in (
        "20 rows, 384 features, 4 classes of 5",
        "A blend set by 20 left-out rows:",
        "from 20 left-out rows",
        "LogisticRegression()",
        "nearest class mean",
        "firthshot predict",
    ):
        assert words in said
    assert model.is_file()
    assert model.with_suffix(".html").is_file()


def test_the_answer_takes_fifteen_lines_of_eighty_columns(folder, tmp_path):
    words = [sys.executable, "-m", "firthshot", "fit", "train.csv", "--model", tmp_path / "m.firth"]
    narrow = {**os.environ, "COLUMNS": "80"}
    said = subprocess.run(words, cwd=folder, env=narrow, capture_output=True, text=True, check=True)
    lines = said.stdout.rstrip().splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines[:-2])) <= 80  # the last two are paths to copy


def test_the_model_is_the_estimator_with_its_defaults(folder, tmp_path):
    run("predict", folder / "m.firth", folder / "bare.parquet", "--out", tmp_path / "p.parquet")
    found = pl.read_parquet(tmp_path / "p.parquet")
    train, new = sentences(0, 5), sentences(60, 70)
    model = FewShotClassifier().fit(train.drop("label").to_numpy(), train["label"].to_numpy())
    expected = model.predict_proba(new.drop("label").to_numpy())
    np.testing.assert_allclose(found.select(pl.col("^p_.*$")).to_numpy(), expected, atol=2e-4)


def test_columns_are_matched_by_name_ids_kept_and_the_accuracy_said(folder, tmp_path):
    result = run("predict", folder / "m.firth", folder / "new.csv", "--out", tmp_path / "p.csv")
    found = pl.read_csv(tmp_path / "p.csv")
    assert found["id"].to_list() == [f"s{i}" for i in range(40)]
    right = (found["prediction"] == sentences(60, 70)["label"]).mean()
    assert right > 0.9
    assert f"Accuracy {100 * right:.1f} %" in result.output


def test_columns_that_the_model_does_not_use_are_named(folder, tmp_path):
    table = pl.read_csv(folder / "new.csv").rename({"label": "intent"})
    wider = table.with_columns(pl.lit(1.5).alias("weight"), pl.lit("mo").alias("weekday"))
    wider.write_csv(tmp_path / "wider.csv")
    result = run("predict", folder / "m.firth", tmp_path / "wider.csv")
    assert result.stderr == (
        f"Note: Columns 'weight', 'weekday' of {tmp_path / 'wider.csv'} are not used: the model "
        "was fitted without.\n"
    )
    dropped = ["--drop", "weight", "--drop", "weekday"]
    # intent holds the model's own classes: it is the label column, whatever it was called at fit.
    assert run("predict", folder / "m.firth", tmp_path / "wider.csv", *dropped).stderr == ""
    assert run("predict", folder / "m.firth", tmp_path / "wider.csv", "--quiet").stderr == ""
    result = run("predict", folder / "m.firth", tmp_path / "wider.csv", "--drop", "weight")
    assert "Column 'weekday' of" in result.stderr


def test_a_pipe_gets_csv_or_json_lines(folder):
    lines = run("predict", folder / "m.firth", folder / "bare.parquet").stdout.splitlines()
    assert lines[0].startswith("row,prediction,confidence,p_")
    assert len(lines) == 41
    said = run("predict", folder / "m.firth", folder / "bare.parquet", "--json").stdout
    assert json.loads(said.splitlines()[0])["row"] == 1


@pytest.mark.parametrize("kind", ["array", "object", "csv"])
def test_one_item_from_standard_input(folder, kind):
    row = sentences(60, 61).drop("label").row(0)
    text = {
        "array": json.dumps(row),
        "object": json.dumps(dict(zip(COLUMNS, row, strict=True))),
        "csv": ",".join(map(str, row)),
    }[kind]
    said = run("predict", folder / "m.firth", "-", "--json", "--quiet", stdin=text).stdout
    answer = json.loads(said)
    assert answer["prediction"] == sentences(60, 61)["label"][0]
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_json_report(folder, tmp_path):
    said = run("fit", folder / "train.csv", "--model", tmp_path / "m.firth", "--json").stdout
    report = json.loads(said)
    assert report["counts"] == dict.fromkeys(load_bank("clinc150-minilm").classes("val")[:4], 5)
    accuracy = report["assessment"]["accuracy"]
    assert 0 <= accuracy["low"] <= accuracy["accuracy"] <= accuracy["high"] <= 1
    assert report["assessment"]["rivals"][0]["name"] == "LogisticRegression()"


def test_options_reach_the_estimator(folder, tmp_path):
    words = ("--head", "linear", "--lam", "0.5", "--l2", "2", "--no-calibrate", "--json")
    said = run("fit", folder / "train.csv", "--model", tmp_path / "m.firth", *words).stdout
    report = json.loads(said)["settings"]
    assert (report["lam"], report["l2"], report["temperature"]) == (0.5, 2.0, 1.0)
    assert (report["lam_source"], report["l2_source"]) == ("given", "given")


@pytest.mark.parametrize("head", ["cosine", "mlp"])
def test_other_heads(folder, tmp_path, head):
    sentences(0, 3, 2).write_csv(tmp_path / "small.csv")
    run("fit", tmp_path / "small.csv", "--model", tmp_path / "m.firth", "--head", head)
    said = run("predict", tmp_path / "m.firth", tmp_path / "small.csv").output
    assert "Accuracy 100.0 %" in said


def test_the_heading_of_the_ids_says_nothing_of_the_rows(folder, tmp_path):
    table, model = tmp_path / "t.csv", tmp_path / "m.firth"
    sentences(0, 3).with_row_index("picture").write_csv(table)
    told = run("fit", table, "--id", "picture", "--model", model, "--json").output
    assert json.loads(told)["head"] == "auto"
    said = run("predict", model, table, table, "--id", "picture", "--json").stdout
    assert [json.loads(line)["file"] for line in said.splitlines()] == [str(table)] * 24


def test_quiet_prints_nothing_but_warnings(folder, tmp_path):
    assert not run("fit", folder / "train.csv", "--model", tmp_path / "m.firth", "--quiet").stdout
    odd = sentences(0, 3).with_row_index("number")
    odd.write_csv(tmp_path / "odd.csv")
    said = run("fit", tmp_path / "odd.csv", "--model", tmp_path / "m.firth", "--quiet").output
    assert "'number' counts the rows" in said.replace("\n", " ").replace("           ", "")


def test_a_bank_or_an_npz_is_a_source_too(folder, tmp_path):
    train = sentences(0, 5)
    np.savez(
        tmp_path / "t.npz", X=train.drop("label").to_numpy(), y=np.array(train["label"].to_list())
    )
    run("fit", tmp_path / "t.npz", "--model", tmp_path / "m.firth")
    said = run("predict", tmp_path / "m.firth", folder / "bare.parquet").stdout
    assert len(said.splitlines()) == 41


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--label", "lable"), "did you mean 'label'? Name the column of the classes (--label)."),
        (("--lam", "much"), "lam is 'much'; give a number that is not negative, or 'shots'"),
        (("--lam", "-1"), "lam is -1.0; give a number that is not negative"),
        (
            ("--l2", "theory"),
            "l2 is 'theory'; give a number that is not negative, or 'scale'",
        ),
        (("--calibrate",), "calibrate belongs to the heads linear, cosine and mlp"),
        (("--no-rows", "--head", "auto"), "predicts from its rows: leave out --head or --no-rows."),
        (("--lam", "loo"), "lam is 'loo'"),
        (("--drop", "e999"), "no column 'e999'"),
        (("--split", "val"), "is no bank: leave out the split val (--split)."),
    ],
)
def test_bad_requests_write_nothing(folder, tmp_path, words, sentence):
    model = tmp_path / "m.firth"
    assert sentence in refused("fit", folder / "train.csv", "--model", model, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [("--head", "tree"), ("--class-weight", "even")])
def test_choices_are_choices(folder, tmp_path, words):
    given = ["fit", str(folder / "train.csv"), "--model", str(tmp_path / "m.firth"), *words]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert f"'{words[1]}' is not one of" in " ".join(result.output.split())


def test_one_class_and_bad_places(folder, tmp_path):
    assert "write the rows to a file" in refused("fit", "-", "--model", tmp_path / "m.firth")
    sentences(0, 5, 1).write_csv(tmp_path / "one.csv")
    model = tmp_path / "m.firth"
    assert "one class only" in refused("fit", tmp_path / "one.csv", "--model", model)
    assert "no file" in refused("fit", tmp_path / "none.csv", "--model", model)
    train = folder / "train.csv"
    assert "overwrite the data" in refused("fit", train, "--model", train)
    other = refused("fit", train, "--model", tmp_path / "q.html")
    assert "no known kind: end its name in .firth." in other
    for absent in ("no.csv", "no.parquet"):
        words = refused("fit", tmp_path / absent, "--model", model, "--text", "e1")
        assert words == f"There is no file {tmp_path / absent}: check the path."
    assert "no bank named 'no'" in refused("fit", "no", "--model", model, "--text", "e1")
    assert "is a folder" in refused("fit", train, "--model", tmp_path)
    assert "does not exist" in refused("fit", train, "--model", tmp_path / "no" / "m.firth")
    assert not model.exists()


def test_rows_that_do_not_fit_the_model(folder, tmp_path):
    sentences(0, 2).drop("e7").write_csv(tmp_path / "less.csv")
    out, model = tmp_path / "p.csv", folder / "m.firth"
    less = refused("predict", model, tmp_path / "less.csv", "--out", out)
    assert "no column 'e7' that the model needs" in less
    assert "2 features" in refused("predict", model, "-", "--out", out, stdin="[1, 2]")
    assert not out.exists()


def test_bad_models_and_targets(folder, tmp_path):
    other = tmp_path / "other.firth"
    other.write_text("hello")
    assert "cannot be loaded as a model" in refused("predict", other, folder / "new.csv")
    assert "no model file" in refused("predict", tmp_path / "none.firth", folder / "new.csv")
    model = folder / "m.firth"
    new = folder / "new.csv"
    assert "no known kind" in refused("predict", model, new, "--out", tmp_path / "p.xlsx")
    assert "overwrite the input" in refused("predict", model, new, "--out", new)


def test_exit_codes_of_the_real_command(folder, tmp_path):
    command = [sys.executable, "-m", "firthshot"]
    bad = subprocess.run(
        [
            *command,
            "fit",
            str(folder / "train.csv"),
            "--model",
            str(tmp_path / "m"),
            "--label",
            "x",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert bad.returncode == 2
    assert bad.stderr.startswith("Error: ")
    assert bad.stderr.count("\n") == 1
    good = subprocess.run(
        [*command, "predict", str(folder / "m.firth"), "-"],
        input=",".join(["0.1"] * 384),
        capture_output=True,
        text=True,
        check=False,
    )
    assert good.returncode == 0
    assert len(good.stdout.splitlines()) == 2


def wine(path, rows):
    """Write some rows of scikit-learn's wine, whose columns have very different scales."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True, as_frame=True)
    table = pl.from_pandas(X).with_columns(label=pl.Series([f"c{k}" for k in y]))
    table[rows].write_csv(path)
    return path


def test_columns_of_different_scales_are_brought_to_one(tmp_path):
    from sklearn.preprocessing import StandardScaler

    from firthshot.estimators import load_model

    which = np.concatenate([np.arange(k, k + 10) for k in (0, 59, 130)])
    train = wine(tmp_path / "train.csv", which)
    rest = wine(tmp_path / "rest.csv", np.setdiff1d(np.arange(178), which))
    linear = ("--head", "linear")
    told = run("fit", train, "--model", tmp_path / "m.firth", *linear).output
    assert "very different scales" in " ".join(told.split())
    X, new = (pl.read_csv(path).drop("label").to_numpy() for path in (train, rest))
    scaler = StandardScaler().fit(X)
    plain = FirthClassifier().fit(scaler.transform(X), pl.read_csv(train)["label"].to_list())
    model = load_model(tmp_path / "m.firth")
    assert model.feature_names_in_[-1] == "proline"
    np.testing.assert_allclose(
        model.predict_proba(pl.read_csv(rest).drop("label")),
        plain.predict_proba(scaler.transform(new)),
        atol=1e-9,
    )
    plainly = ("fit", train, "--model", tmp_path / "raw.firth", "--no-standardize", *linear)
    run(*plainly)
    raw = load_model(tmp_path / "raw.firth")
    assert np.abs(raw.coef_).max() < 0.1 * np.abs(model.coef_).max()
    told = run(*plainly, "--json").output
    assert "(--standardize)" in json.loads(told)["remarks"][0]
    assert not json.loads(told)["settings"]["standardized"]


def test_a_cosine_head_takes_columns_on_one_scale_too(tmp_path):
    which = np.concatenate([np.arange(k, k + 10) for k in (0, 59, 130)])
    train = wine(tmp_path / "train.csv", which)
    rest = wine(tmp_path / "rest.csv", np.setdiff1d(np.arange(178), which))
    model = tmp_path / "m.firth"
    told = json.loads(run("fit", train, "--model", model, "--head", "cosine", "--json").output)
    assert told["settings"]["standardized"]
    assert "very different scales" in told["remarks"][0]
    assert not any("(--standardize)" in remark for remark in told["remarks"])
    said = run("predict", model, rest).stderr
    assert float(said.split("Accuracy ")[1].split(" %")[0]) > 88  # 77 on average as they are


def test_empty_columns_and_equal_rows_are_refused(tmp_path):
    which = np.concatenate([np.arange(k, k + 10) for k in (0, 59, 130)])
    train, model = wine(tmp_path / "train.csv", which), tmp_path / "m.firth"
    run("fit", train, "--model", model)
    table = pl.read_csv(train)
    gap = tmp_path / "gap.csv"
    table.with_columns(ash=pl.lit(None)).write_csv(gap)
    assert "Column 'ash' of" in refused("predict", model, gap)
    equal = tmp_path / "equal.csv"
    table.with_columns(pl.exclude("label").first()).write_csv(equal)
    assert "nothing can be learned" in refused("fit", equal, "--model", model)


@pytest.fixture
def species(tmp_path):
    """Return a folder with a model of a table whose label column is called species."""
    rows = [(k + 0.1 * j, j, f"0{k}") for k in (1, 2) for j in range(4)]
    pl.DataFrame(rows, ["a", "b", "species"], orient="row").write_csv(tmp_path / "t.csv")
    run("fit", tmp_path / "t.csv", "--label", "species", "--model", tmp_path / "m.firth")
    return tmp_path


def test_the_model_knows_its_label_column(species):
    result = run("predict", species / "m.firth", species / "t.csv")
    assert "Accuracy 100.0 % by the labels of 8 rows" in result.stderr
    assert "not used" not in result.stderr
    assert {line.split(",")[1] for line in result.stdout.splitlines()[1:]} == {"01", "02"}
    assert "Accuracy" not in run("predict", species / "m.firth", "-", stdin="1,2").stderr


def test_a_label_column_that_is_not_there_is_refused(species):
    words = refused("predict", species / "m.firth", species / "t.csv", "--label", "spices")
    assert "no column 'spices': did you mean 'species'?" in words
    text = "a,b\n1,2\n"
    assert "no column 'x'" in refused(
        "predict", species / "m.firth", "-", "--label", "x", stdin=text
    )


def test_labels_that_the_model_does_not_know(species):
    foreign = "a,b,species\n1,2,1\n2,1,x\n"
    words = run("predict", species / "m.firth", "-", stdin=foreign).stderr
    assert "No accuracy: the model has no class '1', nor any other" in words
    mixed = "a,b,species\n1,2,01\n2,1,x\n"
    words = run("predict", species / "m.firth", "-", stdin=mixed).stderr
    assert "1 of the labels are no class of the model" in words


def test_standard_input_that_is_no_text(species):
    words = refused("predict", species / "m.firth", "-", stdin=b"caf\xe9 music\n")
    assert words.startswith("Standard input is not in UTF-8: convert it")


def test_a_huge_column_is_fitted_or_named_with_the_option(tmp_path):
    from sklearn.exceptions import ConvergenceWarning

    from firthshot.own_data import read_examples
    from firthshot.own_data._fitting import _in_our_words

    rows = [(float(j % 5), 1e15 + j, "xy"[j % 2]) for j in range(12)]
    pl.DataFrame(rows, ["a", "big", "label"], orient="row").write_csv(tmp_path / "big.csv")
    report = run("fit", tmp_path / "big.csv", "--model", tmp_path / "m.firth").stdout
    assert "max_iter" not in report

    class Warned:
        message, category = "stopped before reaching tol: raise max_iter", ConvergenceWarning

    told = with_options(_in_our_words(Warned, read_examples(str(tmp_path / "big.csv"))))
    assert "column 'big': bring the columns to one scale" in told
    assert "(--standardize, --drop)" in told


def test_no_rows_are_predicted_for_a_file_of_unknown_kind(species):
    words = refused("predict", species / "none.firth", species / "t.csv", "--out", "p.xlsx")
    assert "end its name in .csv" in words  # before even the model is looked for


def uneven(path, counts):
    """Write the first rows of some validation classes, another number of each."""
    parts = [sentences(0, n, 5).filter(pl.col("label") == name) for name, n in counts.items()]
    pl.concat(parts).write_csv(path)
    return path


def test_classes_of_unequal_size_count_alike(tmp_path):
    from firthshot.estimators import load_model

    names = load_bank("clinc150-minilm").classes("val")[:5]
    train = uneven(tmp_path / "t.csv", dict(zip(names, (2, 8, 2, 2, 2), strict=True)))
    sentences(60, 80, 5).write_csv(tmp_path / "new.csv")
    weights, right, told = {}, {}, {}
    for words in ((), ("--class-weight", "balanced"), ("--class-weight", "none")):
        key, model = words[-1] if words else "", tmp_path / "m.firth"
        given = ("fit", train, "--model", model, "--json", "--head", "linear", *words)
        told[key] = json.loads(run(*given).stdout)
        weights[key] = load_model(model).class_weight
        said = run("predict", model, tmp_path / "new.csv").stderr
        right[key] = float(said.split("Accuracy ")[1].split(" %")[0])
    assert weights == {"": "balanced", "balanced": "balanced", "none": None}
    assert right[""] == right["balanced"] > right["none"]
    sentence = (
        "Classes have 2 to 8 examples and count alike; if new data will be as uneven, fit "
        "without class weights (--class-weight none)."
    )
    assert [sentence in report["remarks"] for report in told.values()] == [True, True, False]


def test_the_default_head_counts_classes_alike_unless_told(folder, tmp_path):
    from firthshot.estimators import load_model

    assert load_model(folder / "m.firth").class_prior == "uniform"
    model = tmp_path / "m.firth"
    run("fit", folder / "train.csv", "--model", model, "--class-weight", "none")
    assert load_model(model).class_prior == "training"


def test_feature_files_without_labels_are_predicted_but_not_fitted(folder, tmp_path):
    train, table = sentences(0, 5), sentences(60, 62).drop("label")
    new = table.to_numpy()
    labels, model = np.array(train["label"].to_list()), tmp_path / "m.firth"
    np.savez(tmp_path / "t.npz", X=train.drop("label").to_numpy(), y=labels)
    run("fit", tmp_path / "t.npz", "--model", model)
    np.savez(tmp_path / "new.npz", X=new)
    np.save(tmp_path / "new.npy", new)
    table.write_parquet(tmp_path / "new.parquet")
    expected = run("predict", model, tmp_path / "new.parquet").stdout
    for name in ("new.npz", "new.npy"):
        assert run("predict", model, tmp_path / name).stdout == expected
        refused("predict", model, tmp_path / name, "--label", "y")  # which it does not have
    assert "Accuracy" in run("predict", model, tmp_path / "t.npz").stderr
    assert "lacks array 'y'" in refused("fit", tmp_path / "new.npz", "--model", model)
    assert "holds no labels" in refused("fit", tmp_path / "new.npy", "--model", model)
    np.save(tmp_path / "flat.npy", new[0])
    assert "no rows of numbers" in refused("predict", model, tmp_path / "flat.npy")
    assert "There is no file" in refused("predict", model, tmp_path / "none.npy")
    np.savez(tmp_path / "other.npz", Z=new)
    assert "lacks array 'X'" in refused("predict", model, tmp_path / "other.npz")


def test_contradictory_options_end_with_code_2(folder, tmp_path):
    words = ["fit", folder / "train.csv", "--model", tmp_path / "m.firth", "--label", "e0"]
    command = [sys.executable, "-m", "firthshot", *map(str, words), "--drop", "e0"]
    bad = subprocess.run(command, capture_output=True, text=True, check=False)
    assert bad.returncode == 2
    assert bad.stderr.startswith("Error: Column 'e0' cannot be both label and left out")
    assert bad.stderr.count("\n") == 1
