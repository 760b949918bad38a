"""Load the tests of a spec and their input rows.

Tests use neither the sources, the look-up tables nor the sink of the spec, so environment variables that only name these need not be set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from skyband.framework.base.cells import cell
from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.lookups.join import Tables
from skyband.framework.lookups.table import checked, nodes
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Field, Plan, SourceNode
from skyband.framework.plan.nodes import LookupNode
from skyband.framework.sources.position import position_values
from skyband.framework.sources.values import arrow_table, in_spark
from skyband.framework.spec.load import Validated, validated_file
from skyband.framework.spec.models.job import RESTART, SpecTest

TEST: Final = "test"
"""The file in the position of rows of tests."""
_NAMED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _Environment(Mapping[str, str]):
    """The environment, in which an unset variable stands for a missing directory, except Skyband's own variables."""

    def __contains__(self, name: object) -> bool:
        return name in os.environ or not str(name).startswith("SKYBAND_")

    def __getitem__(self, name: str) -> str:
        if name in os.environ or name.startswith("SKYBAND_"):
            return os.environ[name]
        return f"/variable-not-set/{name}"

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def environment() -> Mapping[str, str]:
    """Return the environment for reading a spec for its tests."""
    return _Environment()


def load_tests(path: str) -> tuple[Validated, Plan]:
    """Return the spec and its plan. Raises SpecErrors with all errors of the spec, unset variables that tests need included."""
    found = validated_file(path, environment())
    if found.job is None:
        raise SpecErrors(validated_file(path).errors or found.errors)
    for at, text in found.job.variables:
        if _is_used(at) and any(name not in os.environ for name in _NAMED.findall(text)):
            raise SpecErrors(validated_file(path).errors)
    return found, compile_job(found.job)


def _is_used(field: tuple[str | int, ...]) -> bool:
    """Return True if tests depend on the field of the spec: not on where rows and tables are, nor on how their files are read."""
    match field:
        case ("sink", "path") | ("source", "path" | "options", *_) | ("sources" | "lookups", _, "path" | "options", *_):
            return False
    return True


def clock_of(test: SpecTest) -> int | None:
    """Return the clock of ``test`` in microseconds; None if no event time is too far ahead of it."""
    return None if test.clock is None else int(cell(test.clock, "time"))


class InputBatch(NamedTuple):
    """Rows by column, processed as one batch; ``restart``: restart the job first."""

    rows: list[dict[str, Any]]
    restart: bool = False


def input_batches(plan: Plan, test: SpecTest) -> list[InputBatch]:
    """Return the input batches of ``test``, with values of ``rehearsal.rows``. SkybandError SKY-E530 for an unfit value.

    With ``id: position``, a row's number is that among the rows of the test.
    """
    fields = {f.name: f for f in plan.source.fields}
    made, rows = [InputBatch([])], 0
    for given in test.rows:
        if isinstance(given, str):
            made.append(InputBatch([], given == RESTART))
            continue
        rows += 1
        made[-1].rows.append(_row(test, fields, given) | position_values(plan.source.position, TEST, rows))
    return made


def lookup_tables(plan: Plan, test: SpecTest) -> Tables:
    """Return the tables of the look-ups in ``test``.

    Raises SkybandError SKY-E530 for an unfit value, SKY-E320 if a table has two rows for one key.
    """
    return {node.name: checked(node, source, lookup_rows(test, node, source)) for node, source in nodes(plan)}


def lookup_rows(test: SpecTest, node: LookupNode, source: SourceNode) -> pa.Table:
    """Return the rows of a look-up's table in ``test``, with the columns of its schema. SkybandError SKY-E530 for an unfit value."""
    fields = {f.name: f for f in source.fields}
    rows = [_row(test, fields, given) for given in test.lookups.get(node.name, ())]
    return arrow_table(rows, source.fields)


def _row(test: SpecTest, fields: Mapping[str, Field], given: Mapping[str, Any]) -> dict[str, Any]:
    row = {}
    for name, value in given.items():
        f = fields[name]
        try:
            row[name] = in_spark(cell(value, f.kind, f.type), f.type)
        except (ValueError, ArithmeticError) as e:
            raise SkybandError("SKY-E530", f"test {test.name!r}: column {name} {e}") from e
    return row
