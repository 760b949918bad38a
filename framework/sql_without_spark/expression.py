"""Spark SQL over columns without Spark: an expression is translated to DuckDB, and is evaluated there.

A spec is data. No text of it enters a statement: columns have names of our own and constants are parameters. DuckDB has access to nothing
but the rows, and its settings are locked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra, need
from skyband.framework.base.types import arrow_type
from skyband.framework.sources.duckdb_sql import LOCKED
from skyband.framework.spec.expressions.column_names import Columns
from skyband.framework.spec.expressions.sql import tree
from skyband.framework.sql_without_spark.functions import FUNCTIONS
from skyband.framework.sql_without_spark.rules import Unclear
from skyband.framework.sql_without_spark.translation import Plain, Row, Translation, in_arrow, inside, outside, plain

if TYPE_CHECKING:
    import duckdb

_AT_START: Final = (
    "set timezone = 'UTC'",
    "pragma disable_optimizer",  # it costs more time than it saves, and no value may depend on it
    "create macro wrapped_int(x) as ((((x) + 2147483648::hugeint) & 4294967295::hugeint) - 2147483648::hugeint)::integer",
    "create macro wrapped_bigint(x) as "
    "((((x) + 9223372036854775808::hugeint) & 18446744073709551615::hugeint) - 9223372036854775808::hugeint)::bigint",
    # Quotients rounded down: no instant is before day -106,751,992.
    "create macro down(x, unit) as "
    "((((x)::hugeint + 106751992::hugeint * 86400000000) // (unit)::hugeint) - 106751992::hugeint * 86400000000 // (unit)::hugeint)",
    "create macro within_day(x, unit) as (((x)::hugeint + 106751992::hugeint * 86400000000) % 86400000000 // (unit)::hugeint)::integer",
    "set lock_configuration = true",
)
_idle: Final[list[duckdb.DuckDBPyConnection]] = []


class Expression:
    """An expression of Spark SQL over columns ``types``, its value cast to the type ``to``.

    ``what`` names its place for messages. The constructor raises SkybandError SKY-E531 if something of it needs Spark.
    """

    def __init__(self, sql: str, types: Mapping[str, str], to: str | None = None, what: str = "SQL") -> None:
        self.what = what
        _need_duckdb(what)
        program = Translation(Columns(types), FUNCTIONS)
        try:
            found = program.of(tree(sql, Plain))
            found = found if to is None else program.cast_to(found, to)
        except Unclear as e:
            raise _needs_spark(what, str(e)) from None
        self.type, self._result, self._program = found.type, found, program

    def values(self, rows: Sequence[Row]) -> list[Any]:
        """Return the value for each row. Raises SkybandError SKY-E531 if only Spark can evaluate a row's values."""
        with self._needing_spark(), connection() as duck:
            given = {name: in_arrow([row[name] for row in rows], type_) for name, (_, type_) in self._program.used.items()}
            return plain(self._program.run(duck, given, len(rows), self._result), self.type)

    def column(self, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
        """Return the value for each of the ``rows`` of a table with ``columns``, as a column of a table.

        Raises SkybandError SKY-E531 if only Spark can evaluate a row's values. O(bytes).
        """
        with self._needing_spark(), connection() as duck:
            given = {name: inside(columns[name], type_) for name, (_, type_) in self._program.used.items()}
            return outside(self._program.run(duck, given, rows, self._result), self.type, arrow_type(self.type))

    @contextmanager
    def _needing_spark(self) -> Iterator[None]:
        try:
            yield
        except Unclear as e:
            raise _needs_spark(self.what, str(e)) from None
        except (pa.ArrowException, OverflowError, UnicodeError) as e:
            raise _needs_spark(self.what, "values beyond the range of its types") from e


def condition(sql: str, types: Mapping[str, str], what: str) -> Expression:
    """Return the predicate ``sql``: its values are true, false or null. Raises as ``Expression``."""
    return Expression(sql, types, "boolean", what)


def _needs_spark(what: str, why: str) -> SkybandError:
    hint = "Spark evaluates it: --engine of skyband test and preview, or skyband run"
    return SkybandError("SKY-E531", f"{what} uses {why}, which is not evaluated without Spark", hint=hint)


def _need_duckdb(what: str) -> None:
    """Raise SKY-E531 if DuckDB is not installed: then Spark evaluates SQL, as it does whatever has no rule."""
    try:
        need("sql", what)
    except SkybandError as e:
        hint = f"{e.hint}, or let Spark evaluate it: --engine of skyband test and preview, or skyband run"
        raise SkybandError("SKY-E531", f"{what} is evaluated without Spark only with DuckDB, which is not installed", hint=hint) from None


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Lend a connection, which has access to nothing, to one thread at a time: making one takes longer than most statements."""
    try:
        duck = _idle.pop()
    except IndexError:
        duck = _connected()
    try:
        yield duck
    finally:
        _idle.append(duck)


def _connected() -> duckdb.DuckDBPyConnection:
    with extra("sql", "SQL without Spark"):
        import duckdb
    duck = duckdb.connect(config={**LOCKED, "threads": 1, "memory_limit": "1GB"})
    for statement in _AT_START:
        duck.execute(statement)
    return duck
