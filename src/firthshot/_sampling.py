"""Compiled loops behind :mod:`firthshot.episodes`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firthshot.kernels import kernel
from firthshot.kernels.streams import CLASSES, ROWS, SHOTS, random_words, shuffle_first, uniform


@kernel
def choose_classes(key, trials, n_classes, ways):
    """Return ``ways`` of ``n_classes`` classes for every trial, in random order."""
    chosen = np.empty((trials.size, ways), np.int64)
    words = np.empty(ways + 4, np.uint64)
    for t in range(trials.size):
        pool = np.arange(n_classes)
        random_words(key, 0, ways, 0, trials[t], CLASSES, words)
        shuffle_first(pool, n_classes, ways, words)
        chosen[t] = pool[:ways]
    return chosen


class ClassRows(NamedTuple):
    """The rows of all classes: class c owns ``flat[starts[c]:starts[c + 1]]``."""

    flat: Any
    starts: Any


class DrawnRows(NamedTuple):
    """What is drawn: support (T, N) and, trial after trial from ``offsets``, query rows."""

    support: Any
    support_labels: Any
    query: Any
    query_labels: Any
    offsets: Any


@kernel
def draw_rows(key, trials, classes, shots, queries, rows, held_out, drawn):
    """Draw the rows of every trial; class slot k of a trial has a substream of its own.

    With ``held_out`` > 0 the last rows of a class are the query set; otherwise the query rows
    follow the support rows in the same random order.
    """
    flat, starts = rows
    support, support_labels, query, query_labels, offsets = drawn
    longest = 0
    for c in range(starts.size - 1):
        longest = max(longest, starts[c + 1] - starts[c])
    pool, words = np.empty(longest, np.int64), np.empty(longest + 4, np.uint64)
    for t in range(trials.size):
        s, q = 0, offsets[t]
        for k in range(classes.shape[1]):
            start, end = starts[classes[t, k]], starts[classes[t, k] + 1]
            free, n_shots, n_query = end - start - held_out, shots[t, k], queries[t, k]
            pool[:free] = flat[start : start + free]
            drawn = n_shots if held_out else n_shots + n_query
            random_words(key, 0, drawn, k, trials[t], ROWS, words)
            shuffle_first(pool, free, drawn, words)
            support[t, s : s + n_shots], support_labels[t, s : s + n_shots] = pool[:n_shots], k
            fixed = flat[end - held_out : end]
            query[q : q + n_query] = fixed if held_out else pool[n_shots:drawn]
            query_labels[q : q + n_query] = k
            s, q = s + n_shots, q + n_query


@kernel
def dirichlet_shots(key, trials, ways, mean, concentration):
    """Return shots per class (T, ways): one each, the rest by Dirichlet shares."""
    shots = np.empty((trials.size, ways), np.int64)
    spare = ways * (mean - 1)
    for t in range(trials.size):
        shares = np.empty(ways)
        for k in range(ways):
            shares[k] = _gamma(key, k, trials[t], concentration)
        exact = shares / shares.sum() * spare
        shots[t] = 1 + np.floor(exact).astype(np.int64)
        missing = ways * mean - shots[t].sum()
        for k in np.argsort(np.floor(exact) - exact, kind="mergesort")[:missing]:
            shots[t, k] += 1
    return shots


@kernel
def _gamma(key, substream, trial, shape):
    """Return a gamma variate (Marsaglia & Tsang 2000; shapes below one by the power of a uniform).

    Each attempt uses one block: two words for a normal variate (Box–Muller), one to accept, one
    for the power.
    """
    words = np.empty(4, np.uint64)
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    block = 0
    while True:
        random_words(key, block, 4, substream, trial, SHOTS, words)
        block += 1
        normal = np.sqrt(-2.0 * np.log(uniform(words[0]))) * np.cos(2.0 * np.pi * uniform(words[1]))
        v = (1.0 + normal / np.sqrt(9.0 * d)) ** 3
        if v <= 0.0 or np.log(uniform(words[2])) >= 0.5 * normal**2 + d - d * v + d * np.log(v):
            continue
        # A floor keeps the shares' sum positive when tiny shapes underflow.
        power = 1.0 if shape >= 1.0 else max(uniform(words[3]) ** (1.0 / shape), 1e-300)
        return d * v * power
