"""A damaged or foreign table ends in a sentence, the same for every reader."""

import polars as pl
import pytest

from firthshot.backbones.datasets._readers import load_table
from firthshot.banks._sources import read_source
from firthshot.errors import FirthshotError
from firthshot.formulas._tables import read_table
from firthshot.own_data import read_examples
from firthshot.tables import header_fault


def read_bank(path):
    return read_source(str(path))


def read_own(path):
    return read_examples(str(path))


READERS = [read_table, load_table, read_bank]


@pytest.mark.parametrize("read", [*READERS, read_own])
def test_a_parquet_file_with_a_wrong_byte_is_refused_or_read(tmp_path, read):
    path = tmp_path / "bad.parquet"
    pl.DataFrame({"label": ["a", "b", "a"], "x": [0.1, 0.2, 0.3]}).write_parquet(path)
    whole = path.read_bytes()
    refused = []
    for place in range(0, len(whole), 40):  # mutations.py tries thousands
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        try:
            read(path)
        except FirthshotError as error:
            refused.append(str(error))
    assert refused
    assert all("bad.parquet" in sentence for sentence in refused)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"label;x\na;1,5\n", "separates its columns by semicolons: save it with commas"),
        ("t.csv", b"label\tx\na\t1\n", "by tabs: save it with commas .*, or name it .tsv"),
        ("t.tsv", b"label,x\na,1\n", "separates its columns by commas: save it with tabs"),
        ("t.csv", b"label,x,x\na,1,2\n", "more than one column called 'x': rename or remove"),
        ("t.csv", "label,x\na,1\n".encode("utf-16"), "in UTF-16: save it as UTF-8"),
        ("t.csv", b"label,x\n\xff\xfe,1\n", "it is not in UTF-8; save it as UTF-8"),
        ("t.csv", b"label,x\na,1,2\n", "a row has more cells than the header; mend or quote it"),
        ("t.tsv", b"label\tx\ry\na\t1\n", "a carriage return within its header: save it with"),
        ("t.csv", b"label," + b"x" * 200_000 + b"\na,1\n", "a header that cannot be read .*: mend"),
        ("t.csv", b"", "empty CSV; mend the file"),
        ("t.parquet", b"PAR1", "t.parquet"),
    ],
)
def test_all_readers_refuse_the_same_tables_in_the_same_words(tmp_path, read, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FirthshotError, match=words) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith(".")


def test_a_header_in_order_has_no_fault(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"a;b",label,,\n1,x,,\n', encoding="utf-8-sig")  # names may be empty twice
    assert header_fault(path) is None
    assert header_fault(tmp_path / "none.parquet") is None
