"""Find the Java that Spark needs: 17 or 21. Standard library only, so that it also runs as a script before anything is installed.

As a script it prints the home of the Java it found and exits with 0, or prints nothing and exits with 1.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = (17, 21)
"""Versions of Java that the pinned Spark runs on, the preferred one first."""

INSTALL_PATTERNS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
"""Patterns of directories where packages install Java."""


def version_of(home: Path) -> int | None:
    """Return the major version of the Java in ``home``, or None if there is none that starts.

    Reads the ``release`` file that every JDK since 9 has, and runs ``java -version`` where a package left it out.
    """
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        found = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        try:
            said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
        found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return int(found.group(1)) if found else None


def candidates() -> Iterator[Path]:
    """Yield possible homes in order of precedence: JAVA_HOME, the ``java`` of PATH, the usual directories."""
    named = os.environ.get("JAVA_HOME")
    if named:
        yield Path(named)
    on_path = shutil.which("java")
    if on_path:
        yield Path(os.path.realpath(on_path)).parent.parent
    for pattern in INSTALL_PATTERNS:
        yield from (Path(p) for p in sorted(glob.glob(os.path.expanduser(pattern))))


def find_java_home() -> Path | None:
    """Return the home of a supported Java: of JAVA_HOME, else of PATH, else the preferred version of the usual directories; or None."""
    elsewhere: dict[int, Path] = {}
    named = {p for p in (os.environ.get("JAVA_HOME"), shutil.which("java")) if p}
    for i, home in enumerate(candidates()):
        version = version_of(home)
        if version not in SUPPORTED:
            continue
        if i < len(named):
            return home
        elsewhere.setdefault(version, home)
    return next((elsewhere[v] for v in SUPPORTED if v in elsewhere), None)


if __name__ == "__main__":
    home_found = find_java_home()
    if home_found is None:
        sys.exit(1)
    print(home_found)
