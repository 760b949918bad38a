"""Evaluate Great Expectations, and expectations of other packages, on the job's tables: one outcome per check, also if another fails.

Great Expectations is imported only if a spec uses it. It runs on pandas frames in this process, without files, telemetry or network.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.base.table_names import append_only
from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import Check
from skyband.framework.quality.expectations import (
    COLUMN,
    COLUMNS,
    EXPECTATIONS,
    OWN,
    ROW_CONDITION,
    SHAPE,
    WHOLE,
    OwnExpectation,
    Wrong,
    arguments,
    takes,
)
from skyband.framework.storage.delta_read import dataset, open_table, read
from skyband.framework.storage.location import Location
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.outcome import EXAMPLES, Outcome
from skyband.framework.tables.schemas import fixed_schema
from skyband.framework.verify.brute_force.expressions import holds
from skyband.framework.verify.brute_force.objects import values_of
from skyband.operators.base import Kind
from skyband.operators.expressions.canonical import attributes
from skyband.operators.expressions.parser import parse

if TYPE_CHECKING:
    from skyband.framework.tables.writing.writer import Writer


# Read the columns and rows of a table that a check needs, in pieces of at most ``MOST`` values; ``row_condition`` selects rows.

MOST: Final = 5_000_000
"""The most values (rows times columns) of a check in memory: about 500 MB of texts, or 40 MB of numbers."""


def pieces(opened: DeltaTable, check: Check, first: int | None, last: int) -> Iterator[pa.Table]:
    """Yield the rows of a table that ``check`` is about, with the columns it needs, in at least one piece (maybe without rows).

    ``first`` and ``last``: the batches to read (``first`` None: the whole table). The caller stops after the first piece if the check needs
    all rows at once. O(rows of the files that may have such batches).
    """
    schema = pa.schema(opened.schema().to_arrow())
    given = json.loads(check.arguments)
    if check.expectation in SHAPE:
        yield schema.empty_table()
        return
    condition = given.get(ROW_CONDITION)
    columns = [n for n in named(check.expectation, given) if n in schema.names]
    needed = columns + [n for n in _of_condition(condition, schema) if n not in columns]
    # At least one column must be read to count the rows.
    read = needed or [next((f.name for f in schema if pa.types.is_integer(f.type)), schema.names[0])]
    where = None if first is None else (pc.field("batch_id") >= first) & (pc.field("batch_id") <= last)
    most = max(1, MOST // len(read))
    collected: list[pa.RecordBatch] = []
    rows, yielded = 0, False
    empty = pa.schema([schema.field(n) for n in read])
    for batch in dataset(opened).to_batches(columns=read, filter=where):
        found = pa.Table.from_batches([batch])
        found = found if condition is None else rows_where(found, condition)
        if collected and rows + found.num_rows > most:
            yield _one(collected, empty)
            collected, rows, yielded = [], 0, True
        collected += found.to_batches()
        rows += found.num_rows
    if collected or not yielded:
        yield _one(collected, empty)


def _one(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema).replace_schema_metadata(None)


def named(expectation: str, given: dict[str, Any]) -> list[str]:
    """Return the columns that the arguments of an expectation name."""
    found: list[str] = []
    known = takes(expectation) or {}
    for name, value in given.items():
        reads = known.get(name)
        found += [value] if reads is COLUMN and isinstance(value, str) else list(value) if reads is COLUMNS and value else []
    return list(dict.fromkeys(found))


def by_row(expectation: str) -> bool:
    """Return True if an expectation evaluates every row by itself, so that the results of pieces can be added up."""
    return "mostly" in EXPECTATIONS.get(expectation, {}) and expectation not in WHOLE


def _of_condition(condition: str | None, schema: pa.Schema) -> list[str]:
    if condition is None:
        return []
    return [c.name for c in attributes(parse(condition, kinds_of(schema.empty_table()), ("",), "predicate"))]


def kinds_of(table: pa.Table) -> dict[str, Kind]:
    """Return the kind, in expressions, of every column that has one."""
    return {f.name: kind for f in table.schema if (kind := _kind(f.type)) is not None}


def rows_where(table: pa.Table, condition: str) -> pa.Table:
    """Return the rows for which ``condition`` is true. Raises ExpressionErrors if it does not fit the table's columns. O(rows)."""
    from skyband.operators.expressions.canonical import attributes
    from skyband.operators.expressions.parser import parse

    node = parse(condition, kinds_of(table), ("",), "predicate")
    values = {c.name: values_of(table[c.name], c.kind) for c in attributes(node)}
    return table.filter(pa.array(np.broadcast_to(holds(node)(values, values), table.num_rows)))


