from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from firthshot.banks import Bank, diagnose, load_bank, make_bank
from firthshot.banks._bank import build_bank
from firthshot.banks._survey import centroid_accuracy
from firthshot.errors import BankError

if TYPE_CHECKING:
    from collections.abc import Callable


def codes(bank: Bank) -> list[tuple[str, str, float]]:
    return [(found.code, found.severity, found.figure) for found in diagnose(bank)]


def test_a_sound_bank_is_healthy(make: Callable[..., Bank]) -> None:
    assert diagnose(make()) == []


def test_not_finite_values(make: Callable[..., Bank], clusters: Any) -> None:
    X = clusters[0].copy()
    X[5, :2] = np.nan
    X[130, 0] = -np.inf
    bank = make(X)
    assert codes(bank) == [("not-finite", "broken", 2)]
    sentence = diagnose(bank)[0].sentence
    assert "2 of 400 (2 NaN, 1 infinite" in sentence
    assert "row 5, class 'c0'" in sentence


def test_a_bank_in_memory_takes_no_rows_that_are_not_finite() -> None:
    X = np.ones((4, 2))
    X[2, 1] = np.nan
    with pytest.raises(BankError, match=r"^Row 2 of the features .* \(1 such rows\)"):
        make_bank(X, [0, 0, 1, 1])


def test_zero_rows(make: Callable[..., Bank], clusters: Any) -> None:
    X = clusters[0].copy()
    X[[7, 9, 399]] = 0
    assert codes(make(X)) == [("zero-rows", "broken", 3)]


def test_constant_dimensions(make: Callable[..., Bank], clusters: Any) -> None:
    X = clusters[0].copy()
    X[:, 3] = 2.5
    bank = make(X)
    assert codes(bank) == [("constant-dimensions", "remarkable", 1)]
    assert "dimension 3, always 2.5" in diagnose(bank)[0].sentence


def test_all_rows_alike(make: Callable[..., Bank]) -> None:
    found = codes(make(np.ones((400, 4))))
    assert ("constant-dimensions", "broken", 4) in found
    assert ("near-chance", "remarkable", 1 / 3) in found


def test_duplicates_inside_and_across_splits(make: Callable[..., Bank], clusters: Any) -> None:
    X = clusters[0].copy()
    X[[10, 15]] = X[0]  # base, base, base
    X[300] = X[130]  # val, novel
    bank = make(X)
    assert codes(bank) == [
        ("duplicates-across", "broken", 1),
        ("duplicates-inside", "remarkable", 3),
    ]
    assert diagnose(bank)[0].sentence == (
        "1 row is both in 'val' and in 'novel' (first: row 130, class 'c3', and row 300, class "
        "'c7')."
    )


@pytest.mark.parametrize(
    ("kept", "severity"), [(0, "broken"), (1, "broken"), (2, "remarkable"), (15, "remarkable")]
)
def test_classes_with_too_few_rows(
    make: Callable[..., Bank], clusters: Any, kept: int, severity: str
) -> None:
    X, y = clusters
    rows = np.r_[0 : 120 + kept, 160:400]
    bank = make(X[rows], y[rows])
    assert codes(bank) == [("few-rows", severity, kept)]
    assert f"smallest: 'c3' with {kept}" in diagnose(bank)[0].sentence


def test_class_overlap(make: Callable[..., Bank]) -> None:
    names = [f"c{i}" for i in range(9)] + ["c0"]
    bank = make(classes=names)
    assert codes(bank) == [("class-overlap", "broken", 1)]
    assert "both 'base' and 'novel': 1 (first: 'c0')" in diagnose(bank)[0].sentence


def test_near_chance(make: Callable[..., Bank]) -> None:
    X = np.random.default_rng(3).normal(size=(400, 16))
    found = diagnose(make(X))
    assert {(one.code, one.severity) for one in found} == {("near-chance", "remarkable")}
    assert "chance 33.3%" in found[0].sentence


def test_scales(make: Callable[..., Bank], clusters: Any) -> None:
    X = clusters[0].copy()
    X[:, 4] *= 1e4
    assert [code for code, *_ in codes(make(X))] == ["dimension-scales"]
    X = clusters[0].copy()
    X[240:] /= 50
    (found,) = diagnose(make(X))
    assert found.code == "split-scales"
    assert 30 < found.figure < 80


def test_a_changed_file(make: Callable[..., Bank]) -> None:
    path = make().path
    raw = bytearray(path.read_bytes())
    raw[-1700] ^= 1  # one bit of one feature
    path.write_bytes(raw)
    assert ("sha256", "broken", 1) in codes(load_bank(path))


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_extreme_but_sound_features_are_healthy(
    make: Callable[..., Bank], clusters: Any, factor: float
) -> None:
    assert diagnose(make(clusters[0] * np.float32(factor))) == []


def test_a_bank_of_nothing_but_faults_is_examined_to_the_end() -> None:
    bank = build_bank(np.full((3, 2), np.nan), [0, 0, 0], **ONE_CLASS)
    assert [code for code, *_ in codes(bank)] == ["not-finite", "few-rows"]
    bank = make_bank(np.zeros((3, 2)), [0, 0, 0], **ONE_CLASS)
    assert codes(bank)[0] == ("zero-rows", "broken", 3)


ONE_CLASS = {"name": "t", "classes": ["a"], "class_splits": ["val"]}


def test_leave_one_out_agrees_with_its_definition() -> None:
    rng = np.random.default_rng(4)
    y = np.array([0] * 5 + [1] * 1 + [2] * 9 + [3] * 4)
    X = rng.normal(size=(4, 3))[y] + rng.normal(size=(19, 3))
    right = []
    for row in np.flatnonzero(y != 1):
        rest = np.arange(19) != row
        means = {c: X[rest & (y == c)].mean(axis=0) for c in (0, 2, 3)}
        nearest = min(means, key=lambda c: float(np.sum((X[row] - means[c]) ** 2)))
        right.append(nearest == y[row])
    assert centroid_accuracy(X, y) == (pytest.approx(np.mean(right)), 3)
    assert centroid_accuracy(X[:6], y[:6]) is None


def test_base_classes_with_fewer_rows_than_features(make: Callable[..., Bank]) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 20)
    X = 3 * rng.normal(size=(10, 24))[y] + rng.normal(size=(200, 24))
    (found,) = diagnose(make(X.astype(np.float32), y))
    assert (found.code, found.severity, found.figure) == ("singular-covariance", "remarkable", 20)
    assert "3 of 3 (smallest: 20 rows)" in found.sentence


def test_a_signalling_nan_brings_no_warning() -> None:
    X = np.full((4, 2), 0x7F800001, np.uint32).view(np.float32)
    bank = build_bank(X, [0, 0, 1, 1], name="n", classes=["a", "b"], class_splits=["val", "novel"])
    assert "not-finite" in str(codes(bank))
