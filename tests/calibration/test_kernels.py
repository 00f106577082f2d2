"""The compiled loops against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from firthshot.calibration._kernels.normals import fill_normal
from firthshot.calibration._kernels.passes import inner, logits, pull_back
from firthshot.kernels.streams import NOISE, philox


@pytest.mark.parametrize(("n", "d", "classes"), [(16, 16, 2), (208, 48, 7), (144, 656, 10)])
def test_products(n: int, d: int, classes: int) -> None:
    rng = np.random.default_rng(0)
    x, w, u = (rng.normal(size=s).astype(np.float32) for s in ((n, d), (classes, d), (classes, n)))
    z, g = np.full((classes, n), np.nan, np.float32), np.full((classes, d), np.nan, np.float32)
    logits(x, w, z)
    pull_back(x, u, g)
    np.testing.assert_allclose(z, w @ x.T, atol=1e-4)
    np.testing.assert_allclose(g, u @ x, atol=1e-4)
    assert inner(u, z) == pytest.approx(np.vdot(u.astype(float), z.astype(float)), rel=1e-4)


def test_normals_are_box_muller_of_philox() -> None:
    out, words, expected = np.empty(4000, np.float32), np.empty(4, np.uint64), []
    fill_normal(np.uint64(2**63 + 5), 3, 7, NOISE, out)
    for block in range(1000):
        philox(np.uint64(2**63 + 5), block, 3, 7, NOISE, words, 0)
        for u, v in (words[:2], words[2:]):
            # The angle's quarters are counted from the middle of the first.
            angle = 2 * np.pi * ((float(v) + 0.5) / 2**32 - 0.125)
            radius = np.sqrt(-2 * np.log((float(u) + 0.5) / 2**32))
            expected += [radius * np.cos(angle), radius * np.sin(angle)]
    # Where u is near one, its rounding to float32 shows in the smallest of numbers.
    np.testing.assert_allclose(out, expected, atol=4e-4)
    assert np.median(np.abs(out - expected)) < 1e-7


def test_normals_are_normal_and_their_prefix_does_not_depend_on_the_length() -> None:
    long, short = np.empty(400_000, np.float32), np.empty(1001, np.float32)
    fill_normal(11, 0, 0, NOISE, long)
    fill_normal(11, 0, 0, NOISE, short)
    assert (long[:1001] == short).all()
    assert stats.kstest(long, "norm").pvalue > 1e-4
    assert abs(stats.kurtosis(long)) < 0.04
    assert abs(np.corrcoef(long[::2], long[1::2])[0, 1]) < 0.01