def _kind(type_: pa.DataType) -> Kind | None:
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "text"
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_integer(type_):
        return "int"
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "time"
    return "float" if pa.types.is_floating(type_) or pa.types.is_decimal(type_) else None


@dataclass(frozen=True, slots=True)
class Span:
    """The batches, ``first`` to ``last``, that have not been checked."""

    first: int
    last: int


def stored_arguments(plan: Plan, number: int) -> str:
    """Return the arguments of a check as they are stored and shown: values from the environment as the spec writes them."""
    written = {path[3:]: text for path, text in plan.variables if path[:3] == ("quality", "tables", number)}
    given = plan.checks[number].arguments
    return json.dumps(_written(json.loads(given), (), written), sort_keys=True, separators=(",", ":")) if written else given


def _written(value: Any, path: tuple[str | int, ...], written: Mapping[tuple[str | int, ...], str]) -> Any:
    if path in written:
        return written[path]
    if isinstance(value, dict):
        return {k: _written(v, (*path, k), written) for k, v in value.items()}
    return [_written(v, (*path, i), written) for i, v in enumerate(value)] if isinstance(value, list) else value


def evaluate(plan: Plan, writer: Writer, span: Span) -> Iterator[tuple[Outcome, Any]]:
    """Yield the outcome of every check, with the library's own result (None if it failed before that, or ran in pieces)."""
    library = import_gx() if any(uses_library(c) for c in plan.checks) else None
    context = None if library is None else _context(library)
    for i, check in enumerate(plan.checks):
        began = clock.perf_counter()
        found, result = _evaluate_one(library, context, f"check{i}", check, writer, span)
        first = span.first if check.scope == "new" and append_only(check.table) else None
        yield (
            Outcome(
                check.table, found.get("version"), first, check.expectation, stored_arguments(plan, i), check.severity,
                bool(found["success"]),
                found.get("observed_value"), found.get("element_count"), found.get("unexpected_count"), found.get("unexpected_percent"),
                found.get("partial_unexpected_list") or (), found.get("error"), 1000 * (clock.perf_counter() - began),
            ),
            result,
        )  # fmt: skip


def uses_library(check: Check) -> bool:
    """Return True if Great Expectations evaluates the check, not an expectation of another package."""
    return check.expectation in EXPECTATIONS or OWN.get(check.expectation) is None


