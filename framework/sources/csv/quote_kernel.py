"""Checks that quotes in CSV are plain (``csv.arrow_reader``). A module of its own, so that only files with quotes load the compiler."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.operators.jit import jit


@jit
def plain_quotes(data: npt.NDArray[np.uint8], separator: int, doubled: bool) -> bool:
    """Whether every quote (34) is the first or the last of a cell with something between them, and no line (10) ends there.

    ``doubled``: two quotes in a row between them are allowed.
    """
    at, last = 0, len(data) - 1
    while at <= last:
        if data[at] == 34:
            if at > 0 and data[at - 1] != separator and data[at - 1] != 10:
                return False
            end = at + 1
            while end <= last and data[end] != 10:
                if data[end] == 34:
                    if not doubled or end == last or data[end + 1] != 34:
                        break
                    end += 1
                end += 1
            if end > last or data[end] != 34 or end == at + 1:
                return False
            if end < last and data[end + 1] != separator and data[end + 1] != 10:
                return False
            at = end
        at += 1
    return True
