"""Find the C++ peers: built beforehand, built now from the shared sources, or missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def peer(name: str) -> Path | None:
    """The program of one directory of peers, or None.

    ``SKYBAND_ANCHORS`` names a directory with ``<name>/<name>`` built; without it, sources in ``SKYBAND_SHARED/anchors`` (default
    ``../shared``) are built below ``build/anchors`` where make and g++ are installed.
    """
    built = os.environ.get("SKYBAND_ANCHORS")
    if built:
        program = Path(built) / name / name
        return program if program.exists() else None
    source = (ROOT / os.environ.get("SKYBAND_SHARED", "../shared")).resolve() / "anchors" / name
    if not (source / "Makefile").exists() or not shutil.which("make") or not shutil.which("g++"):
        return None
    out = ROOT / "build" / "anchors" / name
    program = out / name
    if not program.exists():
        # The compiler's rules do not survive spaces in paths: build elsewhere then.
        target = out if " " not in str(out) else Path(tempfile.gettempdir()) / f"skyband-anchors-{os.getuid()}" / name
        target.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["make", "-s", "-C", str(source), f"OUT={target}", "all"], capture_output=True, text=True, check=False)
        program = target / name
        if done.returncode or not program.exists():
            return None
    return program
