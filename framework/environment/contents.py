"""Select the files of this Python environment that executors need, for two archives, and hash them to detect changes.

Of the environment's distributions go those that only Skyband's extras for the driver bring (pages, DuckDB, tests, ...), as the installed
metadata has it; what anything else there asks for stays. Of PySpark go the jars: executors have Spark. Skyband itself is always the one
that this process runs, wherever that is installed, and by itself: a line that changed is not worth the libraries once more. With it go the
kernels that this user's runs have compiled here, or have loaded of those that came with Skyband: else every executor would compile them, in
every run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.operators import jit, kernel_cache
from skyband.operators.kernel_cache import BUNDLED
from skyband.operators.kernel_files import SUFFIX

OWN: Final = "skyband"
_DRIVERS: Final = ("cluster", "demo", "dev", "quality", "report", "sql")
"""Extras of Skyband that executors never import: only the driver answers queries, checks, draws and tests."""
_TOOLS: Final = ("pip", "uv")
_PARTS: Final = ("framework", "operators")
"""The packages of Skyband that workers import."""
_RECENT: Final = 30 * 86400
"""Seconds for which a kernel that no run has loaded still goes into an archive. Another processor compiles again."""
_REQUIRED: Final = re.compile(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?")
_ONLY_WITH: Final = re.compile(r"\bextra\s*==\s*[\"']([\w.-]+)[\"']")


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment: its directory, and its distributions by normalized name."""

    prefix: Path
    installed: Mapping[str, Distribution]
    _left_out: frozenset[str] = field(default=frozenset())

    @staticmethod
    def here() -> Environment:
        """Return the environment of this process. Raise SkybandError SKY-E615 if it cannot be packed."""
        prefix = Path(sys.prefix)
        if (prefix / "conda-meta").is_dir():
            raise SkybandError(
                "SKY-E615", f"{prefix} is a conda environment, which is not packed", "install Skyband into a virtual environment (venv)"
            )
        if sys.prefix == sys.base_prefix:
            raise SkybandError(
                "SKY-E615", f"this Python, {sys.executable}, is of no virtual environment", "install Skyband into one: python -m venv"
            )
        paths = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
        return Environment.of(prefix, distributions(path=paths))

    @staticmethod
    def of(prefix: Path, found: Iterable[Distribution]) -> Environment:
        """Return the environment of these distributions. Raise SkybandError SKY-E615 if the code of one is outside of it."""
        installed = {normal(d.name): d for d in found}
        for name, d in installed.items():
            if name != OWN and json.loads(d.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"):
                raise SkybandError("SKY-E615", f"{d.name} is an editable install, which is not packed", "install it from a wheel")
        return Environment(prefix, installed, left_out(installed))

    def fingerprint(self) -> str:
        """Return the hash of Python's version and of the metadata of all distributions except Skyband."""
        digest = hashlib.sha256(repr((sys.version, sys.base_prefix, str(self.prefix), sorted(self._left_out))).encode())
        for name, d in sorted(self.installed.items()):
            if name != OWN:
                digest.update(repr((name, d.version, d.read_text("RECORD"))).encode())
        return digest.hexdigest()[:16]

    def unwanted(self) -> set[str]:
        """Paths, from the environment's directory, of files of distributions that stay here. Of Skyband what says that it is there goes."""
        gone = {target for name in self._left_out for target in self._targets(self.installed[name])}
        if OWN in self.installed:
            gone |= {t for t in self._targets(self.installed[OWN]) if ".dist-info/" not in t}
        return gone

    def _targets(self, d: Distribution) -> Iterator[str]:
        for file in d.files or ():
            path = os.path.relpath(os.path.normpath(str(d.locate_file(file))), self.prefix)
            if not path.startswith(".."):
                yield path


def needed(target: str) -> bool:
    """Whether executors need a file of that path (from the environment's directory), whoever's it is."""
    parts = target.split("/")
    if "__pycache__" in parts or "/pyspark/jars/" in target or parts[0] in ("include", "share"):
        return False
    return parts[0] != "bin" or parts[1].startswith("python")


def own_files() -> list[tuple[Path, str]]:
    """(file, its path in an archive) of all code of this process's Skyband that workers may import, and of its kernels, in order."""
    spec = find_spec(OWN)
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent
    found = [root / "__init__.py"]
    for part in _PARTS:
        # The directory may be a link, into a checkout.
        files = sorted(p for p in (root / part).rglob("*") if "__pycache__" not in p.parts and p.is_file())
        found += [p for p in files if p.relative_to(root).parts[:2] != ("operators", BUNDLED.name)]
    return [*((p, f"{OWN}/{p.relative_to(root).as_posix()}") for p in found), *_kernels()]


def _kernels() -> list[tuple[Path, str]]:
    """Return (file, its path in an archive) of the kernels that runs use: of those compiled here, and of those that came with Skyband."""
    if not jit.HAVE_NUMBA:
        return []
    since = time.time() - _RECENT
    own, bundled = kernel_cache.files(jit.kernels_directory())
    found = {p.name: p for name in own.used(since) if (p := bundled.directory / name).is_file()}
    found |= {p.name: p for p in own.directory.glob(f"[!.]*{SUFFIX}") if p.stat().st_atime >= since}
    return [(found[name], f"{OWN}/operators/{BUNDLED.name}/{own.directory.name}/{name}") for name in sorted(found)]


def own_fingerprint(files: Iterable[tuple[Path, str]]) -> str:
    """Return the hash of ``own_files``. O(bytes), except for kernels, which are identified by time and size."""
    digest = hashlib.sha256()
    for source, target in files:
        state = source.stat()
        what = repr((state.st_mtime_ns, state.st_size)).encode() if source.suffix == SUFFIX else source.read_bytes()
        digest.update(target.encode() + b"\0" + hashlib.sha256(what).digest())
    return digest.hexdigest()[:16]


def left_out(installed: Mapping[str, Distribution]) -> frozenset[str]:
    """Return the names of distributions that only the driver needs, or no run at all."""
    if OWN not in installed:
        return frozenset(_TOOLS) & set(installed)
    own = [r for r in installed[OWN].requires or () if not _extra_of(r)]
    drivers = _reached([f"{OWN}[{','.join(_DRIVERS)}]", *_TOOLS], installed) - _reached(own, installed) - {OWN}
    others = [n for n in installed if n not in drivers and n != OWN]
    return frozenset(drivers - _reached([f"{OWN}[s3]", *others], installed))


def _reached(roots: Iterable[str], installed: Mapping[str, Distribution]) -> set[str]:
    """The installed distributions that these requirements ask for, and theirs. Of markers only extras count: who is in doubt is in."""
    reached: set[str] = set()
    seen: set[tuple[str, str]] = set()
    todo = list(roots)
    while todo:
        match = _REQUIRED.match(todo.pop())
        if match is None or (name := normal(match[1])) not in installed:
            continue
        reached.add(name)
        for chosen in ("", *(normal(e) for e in (match[2] or "").split(",") if e.strip())):
            if (name, chosen) not in seen:
                seen.add((name, chosen))
                todo += [r for r in installed[name].requires or () if _extra_of(r) == chosen]
    return reached


def _extra_of(required: str) -> str:
    """Return the extra that a requirement belongs to; empty if it always applies."""
    marker = _ONLY_WITH.search(required)
    return normal(marker[1]) if marker else ""


def normal(name: str) -> str:
    """Return a distribution's name in normalized spelling."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
