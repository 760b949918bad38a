"""``import skyband``: run a job and read its tables from Python, by the functions of the commands (docs/reference/python.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from skyband.framework.base.errors import SkybandError, SpecErrors, did_you_mean, one_of, redacted
from skyband.framework.console.lines import Lines
from skyband.jobs.arguments import listed, path_of, positive, text, texts, whole_number
from skyband.jobs.authoring.validate import checked
from skyband.jobs.spec import SpecText

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.job.edits import Edit
    from skyband.framework.streaming.job.status import Status
    from skyband.framework.tables.results.reader import Answer
    from skyband.framework.tables.results.stays import Durable
    from skyband.framework.verify.verification import Verified
    from skyband.jobs.live import KnownQuery


def load(path: str | os.PathLike[str], env: Mapping[str, str] | None = None) -> Job:
    """Return the job of the spec at ``path``. ``env``: values of its ``${NAME}``s (default: the process's environment).

    Raises SpecErrors with all mistakes of the file at once. Reads the spec and its tables of queries, neither source nor sink.
    """
    text = SpecText(path_of(path), _variables(env))
    return Job(text, text.plan())


def validate(path: str | os.PathLike[str], env: Mapping[str, str] | None = None, data: bool = False) -> list[SkybandError]:
    """Return all mistakes of the spec at ``path`` in the order of the file; with ``data`` also those of its source.

    Never raises for the contents of the file.
    """
    return checked(path_of(path), bool(data), _variables(env)).errors


def _variables(env: Mapping[str, str] | None) -> Mapping[str, str] | None:
    return None if env is None else texts("env", env)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: ``status`` and ``exit_code`` of the command, and its ``outcome`` (docs/reference/run-output.md)."""

    status: str
    exit_code: int
    outcome: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Return True if everything was done and published."""
        return self.exit_code == 0


class Job:
    """A job, with its spec as it was when it was loaded, and the live queries that it has by now. Cheap; keeps nothing open."""

    def __init__(self, text: SpecText, plan: Plan) -> None:
        self.path = text.path
        self._text = text
        self._loaded = plan

    @property
    def _plan(self) -> Plan:
        """The plan of the spec with the live queries in the job file."""
        self._loaded = self._text.current(self._loaded)
        return self._loaded

    def __repr__(self) -> str:
        return f"<skyband.Job {self.name}: {', '.join(self.queries)}>"

    @property
    def name(self) -> str:
        """The job's name."""
        return self._plan.job

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of its queries, in the order of the spec."""
        return tuple(q.name for q in self._plan.every_query)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables it writes (docs/semantics Tables), whether they exist yet or not."""
        from skyband.framework.tables.schemas import tables

        return tuple(t.name for t in tables(self._plan))

    def explain(self, rate: float | None = None) -> str:
        """Return the compiled plan as text. ``rate``: rows per second and key to assume for the size of time windows."""
        rate = None if rate is None else positive("rate", rate)
        from skyband.framework.plan.explain import explain

        return redacted(explain(self._plan, rate))

    def graph(self, language: Literal["mermaid", "dot"] = "mermaid") -> str:
        """Return the text of a chart of source, states, queries and tables."""
        from skyband.framework.plan.graph import dot, mermaid

        if language not in ("mermaid", "dot"):
            raise SkybandError("SKY-E201", f"language takes 'mermaid' or 'dot', not {language!r}")
        return dot(self._plan) if language == "dot" else mermaid(self._plan)

    def plan(self) -> Edit:
        """Return whether the next run can continue the job (``fits``), which edits prevent that, and what a rebuild would cost."""
        from skyband.framework.streaming.job.edits import edited

        return edited(self._plan)

    def run(
        self, finish: bool = False, rebuild_results: bool = False, demote: Sequence[str] = (), log: Callable[[str], None] | None = None
    ) -> RunResult:
        """Process what is new in the source and return. The first run starts Spark, which runs until this process ends.

        ``finish`` declares the input complete. ``demote`` names row rules of severity ``fail`` to treat as ``reject``. ``log`` is called
        with a line per batch (without it, warnings go to stderr). Raises SkybandError or SpecErrors where the command ends with code 2
        or 3; failed checks and too many rejected rows are results. Only the command runs continuously.
        """
        from skyband.framework.streaming.spark.failures import exit_code, failure
        from skyband.framework.streaming.spark.jvm import SPARK_JVM
        from skyband.framework.streaming.spark.process import end_with_process
        from skyband.framework.streaming.spark.stop_signal import INTERRUPTED
        from skyband.jobs.outcome import Outcome
        from skyband.jobs.running import run

        rules = [text("demote", rule) for rule in listed("demote", demote)]
        if log is not None and not callable(log):
            raise SkybandError("SKY-E201", f"log takes a function of one text, not {log!r}", hint="such as print")
        end_with_process()
        outcome = Outcome(None, wanted=True)
        switches = {"--once": True, "--finish": finish, "--rebuild-results": rebuild_results, "--quiet": log is None}
        words = [*(name for name, on in switches.items() if on), *(f"--demote={rule}" for rule in rules), "--", self.path]
        arguments = run.parse_arguments(words, Lines() if log is None else _LogLines(log), outcome)
        arguments.plan, arguments.text = self._plan, self._text
        try:
            code = run.run(arguments)
        except Exception as e:
            shown = failure(e)
            errors = e.errors if isinstance(e, SpecErrors) else [shown] if shown is not None else []
            outcome.tell_observers(INTERRUPTED if shown is None else exit_code(shown), errors)
            died = None if isinstance(e, (SkybandError, SpecErrors)) else SPARK_JVM.death(e)
            if died is not None:
                raise died from e
            raise
        except BaseException:
            # Ctrl-C in a notebook: observers are closed all the same.
            outcome.tell_observers(INTERRUPTED, [])
            raise
        for said in outcome.tell_observers(code, arguments.lines.failures):
            arguments.lines.tell("warning", "observers", f"WARNING: {said}")
        document = outcome.document(code, arguments.lines.failures)
        return RunResult(document["status"], code, document)

    def add_query(self, name: str, entry: Mapping[str, Any], scoring: Mapping[str, Any] | None = None, from_now: bool = False) -> None:
        """Request the query ``name`` with an ``entry`` as in a spec; ``scoring``: functions that the spec lacks, by name.

        A continuous run takes the request between two batches, otherwise the next run does. The query begins with the job's first row, or
        ``from_now`` with the rows after that moment. Raises SpecErrors for mistakes in the entry, SkybandError SKY-E590 and SKY-E591.
        """
        from skyband.jobs.live import LiveJob, part_from

        part = part_from({text("name", name): entry}, scoring)
        LiveJob(self._text, "add_query").add(part, "from_now" if from_now else "backfill")

    def remove_query(self, name: str) -> None:
        """Request that a query be removed, with its state and tables. Raises SkybandError SKY-E591 for one that the job does not have."""
        from skyband.jobs.live import LiveJob

        LiveJob(self._text, "remove_query").remove([text("name", name)])

    def live_queries(self) -> list[KnownQuery]:
        """Return the queries of the spec and the live ones, with requests that wait or were refused."""
        from skyband.jobs.live import LiveJob

        return LiveJob(self._text, "live_queries").known()

    def query(
        self,
        name: str,
        at: datetime | str | None = None,
        k: int | None = None,
        window: str | None = None,
        key: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Return the rows of ``ask``, at most ``limit`` (the best of each key first): key columns, ``rank``, item columns, score."""
        from skyband.framework.tables.results.reader import Reader, first

        rows = self.ask(name, at, k, window, key, limit).rows
        return first(self._plan, Reader(self._plan).query(name), rows, limit)

    def ask(
        self,
        name: str,
        at: datetime | str | None = None,
        k: int | None = None,
        window: str | None = None,
        key: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Answer:
        """Return a query's result ``at`` an instant (default: the last complete), or its best ``k`` within ``window`` at the last batch.

        The answer has its ``rows``, the instant they stand for (``as_of``), a ``note``, and the ``sql`` that gives them in DuckDB. ``at``
        without a time zone is UTC; ``window`` is ``"2 days"``, ``"500 rows"`` or both; ``key`` the values of ``partition_by``. Without
        Spark. Raises SkybandError: SKY-E201 for what the tables cannot answer, SKY-E400 and SKY-E402 before the first run.
        """
        from skyband.jobs.reading.query import read_result

        return read_result(self._plan, name, at, k, window, key, limit)

    def durable(
        self,
        name: str,
        share: str,
        start: datetime | timedelta | str | None = None,
        end: datetime | str | None = None,
        by: Sequence[str] = (),
        key: Mapping[str, str] | None = None,
    ) -> Durable:
        """Return the items that were in a query's result for at least ``share`` (``"80%"``) of the time from ``start`` to ``end``.

        ``start`` may be a duration before ``end``; default: from the first result up to the end of what is complete. ``by``: columns to
        compare items by, whose overlapping stays count once. The answer has its ``rows`` (longest first), ``start``, ``end``, the last
        complete instant (``as_of``), a ``note``, and the ``sql`` that gives the rows in DuckDB. Without Spark. Raises SkybandError as
        ``ask``. O(n log n) in the stays that overlap the interval.
        """
        from skyband.jobs.reading.stays import read_durable

        return read_durable(self._plan, name, share, start, end, by, key)

    def records(
        self,
        name: str,
        after: timedelta | str | None = None,
        start: datetime | timedelta | str | None = None,
        end: datetime | str | None = None,
        key: Mapping[str, str] | None = None,
    ) -> Durable:
        """Return the rows that were in a query's result when they arrived or, with ``after`` (``"30 minutes"``), when they were that old.

        ``start`` and ``end`` bound the event times of the rows, as in ``durable``. The answer is that of ``durable``, newest first; its
        ``note`` says which rows are too young to be decided. Raises SkybandError SKY-E201 for items that are not single rows.
        """
        from skyband.jobs.reading.stays import read_records

        return read_records(self._plan, name, after, start, end, key)

    def sql(self, statement: str, limit: int | None = None) -> pa.Table:
        """Return the rows of one DuckDB query over the job's tables and views only. Raises SkybandError SKY-E404, E201, E400."""
        text("statement", statement)
        limit = None if limit is None else whole_number("limit", limit)
        from skyband.framework.streaming.job.edited_spec import tables_of
        from skyband.framework.tables.sql.statements import Statements

        with tables_of(self._plan):
            return Statements(self._plan).ask(statement, limit)

    def table(self, name: str) -> pa.Table:
        """Return a whole table of ``tables``. Raises SkybandError SKY-E201 for another name, SKY-E400 if it is missing. O(rows)."""
        if text("name", name) not in self.tables:
            hint = did_you_mean(name, self.tables) or f"its tables: {one_of(self.tables)}"
            raise SkybandError("SKY-E201", f"the job has no table {name!r}", hint=hint)
        from skyband.framework.storage import delta_read
        from skyband.framework.storage.sinks import require_readable

        require_readable(self._plan.sink)
        # Return its own columns: after an edit, the spec may have others.
        return delta_read.read(delta_read.open_table(self._plan.sink.removeprefix("file://"), name))

    def status(self) -> Status:
        """Return whether the job runs, how far it has processed its source, what waits, and what is wrong. Only reads."""
        from skyband.framework.streaming.job.status import status_of

        return status_of(self._plan)

    def verify(
        self, keys: int | None = None, instants: int | None = None, seed: int = 0, source: bool = True, seconds: float | None = None,
        everything: bool = False,
    ) -> Verified:  # fmt: skip
        """Replay all changes, reconcile the row counts and, with ``source``, recompute a sample of results by brute force.

        The sample is as large as 30 ``seconds`` allow, at most of ``keys`` keys, and of ``instants`` instants of each query and key (which
        take the time they need, unless ``seconds`` is given too); ``everything``: all events. Without Spark if ``source`` is false. The
        answer has the findings; nothing is printed. Raises SkybandError SKY-E402 before the first run, SKY-E201 for limits out of range,
        SpecErrors of SKY-E150 for another spec than the last run's.
        """
        from skyband.framework.verify.budget import Sample
        from skyband.framework.verify.verification import verify

        sample = Sample(keys, instants, seed, seconds, everything) if source else None
        if source:
            from skyband.framework.streaming.spark.process import end_with_process

            end_with_process()
        return verify(self._plan, sample, _LogLines(lambda text: None))

    def whatif(
        self, with_rejected: bool | Sequence[str] = False, without: Sequence[str] = (), settings: Mapping[str, str] | None = None,
        begin: datetime | str | None = None, end: datetime | str | None = None, query: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return which results would have been other with a change, when, and by which rows: the JSON of ``skyband whatif`` as a dict.

        ``with_rejected``: rejected rows put back, all or those of some reasons. ``without``: ids of rows to leave out, or
        ``"column=value"``. ``settings``: values of the spec by path, in YAML (``{"queries.best.k": "20"}``). ``begin``, ``end``: the range
        of instants, both included. Writes nothing. O(rows of the source). Raises SkybandError: SKY-E201 for arguments, SKY-E402 before the
        first run and for an ``end`` that is not complete, SKY-E301 if the source cannot be read again; SpecErrors for the edited spec.
        """
        from skyband.framework.whatif.wording import document
        from skyband.jobs.answer import plain
        from skyband.jobs.reading.whatif import ask

        reasons = (
            [f"rejected:{text('with_rejected', r)}" for r in listed("with_rejected", with_rejected)]
            if with_rejected not in (False, True)
            else []
        )
        put_back = ["rejected"] if with_rejected is True else reasons
        ids = [text("without", i) for i in listed("without", without)]
        values = [f"{path}={value}" for path, value in texts("settings", settings or {}).items()]
        name = None if query is None else text("query", query)
        found = ask(self.path, put_back, ids, values, begin, end, name, self._text.env, self._plan)
        answer: dict[str, Any] = plain(document(found))
        return answer


class _LogLines(Lines):
    """Lines that go to a function of the caller instead of stderr."""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__()
        self._log = log

    def show(self, now: Callable[[], str]) -> None:
        """Show nothing: the function is called only by the caller's thread."""

    def tell(self, level: str, event: str, text: str, **figures: Any) -> None:
        """See ``Lines.tell``."""
        self._log(redacted(text))

    def say(self, text: str) -> None:
        """See ``Lines.say``."""
        self._log(redacted(text))

    def report(self, event: str, text: str, **figures: Any) -> None:
        """See ``Lines.report``."""
        self._log(redacted(text))

    def errors(self, errors: Sequence[SkybandError]) -> None:
        """Keep the errors, which the caller raises."""
        self.failures += errors
