from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from firthshot.banks import load_bank, save_bank
from firthshot.cli.bank import app
from firthshot.errors import BankError

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = "6667d5af6eb90f55880a9de06e7a818fc5e470db33f1c67315ec35a18e151418"


@pytest.fixture(autouse=True)
def quiet_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FIRTHSHOT_BANKS", raising=False)


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def clusters(rng: Any = None) -> tuple[np.ndarray, np.ndarray]:
    rng = rng or np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    return 4 * rng.normal(size=(4, 6))[y] + rng.normal(size=(80, 6)), y


def write_npz(path: Path) -> Path:
    X, y = clusters()
    np.savez(path, X=X, y=y)
    return path


def test_info_fits_eighty_columns_and_says_all() -> None:
    text = run("info", "clinc150-minilm")
    assert max(map(len, text.splitlines())) <= 80
    for words in (
        "clinc150-minilm",
        "22500 rows x 384 dimensions, float16",
        "60 classes, 9000 rows (150 per class)",
        "30 classes, 4500 rows (150 per class)",
        "CC BY 3.0",
        "Larson",
        DIGEST,
    ):
        assert words in text
    assert "…" not in text


def test_ls_names_where_banks_come_from_and_unreadable_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRTHSHOT_BANKS", str(tmp_path / "a"))
    (tmp_path / "a").mkdir()
    (tmp_path / "banks").mkdir()
    X, y = clusters()
    save_bank(
        tmp_path / "banks" / "mine.bank", X, y, classes=list("abcd"), class_splits=["val"] * 4
    )
    (tmp_path / "a" / "torn.bank").write_bytes(b"torn")
    text = run("ls")
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("mine" in line and "0/4/0 classes" in line and "./banks" in line for line in lines)
    assert any("clinc150-minilm" in line and "embedded" in line for line in lines)
    assert any("torn" in line and "unreadable" in line for line in lines)
    assert "Unreadable:" in text
    assert "truncated" in text


def test_import_info_doctor_export(tmp_path: Path) -> None:
    val = write_npz(tmp_path / "val.npz")
    X, y = clusters(np.random.default_rng(1))
    novel = tmp_path / "novel.npz"
    np.savez(novel, X=X, y=y, classes=list("abcd"))
    text = run(
        "import", "--out", "my.bank", "--name", "my", "--split", f"val={val}",
        "--split", f"novel={novel}", "--licence", "MIT", "--dtype", "float16",
    )  # fmt: skip
    assert "160 rows x 6 dimensions, float16" in text
    bank = load_bank("my.bank")
    assert (bank.name, bank.meta.licence) == ("my", "MIT")
    assert bank.classes("novel") == tuple("abcd")
    assert "4 classes, 80 rows (20 per class)" in run("info", "my.bank")
    assert "healthy" in run("doctor", "my.bank")
    run("export", "my.bank", "--out", "my.npz")
    run("import", "--out", "again.bank", "my.npz")
    assert load_bank("again.bank").meta.sha256 == bank.meta.sha256
    run("export", "my.bank", "--out", "val.npz", "--split", "val")
    with np.load("val.npz") as file:
        assert file["X"].shape == (80, 6)


def test_import_of_one_table(tmp_path: Path) -> None:
    lines = [f"{i}.5,{i * i},{'ab'[i % 2]},{('val', 'novel')[i % 2]}" for i in range(8)]
    (tmp_path / "t.csv").write_text("u,v,kind,part\n" + "\n".join(lines))
    run("import", "t.csv", "--out", "t.bank", "--label", "kind", "--split-column", "part")
    bank = load_bank("t.bank")
    assert bank.features.shape == (8, 2)
    assert bank.classes("val") == ("a",)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import", "--out", "x.bank"], "either one FILE or --split"),
        (["import", "--out", "x.bank", "t.csv", "--split", "val=a.npz"], "either one FILE or"),
        (["import", "--out", "x.bank", "--split", "a.npz"], "is not SPLIT=FILE"),
        (
            ["import", "--out", "x.bank", "--split", "val=a", "--split", "val=b"],
            "val is given twice",
        ),
        (["import", "--out", "x.bank", "--split", "test=a.npz"], "Unknown split 'test'"),
        (["import", "--out", "x.bank", "--split", "val=a.npz"], "There is no file a.npz"),
        (
            ["import", "--out", "x.bank", "--split", "val=a.npz", "--val-classes", "0.5"],
            "is for one FILE",
        ),
        (["export", "clinc150-minilm", "--out", "x.csv"], "does not end in .npz"),
        (["export", "clinc150-minilm", "--out", "x.npz", "--split", "test"], "no split 'test'"),
        (["info", "nothing"], "no bank named 'nothing'"),
        (["doctor", "nothing.bank"], "nothing.bank"),
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], words: str) -> None:
    with pytest.raises(BankError, match=words) as caught:
        run(*arguments)
    assert "\n" not in str(caught.value)


def test_doctor_exit_codes(tmp_path: Path) -> None:
    X, y = clusters()
    fields = {"classes": list("abcd"), "class_splits": ["val"] * 4}
    save_bank("fine.bank", X, y, **fields)
    assert "fine (80 x 6): healthy." in run("doctor", "fine.bank")
    odd = X.copy()
    odd[1] = odd[0]
    save_bank("odd.bank", odd, y, **fields)
    text = run("doctor", "odd.bank")
    assert "remarkable [duplicates-inside] 2 rows" in text
    assert "0 broken, 1 remarkable" in text
    X[5] = 0
    save_bank("zero.bank", X, y, **fields)
    text = run("doctor", "zero.bank", code=1)
    assert "broken     [zero-rows] All-zero rows: 1" in text
    assert max(map(len, text.splitlines())) <= 80


def test_names_in_a_file_cannot_paint_the_terminal() -> None:
    X, y = clusters()
    fields = {"classes": list("abcd"), "class_splits": ["val"] * 4}
    save_bank("x.bank", X, y, dataset="\x1b[31mred[bold]", **fields)
    text = run("info", "x.bank")
    assert "\x1b" not in text
    assert "red[bold]" in text


class Hostile:
    def __reduce__(self) -> Any:
        return os.system, ("touch owned",)


@pytest.mark.parametrize("kind", ["hostile", "truncated"])
def test_the_command_refuses_with_one_sentence_and_code_2(tmp_path: Path, kind: str) -> None:
    if kind == "hostile":
        (tmp_path / "f.pkl").write_bytes(pickle.dumps({0: Hostile()}))
    else:
        X, y = clusters()
        path = save_bank("f.bank", X, y, classes=list("abcd"), class_splits=["val"] * 4).path
        path.write_bytes(path.read_bytes()[:-5])
    hostile = ["import", "--out", "x.bank", "--split", "val=f.pkl"]
    arguments = hostile if kind == "hostile" else ["doctor", "f.bank"]
    program = "from firthshot.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "bank", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("Error: f.")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "owned").exists()


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from firthshot.cli import bank; import firthshot.banks; "
        "print([m for m in ('torch', 'sklearn', 'scipy', 'polars', 'h5py', 'safetensors', "
        "'matplotlib', 'numba') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
