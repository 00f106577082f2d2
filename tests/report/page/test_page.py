"""The page as text: what it holds, what it escapes, and that it does not grow with the trials."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import html.parser
import io
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from experiments.summary_folders import failed, grid, write
from experiments.toy import write_bank
from firthshot.cli import app
from firthshot.cli._overview import overview, show_lines
from firthshot.errors import FirthshotError
from firthshot.pages import script_json
from firthshot.report import build
from firthshot.report.build import write_report
from firthshot.report.gather import Gathered, gather
from firthshot.report.page import provenance
from firthshot.report.page.render import PAGE, headline_of, render, table_view
from firthshot.report.plots.vega import make_charts
from firthshot.report.tables import make_tables
from firthshot.report.tables.cells import Number, Table
from report.runs_made import HOSTILE, toy_run

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_run(tmp_path_factory.mktemp("page"), penalties=["firth", "l2"], ways=[3])


@pytest.fixture(scope="module")
def gathered(folder: Path) -> Gathered:
    return gather([folder])


@pytest.fixture(scope="module")
def page(gathered: Gathered) -> str:
    return render(gathered, (), make_tables(gathered))


class Elements(html.parser.HTMLParser):
    """Collect the elements of a page, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._script = tag in ("script", "style")
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._script = False

    def handle_data(self, data: str) -> None:
        if self._script:
            if self.scripts:
                about, text = self.scripts[-1]
                self.scripts[-1] = (about, text + data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def data_of(page: str) -> dict[str, Any]:
    scripts = {about.get("id"): text for about, text in Elements(page).scripts}
    found: dict[str, Any] = json.loads(scripts["page-data"])
    return found


def test_the_page_is_one_file_that_loads_nothing(page: str) -> None:
    elements = Elements(page)
    for tag, about in elements.found:
        source = about.get("src") or (about.get("href") if tag in ("link", "use") else None)
        assert source is None or source.startswith("data:"), (tag, about)
    assert not any(tag in ("link", "iframe", "object", "embed") for tag, _ in elements.found)
    assert not re.search(r"url\((?!data:)", page.partition("</style>")[0])
    assert 0.9e6 < len(page.encode()) < 2e6


def test_the_policy_runs_our_scripts_and_no_others(page: str) -> None:
    elements = Elements(page)
    (policy,) = (
        about["content"] or ""
        for tag, about in elements.found
        if tag == "meta" and about.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    running = [text for about, text in elements.scripts if about.get("type") == "module"]
    assert len(running) == 2
    for script in running:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_what_was_run_is_there(page: str, folder: Path) -> None:
    text = Elements(page).text
    for words in (
        "Does Firth help here?",
        "The verdict, setting by setting",
        "What was run",
        "How to cite",
        "Run it again",
        "firthshot run spec.toml --out runs/run",
        "510 rows × 12, classes: 2 base, 6 val, 9 novel",
        "Nearest class mean",
        "L2",
        "polars",
        "coefficients = [0.0, 0.1, 1.0, 10.0]",
    ):
        assert words in text, words
    spec = (folder / "spec.toml").read_text()
    assert str(tomllib.loads(spec)["trials"]) in text


def test_the_charts_data_are_the_summary(page: str, gathered: Gathered) -> None:
    data = data_of(page)
    chosen = gathered.summary.chosen.filter(pl.col("penalty") != "none")
    rows = [
        dict(zip(data["settings"]["columns"], row, strict=True)) for row in data["settings"]["rows"]
    ]
    assert len(rows) == len(chosen)
    told = sorted((row["improvement"], row["trials"]) for row in rows)
    truth = sorted((float(f"{i:.6g}"), t) for i, t in chosen.select("improvement", "trials").rows())
    assert told == truth
    curves = gathered.summary.all.filter(pl.col("penalty") != "none")
    assert len(data["curves"]["rows"]) == len(curves)
    columns = data["bins"]["columns"]
    series = {row[columns.index("series")] for row in data["bins"]["rows"]}
    assert series <= {"without", "chosen", "theory"}
    assert "without" in series


def test_contrasts_are_told_from_both_sides(page: str) -> None:
    data = data_of(page)["contrasts"]
    rows = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    place = lambda row: (row["ways"], row["shots"])  # noqa: E731
    firth = {place(r): r["difference"] for r in rows if r["method"] == 0 and r["against"] == "L2"}
    l2 = {place(r): r["difference"] for r in rows if r["method"] == 1 and r["against"] == "Firth"}
    assert firth.keys() == l2.keys() != set()
    assert all(l2[at] == -firth[at] for at in firth)


def test_downloads_hold_the_whole_tables(page: str, gathered: Gathered) -> None:
    packed = {about.get("id"): text for about, text in Elements(page).scripts}
    for name in ("all", "chosen", "contrasts"):
        text = gzip.decompress(base64.b64decode(packed[f"file-{name}"])).decode()
        assert text == getattr(gathered.summary, name).write_csv()


@pytest.mark.parametrize("text", ["</script><b>", "<!--", "\u2028", "a&b", "\\u003c"])
def test_json_in_a_script_is_only_data(text: str) -> None:
    written = str(script_json({"name": text}))
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {"name": text}


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    named = {
        "name": HOSTILE,
        "dataset": "</style><script>alert(2)</script>",
        "backbone": "{{ 7 * 7 }} $metric \"quoted\" 'too'",
        "provenance": "<img src=x onerror=alert(3)>",
    }
    folder = toy_run(tmp_path, bank=named, trials=4, shots=[1], remark="</pre><script>x</script>")
    gathered = gather([folder])
    page = render(gathered, (), make_tables(gathered))
    elements = Elements(page)
    kinds = [about.get("type") for about, _ in elements.scripts]
    assert kinds.count("module") == 2
    assert None not in kinds
    assert not any(tag == "img" for tag, _ in elements.found)
    for words in (HOSTILE, named["provenance"], "{{ 7 * 7 }}", "</pre><script>x</script>"):
        assert words in elements.text
    assert data_of(page)["methods"][0]["bank"] == HOSTILE
    assert "<script>alert" not in page


def test_no_text_of_a_bank_enters_an_expression() -> None:
    """Labels come as parameters and rows as data: every expression is written in vega.py."""

    def strings(part: Any, name: str = "") -> list[tuple[str, str]]:
        if isinstance(part, dict):
            return [each for key, value in part.items() for each in strings(value, key)]
        if isinstance(part, list):
            return [each for value in part for each in strings(value, name)]
        return [(name, part)] if isinstance(part, str) else []

    expressions = [
        text
        for name, text in strings(make_charts())
        if name in ("labelExpr", "filter", "expr", "calculate", "test", "update", "signal")
    ]
    assert expressions
    assert not any("$" in text for text in expressions)


def test_a_partial_run_says_so_at_the_top(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=4)
    for part in sorted((folder / "parts").glob("*.parquet"))[:3]:
        part.unlink()
    text = Elements(render(gather([folder]))).text
    assert "toy is not finished. 21 of 24 cells are here" in text
    assert "toy: unfinished" in text


def test_dropped_trials_stand_at_the_top(tmp_path: Path) -> None:
    rows = [
        line
        for split in ("val", "novel")
        for line in grid({0.0: [0.5, 0.6, 0.7], 1.0: [0.6, 0.7, 0.8]}, split=split)
    ]
    lost = failed(0.0, 3, split="novel", status="invalid")
    folder = write(tmp_path / "run", [*rows, lost])
    (folder / "spec.toml").write_text('name = "toy"\n')
    (folder / "banks.json").write_text("{}")
    (alert,) = provenance.alerts(gather([folder]))
    assert alert[0] == "toy lacks trials."
    assert alert[1].startswith("1 of 4 novel trials were dropped, because some of their features")


@pytest.mark.parametrize("known", [True, False])
def test_bars_are_explained_where_there_are_any(gathered: Gathered, known: bool) -> None:
    summary = gathered.summary
    names = ("improvement_classes_low", "theory_improvement_classes_low")
    value = 0.0 if known else None
    chosen = summary.chosen.with_columns(pl.lit(value, pl.Float64).alias(n) for n in names)
    changed = dataclasses.replace(summary, chosen=chosen)
    text = render(dataclasses.replace(gathered, summary=changed))
    assert ("broad pale bars" in text) == known


def test_only_val_rows_are_there(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=4, splits=["val"], shots=[1])
    gathered = gather([folder])
    text = Elements(render(gathered, (), make_tables(gathered))).text
    assert "No setting is finished on novel classes." in text
    assert "there are no usable novel rows" in text


def test_another_bank_than_the_papers_is_said(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=3, ways=[3], shots=[1], paper_banks=["mini-resnet10"])
    text = Elements(render(gather([folder]))).text
    assert "Not the paper’s features." in text
    assert "toy repeats settings of the paper on toy; the paper used mini-resnet10" in text


def test_the_size_does_not_depend_on_the_trials(tmp_path: Path) -> None:
    sizes = [
        len(render(gather([toy_run(tmp_path / str(n), trials=n, shots=[1], ways=[3])])))
        for n in (20, 200)
    ]
    assert abs(sizes[1] - sizes[0]) < 2000  # more digits, a few more bins of a histogram


def test_write_report_writes_everything(folder: Path, tmp_path: Path) -> None:
    page = write_report([folder], tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    assert list((tmp_path / "out" / "figures").glob("*.svg"))
    assert list((tmp_path / "out" / "tables").glob("*.tex"))
    text = page.read_text("utf-8")
    assert "data:image/svg+xml;base64," in text
    assert len(text.encode()) < 2e6


def test_several_runs_need_a_folder(folder: Path, tmp_path: Path) -> None:
    other = toy_run(tmp_path, first_trial=1000, trials=3, ways=[3], shots=[1], name="other")
    with pytest.raises(FirthshotError, match="needs a folder of its own"):
        write_report([folder, other])


def test_the_command(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def writing(folders: list[Path], out: Path | None, *, figures: bool, drawn: Any) -> Path:
        assert drawn is not None  # long work says how far it is
        seen["folders"], seen["out"], seen["figures"] = folders, out, figures
        return (out or folders[0]) / "report.html"

    monkeypatch.setattr(build, "write_report", writing)
    result = CliRunner().invoke(app, ["report", str(folder), str(folder)])
    assert result.output == f"report in {folder}/report.html\n"
    assert seen == {"folders": [folder], "out": None, "figures": True}
    CliRunner().invoke(app, ["report", str(folder), str(tmp_path / "b")])
    assert seen["out"] == folder.parent / "run+b"
    CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "c"), "--no-figures"])
    assert seen["out"] == tmp_path / "c"
    assert seen["figures"] is False


def test_a_report_without_figures(folder: Path, tmp_path: Path) -> None:
    page = write_report([folder], tmp_path, figures=False)
    assert "data:image/svg+xml" not in page.read_text("utf-8")
    assert not (tmp_path / "figures").exists()
    assert list((tmp_path / "tables").glob("*.csv"))


def test_citations_are_those_of_the_repository() -> None:
    cited = (PAGE / "templates" / "cite.html.j2").read_text("utf-8")
    file = (ROOT / "CITATION.cff").read_text("utf-8")
    facts = re.findall(r"(?:[- ] (?:family-names|given-names|year|name)|    title): (.+)", file)
    assert len(facts) == 12
    for fact in facts:
        assert fact in cited


def test_novel_trials_alone_are_not_called_unfinished(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=3, ways=[3], shots=[1], name="alone", splits=["novel"])
    headline = headline_of(gather([folder]))
    assert headline.answer == (
        "No λ was chosen, because the novel trials have no validation trials beside them."
    )


def test_a_bank_without_validation_classes_is_said_not_to_be_judged(tmp_path: Path) -> None:
    plain = write_bank(tmp_path / "plain.bank", val=0, novel=5)  # too few for two halves
    both = {"banks": [str(tmp_path / "toy.bank"), str(plain)], "splits": ["val", "novel"]}
    folder = toy_run(tmp_path, trials=5, ways=[3], shots=[1], **both)
    sentence = "plain has no validation trials: it is not judged."
    found = gather([folder])
    assert {verdict.key["bank"] for verdict in found.verdicts} == {"toy"}
    assert headline_of(found).lines[-1] == sentence
    assert sentence in render(found)
    assert overview(found.summary).legend.endswith(sentence)
    alone = toy_run(tmp_path / "alone", trials=5, ways=[3], shots=[1], splits=["novel"])
    words = "toy has no validation trials: it is not judged."
    assert overview(gather([alone]).summary).legend == words


def test_a_bank_of_novel_classes_alone_gets_a_verdict(tmp_path: Path) -> None:
    plain = write_bank(tmp_path / "plain.bank", val=0, base=0, novel=9)
    folder = toy_run(tmp_path, trials=5, ways=[3], shots=[1], banks=[str(plain)])
    found = gather([folder])
    assert {verdict.key["bank"] for verdict in found.verdicts} == {"plain"}
    words = "λ is chosen on 4 of its 9 novel classes, drawn by seed 0, and tested on the other 5."
    assert words in render(found)
    assert found.runs[0].banks[0].bank is not None


def test_a_judged_bank_is_not_called_unjudged(gathered: Gathered) -> None:
    assert gathered.summary.not_judged == []


def test_without_a_penalty_accuracies_are_shown(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=5, ways=[3], shots=[1], penalties=["none"])
    found = gather([folder])
    assert set(found.summary.all["split"]) == {"val", "novel"}
    assert headline_of(found).answer == ("No penalty was trained, so there is nothing to choose.")
    shown = overview(found.summary)
    console = Console(width=100, file=io.StringIO())
    console.print(shown.title)
    show_lines(console, shown.rows)
    text = console.file.getvalue()
    assert "no penalty was trained" in text
    for row in found.summary.chosen.to_dicts():
        accuracy, width = 100 * row["accuracy"], 100 * row["accuracy_ci"]
        assert re.search(rf"{row['head']} +3 1 +{accuracy:.2f} ± {width:.2f}", text)


def test_a_preset_is_repeated_by_its_name(gathered: Gathered) -> None:
    import dataclasses

    from firthshot.experiments.spec.reading import load_spec

    fields = json.loads(json.dumps(load_spec("quickstart").as_dict()))
    path = Path("runs/quickstart")
    run = dataclasses.replace(gathered.runs[0], name="quickstart", path=path, spec=fields)
    assert provenance.rerun_command(run) == "firthshot run quickstart"
    moved = {"source": ["/home/me/mini.bank", "own"], "paper_sources": ["x"], "remark": "y"}
    lent = dataclasses.replace(run, spec={**run.spec, **moved})
    assert provenance.rerun_command(lent) == (
        'firthshot run quickstart --set \'source=["mini.bank", "own"]\''
    )
    fields |= {"trials": 20, "shots": [1, "unbalanced-8"], "banks": ["/data/my.bank"]}
    changed = dataclasses.replace(run, path=Path("runs/few shots"), spec=fields)
    assert provenance.rerun_command(changed) == (
        "firthshot run quickstart --bank my.bank --set 'shots=[1, \"unbalanced-8\"]' --trials 20 "
        "--out 'runs/few shots'"
    )
    own = dataclasses.replace(run, name="mine", path=Path("runs/second"))
    assert provenance.rerun_command(own) == "firthshot run spec.toml --out runs/second"


def test_a_geometric_run_is_reported_by_itself(tmp_path: Path) -> None:
    few = ["--trials", "300", "--set", "sample_size=20", "--set", "slope=[5,20]"]
    folder = tmp_path / "g"
    said = CliRunner().invoke(app, ["run", "geometric", *few, "--out", str(folder)]).output
    assert said.endswith(f"The report is {folder}/report.html\n")
    page = (folder / "report.html").read_text("utf-8")
    text = Elements(page).text
    assert "Does Firth remove the bias?" in text
    assert "has slope" in text
    assert (
        "firthshot run geometric --set sample_size=20 --set 'slope=[5, 20]' --trials 300 "
        "--out runs/g"
    ) in text
    assert "data:image/svg+xml;base64," in page
    assert len(page) < 500_000  # no charts, so no Vega


def geometric(folder: Path, trials: int) -> Path:
    few = ["--trials", str(trials), "--set", "sample_size=20", "--set", "slope=[5,20]"]
    CliRunner().invoke(app, ["run", "geometric", *few, "--no-report", "--out", str(folder)])
    return folder


@pytest.mark.parametrize(
    ("trials", "words"), [(1, "There are too few"), (5, "There are too few"), (5000, "Yes:")]
)
def test_few_geometric_trials_give_no_answer(tmp_path: Path, trials: int, words: str) -> None:
    headline = headline_of(gather([geometric(tmp_path, trials)]))
    assert headline.answer.startswith(words)


def test_all_geometric_runs_are_in_the_headline(tmp_path: Path) -> None:
    folders = [geometric(tmp_path / "a", 5000), geometric(tmp_path / "b", 1)]
    headline = headline_of(gather(folders))
    assert headline.answer.startswith("There are too few")  # the second alone could not tell
    assert headline.lines[0] == "5,000 trials; p = 0.5."
    assert "1 trial; p = 0.5." in headline.lines


def test_figures_are_counted_while_they_are_drawn(folder: Path, tmp_path: Path) -> None:
    told: list[int] = []
    write_report([folder], tmp_path, drawn=told.append)
    assert told == list(range(1, 1 + len(list((tmp_path / "figures").glob("*.svg")))))


def test_tables_show_value_and_interval_together() -> None:
    table = Table(
        "improvement-x",
        "X",
        ("Shot", "Gain", "Gain ±", "Mark"),
        ((1, Number(-0.5, 2, True), Number(0.1), "*"), ("unbalanced-8", None, None, "")),
    )
    view = table_view(table)
    assert view["columns"] == ["Shot", "Gain", "Mark"]
    assert view["numbers"] == [True, True, False]
    first, second = view["rows"]
    assert [text for text, _ in first] == ["1", "−0.50 ± 0.10", "*"]
    assert [sort for _, sort in first] == [1.0, -0.5, None]
    assert [text for text, _ in second] == ["unbalanced-8", "", ""]
    assert second[1][1] == ""


def test_a_preset_that_ran_twice_is_named_once(gathered: Gathered) -> None:
    (run,) = gathered.runs
    preset = dataclasses.replace(run, name="cosine", spec={**run.spec, "paper_banks": ["other"]})
    (alert,) = provenance.alerts(Gathered(gathered.summary, (preset, preset)))
    assert alert[1].startswith("cosine repeats settings of the paper on ")


def test_the_chart_marks_a_chosen_zero(page: str) -> None:
    assert make_charts()["improvement"]["spec"]["layer"][-1]["encoding"]["shape"]["scale"] == {
        "domain": ["λ > 0", "λ = 0 chosen"],
        "range": ["circle", "cross"],
    }
    assert 'row.coefficient === 0 ? "λ = 0 chosen" : "λ > 0"' in page


def test_runs_of_one_name_are_told_by_their_folders_and_noted_once(gathered: Gathered) -> None:
    (run,) = gathered.runs
    noted = dataclasses.replace(run.status, notes=["toy: changed."])
    runs = tuple(
        dataclasses.replace(run, path=Path(place) / "run", status=noted) for place in ("a", "b")
    )
    both = dataclasses.replace(gathered, runs=runs)
    text = render(both)
    assert re.findall(r"<h3>(toy[^<]*)</h3>", text)[:2] == ["toy (a/run)", "toy (b/run)"]
    changed = [note for note in provenance.notes(both) if "changed" in note["what"]]
    assert [note["what"] for note in changed] == [
        "toy (a/run) and toy (b/run): changed from the spec"
    ]


def test_the_page_does_not_tell_where_banks_lie(page: str, folder: Path) -> None:
    assert str(folder.parent) in (folder / "spec.toml").read_text()
    assert str(folder.parent) not in page
    assert "toy.bank" in page
