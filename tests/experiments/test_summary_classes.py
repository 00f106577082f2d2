"""The interval over classes: known truth, and where there is none to be had."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot.experiments.statistics import half_width
from firthshot.experiments.summary.classes import ClassDesign

TRUTH, SPREAD, NOISE = 0.01, 0.02, 0.03


def world(random, count, ways, trials):
    """Draw classes with effects of their own, then trials: the mean effect of their classes."""
    effects = random.normal(TRUTH, SPREAD, count)
    classes = np.argsort(random.random((trials, count)), axis=1)[:, :ways]
    return classes, effects[classes].mean(axis=1) + random.normal(0, NOISE, trials)


def coverage(count, ways, trials, worlds, seed=0):
    random = np.random.default_rng(seed)
    by_classes = by_trials = 0
    for _ in range(worlds):
        classes, differences = world(random, count, ways, trials)
        low, high = ClassDesign.of(np.arange(trials), classes).interval(differences)
        by_classes += low <= TRUTH <= high
        by_trials += abs(differences.mean() - TRUTH) <= half_width(differences)
    return by_classes / worlds, by_trials / worlds


@pytest.mark.parametrize(("count", "ways"), [(20, 5), (8, 5), (20, 16)])
def test_coverage_where_the_interval_over_trials_fails(count, ways):
    """Many trials of few classes: 95 in 100 worlds for one interval, a few for the other."""
    by_classes, by_trials = coverage(count, ways, trials=2000, worlds=150)
    assert 0.88 <= by_classes <= 1.0
    assert by_trials < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "ways", "trials"),
    [(20, 5, 1000), (20, 5, 10_000), (20, 16, 10_000), (8, 5, 2000), (50, 10, 5000)],
)
def test_coverage_in_many_worlds(count, ways, trials):
    by_classes, by_trials = coverage(count, ways, trials, worlds=400, seed=1)
    print(f"\n{ways} of {count} classes, {trials} trials: {by_classes:.3f} against {by_trials:.3f}")
    assert 0.92 <= by_classes <= 0.99
    assert by_trials < 0.5


def test_few_trials_make_it_too_wide_rather_than_too_narrow():
    by_classes, _ = coverage(20, 5, trials=100, worlds=150)
    assert by_classes >= 0.9


def test_without_class_effects_it_is_near_the_interval_over_trials():
    random = np.random.default_rng(3)
    classes, _ = world(random, 20, 5, 20_000)
    differences = random.normal(TRUTH, NOISE, 20_000)
    low, high = ClassDesign.of(np.arange(20_000), classes).interval(differences)
    assert 0.8 < (high - low) / (2 * half_width(differences)) < 2.5


def test_effects_without_noise_are_found_exactly():
    """Then the interval is the bootstrap of the mean of the class effects."""
    random = np.random.default_rng(4)
    effects = random.normal(0, 1, 12)
    classes = np.argsort(random.random((500, 12)), axis=1)[:, :4]
    design = ClassDesign.of(np.arange(500), classes)
    differences = effects[classes].mean(axis=1)
    centred = differences - differences.mean()
    found = design.solve @ (centred @ design.members)
    np.testing.assert_allclose(4 * found, effects - effects.mean(), atol=1e-10)
    low, high = design.interval(differences)
    assert (high - low) / 2 == pytest.approx(2.2 * effects.std(ddof=1) / 12**0.5, rel=0.06)


def test_classes_that_are_always_there_cannot_be_told_apart():
    classes = np.tile(np.arange(5), (100, 1))
    assert ClassDesign.of(np.arange(100), classes).interval(np.ones(100)) is None


def test_too_few_trials_give_no_interval():
    random = np.random.default_rng(5)
    classes, differences = world(random, 20, 5, 15)
    assert ClassDesign.of(np.arange(15), classes).interval(differences) is None


def test_some_of_the_trials():
    random = np.random.default_rng(6)
    classes, differences = world(random, 10, 4, 300)
    trials, some = np.arange(300), np.sort(random.permutation(300)[:200])
    design = ClassDesign.of(trials, classes)
    alone = ClassDesign.of(some, classes[some]).interval(differences[some])
    assert design.only(some).interval(differences[some]) == alone
    assert design.only(trials) is design
    assert design.only(np.array([5, 300])) is None
