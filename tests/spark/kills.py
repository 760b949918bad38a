"""Jobs of every kind killed at random moments, again and again, and held against runs that were left alone.

``python -m tests.spark.kills --count 200 --seed 7 --out figures.json``: chains of kills. A chain is one job: a run is started, its driver,
JVM, a worker or all of them get SIGKILL at a moment that the seed gives, new files arrive, the next run starts at once, beside what is
left of the one before. The last run goes to its end; then all tables equal those of one run over all the files, and ``skyband verify``
agrees. The process exits with 1 if anything was otherwise. ``--engine local``: the local engine runs the jobs; ``switched``: Spark does,
and later the local engine, which takes them over.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.framework.sources.files.format import files_taken
from skyband.framework.tables.results.derive import batches_behind
from tests.spark.cuts import verified
from tests.spark.equality import differences
from tests.spark.jobs import run, start_apart, write_file
from tests.spark.kinds import KINDS, OVER_RESULTS, groups
from tests.spark.processes import VICTIMS, Process, Run, alive, kill
from tests.spark.records import Start, faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY = KINDS | OVER_RESULTS
FILES = 4
"""Files that arrive for each run: each is a batch."""
ROWS = 10
"""Rows a file."""
BOUND = 600.0
"""Seconds within which a run that lost its JVM or a worker, or was left alone, has to end."""
STUCK = 900.0
"""Seconds without the batches that a run was to do: then it hangs, however slow the machine is."""
ORPHANS = 60.0
"""Seconds that what a killed driver leaves behind may live."""


@dataclass(slots=True)
class Kill:
    """One run of a chain and what became of it. ``code`` is the driver's exit code, ``ended`` the seconds from the kill to its end.

    ``committed``: it had committed a batch before it was killed.
    """

    victim: str
    moment: str
    phase: str
    after: float
    code: int | None
    ended: float
    said: str
    traceback: bool
    process_id: int
    committed: bool


@dataclass(slots=True)
class Chain:
    """A job's figures. ``unequal``: names of tables that differ; ``faults``: what must not be, in words."""

    kind: str
    seed: int
    kills: list[Kill] = field(default_factory=list)
    ended_before: int = 0
    refused: int = 0
    tables: int = 0
    rows: int = 0
    unequal: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    orphans: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class Pace:
    """How long things take on this machine, learnt from the runs so far: random moments are drawn in these terms."""

    first: list[float] = field(default_factory=lambda: [7.0])
    batch: list[float] = field(default_factory=lambda: [0.7])
    end: list[float] = field(default_factory=lambda: [3.0])

    def learn(self, of: Run, expected: int, ended: bool) -> None:
        """From a run that has ended, by itself or not."""
        done = of.batches
        if done:
            self.first.append(done[0])
            self.batch += [b - a for a, b in itertools.pairwise(done)]
        if ended and len(done) >= expected > 0:
            self.end.append(time.monotonic() - of.started - done[expected - 1])


