"""Write the shell script that Spark runs as its Python: it starts the driver worker by ``driver_worker``.

Spark has no setting for that worker's module, only for the Python that runs it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from skyband.framework.spark_adapter.workers import DRIVER_WORKER
from skyband.framework.streaming.spark import driver_worker


def launcher(python: str, directories: Iterable[Path]) -> str:
    """Return the path of a program that stands for ``python`` and starts the driver worker by ``driver_worker``.

    The script is written to the first of ``directories``, private to this user, that accepts one: a file system may be full, or mounted
    noexec. Its name contains a hash of its content. Return ``python`` itself if no directory accepts it.
    """
    script = (
        "#!/bin/sh\n"
        f'if [ "$1" = -m ] && [ "$2" = {DRIVER_WORKER} ]; then exec {shlex.quote(python)} -P -S {shlex.quote(driver_worker.__file__)}; fi\n'
        f'exec {shlex.quote(python)} "$@"\n'
    ).encode()
    name = f"python-{hashlib.sha256(script).hexdigest()[:16]}"
    for directory in directories:
        program = directory / name
        with suppress(OSError):
            if program.is_symlink() or not program.is_file() or program.read_bytes() != script:
                program.unlink(missing_ok=True)
                with program.open("xb") as out:
                    out.write(script)
            program.chmod(0o700)
            if os.access(program, os.X_OK):
                return str(program)
            program.unlink()
    return python
