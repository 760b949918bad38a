"""A linear function of a block of objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit

TILE = 1024


@jit
def linear(x: tuple[AnyArray, ...], w: AnyArray, out: AnyArray) -> int:
    """Writes the scores into ``out``, NaN for those unusable, and counts these.

    ``w`` has a multiple of four entries, -0.0 from len(x) on: adding -0.0 * 1.0 changes nothing, not even the sign of a zero.
    Four columns a pass, so that most functions are one pass. The 0.0 added after every pass changes only the sign of a zero, and the last
    one takes that away anyhow.
    """
    bad: Any = np.int64(0)
    d = len(x)
    ones = np.ones(TILE)
    for lo in range(0, len(out), TILE):
        hi = min(len(out), lo + TILE)
        o, none = out[lo:hi], ones[: hi - lo]
        seen: Any = np.int64(0)
        for a in range(0, d, 4):
            p = x[a][lo:hi]
            q = x[a + 1][lo:hi] if a + 1 < d else none
            r = x[a + 2][lo:hi] if a + 2 < d else none
            t = x[a + 3][lo:hi] if a + 3 < d else none
            w0, w1, w2, w3 = w[a], w[a + 1], w[a + 2], w[a + 3]
            seen = np.int64(0)
            if a == 0:
                for i in range(hi - lo):
                    s = w0 * p[i] + w1 * q[i] + w2 * r[i] + w3 * t[i] + 0.0
                    o[i] = s
                    seen += np.int64(s != s)
            else:
                for i in range(hi - lo):
                    s = o[i] + w0 * p[i] + w1 * q[i] + w2 * r[i] + w3 * t[i] + 0.0
                    o[i] = s
                    seen += np.int64(s != s)
        bad += seen
    return int(bad)
