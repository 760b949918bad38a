"""Which query types this version compiles, and where their compilers are. Imports nothing, so that checking a spec stays light."""

from __future__ import annotations

from typing import Final

COMPILERS: Final[dict[str, str]] = {
    "topk": "skyband.framework.plan.compile_topk:compile_topk",
    "threshold": "skyband.framework.plan.compile_topk:compile_threshold",
    "topk_pairs": "skyband.framework.plan.compile_pairs:compile_pairs",
    "skyline": "skyband.framework.plan.compile_skyline:compile_skyline",
}
"""Query type -> ``module:function``; see ``drafts.GroupCompiler``. A new operator adds a line and a file."""
