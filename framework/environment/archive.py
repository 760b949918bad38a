"""Pack this Python environment into archives for executors, cached in the user's cache directory until the environment changes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.environment.contents import Environment, needed, own_files, own_fingerprint
from skyband.operators.jit import cache_directory

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
