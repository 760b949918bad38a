"""Keep Arrow from importing pandas, which takes a fifth of a second, at its first value.

Arrow looks for pandas once, and again for functions such as ``to_pandas``, which work as usual.
"""

from __future__ import annotations

import sys
from typing import Final

_HIDDEN: Final = "pandas"


class _PandasHider:
    """A module finder that reports pandas as missing."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == _HIDDEN:
            raise ModuleNotFoundError(f"no {name} for now", name=name)


def lean_arrow() -> None:
    """Make Arrow start without pandas. Call it in a process of Skyband's own, before the first use of Arrow."""
    if _HIDDEN in sys.modules:
        return
    sys.meta_path.insert(0, _PandasHider)
    try:
        import pyarrow as pa

        pa.scalar(0)
    finally:
        sys.meta_path.remove(_PandasHider)
