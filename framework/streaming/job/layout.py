"""The files of a job beside its tables: ``<sink>/_skyband/`` with the checkpoint, the control source and its ``.json`` files."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, ConfigDict, Field

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.base.table_names import JOB_RUNS, NAMES_EDITION, RENAMED
from skyband.framework.plan.fingerprint import compare, concealed, fingerprint
from skyband.framework.plan.growth import Growth, growth, shards_of
from skyband.framework.plan.live import NO_LIVE, Live
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.ledger import ledger_name
from skyband.framework.sources.logs import AGAIN, last_batch
from skyband.framework.sources.text.options import folded
from skyband.framework.sources.watermark_caps import DROP
from skyband.framework.storage.location import Location, is_object, location, overlap, remove_tree, require_local
from skyband.framework.storage.records import (
    STRICT,
    TOLERANT,
    InvalidRecord,
    Name,
    Record,
    Text,
    Whole,
    read_regular_file,
)
from skyband.framework.streaming.bucket.bucket_states import NewStates, parsed
from skyband.framework.streaming.job.accepting_rules import rules_of, stopping_rules
from skyband.framework.streaming.job.checkpoint import whole
from skyband.framework.streaming.job.control import BEFORE_ALL, order
from skyband.framework.streaming.job.migrations import VERSION, Before, migrated
from skyband.framework.tables.delta.ownership import Owner, is_link
from skyband.framework.tables.schemas import tables

RUNNING = "run.json"
"""File of ``_skyband`` about the active run (``run_records``)."""
NEXT: Final = "next"
"""Directory of ``_skyband`` in which a new generation of the job is built: a sink of its own, until it is swapped in (``generations``)."""
REQUESTS: Final = "queries"
"""Directory of ``_skyband`` with requests for live queries (``live.requests``)."""
ADDED: Final = "added"
"""Directory of ``_skyband`` in which tables and states of added queries are made, until they are swapped in (``generations``)."""


def _shaped(fingerprint: dict[str, Any]) -> dict[str, Any]:
    """The fingerprint, if the parts that are looked into are what they must be. Of all others the comparison with the spec says it."""
    for part in ("queries", "states", "run", "source"):
        if not isinstance(fingerprint.get(part, {}), dict):
            raise ValueError(f"{part} is no mapping")
    invalid = [n for part in ("queries", "states") for n in fingerprint.get(part, {}) if not n.isidentifier()]
    if invalid:
        raise ValueError(f"{invalid[0][:80]!r} is no name of a query")
    return fingerprint


def _named(states: NewStates) -> NewStates:
    """``states``, if Skyband has written them. Raises ValueError."""
    parsed(states.text)
    return states


Pair = Annotated[list[Whole], Field(min_length=2, max_length=2)]
Column = Annotated[list[Text], Field(min_length=2, max_length=2)]


@dataclass(slots=True)
class JobFile:
    """The contents of ``job.json``, which ties the tables, the checkpoint and the spec together.

    ``generation`` names this checkpoint in every commit of the tables; ``finishes`` are [Spark's watermark in ms, F in
    microseconds] of past finishes; ``rules`` is a hash of what may change between runs but not within a batch, ``stopping`` the names of
    the rules of severity ``fail``; ``salt`` is the job's own, of every hash. ``names`` is the edition of the tables' column names (a file
    of before there was more than one says nothing: 1). ``header`` are the columns of CSV files, ``columns`` [name, type] of those of
    sources that say types too (``sources.drift``), as they were first and as accepted drifts have changed them; None if none is known.
    ``engine_reads``: why Spark reads the source although the plan would have let tasks read it by Arrow, "" if there is no reason.
    For JSON it says too which of Spark's readers does (``run.by_arrow``).
    ``new_states``: states that were made since the last batch, if they were (``rebuild.new_states``). ``partitions``: tasks that ran
    buckets last. ``escape``: what escapes a quote in CSV files. ``token_key``: 16 characters that key the codes of tokens, "" in a job
    file from before it was kept (see ``token_key``). ``shards``: those of every bucket; 1 if buckets search
    themselves. ``version``: of the job file, ``before``: what is left of an earlier one (``migrations``).
    """

    job: Name
    generation: Name
    fingerprint: Annotated[dict[str, Any], AfterValidator(_shaped)]
    partitions: Annotated[int, Field(ge=1, le=1_000_000)]
    header: list[str] | None
    finishes: list[Pair] = field(default_factory=list)
    rules: str = ""
    salt: str = ""
    names: Annotated[int, Field(ge=1, le=NAMES_EDITION)] = NAMES_EDITION
    stopping: list[str] = field(default_factory=list)
    columns: list[Column] | None = None
    engine_reads: str = ""
    new_states: Annotated[NewStates, AfterValidator(_named)] | None = None
    escape: Annotated[str, Field(max_length=1)] = "\\"
    token_key: Annotated[str, Field(pattern="^([0-9a-f]{16})?$")] = ""
    shards: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    live: Live = NO_LIVE
    version: Annotated[int, Field(ge=VERSION, le=VERSION)] = VERSION
    before: Before | None = None
    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    @property
    def state_steps(self) -> int:
        """Return the number of steps that have state in Spark's checkpoint: that of buckets, and that of shards."""
        if self.before is None or self.before.state == "files":
            return 0
        return 2 if self.shards > 1 and not self.before.resharding else 1

    @property
    def spark_keeps(self) -> bool:
        """Return whether Spark keeps the state, as in earlier versions, instead of files of the sink."""
        return self.state_steps > 0


@dataclass(slots=True)
class _Edition:
    """What tells which other fields a job file has. One that does not say its edition of names or its version is of the first."""

    generation: str | None = None
    names: Whole = 1
    version: Annotated[int, Field(ge=1)] = 1
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


_JOB_FILE: Final = Record[JobFile](JobFile, "the job file {path} cannot be read: {why}", f"restore it, or {AGAIN}", sort=True)
_EDITION: Final = Record[_Edition](_Edition)


class Layout:
    """Paths and the job file of one sink: a local directory, or one on object storage. Raises as ``location``."""

    def __init__(self, sink: str) -> None:
        self.root = location(sink)
        self.home = self.root / "_skyband"
        self.checkpoint = self.home / "checkpoint"
        self.control = self.home / "control"
        self.taken = self.home / "taken.json"
        self.rest = self.home / "rest.json"
        self.next = self.home / NEXT
        self.added = self.home / ADDED
        self.state = self.home / "state"
        self.lookups = self.home / "lookups"
        self.requests = self.home / REQUESTS
        self.file = self.home / "job.json"

    def load(self) -> JobFile | None:
        """Return the job file, or None before the first run.

        Raises SkybandError SKY-E303 if it cannot be read, SKY-E307 and SKY-E309 if it is of a version that this one cannot continue.
        """
        try:
            text = read_regular_file(self.file)
            edition = _EDITION.parse(text)
            if edition.names < NAMES_EDITION and edition.generation is not None:
                raise _of_before(self.root)
            if edition.version > VERSION:
                raise _of_later(self.file, edition.version)
            return _JOB_FILE.parse(migrated(text, edition.version))
        except FileNotFoundError:
            return None
        except InvalidRecord as e:
            raise _JOB_FILE.error(self.file, e) from e

    def known(self) -> JobFile:
        """Return the job file of a job that has run. Raise SkybandError SKY-E402 before the first run."""
        job = self.load()
        if job is None:
            raise not_run()
        return job

    def create(self, plan: Plan, partitions: int, header: list[str] | None, shards: int = 1) -> JobFile:
        """Return the job file of a first run; remove the remains of an earlier attempt that wrote no row."""
        for leftover in (self.checkpoint, self.control, self.lookups, self.state):
            remove_tree(leftover)
        numbers = [part.number for _, part in plan.source.each]
        for leftover in (self.home / DROP, *(self.home / ledger_name(n) for n in numbers), *(self.taken_of(n) for n in numbers)):
            leftover.unlink(missing_ok=True)
        self.control.mkdir(parents=True, exist_ok=True)
        if is_object(self.control):
            # Spark reads a directory that is there: one that has an object, which it passes over.
            (self.control / ".folder").write_text("\n")
        generation, salt = uuid.uuid4().hex[:12], secrets.token_hex(16)
        made = JobFile(plan.job, generation, {}, partitions, header, salt=salt, token_key=secrets.token_hex(8), shards=shards)
        made = _current(made, plan)
        self.save(made)
        return made

    def renew(self, plan: Plan, job: JobFile) -> JobFile:
        """``job``, which fits ``plan``, with what the plan may have changed, in the present format, written if it is not so already."""
        made = self.renewed(plan, job)
        if made != self.load():
            self.save(made)
        return made

    def renewed(self, plan: Plan, job: JobFile) -> JobFile:
        """``job`` as it is written for ``plan``."""
        return replace(_current(job, plan), token_key=token_key(self, job))

    def save(self, job: JobFile) -> None:
        """Write the job file atomically."""
        self.home.mkdir(parents=True, exist_ok=True)
        with raising_system_failures(self.file):
            _JOB_FILE.write(self.file, job)

    def order_finish(self, at_iso: str, frontier: int) -> None:
        """Put the far-dated row of a finish into the control source; a second call with the same F changes nothing."""
        order(self._finish(frontier), at=at_iso)

    def ordered(self, frontier: int) -> bool:
        """Whether the finish with this F, which may have been declared only, has been ordered."""
        return self._finish(frontier).exists()

    def _finish(self, frontier: int) -> Location:
        return self.control / f"finish-{frontier}.json"

    def order_release(self, at_iso: str, at_ms: int) -> Location:
        """Put the row into the control source that moves the watermark by what a backlog held back; once per instant. Return its file."""
        path = self.control / f"drop-{at_ms}.json"
        order(path, at=at_iso)
        return path

    def taken_of(self, source: int) -> Location:
        """Return the file that says when files of the source with this number in the checkpoint were taken."""
        return self.taken if not source else self.home / f"taken-{source}.json"

    def order_wake(self, token: str) -> None:
        """Puts a row into the control source, so that there is a batch; once for one token. It moves no watermark."""
        order(self.wake(token), at=BEFORE_ALL)

    def wake(self, token: str) -> Location:
        """Return the file of that row."""
        return self.control / f"wake-{token}.json"


