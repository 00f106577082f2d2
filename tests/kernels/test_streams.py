import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firthshot.kernels.streams import (
    ROWS,
    fill_uniform,
    philox,
    random_words,
    shuffle_first,
    stream_key,
    uniform,
)

# Known answers of Philox4x32-10 published with the Random123 library (kat_vectors).
KNOWN_ANSWERS = [
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(key, counter, expected):
    out = np.zeros(4, np.uint64)
    philox(np.uint64(key[0] | key[1] << 32), *counter, out, 0)
    assert tuple(int(word) for word in out) == expected


def test_key_depends_on_every_part_and_never_changes():
    assert stream_key("trials", 5, [1, 2]) != stream_key("trials", 5, [2, 1])
    assert stream_key("trials", "ab", "c") != stream_key("trials", "a", "bc")
    assert stream_key("trials", 16, 5) == 11137883990460795094


@given(st.integers(2, 40), st.integers(0, 2**32 - 1), st.data())
def test_shuffle_is_a_permutation_whose_head_does_not_depend_on_its_length(n, trial, data):
    first = data.draw(st.integers(1, n))
    words = np.empty(n + 4, np.uint64)
    random_words(np.uint64(7), 0, n, 3, trial, ROWS, words)
    whole, part = np.arange(n), np.arange(n)
    shuffle_first(whole, n, n, words)
    shuffle_first(part, n, first, words)
    assert sorted(whole) == list(range(n))
    assert list(whole[:first]) == list(part[:first])


def test_shuffles_are_uniform():
    """All 24 orders of four items, 24,000 shuffles: chi-square below its 99.99 % point, 58.6."""
    counts = {}
    words = np.empty(8, np.uint64)
    for trial in range(24_000):
        items = np.arange(4)
        random_words(np.uint64(1), 0, 4, 0, trial, ROWS, words)
        shuffle_first(items, 4, 4, words)
        counts[tuple(items)] = counts.get(tuple(items), 0) + 1
    assert len(counts) == 24
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 58.6


def test_uniform_numbers_stay_inside_and_fill_the_interval():
    out = np.empty(100_001)
    fill_uniform(np.uint64(9), 0, 4, 3, 0.5, out)
    assert np.abs(out).max() < 0.5
    assert abs(out.mean()) < 4 * 0.5 / np.sqrt(3 * out.size)
    assert 0 < uniform(np.uint64(0)) < uniform(np.uint64(2**32 - 1)) < 1
