"""Which query types this version compiles, and where their compilers are. Imports nothing, so that checking a spec stays light."""

from __future__ import annotations

from typing import Final

COMPILERS: Final[dict[str, str]] = {
    "topk_pairs": "skyband.framework.plan.compile_pairs:compile_pairs",
}
"""Query type -> ``module:function``; see ``compile.GroupCompiler``. A new operator adds a line and a file."""

FEATURES: Final[frozenset[str]] = frozenset()
"""Other parts of a spec that are available: ``deletes``."""

AVAILABLE: Final[frozenset[str]] = frozenset(COMPILERS) | FEATURES