def cache_key(layout: Layout, job: JobFile) -> str:
    """Names the checkpoint, in a worker's cache and in the codes of tokens: a generation that is being built by where it will be.

    Codes that stand in its state would otherwise be none of those that rows have once it is swapped in.
    """
    return f"{layout.checkpoint}/{job.generation}".replace(f"/_skyband/{NEXT}/_skyband/", "/_skyband/")


def token_key(layout: Layout, job: JobFile) -> str:
    """Return the key of the codes of tokens, which stand in the job's state: it must stay the same wherever the sink is.

    A job from before the key was kept in its job file has the one made of its checkpoint's path, as long as the sink is not moved.
    """
    from skyband.framework.streaming.rows.tokens import key_of  # loads Arrow, without which commands read job files

    return job.token_key or key_of(cache_key(layout, job))


def fitting_job(plan: Plan, layout: Layout) -> JobFile | None:
    """The job file of earlier runs, None before the first (or if no run has written anything yet: then all may still change).

    Raise SpecErrors of SKY-E150 if the spec no longer fits the state; SkybandError SKY-E205 (see ``check_sink_location``); SKY-E303 if
    tables and checkpoint do not match, or a run would write rows twice or never; SKY-E650 if the state cannot be divided as the spec
    wants it. A spec that only has more buckets fits (``plan.growth``).
    """
    check_sink_location(plan, layout)
    job = layout.load()
    written = has_rows(layout)
    damage = torn(layout, job, written)
    if damage is not None:
        raise damage
    if job is None or not written:
        if job is not None and job.job != plan.job:
            raise _not_own(layout, f"is that of job {job.job!r}")
        return None
    whole(layout.checkpoint, layout.control, job.partitions, job.finishes, job.state_steps)
    more = grows(plan, job)
    if more is not None and more.error is not None:
        raise more.error
    differences = _differences(plan, job)
    if differences:
        hint = (
            "skyband rebuild SPEC rebuilds state and tables from the source's start, and swaps them in when they are complete; "
            "or run the changed spec into a new sink path"
        )
        raise SpecErrors([SkybandError("SKY-E150", d, hint=hint) for d in differences])
    return job


def has_rows(layout: Layout) -> bool:
    """Return True if a run has written rows into any table of the sink."""
    files = (p for pattern in ("[!_]*/*.parquet", "[!_]*/*/*.parquet") for p in layout.root.glob(pattern))
    return any(p.relative_to(layout.root).parts[0] != JOB_RUNS for p in files)


def torn(layout: Layout, job: JobFile | None, written: bool) -> SkybandError | None:
    """SKY-E303 if one of tables, job file and checkpoint is gone while others are there; None if none is. ``written``: see ``has_rows``."""
    planned, done = (last_batch(layout.checkpoint / name) for name in ("offsets", "commits"))
    missing = layout.file if job is None else layout.checkpoint if planned < 0 else None
    if written and missing is not None:
        return _torn(layout, f"tables of earlier runs but not their {missing.name}", f"restore {missing}")
    if done >= 0 and not written:
        return _torn(layout, "a checkpoint but not its tables", "restore them")
    return None


def grows(plan: Plan, job: JobFile) -> Growth | None:
    """The buckets that ``plan`` has more than the job, if that is all that it has other (``Growth.refused``: and yet it cannot be)."""
    return growth(job.fingerprint, plan, job.salt)


def reshaped(plan: Plan, job: JobFile, layout: Layout) -> list[str]:
    """Return what the next run does to the job's state before all else, in words.

    Raises SkybandError SKY-E632 for what cannot be done on object storage.
    """
    more = grows(plan, job)
    said = [] if more is None else [f"run.buckets was {more.was}, now {more.now}: the state is divided first"]
    if more is not None:
        require_local(layout.root, "a change of run.buckets")
    if (new := shards_of(plan, 1, job.shards)) != job.shards:
        require_local(layout.root, "a change of run.shards")
        said.append(f"run.shards was {job.shards}, now {new}: the state of shards is made first")
    return said


