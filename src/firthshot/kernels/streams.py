"""Counter-based random streams: the same draws on every platform, in any order, on any thread.

Philox4x32-10 (Salmon, Moraes, Dror & Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC 2011)
maps a 128-bit counter and a 64-bit key to 128 random bits. The key says *what is sampled* (a hash
of the label layout, split, ways and shots), the counter says *which number*: (block, substream,
trial, purpose). No generator is carried along, so nothing that happens elsewhere can shift a draw.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from firthshot.kernels import kernel

# What a stream is used for; each purpose has numbers of its own.
CLASSES, ROWS, SHOTS, START, SHUFFLE, NOISE = range(6)

_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_32 = np.uint64(32)


def stream_key(*parts: Any) -> int:
    """Return the 64-bit key of a stream from plain values (strings, numbers, lists of them)."""
    text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@kernel(allocates=False)
def philox(key, block, substream, trial, purpose, out, at):
    """Write the four 32-bit words of one counter to ``out[at : at + 4]`` (uint64 array)."""
    c0, c1 = np.uint64(block) & _LOW, np.uint64(substream) & _LOW
    c2, c3 = np.uint64(trial) & _LOW, np.uint64(purpose) & _LOW
    k0, k1 = np.uint64(key) & _LOW, np.uint64(key) >> _32
    for _ in range(10):
        left, right = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (right >> _32) ^ c1 ^ k0,
            right & _LOW,
            (left >> _32) ^ c3 ^ k1,
            left & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    out[at], out[at + 1], out[at + 2], out[at + 3] = c0, c1, c2, c3


@kernel(allocates=False)
def random_words(key, first, count, substream, trial, purpose, out):
    """Fill ``out[:count]`` with words, starting at block ``first``; return the next unused block.

    ``out`` is a uint64 array with room for ``count`` rounded up to a multiple of four.
    """
    block = first
    for at in range(0, count, 4):
        philox(key, block, substream, trial, purpose, out, at)
        block += 1
    return block


@kernel(allocates=False)
def shuffle_first(items, n, first, words):
    """Bring a uniform random sample of ``items[:n]`` to its first ``first`` places (Fisher–Yates).

    A word w becomes an index below m as ⌊w m / 2³²⌋, whose bias is below m / 2³².
    """
    for i in range(min(first, n - 1)):
        j = i + np.int64((words[i] * np.uint64(n - i)) >> _32)
        items[i], items[j] = items[j], items[i]


@kernel(allocates=False)
def uniform(word):
    """Map a 32-bit word to the open unit interval, exactly representable in float64."""
    return (np.float64(word) + 0.5) * 2.0**-32


@kernel
def fill_uniform(key, substream, trial, purpose, bound, out):
    """Fill the flat array ``out`` with uniform numbers in (-bound, bound)."""
    words = np.empty(4, np.uint64)
    for at in range(0, out.size, 4):
        philox(key, at // 4, substream, trial, purpose, words, 0)
        for lane in range(min(4, out.size - at)):
            out[at + lane] = (2.0 * uniform(words[lane]) - 1.0) * bound