class Job:
    """One chain's directory: files arrive by group."""

    def __init__(self, directory: Path, kind: str, seed: int, kills: int, engine: str, plain: bool) -> None:
        self.directory = directory
        self.kind = _EVERY[kind].from_files() if plain else _EVERY[kind]
        self.spec = self.write(directory, max_files=1)
        self.engine = engine
        self.groups = groups(self.kind.rows(seed, FILES * ROWS * (kills + 1)), kills + 1, seed)
        self.arrived = 0

    def write(self, directory: Path, max_files: int) -> Path:
        """The spec of the job in a new directory."""
        return self.kind.write(directory, max_files)

    def write_group(self, directory: Path, number: int) -> None:
        """The files of a group."""
        rows = self.groups[number]
        size = -(-len(rows) // FILES)
        for i in range(FILES):
            at = number * FILES + i
            write_file(directory, f"{at:04}.csv", rows[i * size : (i + 1) * size], at=10 * at, columns=self.kind.columns)

    def arrive(self) -> None:
        """The next group's files."""
        if self.arrived < len(self.groups):
            self.write_group(self.directory, self.arrived)
            self.arrived += 1

    def waiting(self) -> int:
        """Files that no batch has taken yet."""
        with contextlib.suppress(OSError):  # a log of Spark's that a run left behind is just tidying
            return self.arrived * FILES - len(files_taken(self.directory / "out" / "_skyband" / "checkpoint"))
        return FILES

    def start(self) -> Run:
        """Start a run. The local engine takes a job over from Spark as soon as no batch is unfinished."""
        local = self.engine == "local" or (self.engine == "switched" and self.arrived > 2 and not self._unfinished())
        return Run(start_apart(self.spec, "--finish", "--engine", "local" if local else "spark", tmp=self.directory / "tmp"))

    def _unfinished(self) -> bool:
        """Whether only Spark can go on with the job: it keeps the state, and a batch is not complete."""
        home = self.directory / "out" / "_skyband"
        kept = json.loads((home / "job.json").read_text())["state"] if (home / "job.json").exists() else "spark"
        return kept == "spark" and (self.in_a_batch() or batches_behind(str(home.parent)) > 0)

    def in_a_batch(self) -> bool:
        """Whether a batch has been planned and is not yet done."""
        logs = (self.directory / "out" / "_skyband" / "checkpoint" / name for name in ("offsets", "commits"))
        planned, done = (max((int(p.name) for p in log.glob("[0-9]*")), default=-1) for log in logs)
        return planned > done


def chain(
    spark: SparkSession | None, directory: Path, kind: str, seed: int, kills: int, pace: Pace | None = None, engine: str = "spark"
) -> Chain:
    """Kills one job ``kills`` times, lets it end, and compares. ``directory`` is made: the job is in ``killed``, its twin in ``alone``.

    Without a session the local engine runs the twin, whichever runs the job.
    """
    started, rng, pace = time.monotonic(), random.Random(seed), pace or Pace()
    job, figures = Job(directory / "killed", kind, seed, kills, engine, plain=spark is None or engine != "spark"), Chain(kind, seed)
    left_behind: list[Process] = []
    starts: list[Start] = []
    job.arrive()
    while len(figures.kills) < kills and figures.ended_before < kills:
        committed = sum(k.committed for k in figures.kills)
        made, left = _killed(job, rng, pace, late=2 * committed <= len(figures.kills))
        left_behind += left
        starts.append(Start(made.process_id, None if made.victim in ("driver", "group") else made.code))
        if made.victim == "refused":
            figures.refused += 1
            continue
        if made.victim == "none":
            figures.ended_before += 1
            figures.faults += [f"a run left alone ended with {made.code}: {made.said}"] if made.code else []
        else:
            figures.kills.append(made)
            figures.faults += [f"killed ({made.victim}, {made.phase}), it did not end"] if made.code is None else []
            figures.faults += [f"no batches within {STUCK:.0f} s: {made.said}"] if made.after > STUCK else []
        job.arrive()
    while job.arrived < len(job.groups):
        job.arrive()
    starts += _to_the_end(job, figures)
    figures.orphans = _gone(left_behind, figures)
    _compare(spark, directory, job, figures, starts)
    figures.seconds = time.monotonic() - started
    return figures


def _killed(job: Job, rng: random.Random, pace: Pace, late: bool) -> tuple[Kill, list[Process]]:
    """Starts a run and kills it at a random moment; what happened, and the processes it may have left behind.

    ``late``: after its first commit, if it has one to make. The victim is ``none`` if the run ended before, ``refused`` if it was told to
    wait for what another left behind.
    """
    expected = job.waiting() + job.in_a_batch()
    moment = rng.choices(("time", "batch", "end"), (0 if late else 3, 5, 2))[0] if expected else "time"
    part, early, wanted = rng.random(), rng.random() < 0.4, rng.choice(VICTIMS)
    number = expected if moment == "end" else rng.randint(1, expected or 1)
    of = job.start()
    if moment == "time":
        of.ended(1.2 * part * statistics.median(pace.first))
    else:
        of.wait_for_batches(number, STUCK)
        if early:
            job.arrive()
        of.ended(part * statistics.median(pace.batch if moment == "batch" else pace.end))
    after = time.monotonic() - of.started
    phase = "start" if not of.batches else "in a batch" if job.in_a_batch() else "at the end" if job.waiting() <= 0 else "between"
    victim, candidates = of.victims(wanted)
    family = of.family
    if of.ended(0):
        victim = "refused" if "SKY-E302" in "".join(of.output(10)) else "none"
    else:
        kill(candidates if victim == "group" else [rng.choice(candidates)])
    ended = of.ended(BOUND)
    took = time.monotonic() - of.started - after
    pace.learn(of, expected, victim == "none")
    if not ended:
        kill(family)
    said = of.output(10)
    code = of.process.returncode if ended else None
    last = next((line for line in reversed(said) if line[:1].strip()), "")
    trace = any(line.startswith("Traceback") for line in said)
    return Kill(victim, moment, phase, round(after, 2), code, round(took, 2), last, trace, of.process.pid, bool(of.batches)), family


def _to_the_end(job: Job, figures: Chain) -> Iterator[Start]:
    """The last run of a chain, which nobody kills; it may be told to wait for what others left behind."""
    until = time.monotonic() + ORPHANS
    while True:
        of = job.start()
        if not of.ended(BOUND):
            kill(of.family)
            figures.faults.append("the last run did not end")
            return
        yield Start(of.process.pid, of.process.returncode)
        said = "\n".join(of.output(10))
        if "SKY-E302" not in said or time.monotonic() > until:
            break
        figures.refused += 1
    if of.process.returncode:
        figures.faults.append(f"the last run ended with {of.process.returncode}: {said[-500:]}")


def _gone(processes: Sequence[Process], figures: Chain) -> float:
    """Waits for what killed runs left behind; the seconds it took."""
    started = time.monotonic()
    while left := [p for p in processes if alive(p)]:
        if time.monotonic() - started > ORPHANS:
            figures.faults.append(f"{len(left)} processes of killed runs were still there after {ORPHANS:.0f} s")
            kill(left)
            break
        time.sleep(0.1)
    return round(time.monotonic() - started, 2)


def _compare(spark: SparkSession | None, directory: Path, job: Job, figures: Chain, starts: Sequence[Start]) -> None:
    if figures.faults:
        return
    figures.faults += faults(job.directory, starts)
    alone = directory / "alone"
    spec = job.write(alone, max_files=1000)
    for number in range(len(job.groups)):
        job.write_group(alone, number)
    run(spark, spec)
    rows_of, figures.unequal = differences(job.directory, alone, same_cuts=False)
    figures.tables, figures.rows = len(rows_of), sum(rows_of.values())
    if not any(n for name, n in rows_of.items() if name.endswith("_changes")):
        figures.faults.append("there was nothing to compare")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        agrees = verified(job.spec)
    if not agrees:
        figures.faults.append(f"verify found a difference: {said.getvalue()}")


def chains(
    spark: SparkSession, directory: Path, count: int, seed: int, each: int, kinds: Sequence[str] = tuple(_EVERY), engine: str = "spark"
) -> Iterator[Chain]:
    """Chains of ``each`` kills, kind by kind, until there are ``count`` kills. A chain without a fault leaves no files."""
    pace, done = Pace(), 0
    for number in itertools.count():
        if done >= count:
            return
        kind = kinds[number % len(kinds)]
        place = directory / f"{kind}-{seed + number}"
        made = chain(spark, place, kind, seed + number, each, pace, engine)
        done += len(made.kills)
        if not (made.faults or made.unequal):
            shutil.rmtree(place)
        yield made
        if not made.kills:
            # As the next chain would be, and so on for good.
            return


def unclean(kills: Sequence[Kill]) -> list[Kill]:
    """Runs that lost their JVM or a worker and did not say so with a line and exit code 3 (or came through, with 0)."""
    return [k for k in kills if k.victim in ("jvm", "worker") and (k.code not in (0, 3) or k.traceback or "SKY-E900" in k.said)]


def summary(made: Sequence[Chain]) -> str:
    """The figures as text: tables in the manner of the documents."""
    kills = [k for c in made for k in c.kills]
    phases = ("start", "in a batch", "between", "at the end")
    lines = ["| victim | " + " | ".join(phases) + " | exit codes |", "|---|" + "---|" * (len(phases) + 1)]
    for victim in VICTIMS:
        mine = [k for k in kills if k.victim == victim]
        codes = ", ".join(f"{code}: {n}" for code, n in sorted(Counter(str(k.code) for k in mine).items()))
        lines.append(f"| {victim} | " + " | ".join(str(sum(k.phase == p for k in mine)) for p in phases) + f" | {codes} |")
    slowest = max((k.ended for k in kills if k.victim in ("jvm", "worker")), default=0.0)
    lines += [
        "",
        f"{len(kills)} kills, {sum(k.committed for k in kills)} of them after the run's first commit, in {len(made)} chains "
        f"({', '.join(f'{k}: {n}' for k, n in Counter(c.kind for c in made).items())}), "
        f"{sum(c.ended_before for c in made)} runs ended before, {sum(c.refused for c in made)} told to wait.",
        f"{sum(c.tables for c in made)} tables with {sum(c.rows for c in made):,} rows compared, "
        f"{sum(len(c.unequal) for c in made)} unequal, {sum(len(c.faults) for c in made)} faults, {len(unclean(kills))} unclean ends.",
        f"Slowest end after a kill {slowest:.1f} s, longest wait for orphans {max((c.orphans for c in made), default=0.0):.1f} s, "
        f"{sum(c.seconds for c in made):.0f} s in all.",
    ]
    lines += [f"{c.kind} (seed {c.seed}): {what}" for c in made for what in (*c.faults, *(f"table {t} differs" for t in c.unequal))]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command: 1 if a table differed, a run hung or ended badly."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="kills (default 20)")
    parser.add_argument("--seed", type=int, default=7, help="of the first chain; the next has the next one")
    parser.add_argument("--each", type=int, default=5, help="kills a chain (default 5)")
    parser.add_argument("--kinds", nargs="+", choices=sorted(_EVERY), default=list(_EVERY))
    parser.add_argument("--engine", choices=("spark", "local", "switched"), default="spark", help="what runs the jobs (default spark)")
    parser.add_argument("--out", type=Path, help="a file for the figures, as JSON")
    parser.add_argument("--directory", type=Path, help="where jobs go (default: a temporary directory); those with a fault stay there")
    args = parser.parse_args(argv)
    from skyband.framework.streaming.spark.session import get_session

    spark = get_session("skyband-kills", 2, "local[2]")
    directory = args.directory or Path(tempfile.mkdtemp(prefix="skyband-kills-"))
    made: list[Chain] = []
    for done in chains(spark, directory, args.count, args.seed, args.each, args.kinds, args.engine):
        made.append(done)
        said = "; ".join([*done.faults, *(f"{t} differs" for t in done.unequal)]) or "equal"
        print(f"{done.kind} (seed {done.seed}): {len(done.kills)} kills, {done.seconds:.0f} s: {said}", file=sys.stderr, flush=True)
        if args.out:
            args.out.write_text(json.dumps([asdict(c) for c in made], indent=1))
    print(summary(made))
    bad = any(c.faults or c.unequal for c in made)
    if bad:
        print(f"the jobs are in {directory}")
    elif not args.directory:
        shutil.rmtree(directory)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
