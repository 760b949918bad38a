"""Compile kernels before they are needed: ``python -m skyband.framework.environment.bundle``.

A wheel and an image have kernels for baselines of processors, so that a first run compiles only what nobody could foresee. Each baseline
that this host can run is compiled with an empty cache, by several processes that share it: a kernel is compiled by one of them. ``make
wheel`` and the Dockerfile run this; a checkout keeps no bundle. With ``--warm`` the kernels are compiled for this processor, into the
user's cache, as ``make test`` does.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, redacted
from skyband.operators import baselines
from skyband.operators.baselines import Baseline
from skyband.operators.jit import HAVE_NUMBA, cache_directory, kernels_directory
from skyband.operators.kernel_cache import BUNDLED, versions
from skyband.operators.kernel_files import SUFFIX

if TYPE_CHECKING:
    from skyband.framework.environment.gallery import Variant

_REHEARSE: Final = "--rehearse"
_PACKAGE: Final = Path(__file__).parents[2]
WARMED: Final = "gallery"
"""Directory of the cache with a file for each state of the code whose kernels were compiled into it."""


def build(chosen: Sequence[Baseline], specs: Sequence[Path], say: Callable[[str], None], processes: int | None = None) -> None:
    """Replace the package's bundle by the kernels that the rehearsals of ``specs`` compile for the baselines (default: the gallery).

    ``processes`` compile at a time (default: one for each core, at most 4). Without a baseline, as on processors of other kinds, there is
    no bundle. Raises SkybandError SKY-E900 if a rehearsal fails; then there is none either.
    """
    remove()
    if not chosen or not HAVE_NUMBA:
        say("no kernels are compiled: this host has none of the processors that they are compiled for, or no Numba")
        return
    with tempfile.TemporaryDirectory(prefix="skyband-bundle-") as temporary:
        for baseline in chosen:
            cache, began = Path(temporary) / baseline.name, time.monotonic()
            _compile(baseline, specs, cache, processes or _at_a_time())
            files = _kernels(cache)
            size = sum(path.stat().st_size for path in files) / 1e6
            say(f"{baseline.name}: {counted(len(files), 'kernel')}, {size:.1f} MB, in {time.monotonic() - began:.0f} s")
        # Only now: kernels of one baseline would be found in place of another's.
        for path in _kernels(Path(temporary)):
            to = BUNDLED / path.parent.name
            to.mkdir(parents=True, exist_ok=True)
            shutil.move(path, to / path.name)
            (to / path.name).chmod(0o644)


def remove() -> None:
    """Remove the package's bundle."""
    for path in BUNDLED.glob(f"*/*{SUFFIX}"):
        path.unlink()
    for directory in [*BUNDLED.glob("*"), BUNDLED]:
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


def warm(specs: Sequence[Path], say: Callable[[str], None], processes: int | None = None) -> None:
    """Compile the kernels of ``specs`` (default: the gallery) for this processor, into the user's cache.

    Do nothing if this was done before with the same code of operators, the same specs, versions and processor.
    """
    if not HAVE_NUMBA:
        return
    done = cache_directory() / WARMED / _state_of_code(specs)
    if done.exists():
        return
    had, began = len(_kernels(kernels_directory())), time.monotonic()
    say("compiling kernels (some minutes, once for each version of the operators)")
    _rehearse(specs, processes or _at_a_time())
    say(f"{counted(len(_kernels(kernels_directory())) - had, 'kernel')} compiled in {time.monotonic() - began:.0f} s")
    with suppress(OSError):
        done.parent.mkdir(mode=0o700, exist_ok=True)
        for former in done.parent.iterdir():
            former.unlink()
        done.touch(mode=0o600)


