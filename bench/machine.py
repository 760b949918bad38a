"""Name the machine that figures come from: its processor and the widest vector instructions."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any, Final

_WIDEST: Final = (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX"), ("sve", "SVE"), ("asimd", "NEON"), ("sse2", "SSE2"))
"""Flags of Linux by the names of instruction sets, widest first."""


def described(cpuinfo: str) -> dict[str, str]:
    """Return ``processor`` and ``instructions`` of the text of Linux's /proc/cpuinfo; ``unknown`` for what it does not say."""
    fields = {name.strip().lower(): value.strip() for line in cpuinfo.splitlines() for name, _, value in [line.partition(":")]}
    flags = (fields.get("flags") or fields.get("features") or "").split()
    name, number = fields.get("model name"), [fields.get(n) for n in ("cpu family", "model")]
    processor = (f"{name} (family {number[0]}, model {number[1]})" if all(number) else name) or platform.processor() or "unknown"
    return {"processor": processor, "instructions": next((name for flag, name in _WIDEST if flag in flags), "unknown")}


@cache
def machine() -> dict[str, Any]:
    """Return the fields of this machine: ``processor``, ``instructions``, ``cores``."""
    path = Path("/proc/cpuinfo")
    return {**described(path.read_text(encoding="utf-8") if path.exists() else ""), "cores": os.cpu_count() or 1}


def title() -> str:
    """Return a line for the top of a table."""
    found = machine()
    return f"Python {platform.python_version()}, {found['processor']}, {found['instructions']}, {found['cores']} cores"
