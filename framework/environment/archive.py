"""This Python environment as an archive that executors unpack, kept in the user's cache folder while the environment is the same."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from skyband.framework.environment.contents import Environment, needed, own_files
from skyband.framework.errors import SkybandError
from skyband.framework.extras import extra
from skyband.operators.jit import cache_folder

KEPT: Final = 3
"""Archives that stay beside each other: those last used, and those that a run holds."""
LEVEL: Final = 1
"""Of gzip: larger ones take several times as long for a tenth less."""

_held: list[IO[bytes]] = []
"""Archives that this process's engine hands to executors, also to those that come late: nobody removes them until it ends."""


def packed(say: Callable[[str], None]) -> Path:
    """The archive of this environment, made if there is none that fits; ``say`` is told what is packed, and how large it is.

    SkybandError SKY-E200 (venv-pack is not installed), SKY-E615 (the environment cannot be packed), SKY-E203 (nor written).
    """
    environment = Environment.here()
    folder = cache_folder() / "environments"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with _alone(folder, say):
            path = folder / f"environment-{environment.fingerprint()}.tar.gz"
            if not path.exists():
                _pack(environment, path, say)
                say(f"packed: {_megabytes(path.stat().st_size)} in {path}")
            os.utime(path)
            _hold(path)
            _tidy(folder)
            return path
    except OSError as e:
        raise SkybandError(
            "SKY-E203", f"the environment cannot be packed into {folder}: {e.strerror}", hint="SKYBAND_CACHE names another"
        ) from e


def _pack(environment: Environment, path: Path, say: Callable[[str], None]) -> None:
    with extra("cluster", "skyband submit"):
        import venv_pack
    try:
        found = venv_pack.Env(str(environment.prefix))
    except (venv_pack.VenvPackException, ValueError) as e:
        told = " ".join(str(e).split())
        raise SkybandError("SKY-E615", f"{environment.prefix} cannot be packed: {told}", "install from wheels, into a venv") from e
    unwanted = environment.unwanted()
    files = [f for f in found.files if needed(f.target) and f.target not in unwanted]
    (packages,) = (environment.prefix / "lib").glob("python*/site-packages")
    place = packages.relative_to(environment.prefix).as_posix()
    files += [venv_pack.File(str(source), f"{place}/{target}") for source, target in own_files()]
    found.files = files
    size = sum(os.path.getsize(f.source) for f in files if os.path.isfile(f.source))
    say(f"packing {environment.prefix} for the cluster: {len(files)} files, {_megabytes(size)} (once, until it changes)")
    with _temporary(path.parent / "partial") as folder:
        partial = folder / path.name
        found.pack(output=str(partial), compress_level=LEVEL)
        os.replace(partial, path)


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """``folder``, empty: what a killed process has left there goes. Inside it is where temporary files are made, as venv-pack makes one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _alone(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """One process of the user's at a time inside."""
    with open(folder / "lock", "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another command that packs the environment")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _hold(path: Path) -> None:
    file = path.open("rb")
    fcntl.flock(file, fcntl.LOCK_SH)
    _held.append(file)


def _tidy(folder: Path) -> None:
    """Removes old archives that no run holds."""
    for old in sorted(folder.glob("environment-*.tar.gz"), key=lambda p: p.stat().st_mtime, reverse=True)[KEPT:]:
        with open(old, "rb") as file, contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            old.unlink()


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
