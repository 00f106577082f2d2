"""``firthshot bank``: look at, import, export and examine banks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firthshot.cli._options import AsJson, Precision
from firthshot.cli._screen import echo, echo_json, pair, plain, screen
from firthshot.cli._screen import facts as as_facts
from firthshot.cli._screen import table as make_table
from firthshot.errors import BankError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from firthshot.banks import Bank, BankEntry, Finding

app = typer.Typer(
    help="Keep features in bank files: list, show, check, import, export.", no_args_is_help=True
)


@app.command("list")
@app.command("ls", hidden=True)
def list_all(as_json: AsJson = False) -> None:
    """List the banks that can be loaded by name, and where each comes from."""
    from firthshot.banks import list_banks

    entries = list_banks()
    if as_json:
        echo_json([_entry_facts(entry) for entry in entries])
        return
    table = make_table("name", "rows", "dims", "base/val/novel", "from", right=("rows", "dims"))
    for entry in entries:
        table.add_row(*_ls_row(entry))
    _print(table)
    for entry in entries:
        if entry.error is not None:
            _print(plain(f"Unreadable: {entry.error}", "red"))


@app.command("show")
@app.command("info", hidden=True)
def info(bank: str, accuracy: bool = False, as_json: AsJson = False) -> None:
    """Describe a bank: data set, encoder, size, splits and licence."""
    from firthshot.banks import load_bank

    found = load_bank(bank)
    meta = found.meta
    n, d = found.features.shape
    size = found.features.nbytes + found.labels.nbytes
    facts = {
        "name": meta.name,
        "data set": meta.dataset,
        "backbone": meta.backbone,
        "extraction": meta.extraction,
        "size": f"{n} rows x {d} dimensions, {found.features.dtype}, {_megabytes(size)}",
        **{f"  {split}": _split_words(found, split) for split in found.splits},
        "licence": meta.licence,
        "provenance": meta.provenance,
        **{key: text for key, text in meta.notes.items() if len(text) <= 200},
        "sha256": meta.sha256,
        "file": str(found.path),
    }
    facts |= accuracy_facts(found) if accuracy else {}
    if as_json:
        echo_json({key.strip(): words for key, words in facts.items()})
        return
    _print(as_facts({key: words or "not stated" for key, words in facts.items()}))


@app.command("import")
def import_(
    out: Annotated[Path, typer.Option()],
    table: Annotated[Path | None, typer.Argument()] = None,
    split: list[str] | None = None,
    val_classes: float | None = None,
    seed: int = 0,
    name: str | None = None,
    label: str = "label",
    split_column: str = "split",
    dtype: Precision | None = None,
    dataset: str = "",
    backbone: str = "",
    extraction: str = "",
    licence: str = "",
    provenance: str = "",
) -> None:
    """Make a bank from npz, npy, CSV, Parquet, HDF5, torch or pickled feature files."""
    from firthshot.banks import import_bank, import_dealt, import_whole

    if (table is None) == (not split):
        raise BankError("Give either one FILE or --split SPLIT=FILE options.")
    if val_classes is not None and table is None:
        raise BankError(
            "--val-classes is for one FILE: --split says itself which class goes where."
        )
    words = {
        "name": name or out.stem,
        "dataset": dataset,
        "backbone": backbone,
        "extraction": extraction,
        "licence": licence,
        **({"provenance": provenance} if provenance else {}),
    }
    if table is not None and val_classes is not None:
        made = import_dealt(
            out, table, label=label, val_classes=val_classes, seed=seed, dtype=dtype,
            **words,
        )  # fmt: skip
    elif table is not None:
        made = import_whole(out, table, label=label, split=split_column, dtype=dtype, **words)
    else:
        made = import_bank(out, _split_files(split or []), label=label, dtype=dtype, **words)
    n, d = made.features.shape
    echo(f"Wrote {out}: {n} rows x {d} dimensions, {made.features.dtype}.")
    for own in made.splits:
        echo(f"  {own}: {_split_words(made, own)}")
    echo(f"Next: firthshot bank check {out}")


@app.command()
def export(bank: str, out: Annotated[Path, typer.Option()], split: str | None = None) -> None:
    """Write a bank as .npz: X, y, classes, class_splits, meta."""
    from firthshot.banks import export_npz, load_bank

    if out.suffix != ".npz":
        raise BankError(f"{out} does not end in .npz: banks are exported as .npz only.")
    export_npz(load_bank(bank), out, split)
    echo(f"Wrote {out}.")


@app.command("check")
@app.command("doctor", hidden=True)
def doctor(bank: str, as_json: AsJson = False) -> None:
    """Find what is wrong or suspicious in a bank; exit code 1 if something is broken."""
    from firthshot.banks import diagnose, load_bank

    found = load_bank(bank)
    findings = diagnose(found)
    if as_json:
        names = ("severity", "code", "sentence")
        echo_json([{name: getattr(one, name) for name in names} for one in findings])
    else:
        _tell_findings(found, findings)
    if any(finding.severity == "broken" for finding in findings):
        raise typer.Exit(1)


def _tell_findings(found: Bank, findings: list[Finding]) -> None:
    for finding in findings:
        colour = "bold red" if finding.severity == "broken" else "yellow"
        sentence = plain(f"[{finding.code}] {finding.sentence}")
        _print(pair(plain(finding.severity, colour), sentence, 10))
    broken = sum(finding.severity == "broken" for finding in findings)
    n, d = found.features.shape
    verdict = f"{broken} broken, {len(findings) - broken} remarkable" if findings else "healthy"
    _print(plain(f"{found.name} ({n} x {d}): {verdict}.", "bold"))


def accuracy_facts(bank: Bank, split: str = "novel") -> dict[str, str]:
    """Return lines that say the accuracy of the nearest class mean, with 95 % intervals."""
    from firthshot.engine import baseline
    from firthshot.experiments.statistics import half_width

    shots = "- and ".join(map(str, baseline.SHOTS))
    title = f"{split}, {baseline.WAYS}-way, {shots}-shot"
    size = f"({baseline.TRIALS} trials, {baseline.QUERIES} queries per class)"
    found = {
        f"  {words}": ", ".join(f"{100 * a.mean():.1f} ± {100 * half_width(a):.1f} %" for a in own)
        for words, own in baseline.baseline_accuracies(bank, split).items()
    }
    return {"nearest class mean": f"{title} {size}", **found}


def _ls_row(entry: BankEntry) -> list[RenderableType]:
    if entry.bank is None:
        return [plain(entry.name, "red"), "-", "-", "unreadable", plain(entry.origin)]
    bank = entry.bank
    counts = [bank.meta.class_splits.count(split) for split in ("base", "val", "novel")]
    n, d = bank.features.shape
    words = "/".join(map(str, counts)) + " classes"
    return [plain(entry.name), str(n), str(d), words, plain(entry.origin)]


def _entry_facts(entry: BankEntry) -> dict[str, object]:
    facts: dict[str, object] = {"name": entry.name, "from": entry.origin, "error": entry.error}
    if entry.bank is not None:
        n, d = entry.bank.features.shape
        counts = {split: len(entry.bank.classes(split)) for split in entry.bank.splits}
        facts |= {"rows": n, "dimensions": d, "classes": counts}
    return facts


def _split_words(bank: Bank, split: str) -> str:
    sizes = [len(rows) for rows in bank.class_rows(split)]
    each = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{len(sizes)} classes, {sum(sizes)} rows ({each} per class)"


def _split_files(options: list[str]) -> dict[str, str]:
    files: dict[str, str] = {}
    for option in options:
        split, equals, path = option.partition("=")
        if not equals or not path:
            raise BankError(f"--split {option} is not SPLIT=FILE: write --split val=val.npz.")
        if split in files:
            raise BankError(f"--split {split} is given twice: name one file for it.")
        files[split] = path
    return files


def _print(what: RenderableType) -> None:
    screen().print(what)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
