"""Add a head, a penalty, a bank format and a preset as docs/extending.md says, and use them."""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from firthshot import FirthClassifier, load_bank, sample_episodes
from firthshot.banks import READERS, Source, import_bank
from firthshot.cli import app
from firthshot.engine import Converged, Linear, Penalty, Sgd, solve, train
from firthshot.engine.heads import base
from firthshot.errors import BankError, FirthshotError
from firthshot.experiments.runner import run
from firthshot.experiments.spec import reading
from firthshot.experiments.spec.choose import settle_banks
from firthshot.experiments.spec.reading import load_spec
from firthshot.experiments.summary import summarise_many
from firthshot.objective import PENALTIES, PenaltyFamily, SampleLoss, register_penalty, softmax
from firthshot.report.build import write_report
from oracles.linear_optimum import descend

DOCUMENT = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture
def episodes():
    bank = load_bank("clinc150-minilm")
    return bank.features, sample_episodes(bank, "val", ways=5, shots=2, trials=4, queries=5)


@pytest.fixture
def discriminant(monkeypatch):
    """Register the document's head, as its code stands there, for one test."""
    monkeypatch.setattr(base, "_HEADS", dict(base._HEADS))
    code = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)[0]
    names = {"__name__": "document"}
    exec(code[: code.index("bank = load_bank")], names)
    return names["Discriminant"]


@pytest.mark.parametrize("shots", [2, 7])
def test_a_head_of_ones_own_is_trained(discriminant, shots):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    bank = load_bank("clinc150-minilm")
    features = bank.features[:, :40].astype(np.float64)
    episodes = sample_episodes(bank, "val", ways=5, shots=shots, trials=3, queries=5)
    penalty = Penalty("firth", (0.0, 1.0))
    own = train(features, episodes, discriminant(), Sgd(), penalty, dtype="float64",
                keep=("probabilities", "weights"))  # fmt: skip
    for number, trial in enumerate(episodes):
        known = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        known.fit(features[trial.support], trial.support_labels)
        expected = known.predict_proba(features[trial.query])
        for mine in own.kept["probabilities"][number]:
            assert_allclose(mine, expected, atol=1e-9)
        assert_allclose(own.kept["weights"][number]["coef"][1], known.coef_, rtol=1e-7)


SYMMETRIC = PenaltyFamily("symmetric", prior=1.0, confidence=1.0, title="symmetric divergence")


@pytest.fixture
def with_symmetric(monkeypatch):
    monkeypatch.setitem(PENALTIES, "symmetric", None)  # taken away again at the end
    register_penalty(SYMMETRIC)


@pytest.mark.usefixtures("with_symmetric")
def test_a_penalty_of_ones_own_is_trained(episodes):
    """Train λ (KL(U‖p) + KL(p‖U)) beside cross-entropy."""
    features, trials = episodes
    lams = (0.0, 0.5, 3.0)
    sgd = Sgd(0.5, 0.0, batch_size=10, epochs=20, shuffle=False)
    start, penalty = Linear(start="zero"), Penalty("symmetric", lams)
    own = train(features, trials, start, sgd, penalty, dtype="float64", keep="weights")
    for number, trial in enumerate(trials):
        X = np.asarray(features[trial.support], dtype=np.float64)
        for l, lam in enumerate(lams):
            W, b = descend(X, trial.support_labels, 5, SampleLoss(1.0, lam, lam))
            assert_allclose(own.kept["weights"][number]["coef"][l], W.T, atol=1e-12)
            assert_allclose(own.kept["weights"][number]["intercept"][l], b, atol=1e-12)


@pytest.mark.parametrize("prior", [(0.6, 0.4), (0.5, 0.3, 0.2)])
def test_a_penalty_without_confidence_is_an_estimator_at_another_lam(prior, monkeypatch):
    family = PenaltyFamily("halved", label=-0.5, prior=1.5, l2=0.4)
    monkeypatch.setitem(PENALTIES, "halved", family)
    K, lam, c, rng = len(prior), 0.8, 0.3, np.random.default_rng(0)
    y = np.repeat(np.arange(K), 5)
    X = rng.normal(size=(5 * K, 8)) + 2 * np.eye(K, 8)[y]
    penalty = Penalty("halved", (lam,), prior, l2=c, l2_kind="ridge")
    found = solve(X, y, penalty.tables(y, K, 9 * K), tolerance=1e-9)
    w = 1 + lam * family.label
    l2 = (c + lam * family.l2) / w / (2 if K == 2 else 1)
    same = FirthClassifier(lam=lam * family.prior / w, l2=l2, prior=prior, class_weight=None,
                           calibrate=False, tol=1e-9)  # fmt: skip
    expected = softmax(X @ found.coef[0].T + found.intercept[0])
    assert_allclose(same.fit(X, y).predict_proba(X), expected, atol=1e-8)


SMALL = {"trials": 4, "shots": [1, 2], "ways": [3], "queries": 5, "coefficients": [0, 1]}


def run_small(folder, **fields):
    """Run the quickstart in small with these fields; return its summary and its page."""
    given = {"name": "own", **SMALL, **fields}
    run(settle_banks(load_spec("quickstart", given)), folder, workers=1)
    page = write_report([folder], figures=False)
    return summarise_many([folder]), page.read_text("utf-8")


