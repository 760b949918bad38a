"""Compile kernels into this package, for baselines of processors: ``python -m skyband.framework.environment.bundle``.

A wheel and an image have them, so that a first run compiles only what nobody could foresee. Each baseline that this host can run is
compiled in a process of its own, with an empty cache. ``make wheel`` and the Dockerfile run this; a checkout keeps no bundle.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.operators import baselines
from skyband.operators.baselines import Baseline
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.kernel_cache import BUNDLED
from skyband.operators.kernel_files import SUFFIX

_REHEARSE: Final = "--rehearse"


def build(chosen: Sequence[Baseline], specs: Sequence[Path], say: Callable[[str], None]) -> None:
    """Replace the package's bundle by the kernels that the rehearsals of ``specs`` compile for the baselines (default: the gallery).

    Without a baseline, as on processors of other kinds, there is no bundle. Raises SkybandError SKY-E900 if a rehearsal fails; then there
    is none either.
    """
    remove()
    if not chosen or not HAVE_NUMBA:
        say("no kernels are compiled: this host has none of the processors that they are compiled for, or no Numba")
        return
    with tempfile.TemporaryDirectory(prefix="skyband-bundle-") as temporary:
        for baseline in chosen:
            cache, began = Path(temporary) / baseline.name, time.monotonic()
            _compile(baseline, specs, cache)
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


def _compile(baseline: Baseline, specs: Sequence[Path], cache: Path) -> None:
    """Compile the kernels of ``specs`` for a baseline, in another process, below ``cache``."""
    cache.mkdir(mode=0o700)
    others = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "SKYBAND_"))}
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), *filter(None, [others.get("PYTHONPATH")])])
    environment = {**others, **baseline.environment, "SKYBAND_CACHE": str(cache), "PYTHONPATH": path}
    command = [sys.executable, "-P", "-m", "skyband.framework.environment.bundle", _REHEARSE, *map(str, specs)]
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode:
        raise SkybandError("SKY-E900", f"compiling kernels for {baseline.name} ended with exit code {done.returncode}")


def _kernels(directory: Path) -> list[Path]:
    return sorted(p for p in directory.rglob(f"*{SUFFIX}") if not p.name.startswith("."))


def _rehearse(specs: Sequence[Path]) -> None:
    """Rehearse every plan of ``specs`` (default: the gallery) in this process."""
    from skyband.framework.environment import gallery

    gallery.read_texts()
    for path in specs or gallery.specs():
        for variant in gallery.variants(path):
            gallery.rehearse(variant.plan)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit code."""
    names = [baseline.name for baseline in baselines.BASELINES]
    program = "python -m skyband.framework.environment.bundle"
    parser = argparse.ArgumentParser(prog=program, description="Compile kernels into this package.")
    parser.add_argument("specs", nargs="*", type=Path, metavar="SPEC", help="specs whose kernels are compiled (default: the gallery)")
    parser.add_argument("--baseline", choices=names, help="compile for this baseline only (default: those that this host can run)")
    parser.add_argument("--remove", action="store_true", help="remove the package's bundle")
    parser.add_argument(_REHEARSE, action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.remove:
        remove()
    elif args.rehearse:
        _rehearse(args.specs)
    else:
        chosen = [baseline for baseline in baselines.usable() if args.baseline in (None, baseline.name)]
        try:
            build(chosen, args.specs, print)
        except SkybandError as e:
            parser.exit(1, f"{e}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
