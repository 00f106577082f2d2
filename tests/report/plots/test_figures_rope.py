"""The KL rope against its closed form, and the geometric figure against its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.toy import write_bank
from firthshot.banks import load_bank
from firthshot.experiments.geometric import read_geometric, run_geometric, signed
from firthshot.experiments.rope import Paths, fit_paths
from firthshot.experiments.spec import GeometricSpec
from firthshot.experiments.summary import RunSummary
from firthshot.report.gather import Gathered, gather
from firthshot.report.plots import drawings, rope
from firthshot.report.plots.style import style
from firthshot.report.runs import BankFacts, Run
from firthshot.report.tables import make_tables


@pytest.fixture(scope="module")
def paths() -> Paths:
    found = fit_paths(load_bank("clinc150-minilm"))
    assert found is not None
    return found


def test_training_samples_hang_on_a_straight_rope(paths: Paths) -> None:
    # Independent rows are fitted exactly: p = (y + λ/K) / (1 + λ).
    y = np.eye(3)[paths.support_labels]
    lam = paths.coefficients[:, None, None]
    np.testing.assert_allclose(paths.support, (y + lam / 3) / (1 + lam), atol=1e-5)


def test_paths_lead_from_the_corner_to_the_centre(paths: Paths) -> None:
    y = np.eye(3)[paths.support_labels]
    assert np.abs(paths.support[0] - y).max() < 0.01
    assert np.abs(paths.support[-1] - 1 / 3).max() < 0.01
    assert np.abs(paths.query[-1] - 1 / 3).max() < 0.01
    assert (paths.query[0].argmax(-1) == paths.query_labels).mean() > 0.8
    np.testing.assert_allclose(paths.query.sum(-1), 1)


def test_kl_to_uniform_falls_along_every_path(paths: Paths) -> None:
    for predicted in (paths.support, paths.query):
        kl = rope.kl_to_uniform(predicted)
        assert (np.diff(kl, axis=0) < 0).all()
        assert (kl >= -1e-12).all()


def test_kl_is_that_of_the_definition() -> None:
    p = np.array([0.7, 0.2, 0.1])
    assert rope.kl_to_uniform(p) == pytest.approx(np.sum(np.log((1 / 3) / p) / 3))
    assert rope.kl_to_uniform(np.full(3, 1 / 3)) == pytest.approx(0, abs=1e-15)


def test_corners_and_centre_of_the_plane() -> None:
    places = rope.to_plane(np.vstack([np.eye(3), np.full(3, 1 / 3)]))
    np.testing.assert_allclose(places[3], places[:3].mean(0))
    sides = np.linalg.norm(places[:3] - places[[1, 2, 0]], axis=1)
    np.testing.assert_allclose(sides, 1)


def test_the_figure_holds_the_paths(paths: Paths) -> None:
    with style():
        drawing = rope.draw_paths(paths)
    (axes,) = drawing.figure.axes
    found = [line.get_xydata() for line in axes.lines if len(line.get_xydata()) == 61]
    assert len(found) == 15 + 12
    expected = rope.to_plane(paths.query[:, 0])
    assert any(np.allclose(path, expected) for path in found)
    for name in paths.classes:
        assert name in drawing.caption
        assert name in [text.get_text() for text in axes.texts]
    assert "tuning-free λ here is 1.5" in drawing.caption  # K rank / (2N) = 3/2


def empty() -> RunSummary:
    import polars as pl

    from firthshot.experiments.summary.columns import ALL, CHOSEN, CONTRASTS

    return RunSummary(*(pl.DataFrame(schema=schema) for schema in (ALL, CHOSEN, CONTRASTS)), [])


def facts(path: Path) -> BankFacts:
    bank = load_bank(str(path))
    return BankFacts(bank.name, "", "", "", bank.meta.sha256, str(path))


def test_the_bank_of_the_run_is_taken_else_the_embedded_one(tmp_path: Path) -> None:
    own = write_bank(tmp_path / "own.bank", name="own")
    small = write_bank(tmp_path / "small.bank", name="small", val=2, novel=2, base=1)
    assert fit_paths(load_bank(str(small))) is None

    def captions(*banks: BankFacts) -> list[str]:
        run = Run(tmp_path, "x", "trials", {"name": "x"}, "", banks)
        with style():
            return [d.caption for d in rope.draw(Gathered(empty(), (run,)))]

    assert "of bank own as" in captions(facts(small), facts(own))[0]
    (fallback,) = captions(facts(small))
    assert fallback.startswith("The run's own banks are not at hand or too small.")
    assert "of bank clinc150-minilm" in fallback


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = GeometricSpec(kind="geometric", name="g", sample_size=40, slope=(5, 40), trials=4000)
    out = tmp_path_factory.mktemp("geometric")
    run_geometric(spec, out)
    return out


def test_geometric_figure_shows_the_table_and_the_fitted_slope(folder: Path) -> None:
    result = read_geometric(folder)
    data = gather([folder])
    with style():
        (drawing,) = list(drawings(data))  # nothing else has data
    left, right = drawing.figure.axes
    shown = {container.get_label(): container.lines[0] for container in left.containers}
    np.testing.assert_array_equal(
        shown["maximum likelihood"].get_ydata(), result.table["mle"].to_numpy()[:30]
    )
    np.testing.assert_array_equal(shown["Firth"].get_ydata(), result.table["firth"].to_numpy()[:30])
    truth = next(line for line in left.lines if line.get_label() == "true p")
    assert set(truth.get_ydata()) == {0.5}
    measured = right.lines[0]
    np.testing.assert_array_equal(measured.get_ydata(), np.abs(result.table["mle_bias"].to_numpy()))
    fit = next(line for line in right.lines if line.get_label().startswith("slope"))
    x, y = np.log(fit.get_xdata()), np.log(fit.get_ydata())
    assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(result.slope)
    assert f"{signed(result.slope)} ± {result.slope_ci:.3f}" in drawing.caption
    assert "4,000 trials" in drawing.caption


def test_geometric_table_shows_some_sizes(folder: Path) -> None:
    (made,) = make_tables(gather([folder]))
    result = read_geometric(folder)
    sizes = [row[0] for row in made.rows]
    assert sizes == [1, 2, 3, 4, 5, 7, 10, 15, 20, 30]
    by_size = {row["size"]: row for row in result.table.to_dicts()}
    for row in made.rows:
        cells = dict(zip(made.columns, row, strict=True))
        line = by_size[cells["N"]]
        assert cells["Maximum likelihood"] == pytest.approx(line["mle"], abs=5e-6)
        assert cells["Firth ±"] == pytest.approx(line["firth_ci"], abs=5e-6)
    assert "4,000 trials" in made.note
