"""Tables become finite features with names, or one sentence that names row and column."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest

from firthshot.backbones.embed import EncoderMark
from firthshot.errors import FirthshotError
from firthshot.own_data import Columns, Embedder, parse_items, read_examples
from firthshot.own_data._tables import table_examples

GOOD = {"a": [0.5, 1.5, 2.5], "b": [1, 2, 3], "label": ["x", "y", "x"]}


def read(table, columns=None, needs_label=True):
    return table_examples(
        pl.DataFrame(table), "t.csv", columns or Columns(), needs_label=needs_label
    )


def test_every_other_column_is_a_feature():
    examples = read(GOOD | {"id": ["p", "q", "r"]})
    assert examples.names == ("a", "b")
    np.testing.assert_array_equal(examples.features, [[0.5, 1], [1.5, 2], [2.5, 3]])
    assert examples.labels.tolist() == ["x", "y", "x"]
    assert (examples.id_name, examples.row_ids().tolist()) == ("id", ["p", "q", "r"])


def test_rows_without_an_id_are_numbered_from_one():
    assert read(GOOD).row_ids().tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_an_index_that_pandas_wrote_is_no_feature(name):
    examples = read({name: [7, 3, 5]} | GOOD)
    assert examples.names == ("a", "b")
    assert (examples.id_name, examples.row_ids().tolist()) == ("row", [7, 3, 5])
    both = read({name: [7, 3, 5], "id": ["p", "q", "r"]} | GOOD)
    assert (both.names, both.row_ids().tolist()) == (("a", "b"), ["p", "q", "r"])


def test_a_model_takes_its_columns_by_name_and_leaves_the_rest():
    columns = Columns(features=("b", "a"))
    examples = read(GOOD | {"remark": ["u", "v", "w"]}, columns, needs_label=False)
    np.testing.assert_array_equal(examples.features, [[1, 0.5], [2, 1.5], [3, 2.5]])


def test_one_column_of_lists_is_a_matrix_without_names():
    examples = read({"e": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    np.testing.assert_array_equal(examples.features, [[1, 2], [3, 4]])
    assert examples.names is None
    assert examples.labels.dtype.kind == "i"


@pytest.mark.parametrize(
    ("change", "columns", "words"),
    [
        ({}, Columns("lable"), "no column 'lable': did you mean 'label'"),
        ({}, Columns("class"), "its columns are a, b, label"),
        ({}, Columns(drop=("c",)), "no column 'c'"),
        ({"a": [0.5, None, 1.0]}, None, "row 2, column 'a'"),
        ({"a": [0.5, 1.0, np.nan]}, None, "row 3, column 'a'"),
        ({"b": [np.inf, 1.0, np.nan]}, None, r"row 1, column 'b' \(1 more"),
        ({"a": ["1", "2", "three"]}, None, "Column 'a' of t.csv holds 'three' in row 3"),
        ({"a": ["one", "two", "three"]}, None, "holds text, such as 'one'.*leave it out, or"),
        ({"a": [date(2026, 1, 1)] * 3}, None, "of type Date.*leave it out"),
        ({"label": ["x", None, "y"]}, None, "no label in row 2 of column 'label'"),
        ({"label": [0.5, 1.5, 2.5]}, None, "fractional"),
        ({}, Columns(drop=("a", "b")), "no feature columns"),
        ({}, Columns(features=("a", "q", "r")), "no column 'q' and 1 more that the model needs"),
        ({}, Columns(features=("q", "r")), r"none of the columns .*\(q, r\)"),
    ],
)
def test_what_is_amiss_is_named(change, columns, words):
    with pytest.raises(FirthshotError, match=words):
        read(GOOD | change, columns)


def test_lists_of_different_length_are_refused():
    with pytest.raises(FirthshotError, match=r"Row 2 of column 'e'.*1 values"):
        read({"e": [[1.0, 2.0], [3.0]], "label": [0, 1]})


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["01", "1", "007"], ["01", "1", "007"]),
        (["1", "-2", "0"], [1, -2, 0]),
        (["1.0", "2.0", "10.0"], [1, 2, 10]),
        (["1", "1.0", "2"], ["1", "1.0", "2"]),  # two texts are two classes
        (["true", "false", "true"], ["true", "false", "true"]),
        (["12345678901234567890", "1", "2"], ["12345678901234567890", "1", "2"]),
    ],
)
def test_labels_are_the_text_of_the_file_or_whole_numbers(tmp_path, cells, labels):
    rows = "".join(f"{j},{cell}\n" for j, cell in enumerate(cells))
    (tmp_path / "t.csv").write_text("a,label\n" + rows)
    found = read_examples(str(tmp_path / "t.csv")).labels
    assert found.tolist() == labels
    typed_in = parse_items("a,label\n" + rows, Columns(), needs_label=True)
    assert typed_in.labels.tolist() == labels


def test_labels_of_new_rows_are_those_of_the_model_where_it_has_them():
    def labels(cells, *classes):
        table = {"a": [0.0] * len(cells), "label": cells}
        return read(table, Columns(classes=frozenset(classes)), needs_label=False).labels.tolist()

    assert labels(["1.0", "2.0", "01"], "1", "2") == ["1", "2", "01"]
    assert labels(["1.0", "x"], "1", "1.0", "x") == ["1.0", "x"]
    assert labels([1.0, 2.0], "1", "2") == ["1", "2"]


def test_truth_values_are_zero_and_one(tmp_path):
    pl.DataFrame(GOOD | {"a": [True, False, True]}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,b,label\nTrue,1,x\nFalse,2,y\ntrue,3,x\n")
    for name in ("t.parquet", "t.csv"):
        examples = read_examples(str(tmp_path / name))
        assert examples.features[:, 0].tolist() == [1.0, 0.0, 1.0]
        assert examples.names == ("a", "b")


def test_json_lines_hold_features_too(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 0.5, "b": 2, "label": "x"}\n{"a": 1, "b": 3, "label": "y"}\n')
    examples = read_examples(str(path))
    assert examples.names == ("a", "b")
    assert examples.labels.tolist() == ["x", "y"]
    path.write_text("[0.5, 2]\n[1, 3]\n")
    same = read_examples(str(path), needs_label=False)
    np.testing.assert_array_equal(same.features, examples.features)
    with pytest.raises(FirthshotError, match="rows of numbers without labels"):
        read_examples(str(path))


def test_a_file_of_no_known_kind_is_told_what_is(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    marks = {
        r"a folder of pictures, a table \(.csv": None,
        r"give a table \(.csv, .tsv.*\.npz": EncoderMark("a table of them", None),
        r"give pictures \(.bmp, .*or folders": EncoderMark("efficientnet-lite0", "f"),
    }
    for words, mark in marks.items():
        embedder = Embedder(mark=mark)
        with pytest.raises(FirthshotError, match=words):
            read_examples(str(tmp_path / "notes.txt"), embedder=embedder, needs_label=False)
    (tmp_path / "cat.jpg").touch()
    embedder = Embedder(mark=EncoderMark("x", None))
    with pytest.raises(FirthshotError, match="holds pictures, but the model was fitted to feat"):
        read_examples(str(tmp_path / "cat.jpg"), embedder=embedder, needs_label=False)


def test_files(tmp_path):
    pl.DataFrame(GOOD).write_csv(tmp_path / "t.csv")
    pl.DataFrame(GOOD).write_parquet(tmp_path / "t.parquet")
    pl.DataFrame(GOOD).write_csv(tmp_path / "t.tsv", separator="\t")
    np.savez(tmp_path / "t.npz", X=np.ones((2, 3), np.float16), y=np.array(["p", "q"]))
    same = [read_examples(str(tmp_path / name)) for name in ("t.csv", "t.parquet", "t.tsv")]
    for examples in same:
        np.testing.assert_array_equal(examples.features, same[0].features)
    arrays = read_examples(str(tmp_path / "t.npz"))
    assert arrays.features.dtype == np.float32
    assert arrays.labels.tolist() == ["p", "q"]


def test_a_bank_or_one_of_its_splits():
    examples = read_examples("clinc150-minilm", split="val")
    assert examples.features.shape == (4500, 384)
    assert len(set(examples.labels.tolist())) == 30
    assert examples.encoder


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b"a,label\n", "no rows"), (b"a,b\n\xff\xfe,\xfd\n1,2\n", "cannot be read")],
)
def test_files_without_rows(tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(FirthshotError, match=words):
        read_examples(str(path))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"a;b;label\n1,5;2;x\n2;1;y\n", "by semicolons: save it with commas"),
        ("t.csv", b"a\tlabel\n1\tx\n2\ty\n", "by tabs.*or name it .tsv"),
        ("t.tsv", b"a,label\n1,x\n2,y\n", "by commas: save it with tabs"),
        ("t.csv", "a,label\n1,x\n2,y\n".encode("utf-16"), "UTF-16: save it as UTF-8"),
        ("t.csv", "a,label\n1,ñ\n2,y\n".encode("latin-1"), "not in UTF-8"),
        ("t.csv", b"a,label\n1,x\n2,y,3\n", "a row has more cells than the header"),
        ("t.csv", b'a,"b",b,label\n1,2,3,x\n', "more than one column called 'b'"),
        ("t.tsv", b"label\ta\tlabel\nx\t1\tx\n", "more than one column called 'label'"),
        ("t.csv", b'text,label\n"hello,a\nb,c\nd,e\n', "a quotation mark is not closed"),
        ("t", b"text,label\nhello,a\nb,c\nd,e\n", "has no ending: give .* a table"),
    ],
)
def test_files_of_another_kind_are_told(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FirthshotError, match=words):
        read_examples(str(path))


def test_a_split_is_for_banks(tmp_path):
    pl.DataFrame(GOOD).write_csv(tmp_path / "t.csv")
    with pytest.raises(FirthshotError, match="is no bank: leave out the split val"):
        read_examples(str(tmp_path / "t.csv"), split="val")


@pytest.mark.parametrize(
    "text",
    [
        "[0.5, 2]",
        "[[0.5, 2]]",
        '{"b": 2, "a": 0.5}',
        '[{"a": 0.5, "b": 2}]',
        "0.5,2",
        "0.5 2",
        "0.5; 2",
        "0.5\t2",
        "b a\n2 0.5\n",
        "b;a\n2;0.5\n",
        "b,a\n2,0.5\n",
    ],
)
def test_one_item_from_standard_input(text):
    examples = parse_items(text, Columns(features=("a", "b")))
    np.testing.assert_array_equal(examples.features, [[0.5, 2]])


@pytest.mark.parametrize("text", ["[1, 2]\n[3, 4]\n", "1,2\n3,4", "[[1,2],[3,4]]"])
def test_several_items_from_standard_input(text):
    np.testing.assert_array_equal(parse_items(text, Columns()).features, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" \n", "is empty"),
        ("[1, 2", "no valid JSON"),
        ("[1, null]", "holds None at place 2 of row 1"),
        ("[1, NaN]", "holds nan at place 2"),
        ('["true", 1]', "holds 'true'"),
        ("hello", "holds 'hello' where a number is expected"),
        ("a,a\n1,2", "more than one column called 'a'"),
        ("[[1, 2], [3]]", "1 numbers in row 2 and 2 in row 1"),
        ('[[1], {"a": 2}]', "mixes arrays and objects"),
        ("1,2\n3,x", "holds 'x' at place 2 of row 2"),
    ],
)
def test_bad_items_are_named(text, words):
    with pytest.raises(FirthshotError, match=words):
        parse_items(text, Columns())


IDS = '{"id": [1, 2], "label": "a", "x": 1}\n{"id": [1], "label": "b", "x": 2}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (IDS, "'id' .* holds lists or objects .* another id"),
        ('{"label": {"a": 1}, "x": 1}', "'label' .* holds lists or objects .* another label"),
        ('{"label": "a", "x": ' + "9" * 5000 + "}", "is no valid JSON .*4300 digits"),
        ('{"label": "a", "x": ' + "9" * 400 + "}", "cannot be read as a table .*too large"),
        ('{"label": "a", "x": ' + "[" * 5000 + "}", "is no valid JSON .*recursion"),
    ],
    ids=["id", "label", "digits", "large", "deep"],
)
def test_odd_values_of_json_lines_are_refused(tmp_path, text, words):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(FirthshotError, match=words):
        read_examples(str(tmp_path / "t.jsonl"))


def test_a_number_beyond_all_floats_is_named():
    with pytest.raises(FirthshotError, match=r"holds 999.* at place 2 of row 1"):
        parse_items(f"[1, {'9' * 400}]", Columns())


def test_the_bad_line_of_json_lines_is_named(tmp_path):
    good = '{"a": 1, "label": "x"}'
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{good}\n{good}\n{{bad\n{good}\n")
    with pytest.raises(FirthshotError, match=r"bad.jsonl is no valid JSON .line 3: .*mend it"):
        read_examples(str(path))
    with pytest.raises(FirthshotError, match="line 4"):
        parse_items(f"\n{good}\n\n[1, 2\n", Columns())
    with pytest.raises(FirthshotError, match="line 3 column 1"):  # one value over several lines
        parse_items('{"a": 1,\n "b": 2,\n}', Columns())