@pytest.mark.usefixtures("discriminant")
def test_a_head_of_ones_own_goes_through_a_run_and_its_report(tmp_path):
    own, page = run_small(tmp_path, heads=["linear", "lda"], references=True, shots=[2])
    lines = own.all.filter(head="lda", split="novel")
    assert set(lines["penalty"]) == {"none"}  # it takes none: the spec's are for the linear head
    assert set(own.all.filter(head="linear")["penalty"]) == {"firth"}
    assert (lines["accuracy"] > 0.5).all()
    assert {"centroid", "least-squares"} <= set(own.contrasts["against_head"])
    assert "shrinkage LDA head" in page


@pytest.mark.usefixtures("discriminant")
def test_a_reference_of_ones_own_is_trained_in_every_run(tmp_path):
    base._HEADS["lda"].reference = True
    own, page = run_small(tmp_path, heads=["linear"], references=True, shots=[2])
    assert set(own.all["head"]) == {"linear", "centroid", "least-squares", "lda"}
    assert "lda" in set(own.contrasts["against_head"])
    assert "Shrinkage LDA" in page
    with pytest.raises(FirthshotError, match="'lda' is a reference head"):
        load_spec("quickstart", {"heads": ["lda"]})


@pytest.mark.usefixtures("with_symmetric")
def test_a_penalty_of_ones_own_goes_through_a_run_and_its_report(tmp_path):
    both, page = run_small(
        tmp_path, penalties=["symmetric", "firth"], priors=["uniform", "class-frequency"]
    )
    lines = both.all.filter(head="linear", split="novel", theory=False)
    nll = {
        (penalty, lam): lines.filter(penalty=penalty, prior="uniform", coefficient=lam)["nll"]
        for penalty in ("symmetric", "firth")
        for lam in (0.0, 1.0)
    }
    assert_allclose(nll["symmetric", 0.0], nll["firth", 0.0], rtol=1e-6)
    assert (nll["symmetric", 1.0] > nll["firth", 1.0]).all()  # twice as much towards uniform
    # Its loss has a prior: it is trained once for each.
    assert set(lines.filter(penalty="symmetric")["prior"]) == {"uniform", "class-frequency"}
    assert "symmetric divergence" in page.lower()


def test_a_report_needs_no_registration_but_going_on_does(tmp_path, monkeypatch):
    monkeypatch.setitem(PENALTIES, "symmetric", SYMMETRIC)
    run_small(tmp_path, penalties=["symmetric"])
    monkeypatch.delitem(PENALTIES, "symmetric")
    assert "symmetric" in write_report([tmp_path], figures=False).read_text("utf-8")
    with pytest.raises(FirthshotError, match="no penalty 'symmetric': use firth"):
        load_spec(str(tmp_path))


def test_a_head_that_is_not_registered_is_named(episodes, discriminant):
    del base._HEADS["lda"]
    with pytest.raises(FirthshotError, match="'lda' is not registered"):
        train(*episodes, discriminant(), Converged(), Penalty())
    with pytest.raises(FirthshotError, match="There is no head 'lda': use"):
        load_spec("quickstart", {"heads": ["lda"]})


def read_words(path):
    """Read lines "class number number …"."""
    lines = [line.split() for line in path.read_text().splitlines()]
    rows = np.array([[float(value) for value in line[1:]] for line in lines])
    return Source(rows, np.array([line[0] for line in lines]))


@pytest.fixture
def words(tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, ".words", read_words)
    return tmp_path / "novel.words"


def test_a_bank_format_of_ones_own_is_imported(words):
    words.write_text("dog 0 1\ncat 1 2\ncat 2 2\ndog 0 2\n")
    bank = import_bank(words.with_suffix(".bank"), {"novel": words}, name="pets")
    assert bank.classes("novel") == ("cat", "dog")
    for rows, wanted in zip(
        bank.class_rows("novel"), ([[1, 2], [2, 2]], [[0, 1], [0, 2]]), strict=True
    ):
        assert_array_equal(bank.features[rows], wanted)


def test_whatever_a_reader_raises_is_a_sentence_that_names_the_file(words):
    words.write_text("dog zero 1\n")
    with pytest.raises(BankError, match=r"novel\.words"):
        import_bank(words.with_suffix(".bank"), {"novel": words}, name="pets")


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Put the document's preset among those of the package."""
    presets = tmp_path / "presets"
    presets.mkdir()
    (block,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    (presets / "mine.toml").write_text(block, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reading, "PRESETS", presets)
    reading._preset_kinds.cache_clear()
    yield presets / "mine.toml"
    reading._preset_kinds.cache_clear()


def firthshot(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_preset_of_ones_own_is_listed_and_run(mine, tmp_path):
    assert "mine" in firthshot("presets")
    firthshot("validate", mine)
    few = ("--trials", 2, "--workers", 1, "--quiet", "--no-report")
    firthshot("run", "mine", *few, "--out", tmp_path / "by-name")
    firthshot("run", mine, *few, "--out", tmp_path / "by-path")
    by_name, by_path = ((tmp_path / run / "summary" / "all.csv") for run in ("by-name", "by-path"))
    assert "cosine" in by_name.read_text()
    assert by_name.read_text() == by_path.read_text()
