"""Which query types this version compiles, and where their compilers are. Imports nothing, so that checking a spec stays light."""

from __future__ import annotations

from typing import Final

COMPILERS: Final[dict[str, str]] = {
    "topk_pairs": "skyband.framework.plan.compile_pairs:compile_pairs",
    "skyline": "skyband.framework.plan.compile_rows:compile_skyline",
}
"""Query type -> ``module:function``; see ``drafts.GroupCompiler``. A new operator adds a line and a file."""

WRITTEN: Final[dict[str, str]] = {
    "topk": "skyband.framework.plan.compile_rows:compile_topk",
    "threshold": "skyband.framework.plan.compile_rows:compile_threshold",
}
"""Compilers whose operators have not run through host and tables yet; a line moves to ``COMPILERS`` when they have."""

FEATURES: Final[frozenset[str]] = frozenset()
"""Other parts of a spec that are available: ``deletes``."""

AVAILABLE: Final[frozenset[str]] = frozenset(COMPILERS) | FEATURES
