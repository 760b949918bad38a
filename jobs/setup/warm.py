"""``skyband warm``: prepare a machine for runs: fetch Spark's packages, compile operators and modules, archive Spark's classes."""

from __future__ import annotations

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

SPEC: Final = Path(__file__).parent / "warm_job.yaml"
"""The spec of a job with every kind of operator."""

FILES, ROWS = 3, 40

PARTS: Final = ("framework", "jobs", "operators")
"""The directories of Skyband's code."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "warm",
        help="prepare this machine for fast starts",
        **help_page(
            "Do once what first runs would do: fetch Spark's packages, compile the operators and Skyband's own modules, and "
            "archive Spark's classes, so that Spark starts in a third of the time. Writes about 200 MB to the directory SKYBAND_CACHE "
            "and Skyband's own, in about a minute. For images and new machines; safe to repeat.",
            "skyband warm",
            "skyband warm --all    # in an image",
        ),
    )
    p.add_argument(
        "--all", action="store_true", help="compile the operators of every query type, not only of pairs and top-k; takes minutes"
    )
    p.add_argument("--packages", action="store_true", help="only fetch Spark's packages")
    p.add_argument("--quiet", action="store_true", help="print only errors")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the path of the archive. Raises SkybandError SKY-E200 or SKY-E300 if Spark does not start."""
    from skyband.framework.streaming.spark.jvm import SPARK_JVM
    from skyband.framework.streaming.spark.session import archive, get_session

    if args.packages:
        get_session("skyband-warm", alone=True)
        return Answer({"archive": None}, None)
    made = archive()
    if made is None:
        _say(args, "fetching Spark's packages")
        # In a process of its own: an archive needs a JVM that knows them from its start.
        again = [sys.executable, "-m", "skyband.jobs.cli", "warm", "--packages", "--quiet"]
        code = subprocess.run(again, stdout=subprocess.DEVNULL, check=False).returncode
        if code:
            return Answer({"archive": None}, None, code)
        made = archive()
    with tempfile.TemporaryDirectory(prefix="skyband-warm-") as directory:
        _say(args, "compiling the operators")
        compile_modules(Path(__file__).parent.parent.parent)
        temporary = made.with_name(f".{made.name}.{os.getpid()}") if made else None
        get_session("skyband-warm", make=temporary, alone=True)
        _train(args, Path(directory))
        if made is None or temporary is None:
            return Answer({"archive": None}, None)
        _say(args, "archiving Spark's classes")
        SPARK_JVM.end(seconds=300)
    try:
        temporary.chmod(0o600)
        os.replace(temporary, made)
    except OSError as e:
        said = f"WARNING: no archive of Spark's classes was made ({e.strerror}): it will start more slowly"
        args.lines.tell("warning", "warning", said)
        return Answer({"archive": None}, None)
    return Answer({"archive": str(made)}, None)


def _train(args: argparse.Namespace, directory: Path) -> None:
    """Run the job twice: the second run resumes the first."""
    from skyband.jobs.running import run as run_job

    spec = directory / "warm.yaml"
    spec.write_text(text(args.all))
    os.environ["WARM"] = str(directory)
    (directory / "in").mkdir()
    for number in range(2 * FILES):
        write(directory / "in" / f"{number}.csv", number)
        if number % FILES == FILES - 1:
            words = [str(spec), "--once", "--quiet", *(["--finish"] if number >= FILES else [])]
            if code := run_job.run(run_job.parse_arguments(words, args.lines, args.recorded, alone=True)):
                raise SkybandError("SKY-E900", f"a small job that uses everything ended with exit code {code}")


def compile_modules(package: Path) -> None:
    """Write the compiled form of all modules of ``package``, if it may be written there.

    A run has four processes. Each compiles the modules again where Python may not write compiled files, as often in images
    (PYTHONDONTWRITEBYTECODE).
    """
    for part in PARTS:
        compileall.compile_dir(package / part, quiet=2)


def text(everything: bool) -> str:
    """The job's spec; without ``everything`` with the first queries alone."""
    whole = SPEC.read_text(encoding="utf-8")
    return whole if everything else whole.split("  # ---\n")[0]


def write(file: Path, number: int) -> None:
    """One file of rows, one in 120 of which is rejected (too few to be warned of); later files are of later times."""
    lines = ["id,ts,name,x,y,words"]
    for i in range(number * ROWS, (number + 1) * ROWS):
        x, y = i * 7 % 11, i * 5 % 13
        lines.append(f"{i},2020-01-01T{i // 60:02}:{i % 60:02}:00Z,n{i % 3},{x if i % 120 != 60 else 'none'},{y},a b c{i % 2} d{i % 5}")
    file.write_text("\n".join(lines) + "\n")
    os.utime(file, (number, number))


def _say(args: argparse.Namespace, text: str) -> None:
    if not args.quiet:
        args.lines.say(text)
