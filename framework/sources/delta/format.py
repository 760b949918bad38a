"""The format ``delta``: the rows added to a Delta table or, with ``changes``, every change of a row from its change data feed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.columnar.file_columns import delta_columns
from skyband.framework.sources.delta import failures
from skyband.framework.sources.delta.change_feed import CHANGE, CHANGE_TYPE, COMMITTED, OF_CHANGE, VERSION, follows
from skyband.framework.sources.files.format import path_needed
from skyband.framework.sources.files.preflight import local_directory
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.options import DELTA, unsafe
from skyband.framework.sources.protocol import ArrowRules, Columns, Mistake, Section, SourceFormat
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.storage.delta_logs import DeltaLog, require_inside
from skyband.framework.storage.location import Location

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset
    from pyspark.sql import DataFrame, SparkSession

    from skyband.framework.sources.delta.added_files import AddedFiles


def _local(name: str, value: str) -> bool:
    return name == "ignoredeletes" or (name == "startingversion" and value.isdecimal()) or (name, value) == ("changes", "false")


_LOCAL: Final = ArrowRules(option=_local, lists=True)


class LogWatch:
    """A ``Watch`` over the log of a Delta table, which has no files of its own to set aside."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log

    def at_start(self, committed: bool) -> list[str]:
        """See ``Watch.at_start``. Raises SkybandError SKY-E208."""
        self._log.require_inside()
        return []

    def before_batch(self, batch: int) -> None:
        """See ``Watch.before_batch``. Raises SkybandError SKY-E208."""
        self._log.require_inside()

    def before_commit(self, batch: int) -> list[str]:
        """See ``Watch.before_commit``. Raises SkybandError SKY-E208."""
        self._log.require_inside()
        return []

    def files(self, batch: int) -> list[str]:
        """See ``Watch.files``."""
        return []

    def left_out(self) -> list[str]:
        """See ``Watch.left_out``."""
        return []

    def rejected(self, batch: int) -> list[tuple[str, str]]:
        """See ``Watch.rejected``."""
        return []

    def set_aside(self, spark: SparkSession, said: str, batch: int) -> list[str]:
        """See ``Watch.set_aside``."""
        return []


@dataclass(frozen=True, slots=True)
class DeltaFormat(SourceFormat):
    """Reads a Delta table, which is the origin of its rows. The session always has Delta's jar, since results are Delta tables."""

    once: ClassVar[bool] = True
    of_table: ClassVar[bool] = True
    preview_options: ClassVar[frozenset[str] | None] = frozenset()
    duckdb_options: ClassVar[frozenset[str] | None] = frozenset({"startingversion", "startingtimestamp", "ignoredeletes"})

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``."""
        yield from path_needed(section)
        yield from unsafe(section, DELTA)
        at = ("options", "changes")
        given = section.options.get("changes", "false")
        if given not in ("true", "false"):
            yield Mistake("SKY-E114", "'changes' is true or false", at)
        elif given == "true":
            yield from self._changes(section)
        else:
            for column, (source_name, _) in section.columns.items():
                if source_name in OF_CHANGE:
                    yield Mistake("SKY-E114", f"{source_name} is of a change", ("schema", column, "from"), 'options: {changes: "true"}')

    def _changes(self, section: Section) -> Iterator[Mistake]:
        """Yield the mistakes of a source with ``changes``. An update deletes the old row, then inserts the new one, in this order."""
        if "ignoreDeletes" in section.options:
            yield Mistake("SKY-E119", "with changes, rows that are taken away are deletions", ("options", "ignoreDeletes"), of_name=True)
        for column, (source_name, type_) in section.columns.items():
            if (wanted := OF_CHANGE.get(source_name)) not in (None, type_):
                yield Mistake("SKY-E114", f"{source_name} is {wanted}, not {type_}", ("schema", column), f"declare {wanted}")
        named = {source_name: column for column, (source_name, _) in section.columns.items()}
        change, change_type = named.get(CHANGE), named.get(CHANGE_TYPE)
        if change_type is not None:
            yield from self._change_types(section, change_type, named.get(VERSION), named.get(COMMITTED))
        elif change is None:
            hint = f"op: {{type: string, from: {CHANGE}}} in source.schema, and deletes: op = 'delete'"
            yield Mistake("SKY-E111", f"changes of a table need a column from {CHANGE}", ("schema",), hint)
        elif not section.deletes:
            yield Mistake("SKY-E111", "changes of a table need 'deletes'", ("options", "changes"), f"deletes: {change} = 'delete'")
        elif change not in section.tie_break:
            said = f"'{change}' has to be in event_time.tie_break: an update takes the old row back, then brings the new one"
            yield Mistake("SKY-E111", said, ("event_time",), f"tie_break: [{change}]")

    def _change_types(self, section: Section, column: str, version: str | None, committed: str | None) -> Iterator[Mistake]:
        """Yield the mistakes of a source that reads the kinds of change as Delta names them."""
        if section.operation != column:
            said = f"a column from {CHANGE_TYPE} needs 'op': an update is two rows, of which the first changes nothing"
            op = f"op: {{column: {column}, insert: [insert], update: [update_postimage], delete: [delete], ignore: [update_preimage]}}"
            yield Mistake("SKY-E111", said, ("schema", column), op)
        needed = [column] if section.event_time == committed else [version, column]
        if [c for c in section.tie_break if c in needed] != needed:
            order = ", ".join(c or f"a bigint from {VERSION}" for c in needed)
            yield Mistake("SKY-E111", "changes of one instant need the order of the commits", ("event_time",), f"tie_break: [{order}]")

    def stream(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        caps: WatermarkCaps | None = None,
    ) -> DataFrame:
        """See ``SourceFormat.stream``."""
        from skyband.framework.sources.files import spark_reader

        return spark_reader.delta(spark, source)

    def local_rules(self) -> ArrowRules | None:
        """See ``SourceFormat.local_rules``: of a table that only gets rows."""
        return _LOCAL

    def added_files(self, source: SourceNode) -> AddedFiles | None:
        """See ``SourceFormat.added_files``."""
        from skyband.framework.sources.delta.added_files import AddedFiles

        return AddedFiles(source)

    def first_rows(self, source: SourceNode, path: str, most: int, found: FirstRows) -> None:
        """See ``SourceFormat.first_rows``."""
        from skyband.framework.sources.columnar.preview import first_rows

        first_rows(source, path, most, found)

    def table_columns(self, source: SourceNode) -> Columns | None:
        """See ``SourceFormat.table_columns``."""
        path = local_directory(str(source.path))
        return None if path is None else delta_columns(path)

    def dataset(self, source: SourceNode, files: Sequence[str]) -> Dataset:
        """See ``SourceFormat.dataset``: the table as it is now."""
        from skyband.framework.storage import delta_read

        require_inside(str(source.path))
        path = Path(str(source.path).removeprefix("file://"))
        return delta_read.dataset(delta_read.open_table(path.parent, path.name))

    def watch(self, source: SourceNode, columns: list[str] | None, home: Location) -> LogWatch | None:
        """See ``SourceFormat.watch``: what the commits of a batch name is checked before its rows get into a table."""
        log = DeltaLog.of(str(source.path))
        return None if log is None else LogWatch(log)

    def rows_gone(self, source: SourceNode) -> str | None:
        """See ``SourceFormat.rows_gone``."""
        return "the table of the source changes: it does not hold all rows that came" if follows(dict(source.options)) else None

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        """See ``SourceFormat.failure``: a table that was rewritten or recreated, that keeps no feed, or not that far back."""
        return failures.failure(said, path)
