"""Normal variates from the counter-based streams, a few nanoseconds each.

Philox gives four words per counter; two words u, v become two normals by Box and Muller,

    √(−2 log u) · (cos 2πv, sin 2πv).

Counters are taken `_TOGETHER` at a time, step by step, in loops that a compiler turns into vector
instructions; logarithm, sine and cosine are polynomials for the same reason. Which number a place
gets depends on the stream and the place alone.
"""

from __future__ import annotations

import numpy as np

from firthshot.kernels import kernel

_TOGETHER = 64
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_F = np.float32
_LN2 = _F(0.6931471805599453)
_HALF_PI = _F(np.pi / 2)
_ROOT_HALF = _F(0.7071067811865476)
# Minimax fits: log(1 + x) on [√½ − 1, √2 − 1], and sin and cos on [−π/4, π/4].
_LOG = tuple(
    map(
        _F,
        (
            7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        ),
    )
)  # fmt: skip
_SIN = tuple(map(_F, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)))
_COS = tuple(map(_F, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)))


@kernel
def _philox_words(key, block, substream, trial, purpose, c0, c1, c2, c3):
    """Write the words of `_TOGETHER` counters from ``block`` on; as `streams.philox` does."""
    for i in range(_TOGETHER):
        c0[i] = np.uint64(block + i) & _LOW
        c1[i] = np.uint64(substream) & _LOW
        c2[i] = np.uint64(trial) & _LOW
        c3[i] = np.uint64(purpose) & _LOW
    k0, k1 = np.uint64(key) & _LOW, np.uint64(key) >> _32
    for _ in range(10):
        for i in range(_TOGETHER):
            left, right = c0[i] * _M0, c2[i] * _M1
            c0[i] = (right >> _32) ^ c1[i] ^ k0
            c1[i] = right & _LOW
            c2[i] = (left >> _32) ^ c3[i] ^ k1
            c3[i] = left & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW


@kernel(fastmath={"contract"})
def _radii(words, bits, out):
    """Write √(−2 log u), u = (w + ½) / 2³², with u in float32 to its own precision near zero."""
    floats = bits.view(np.float32)
    for i in range(_TOGETHER):
        # 2³² u lies in [½, 2³²]; its float32 keeps 24 digits wherever it is.
        floats[i] = _F(np.int64(words[i])) + _F(0.5)
    for i in range(_TOGETHER):
        exponent = _F((bits[i] >> np.int32(23)) - np.int32(127 + 31))
        bits[i] = (bits[i] & np.int32(0x007FFFFF)) | np.int32(0x3F000000)
        m = floats[i]
        small = m < _ROOT_HALF
        exponent = exponent - _F(1.0) if small else exponent
        x = m + m - _F(1.0) if small else m - _F(1.0)
        p = _LOG[0]
        for a in _LOG[1:]:
            p = p * x + a
        log = x - _F(0.5) * x * x + x * x * x * p
        out[i] = np.sqrt(max(_F(0.0), _F(-2.0) * (log + exponent * _LN2)))


@kernel(fastmath={"contract"})
def _turn(words, radii, first, second):
    """Write radius · cos and radius · sin of the angle 2π w / 2³²."""
    for i in range(_TOGETHER):
        # The top two bits are the quarter, the rest the angle within it, from its middle.
        quarter = np.int32(words[i] >> np.uint64(30))
        within = np.int32(words[i] & np.uint64(0x3FFFFFFF)) - np.int32(1 << 29)
        t = (_F(within) + _F(0.5)) * _F(2.0**-30) * _HALF_PI
        s = t * t
        sine = t + t * s * (_SIN[2] + s * (_SIN[1] + s * _SIN[0]))
        cosine = _F(1.0) - _F(0.5) * s + s * s * (_COS[2] + s * (_COS[1] + s * _COS[0]))
        swap = (quarter & 1) == 1
        a = sine if swap else cosine
        b = cosine if swap else sine
        # A quarter turn maps (cos, sin) to (−sin, cos).
        first[i] = radii[i] * (-a if quarter == 1 or quarter == 2 else a)
        second[i] = radii[i] * (-b if quarter >= 2 else b)


@kernel
def fill_normal(key, substream, trial, purpose, out):
    """Fill the flat float32 array ``out`` with standard normals.

    Number j comes from counter j // 4 of the stream, whatever the length of ``out``.
    """
    words = np.empty((4, _TOGETHER), np.uint64)
    bits, radii = np.empty(_TOGETHER, np.int32), np.empty(_TOGETHER, np.float32)
    four = np.empty((4, _TOGETHER), np.float32)
    step = 4 * _TOGETHER
    for start in range(0, out.size, step):
        _philox_words(
            key, start // 4, substream, trial, purpose, words[0], words[1], words[2], words[3]
        )
        for pair in range(2):
            _radii(words[2 * pair], bits, radii)
            _turn(words[2 * pair + 1], radii, four[2 * pair], four[2 * pair + 1])
        if start + step <= out.size:
            for i in range(_TOGETHER):
                for w in range(4):
                    out[start + 4 * i + w] = four[w, i]
        else:
            for at in range(out.size - start):
                out[start + at] = four[at % 4, at // 4]
