"""``skyband airflow``: a DAG per spec. ``install`` writes the loader, ``describe`` prints what the loader needs of specs.

``batches`` prints what the batches since an announcement have written.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, printable
from skyband.jobs.answer import Answer
from skyband.jobs.arguments import whole
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

LOADER: Final = "skyband_dags.py"
PACKAGE: Final = "skyband_airflow"
_SOURCE: Final = Path(__file__).resolve().parent.parent.parent / "airflow_dags"
"""Beside the package ``jobs`` in a checkout and in an installed wheel alike."""


def add_parser(subparsers: Any) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser("airflow", help="run every spec as a DAG in Airflow", description="Run every spec as a DAG in Airflow.")
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
    batches = commands.add_parser(
        "batches",
        help="count what a range of batches has written",
        **help_page(
            "Count what a range of batches has written: rows of changes by query, rejected rows by reason. The loader asks for the batches "
            "since its last event.",
            "skyband airflow batches flights.yaml --after 17 --upto 21 --format json",
        ),
    )
    batches.add_argument("spec")
    batches.add_argument("--after", type=whole("--after", 0), metavar="BATCH", help="the last batch that is not counted (default: none)")
    batches.add_argument("--upto", type=whole("--upto", 0), metavar="BATCH", help="the last batch that is counted (default: the newest)")
    batches.set_defaults(run=run_batches)


def run_install(args: argparse.Namespace) -> Answer:
    """Write the loader with this command and the directories of specs. Raises SkybandError SKY-E203 if it cannot be written."""
    said = install(args.directory, args.specs)
    return Answer({"said": said}, said)


def run_describe(args: argparse.Namespace) -> Answer:
    """Print one line per spec, good or broken, at once: the reader may stop at any line."""
    from skyband.framework.plan.facts import describe

    found = []
    for path in args.spec:
        found.append(describe(path))
        if args.format != "json":
            print(printable(json.dumps(found[-1])), flush=True)
    return Answer({"specs": found}, None)


def run_batches(args: argparse.Namespace) -> Answer:
    """Return the figures of the batches. Raises SkybandError SKY-E402 before the first run, SKY-E400 for an unreadable table."""
    plan = load_plan(args.spec)
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.layout import Layout
    from skyband.framework.tables.batch_figures import BEGINNING, batch_figures, newest_batch

    require_readable(plan.sink)
    layout = Layout(plan.sink)
    layout.known()
    newest = newest_batch(layout.root)
    upto = BEGINNING if newest is None else newest if args.upto is None else min(args.upto, newest)
    found = batch_figures(layout.root, plan, BEGINNING if args.after is None else args.after, upto)
    changes = ", ".join(f"{query} {n:,}" for query, n in found.changes.items())
    text = f"{counted(found.count, 'batch', 'batches')}; changes: {changes}; rejected: {sum(found.rejected.values()):,}"
    return Answer(found.document(), text)


def install(directory: str, specs: str | None) -> str:
    """Write or replace the loader and return what to do next. ``specs``: directories of specs, separated as in PATH.

    Raises SkybandError SKY-E202 if another file has its name, SKY-E203 if the directory cannot be written.
    """
    from skyband.framework.storage.outputs import output_directory, output_file, replace_output, require_outside_sinks

    target = Path(directory).absolute()
    require_outside_sinks(target, "the directory of DAGs")
    output_directory(target / PACKAGE, "the directory of DAGs")
    loader = target / LOADER
    text = (_SOURCE / LOADER).read_text(encoding="utf-8")
    output_file(loader, "the loader", own=lambda head: head.startswith(text.split("\n", 1)[0].encode()))
    try:
        (target / PACKAGE).mkdir(parents=True, exist_ok=True)
        for source in sorted((_SOURCE / PACKAGE).glob("*.py")):
            replace_output(
                output_file(target / PACKAGE / source.name, "the loader's module"), "the loader's module", source.read_text("utf-8")
            )
        # The package's files are no DAGs.
        replace_output(output_file(target / PACKAGE / ".airflowignore", "the list"), "the list", "*\n")
        named = os.pathsep.join(str(Path(f).absolute()) for f in (specs or "").split(os.pathsep) if f)
        replace_output(loader, "the loader", _filled(text, named))
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
