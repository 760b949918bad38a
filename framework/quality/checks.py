"""Great Expectations on the job's tables at the end of a run; results go to table ``checks``, once per run.

Great Expectations is imported only when a spec has checks. It runs on pandas frames in this process: no files, no telemetry, no network.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.framework.errors import SkybandError
from skyband.framework.lines import to_stderr
from skyband.framework.plan.model import Check, Plan
from skyband.framework.quality.expectations import EXPECTATIONS, ROW_CONDITION, arguments
from skyband.framework.quality.rows import rows_where
from skyband.framework.redaction import redacted
from skyband.framework.tables.schemas import checks_schema

if TYPE_CHECKING:
    from skyband.framework.tables.sink import Sink

EXAMPLES = 5


def run_checks(plan: Plan, sink: Sink, tell: Callable[[SkybandError], None] = to_stderr) -> int:
    """Evaluates the spec's checks on the tables as they are now. Returns 1 if one of severity ``critical`` failed, else 0.

    A run is named after its last batch: asked again for the same batch, it reports what it found the first time. Failures go to ``tell``.
    """
    last = sink.last_run()
    if not plan.checks or last is None:
        return 0
    batch_id = int(last["batch_id"])
    asked = _asked(plan, sink.generation)
    run_id = f"{sink.generation}-{batch_id}-{asked}"
    app_id = sink.app_id(f"checks/{asked}")
    done = sink.writer.version("checks", app_id)
    if done is None or done < batch_id:
        rows = [_row(run_id, batch_id, r, _arguments(plan, i)) for i, r in enumerate(evaluate(plan, sink))]
        sink.writer.append("checks", pa.Table.from_pylist(rows, checks_schema()), app_id, batch_id)
    else:
        import pyarrow.compute as pc

        rows = sink.writer.read("checks", where=pc.field("run_id") == run_id).to_pylist()
    for r in rows:
        if not r["success"]:
            tell(SkybandError("SKY-E500", _told(r)))
    return int(any(r["severity"] == "critical" and not r["success"] for r in rows))


def _asked(plan: Plan, salt: str) -> str:
    """A name for what is asked, from which nothing that came from the environment can be looked up."""
    hidden = any(path[:2] == ("quality", "tables") for path, _ in plan.variables)
    return hashlib.sha256(((salt if hidden else "") + repr(plan.checks)).encode()).hexdigest()[:8]


def _arguments(plan: Plan, number: int) -> str:
    """The arguments of a check as they are stored and told: what came from the environment as the spec writes it."""
    written = {path[3:]: text for path, text in plan.variables if path[:3] == ("quality", "tables", number)}
    given = plan.checks[number].arguments
    return json.dumps(_written(json.loads(given), (), written), sort_keys=True, separators=(",", ":")) if written else given


def _written(value: Any, path: tuple[str | int, ...], written: Mapping[tuple[str | int, ...], str]) -> Any:
    if path in written:
        return written[path]
    if isinstance(value, dict):
        return {k: _written(v, (*path, k), written) for k, v in value.items()}
    return [_written(v, (*path, i), written) for i, v in enumerate(value)] if isinstance(value, list) else value


def evaluate(plan: Plan, sink: Sink) -> Iterator[dict[str, Any]]:
    """One result per check of the plan, tables read once each."""
    gx = import_gx()
    context = _context(gx)
    read: dict[str, pa.Table] = {}
    for i, check in enumerate(plan.checks):
        if check.table not in read:
            read[check.table] = sink.writer.read(check.table)
        yield _evaluate(gx, context, f"check{i}", check, read[check.table])


def import_gx() -> Any:
    """Great Expectations, with telemetry off. SkybandError SKY-E200 if it cannot be imported."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    for name in ("great_expectations", "posthog", "backoff"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        import great_expectations as gx
    except (ImportError, SystemExit) as e:
        raise SkybandError(
            "SKY-E200", f"quality.tables needs Great Expectations, which cannot be imported: {e}", hint="install it (1.24)"
        ) from e
    return gx


def expectation_class(gx: Any, name: str) -> Any:
    """The class of an expectation by its own name, e.g. ``expect_column_values_to_not_be_null``, or None."""
    return getattr(gx.expectations, "".join(part.capitalize() for part in name.split("_")), None)


def _context(gx: Any) -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False, metric_calculations=False)
    return context


def _evaluate(gx: Any, context: Any, name: str, check: Check, table: pa.Table) -> dict[str, Any]:
    made: dict[str, Any] = {"check": check, "success": False}
    kind = expectation_class(gx, check.expectation) if check.expectation in EXPECTATIONS else None
    if kind is None:
        return made | {"error": f"Great Expectations has no {check.expectation}"}
    try:
        given = json.loads(check.arguments)
        checked = arguments(check.expectation, given)
        rows = rows_where(table, given[ROW_CONDITION]) if given.get(ROW_CONDITION) is not None else table
        frame = rows.to_pandas(date_as_object=False)
        asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
        batch = asset.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": frame})
        with _quiet():
            found = batch.validate(kind(**checked)).to_json_dict()
    except Exception as e:
        # Whatever a third-party expectation does, the other checks still run, and this one is seen to have failed.
        return made | {"error": f"{type(e).__name__}: {e}"}
    error = _raised(found.get("exception_info") or {})
    return made | {"success": bool(found["success"]), "result": found.get("result") or {}, "error": error}


def _raised(info: dict[str, Any]) -> str | None:
    """What went wrong inside an expectation: told for the whole, or metric by metric."""
    parts: Sequence[Any] = [info] if "raised_exception" in info else list(info.values())
    told = [str(p["exception_message"]) for p in parts if isinstance(p, dict) and p.get("raised_exception")]
    return told[0] if told else None


def _row(run_id: str, batch_id: int, found: dict[str, Any], arguments_shown: str) -> dict[str, Any]:
    check: Check = found["check"]
    result = found.get("result", {})
    examples = result.get("partial_unexpected_list")
    return {
        "run_id": run_id, "batch_id": batch_id, "checked_at": datetime.now(UTC), "table_name": check.table,
        "expectation": check.expectation, "arguments": arguments_shown, "severity": check.severity, "success": found["success"],
        "observed": _json(result.get("observed_value")),
        "rows_checked": result.get("element_count"), "unexpected": result.get("unexpected_count"),
        "unexpected_percent": result.get("unexpected_percent"), "examples": _json(examples[:EXAMPLES] if examples else None),
        "error": redacted(found["error"]) if found.get("error") else None,
    }  # fmt: skip


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True, default=str)


def _told(row: dict[str, Any]) -> str:
    said = f"{row['severity']} check failed on table {row['table_name']}: {row['expectation']} {row['arguments']}"
    if row["error"]:
        return f"{said}: {row['error']}"
    if row["unexpected"]:
        return f"{said}: {row['unexpected']} of {row['rows_checked']} rows, such as {row['examples']}"
    return said if row["observed"] is None else f"{said}: found {row['observed']}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Progress bars and warnings of others stay off the user's screen."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield
