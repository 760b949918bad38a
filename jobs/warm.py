"""``skyband warm``: do once what every first run would have to do: fetch the engine's packages, compile the operators, archive the
engine's classes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.framework.errors import SkybandError
from skyband.jobs.answer import Answer
from skyband.jobs.described import described

if TYPE_CHECKING:
    from skyband.framework.lines import Lines

SPEC = """\
job: warm
source:
  format: csv
  path: {folder}/in
  options: {{header: true}}
  schema: {{id: bigint, ts: timestamp, name: string, x: double, y: double, words: string}}
  id: [id]
  event_time: {{column: ts, watermark: 1 minute}}
tokens:
  words: {{column: words}}
window: {{time: 1 hour}}
scoring:
  far: {{expression: "abs(a.x - b.x)", direction: max}}
  high: {{expression: x + y, direction: max}}
queries:
  pairs: {{type: topk_pairs, scoring: far, k: 2}}
  best: {{type: topk, scoring: high, k: 2}}
{more}quality: {{max_rejected: 100%}}
sink: {{path: {folder}/out}}
run: {{trigger: once, max_files: 1}}
"""
MORE = """\
  above: {type: threshold, scoring: high, above: 5}
  sky: {type: skyline, dimensions: {x: min, y: max}}
  twins: {type: topk_similar_sets, tokens: words, k: 2}
  alike: {type: similar_sets, tokens: words, min_score: 0.9}
  seen: {type: matches, tokens: words, k: 2}
  loyal: {type: topk_loyalty, object: name, criteria: x > 3, k: 2}
  steady: {type: threshold_loyalty, object: name, criteria: x > 3, at_least: 10 minutes}
"""
"""With these the job has every kind of operator."""

FILES, ROWS = 3, 40


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "warm",
        help="prepare this machine, so that runs start fast",
        **described(
            "Do once what first runs would do: fetch the engine's packages, compile the operators, and archive the engine's "
            "classes, so that it starts in a third of the time. All of it lies in the folder SKYBAND_CACHE and the package's own; a "
            "minute, 200 MB. For images and new machines; harmless to repeat.",
            "skyband warm",
            "skyband warm --all --quiet",
            codes="0 done, 2 something is missing, 3 the engine failed",
        ),
    )
    p.add_argument("--all", action="store_true", help="compile the operators of every query type, not of pairs and top-k alone; minutes")
    p.add_argument("--packages", action="store_true", help="fetch the engine's packages only")
    p.add_argument("--quiet", action="store_true", help="no lines but errors")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer | int:
    """The archive that was made, if one was. SkybandError SKY-E200 or SKY-E300 if the engine does not start.

    Without an archive (no room) runs start more slowly.
    """
    from pyspark.find_spark_home import _find_spark_home

    from skyband.framework.java import find_java_home
    from skyband.framework.streaming import launch
    from skyband.framework.streaming.engine import ENGINE
    from skyband.framework.streaming.session import DELTA, SHIPPED, get_session

    told: Lines = args.lines
    home = Path(_find_spark_home())
    if args.packages:
        get_session("skyband-warm")
        return Answer({"archive": None}, None)
    if launch.known(home, (DELTA,), SHIPPED) is None:
        _say(args, "fetching the engine's packages")
        # In a process of its own: an archive needs an engine that knows them from its start.
        again = [sys.executable, "-m", "skyband.jobs.cli", "warm", "--packages", "--quiet"]
        code = subprocess.run(again, check=False).returncode
        if code:
            return code
    known, java = launch.known(home, (DELTA,), SHIPPED), find_java_home()
    made = launch.archive(java, home, known) if known and java else None
    with tempfile.TemporaryDirectory(prefix="skyband-warm-") as folder:
        _say(args, "compiling the operators")
        temporary = made.with_name(f".{made.name}.{os.getpid()}") if made else None
        get_session("skyband-warm", make=temporary)
        _train(args, Path(folder))
        if made is None or temporary is None:
            return Answer({"archive": None}, None)
        _say(args, "archiving the engine's classes")
        ENGINE.end(seconds=300)
    try:
        temporary.chmod(0o600)
        os.replace(temporary, made)
    except OSError as e:
        told.tell("warning", "warning", f"WARNING: no archive of the engine's classes was made ({e.strerror}): it will start more slowly")
        return Answer({"archive": None}, None)
    return Answer({"archive": made}, None)


def _train(args: argparse.Namespace, folder: Path) -> None:
    """Runs the job, twice: the second run takes up what the first one left."""
    from skyband.jobs import run as run_job

    words = argparse.ArgumentParser().add_subparsers()
    run_job.add_parser(words)
    spec = folder / "warm.yaml"
    spec.write_text(SPEC.format(folder=folder, more=MORE if args.all else ""))
    (folder / "in").mkdir()
    for number in range(2 * FILES):
        write(folder / "in" / f"{number}.csv", number)
        if number % FILES == FILES - 1:
            asked = words.choices["run"].parse_args([str(spec), "--once", "--quiet", *(["--finish"] if number >= FILES else [])])
            asked.lines, asked.recorded = args.lines, args.recorded
            if code := run_job.run(asked):
                raise SkybandError("SKY-E900", f"a small job that uses everything ended with exit code {code}")


def write(file: Path, number: int) -> None:
    """One file of rows, a few of which are rejected; later files are of later times."""
    lines = ["id,ts,name,x,y,words"]
    for i in range(number * ROWS, (number + 1) * ROWS):
        x, y = i * 7 % 11, i * 5 % 13
        lines.append(f"{i},2020-01-01T{i // 60:02}:{i % 60:02}:00Z,n{i % 3},{x if i % 17 else 'none'},{y},a b c{i % 2} d{i % 5}")
    file.write_text("\n".join(lines) + "\n")
    os.utime(file, (number, number))


def _say(args: argparse.Namespace, text: str) -> None:
    if not args.quiet:
        args.lines.say(text)
