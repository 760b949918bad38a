"""Writes Airflow's loader into a directory of DAGs: the checkout's ``airflow_dags``, with the command and the directories of specs
filled in."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage import durable
from skyband.framework.storage.outputs import output_directory, output_file, require_outside_sinks

LOADER: Final = "skyband_dags.py"
PACKAGE: Final = "skyband_airflow"
_SOURCE: Final = Path(__file__).resolve().parent.parent / "airflow_dags"
"""Beside this package's directory in a checkout and in an installed wheel alike."""


def install(directory: str, specs: str | None) -> str:
    """Writes the loader, or writes it anew; what to do next. ``specs``: directories of specs, separated as in PATH.

    SkybandError SKY-E202 if another file of its name is there, SKY-E203 if the directory cannot be written.
    """
    target = Path(directory).absolute()
    require_outside_sinks(target, "the directory of DAGs")
    output_directory(target / PACKAGE, "the directory of DAGs")
    output_file(target / LOADER, "the directory of DAGs")
    loader = target / LOADER
    text = (_SOURCE / LOADER).read_text(encoding="utf-8")
    try:
        if loader.exists() and not loader.read_text(encoding="utf-8", errors="replace").startswith(text.split("\n", 1)[0]):
            raise SkybandError("SKY-E202", f"{loader} is there already and is not Skyband's", "choose another directory")
        (target / PACKAGE).mkdir(parents=True, exist_ok=True)
        for source in sorted((_SOURCE / PACKAGE).glob("*.py")):
            durable.replace(target / PACKAGE / source.name, source.read_text(encoding="utf-8"))
        # The package's files are no DAGs.
        durable.replace(target / PACKAGE / ".airflowignore", "*\n")
        named = os.pathsep.join(str(Path(f).absolute()) for f in (specs or "").split(os.pathsep) if f)
        durable.replace(loader, _filled(text, named))
    except OSError as e:
        raise SkybandError("SKY-E203", f"{target} cannot be written: {(e.strerror or str(e)).lower()}") from None
    where = f"specs in {named}" if named else "specs in the directories that SKYBAND_SPECS names"
    return f"wrote {loader}: Airflow runs {where}"


def _filled(text: str, specs: str) -> str:
    """The loader's text with its two constants."""
    for name, value in (("SPECS", specs), ("COMMAND", shlex.join(_command()))):
        empty = f"\n{name}: str | None = None\n"
        assert text.count(empty) == 1, name
        text = text.replace(empty, f"\n{name}: str | None = {value!r}\n")
    return text


def _command() -> list[str]:
    """How this command is started again."""
    beside = Path(sys.executable).parent / "skyband"
    return [str(beside)] if beside.exists() else [sys.executable, "-P", "-m", "skyband.jobs.cli"]
