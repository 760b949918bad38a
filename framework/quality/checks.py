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
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.base.table_names import append_only
from skyband.framework.plan.model import Plan
from skyband.framework.plan.output_nodes import Check
from skyband.framework.quality.expectations import EXPECTATIONS, ROW_CONDITION, SHAPE, Wrong, arguments
from skyband.framework.quality.frames import MOST, by_row, named, pieces
from skyband.framework.quality.outcome import EXAMPLES, Outcome
from skyband.framework.quality.own_expectations import OWN, OwnExpectation

if TYPE_CHECKING:
    from skyband.framework.tables.writing.writer import Writer


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
