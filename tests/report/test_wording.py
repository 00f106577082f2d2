"""Conditions and numbers in words."""

from __future__ import annotations

import pytest

from firthshot.report.wording import Condition, listed, parts, points, points_ci, where


def _conditions(ways: list[int], shots: list[int], schemes: list[str]) -> list[Condition]:
    equal = [Condition(w, False, s, "balanced") for w in ways for s in shots]
    return sorted(equal + [Condition(w, True, 8, name) for w in ways for name in schemes])


def test_parts_cover_and_do_not_overlap() -> None:
    among = _conditions([5, 10, 15], [1, 5], ["unbalanced-8"])
    for number in range(1, 2 ** len(among)):
        some = [one for at, one in enumerate(among) if number >> at & 1]
        found = parts(some, among)
        assert sorted(one for part in found for one in part) == some
        for part in found:
            ways = {one.ways for one in part}
            shots = {(one.shots, one.scheme) for one in part}
            assert len(part) == len(ways) * len(shots)  # a phrase names each and no more


@pytest.mark.parametrize(
    ("ways", "shots", "schemes", "words"),
    [
        ([5, 10], [1, 5], ["unbalanced-8"], "in all 6 settings"),
        ([5, 10], [1, 5], [], "with equal shots"),
        ([5, 10], [], ["unbalanced-8"], "with unequal shots"),
        ([5], [1], [], "at 1 shot, 5 ways"),
        ([10], [], ["unbalanced-8"], "with unequal shots at 10 ways"),
    ],
)
def test_where(ways: list[int], shots: list[int], schemes: list[str], words: str) -> None:
    among = _conditions([5, 10], [1, 5], ["unbalanced-8"])
    assert where(_conditions(ways, shots, schemes), among) == words


def test_numbers_in_words() -> None:
    assert points(0.00001) == "0.00"
    assert points(-0.00001) == "0.00"
    assert points(-0.0123) == "−1.23"
    assert points_ci(0.5, None) == "+50.00"
    assert points_ci(0.007, 0.002) == "+0.70 ± 0.20"
    assert listed([1]) == "1"
    assert listed([1, 2, 3]) == "1, 2 and 3"
