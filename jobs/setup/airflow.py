"""``skyband airflow``: a DAG per spec. ``install`` writes the loader, ``describe`` prints what the loader needs of specs."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import SkybandError, printable
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

LOADER: Final = "skyband_dags.py"
PACKAGE: Final = "skyband_airflow"
_SOURCE: Final = Path(__file__).resolve().parent.parent.parent / "airflow_dags"
"""Beside the package ``jobs`` in a checkout and in an installed wheel alike."""


def add_parser(subparsers: Any) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser("airflow", help="run every spec as a DAG in Airflow", description=(__doc__ or "").split(": ", 1)[1])
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    install = commands.add_parser(
        "install",
        help="write the loader into a directory of DAGs",
        **help_page("Write the loader into a directory of DAGs.", "skyband airflow install ~/airflow/dags --specs /srv/specs"),
    )
    install.add_argument("directory", metavar="DIRECTORY", help="Airflow's directory of DAGs (created if it does not exist)")
    install.add_argument("--specs", metavar="DIRECTORIES", help="directories of specs, separated as in PATH; SKYBAND_SPECS names others")
    install.set_defaults(run=run_install)
    describe = commands.add_parser(
        "describe",
        help="print what the loader needs of specs",
        **help_page(
            "Print what the loader needs of specs: one JSON object per line, or one document with --format json.",
            "skyband airflow describe flights.yaml sensors.yaml",
        ),
    )
    describe.add_argument("spec", nargs="+", help="spec files")
    describe.set_defaults(run=run_describe)


def run_install(args: argparse.Namespace) -> Answer:
    """Write the loader with this command and the directories of specs. Raises SkybandError SKY-E203 if it cannot be written."""
    said = install(args.directory, args.specs)
    return Answer({"said": said}, said)


def run_describe(args: argparse.Namespace) -> Answer:
    """Print one line per spec, good or broken, at once: the reader may stop at any line."""
    from skyband.framework.plan.describe import describe

    found = []
    for path in args.spec:
        found.append(describe(path))
        if args.format != "json":
            print(printable(json.dumps(found[-1])), flush=True)
    return Answer({"specs": found}, None)


def install(directory: str, specs: str | None) -> str:
    """Write or replace the loader and return what to do next. ``specs``: directories of specs, separated as in PATH.

    Raises SkybandError SKY-E202 if another file has its name, SKY-E203 if the directory cannot be written.
    """
    from skyband.framework.storage import durable
    from skyband.framework.storage.outputs import output_directory, output_file, require_outside_sinks

    target = Path(directory).absolute()
    require_outside_sinks(target, "the directory of DAGs")
    output_directory(target / PACKAGE, "the directory of DAGs")
    output_file(target / LOADER, "the directory of DAGs")
    loader = target / LOADER
    text = (_SOURCE / LOADER).read_text(encoding="utf-8")
    try:
        if loader.exists() and not loader.read_text(encoding="utf-8", errors="replace").startswith(text.split("\n", 1)[0]):
            raise SkybandError("SKY-E202", f"{loader} exists and was not written by Skyband", "choose another directory")
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
    """Return the loader's text with its two constants."""
    for name, value in (("SPECS", specs), ("COMMAND", shlex.join(_command()))):
        empty = f"\n{name}: str | None = None\n"
        assert text.count(empty) == 1, name
        text = text.replace(empty, f"\n{name}: str | None = {value!r}\n")
    return text


def _command() -> list[str]:
    """Return the words that start this command."""
    beside = Path(sys.executable).parent / "skyband"
    return [str(beside)] if beside.exists() else [sys.executable, "-P", "-m", "skyband.jobs.cli"]