def _state_of_code(specs: Sequence[Path]) -> str:
    """Return a digest of what decides which kernels ``warm`` compiles."""
    import llvmlite.binding

    from skyband.framework.environment import gallery

    code = sorted((_PACKAGE / "operators").rglob("*.py"))
    state = hashlib.sha256(repr((versions(), llvmlite.binding.get_host_cpu_name(), str(kernels_directory()))).encode())
    for path in [Path(gallery.__file__), *code, *(specs or gallery.specs())]:
        state.update(hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def _at_a_time() -> int:
    """Return how many processes compile by default. Each takes up to 1.3 GB of memory, and more than a few only wait for each other."""
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 4)


def _compile(baseline: Baseline, specs: Sequence[Path], cache: Path, processes: int) -> None:
    """Compile the kernels of ``specs`` for a baseline, in other processes, below ``cache``."""
    cache.mkdir(mode=0o700)
    others = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "SKYBAND_"))}
    path = os.pathsep.join([str(_PACKAGE.parent), *filter(None, [others.get("PYTHONPATH")])])
    environment = {**others, **baseline.environment, "SKYBAND_CACHE": str(cache), "PYTHONPATH": path}
    command = [sys.executable, "-P", "-m", "skyband.framework.environment.bundle", _REHEARSE, f"--processes={processes}", *map(str, specs)]
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode:
        raise SkybandError("SKY-E900", f"compiling kernels for {baseline.name} ended with exit code {done.returncode}")


def _kernels(directory: Path) -> list[Path]:
    return sorted(p for p in directory.rglob(f"*{SUFFIX}") if not p.name.startswith("."))


def _rehearse(specs: Sequence[Path], processes: int) -> None:
    """Rehearse every plan of ``specs`` (default: the gallery), as many at a time as there are processes.

    Raises SkybandError SKY-E900 if a process is killed.
    """
    from skyband.framework.environment import gallery

    # Variants of a plan share most kernels, so they are not taken one after the other: a process would wait for the other's.
    variants = [variant for path in specs or gallery.specs() for variant in gallery.variants(path)]
    variants.sort(key=lambda variant: gallery.VARIATIONS.index(variant.variation))
    # Processes are spawned: one that is forked from a process with threads may never end.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures: list[Future[None]] = [pool.submit(gallery.read_texts), pool.submit(gallery.score_columns)]
        futures += [pool.submit(_rehearse_one, variant) for variant in variants]
        try:
            for future in futures:
                future.result()
        except BrokenProcessPool as e:
            raise SkybandError("SKY-E900", "a process that compiled kernels was killed") from e
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _rehearse_one(variant: Variant) -> None:
    from skyband.framework.environment import gallery

    gallery.rehearse(variant.plan)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit code."""
    names = [baseline.name for baseline in baselines.BASELINES]
    program = "python -m skyband.framework.environment.bundle"
    parser = argparse.ArgumentParser(prog=program, description="Compile kernels into this package.")
    parser.add_argument("specs", nargs="*", type=Path, metavar="SPEC", help="specs whose kernels are compiled (default: the gallery)")
    parser.add_argument("--baseline", choices=names, help="compile for this baseline only (default: those that this host can run)")
    parser.add_argument("--processes", type=int, metavar="N", help="compile in N processes (default: one for each core, at most 4)")
    parser.add_argument("--warm", action="store_true", help="compile for this processor, into the user's cache, if not done before")
    parser.add_argument("--remove", action="store_true", help="remove the package's bundle")
    parser.add_argument(_REHEARSE, action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    chosen = [baseline for baseline in baselines.usable() if args.baseline in (None, baseline.name)]
    try:
        if args.remove:
            remove()
        elif args.warm:
            warm(args.specs, _say, args.processes)
        elif args.rehearse:
            _rehearse(args.specs, args.processes or _at_a_time())
        else:
            build(chosen, args.specs, _say, args.processes)
    except SkybandError as e:
        parser.exit(1, f"{e}\n")
    return 0


def _say(text: str) -> None:
    print(redacted(text), flush=True)


if __name__ == "__main__":
    sys.exit(main())
