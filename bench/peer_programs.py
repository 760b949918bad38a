"""Find the C++ peers: built beforehand, built now from the shared sources for this processor, or missing."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from bench.machine import machine

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
    # A build is for this processor's instructions: a checkout that moves to another machine must not use it there.
    kind = hashlib.sha256(f"{machine()['processor']} {machine()['instructions']}".encode()).hexdigest()[:8]
    out = ROOT / "build" / "anchors" / kind / name
    # The compiler's rules do not survive spaces in paths: build elsewhere then.
    target = out if " " not in str(out) else Path(tempfile.gettempdir()) / f"skyband-anchors-{os.getuid()}" / kind / name
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["make", "-s", "-C", str(source), f"OUT={target}", "all"], capture_output=True, text=True, check=False)
    program = target / name
    return program if done.returncode == 0 and program.exists() else None