def import_gx() -> Any:
    """Import Great Expectations with telemetry off. SkybandError SKY-E200 if that fails."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    for name in ("great_expectations", "posthog", "backoff"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with extra("quality", "quality.tables"):
            import great_expectations as gx
    except (ImportError, SystemExit) as e:
        said = f"quality.tables needs Great Expectations, which cannot be imported: {e}"
        raise SkybandError("SKY-E200", said, hint="pip install 'skyband[quality]'") from e
    return gx


def expectation_class(gx: Any, name: str) -> Any:
    """Return the class of an expectation by its own name, e.g. ``expect_column_values_to_not_be_null``, or None."""
    return getattr(gx.expectations, "".join(part.capitalize() for part in name.split("_")), None)


def _context(gx: Any) -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False, metric_calculations=False)
    return context


def _evaluate_one(gx: Any, context: Any, name: str, check: Check, writer: Writer, span: Span) -> tuple[dict[str, Any], Any]:
    """Return the result of one check in the library's terms, with the table's ``version``; an exception becomes ``error``."""
    made: dict[str, Any] = {"success": False}
    own = None if uses_library(check) else OWN.get(check.expectation)
    kind = expectation_class(gx, check.expectation) if check.expectation in EXPECTATIONS else None
    if kind is None and own is None:
        return made | {"error": f"Great Expectations has no {check.expectation}"}, None
    try:
        given = json.loads(check.arguments)
        checked = arguments(check.expectation, given)
        expectation = None if kind is None else kind(**checked)
        opened = writer.opened(check.table)
        made["version"] = opened.version()
        first = span.first if check.scope == "new" and append_only(check.table) else None
        found: list[tuple[dict[str, Any], Any]] = []
        for i, piece in enumerate(pieces(opened, check, first, span.last)):
            if i and not by_row(check.expectation):
                return made | {"error": _too_large(check)}, None
            if not piece.num_rows and first is not None and check.expectation not in SHAPE and named(check.expectation, given):
                return made | {"success": True, "element_count": 0}, None
            found.append(
                _validate(context, f"{name}_{i}", expectation, piece) if own is None else (_evaluate_own(own, checked, piece), None)
            )
        one = found[0][0] if len(found) == 1 else _combine([f for f, _ in found], given.get("mostly", 1.0))
        return made | one, found[0][1] if len(found) == 1 else None
    except Wrong as e:
        return made | {"error": str(e)}, None
    except Exception as e:
        # If a third-party expectation raises, the other checks still run, and this one is reported as failed.
        return made | {"error": f"{type(e).__name__}: {e}"}, None


def _too_large(check: Check) -> str:
    how = f"{ROW_CONDITION} chooses rows" + (", scope: new looks at what is new" if append_only(check.table) else "")
    return f"it needs more than {MOST:,} values (rows times columns) at once, so it was not evaluated: {how}"


def _evaluate_own(own: OwnExpectation, arguments: Mapping[str, Any], rows: pa.Table) -> dict[str, Any]:
    found = own.look(rows, arguments)
    percent = 100 * found.unexpected / rows.num_rows if found.unexpected is not None and rows.num_rows else None
    return {
        "success": bool(found.success), "observed_value": found.observed, "element_count": rows.num_rows,
        "unexpected_count": found.unexpected, "unexpected_percent": percent, "partial_unexpected_list": list(found.examples),
    }  # fmt: skip


def _validate(context: Any, name: str, expectation: Any, rows: pa.Table) -> tuple[dict[str, Any], Any]:
    frame = rows.to_pandas(date_as_object=False)
    source = context.data_sources.add_pandas(name)
    try:
        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name).get_batch({"dataframe": frame})
        with _quiet():
            result = batch.validate(expectation)
    finally:
        # The pieces of a table must not pile up in the context.
        context.data_sources.delete(name)
    found = result.to_json_dict()
    error = _raised(found.get("exception_info") or {})
    return {**(found.get("result") or {}), "success": bool(found["success"]), **({"error": error} if error else {})}, result


def _combine(found: Sequence[Mapping[str, Any]], mostly: float) -> dict[str, Any]:
    """Combine the results of an expectation about single rows over all pieces."""
    error = next((f["error"] for f in found if f.get("error")), None)
    if error is not None:
        return {"success": False, "error": error}
    rows, missing, wrong = (sum(f.get(n) or 0 for f in found) for n in ("element_count", "missing_count", "unexpected_count"))
    present = rows - missing
    examples = [x for f in found for x in f.get("partial_unexpected_list") or ()][:EXAMPLES]
    return {
        "success": not present or (present - wrong) / present >= mostly, "element_count": rows, "unexpected_count": wrong,
        "unexpected_percent": 100 * wrong / present if present else None, "partial_unexpected_list": examples,
    }  # fmt: skip


def _raised(info: dict[str, Any]) -> str | None:
    """Return the message of an exception inside an expectation, which is given for the whole or by metric."""
    parts: Sequence[Any] = [info] if "raised_exception" in info else list(info.values())
    messages = [str(p["exception_message"]) for p in parts if isinstance(p, dict) and p.get("raised_exception")]
    return messages[0] if messages else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bars and warnings of libraries from the user."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


# Read the outcomes of the last gate: the rows of table ``checks`` for the last complete batch.


def newest_checks(root: Location) -> list[dict[str, Any]]:
    """Return what the last gate wrote for the last batch; none if it has not run. SKY-E400 if a table is unreadable."""
    runs, checks = open_table(root, "runs"), open_table(root, "checks")
    need_columns(runs, "runs", fixed_schema("runs"), ["batch_id"])
    need_columns(checks, "checks", fixed_schema("checks"), ["batch_id", "run_id", "checked_at"])
    last = pc.max(read(runs, ["batch_id"])["batch_id"]).as_py()
    if last is None:
        return []
    rows = read(checks, where=pc.field("batch_id") == last).sort_by("checked_at").to_pylist()
    return [r for r in rows if r["run_id"] == rows[-1]["run_id"]]
