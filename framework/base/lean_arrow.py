"""Arrow without pandas: it looks for pandas as soon as it makes a value, and where that is installed loads it, for a fifth of a second.

It looks once, and again when it is asked for something of pandas (``to_pandas``), which then works as ever.
"""

from __future__ import annotations

import sys
from typing import Final

_HIDDEN: Final = "pandas"


class _Nowhere:
    """A finder of modules that says of pandas that it is not there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == _HIDDEN:
            raise ModuleNotFoundError(f"no {name} for now", name=name)


def lean_arrow() -> None:
    """From now on Arrow takes nothing for pandas' unless asked for pandas. For a process that is ours alone, before it has used Arrow."""
    if _HIDDEN in sys.modules:
        return
    sys.meta_path.insert(0, _Nowhere)
    try:
        import pyarrow as pa

        pa.scalar(0)
    finally:
        sys.meta_path.remove(_Nowhere)
