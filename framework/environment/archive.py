"""Pack this Python environment into archives for executors, cached in the user's cache directory until the environment changes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.operators import jit, kernel_cache
from skyband.operators.jit import cache_directory
from skyband.operators.kernel_cache import BUNDLED
from skyband.operators.kernel_files import SUFFIX

# Select the files of this Python environment that executors need, for two archives, and hash them to detect changes.
#
# Of the environment's distributions go those that only Skyband's extras for the driver bring (pages, DuckDB, tests, ...), as the installed
# metadata has it; what anything else there asks for stays. Of PySpark go the jars: executors have Spark. Skyband itself is always the one
# that this process runs, wherever that is installed, and by itself: a line that changed is not worth the libraries once more. With it go
# the kernels that this user's runs have compiled here, or have loaded of those that came with Skyband: else every executor would compile
# them, in every run.

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


ENVIRONMENT: Final = "environment"
CODE: Final = "skyband-code"
"""The directories into which executors unpack the archives; a file in the first adds the second to Python's path."""
KEPT: Final = 3
"""The number of archives of a kind that are kept besides those in use by runs."""
LEVEL: Final = 1
"""The gzip level: higher ones take several times as long to save a tenth."""

_held: list[IO[bytes]] = []
"""Archives that this process's Spark sends to executors, also to late ones: they are kept until the process ends."""


def packed(say: Callable[[str], None]) -> str:
    """Setting ``spark.archives``: return the archives of this environment and of Skyband, and make missing ones; ``say`` reports this.

    SkybandError SKY-E200 (venv-pack is not installed), SKY-E615 (the environment cannot be packed), SKY-E203 (nor written).
    """
    environment, own = Environment.here(), own_files()
    directory = cache_directory() / "environments"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        with _alone(directory, say):
            libraries = _kept(directory, "environment", environment.fingerprint(), lambda path: _pack(environment, path, say))
            code = _kept(directory, "skyband", own_fingerprint(own), lambda path: _pack_own(own, path, say))
    except OSError as e:
        said = f"the environment cannot be packed into {directory}: {e.strerror}"
        raise SkybandError("SKY-E203", said, "SKYBAND_CACHE names another directory") from e
    return f"{libraries.as_uri()}#{ENVIRONMENT},{code.as_uri()}#{CODE}"


def _kept(directory: Path, kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the archive of a kind and key, made by ``make`` if it is missing. Lock it, and remove old ones that no process has locked."""
    path = directory / f"{kind}-{key}.tar.gz"
    if not path.exists():
        with _temporary(directory / "partial") as partial:
            make(partial / path.name)
            os.replace(partial / path.name, path)
    os.utime(path)
    file = path.open("rb")
    fcntl.flock(file, fcntl.LOCK_SH)
    _held.append(file)
    for old in sorted(directory.glob(f"{kind}-*.tar.gz"), key=lambda p: p.stat().st_mtime, reverse=True)[KEPT:]:
        with open(old, "rb") as other, contextlib.suppress(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            old.unlink()
    return path


def _pack(environment: Environment, path: Path, say: Callable[[str], None]) -> None:
    with extra("cluster", "skyband submit"):
        import venv_pack
    try:
        found = venv_pack.Env(str(environment.prefix))
    except (venv_pack.VenvPackException, ValueError) as e:
        reason = " ".join(str(e).split())
        raise SkybandError("SKY-E615", f"{environment.prefix} cannot be packed: {reason}", "install from wheels, into a venv") from e
    unwanted = environment.unwanted()
    files = [f for f in found.files if needed(f.target) and f.target not in unwanted]
    _say_what(say, str(environment.prefix), [f.source for f in files])
    link = path.with_name("skyband.pth")
    link.write_text(f"../../../../{CODE}\n")
    (packages,) = (environment.prefix / "lib").glob("python*/site-packages")
    files.append(venv_pack.File(str(link), str(packages.relative_to(environment.prefix) / link.name)))
    found.files = files
    found.pack(output=str(path), compress_level=LEVEL)
    say(f"packed: {_megabytes(path.stat().st_size)}, {path.name}")


def _pack_own(own: list[tuple[Path, str]], path: Path, say: Callable[[str], None]) -> None:
    _say_what(say, "Skyband", [str(source) for source, _ in own])
    with tarfile.open(path, "w:gz", compresslevel=LEVEL) as archive:
        for source, target in own:
            archive.add(source, target)


def _say_what(say: Callable[[str], None], what: str, files: list[str]) -> None:
    size = sum(os.path.getsize(f) for f in files if os.path.isfile(f))
    say(f"packing {what} for the cluster: {counted(len(files), 'file')}, {_megabytes(size)} (once, until it changes)")


@contextlib.contextmanager
def _temporary(directory: Path) -> Iterator[Path]:
    """Empty ``directory`` of a killed process's files, and use it for temporary files inside the block, as venv-pack makes one."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield directory
    finally:
        tempfile.tempdir = before
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _alone(directory: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Let one process of the user at a time into the block."""
    with open(directory / "lock", "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another command that packs the environment")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