def not_run() -> SkybandError:
    """Return SKY-E402: the job has no tables yet."""
    return SkybandError("SKY-E402", "this job has not run yet", hint="skyband run it first")


def check_sink_location(plan: Plan, layout: Layout, named: bool = True) -> None:
    """Raises SkybandError SKY-E205 if the sink, links resolved, overlaps the source or the tables of another job. Writes nothing.

    ``named``: also if a directory in it that has the name of a table is not the job's (``own_tables``).
    """
    if any(part.path is not None and overlap(part.path, str(layout.root), real=True) for _, part in plan.source.each):
        raise _not_own(layout, "is at, above or below the source")
    for lookup, place in zip(plan.intake.lookups, plan.lookups, strict=True):
        if overlap(str(place.path), str(layout.root), real=True):
            raise _not_own(layout, f"is at, above or below the table of look-up {lookup.name}")
    root = layout.root.resolve()
    for above in root.parents:
        if (above / "_skyband" / "job.json").exists() and (root != above / "_skyband" / NEXT or layout.root.parent.name != "_skyband"):
            raise _not_own(layout, f"lies inside the sink of another job ({above})")
    for table in tables(plan):
        if (root / table.name / "_skyband" / "job.json").exists():
            raise _not_own(layout, f"would write its table {table.name} into the sink of another job")
    for directory in [root, *root.parents]:
        if (directory / "_delta_log").is_dir():
            raise _not_own(layout, "is a Delta table" if directory == root else f"lies inside a Delta table ({directory})")
    if named:
        own_tables(plan, layout)


def own_tables(plan: Plan, layout: Layout) -> None:
    """Raises SkybandError SKY-E205 if a directory with the name of a table cannot be the job's (``ownership``). Writes nothing.

    A table that the job has noted is not opened: the consistency check does that.
    """
    if layout.home.is_symlink():
        raise _not_own(layout, "has a link in the place of _skyband")
    owner = Owner(layout.root)
    before = layout.file.exists() and not owner.knows
    for table in tables(plan):
        link = is_link(layout.root / table.name)
        if link or not (before or table.name in owner.noted):
            owner.need_own(table.name)


def _not_own(layout: Layout, what: str) -> SkybandError:
    return SkybandError("SKY-E205", f"the sink {layout.root} {what}", hint="give the job a directory of its own in sink.path")


def changed_since(plan: Plan, layout: Layout) -> list[str]:
    """What of the spec (or of a table of queries) is not as in the runs that wrote the tables; empty if all is, or nothing has run.

    More buckets alone are no difference: the next run divides the state.
    """
    job = layout.load()
    return [] if job is None else _differences(plan, job)


def _current(job: JobFile, plan: Plan) -> JobFile:
    """``job`` as it is written for ``plan``."""
    return replace(
        job, fingerprint=concealed(fingerprint(plan), plan, job.salt), rules=rules_of(plan, job.salt), stopping=stopping_rules(plan),
        escape=folded(plan.source.options).get("escape", "\\"), live=plan.live,
    )  # fmt: skip


def _differences(plan: Plan, job: JobFile) -> list[str]:
    more = grows(plan, job)
    if more is not None and more.error is None:
        return []
    found = compare(job.fingerprint, concealed(fingerprint(plan), plan, job.salt), job.salt)
    # A command that does not need the source has not looked up where it is.
    unknown = {f"sources.{n}.path" if n else "source.path" for n, p in plan.source.each if p.path is None and p.table is not None}
    return [d for d in found if d.partition(" ")[0] not in unknown]


def _of_before(root: Location) -> SkybandError:
    said = ", ".join(f"{old} is {new} now" for old, new in RENAMED)
    hint = (
        f"run the spec into a new sink path, from the source's start, and delete {root} when nothing reads it any more; "
        "or stay with the version that wrote it. In SQL: " + said
    )
    return SkybandError("SKY-E307", f"the tables below {root} are of an earlier version, whose columns have other names", hint=hint)


def _of_later(file: Location, version: int) -> SkybandError:
    said = f"the job file {file} has version {version}, and this version of Skyband reads versions up to {VERSION}"
    return SkybandError("SKY-E309", said, hint="run the job with the version of Skyband that ran it last, or a later one")


def _torn(layout: Layout, what: str, first: str) -> SkybandError:
    return SkybandError("SKY-E303", f"{layout.root} holds {what}", hint=f"{first}, or {AGAIN}")
