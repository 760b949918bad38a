"""What others may have written is parsed where errors of the library get a name: within a try, or by a function listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import skyband

ROOT: Final = Path(skyband.__file__).parents[1]
READING: Final = frozenset({
    "json.loads", "json.load", "pickle.loads", "pickle.load", "pq.ParquetFile", "pq.read_table", "pq.read_schema", "pyarrow.orc.ORCFile",
    "feather.read_table", "pa.ipc.open_stream", "pa.ipc.open_file", "DeltaTable", "QueryBuilder", "ds.dataset", "ds.FileSystemDataset",
})  # fmt: skip
GUARDS: Final = frozenset({"library_errors", "suppress", "raising_system_failures"})
"""Context managers that name the errors of what is inside."""
CALLERS: Final = frozenset({
    "framework/queries/single_rows/cells.py _parquet", "framework/sources/columnar/files.py opened",
    "framework/sources/columnar/files.py _batches", "framework/sources/files/backlog.py _footer", "framework/sources/orc/format.py dataset",
    "framework/sources/parquet/format.py without_rows", "framework/storage/delta_read.py _dataset",
    "framework/tables/iceberg/export.py _opened",
})  # fmt: skip
"""Readers of files and tables of others that raise the library's errors: each of their callers names them."""
OWN: Final = frozenset({
    "framework/base/messages.py add", "framework/base/messages.py parse_file_message", "framework/catalogs/registrar.py create",
    "framework/environment/archive.py of", "framework/quality/checks.py stored_arguments", "framework/quality/checks.py pieces",
    "framework/serve/inference.py types", "framework/spec/expressions/sql.py functions",
    "framework/streaming/rebuild/add_queries.py add", "framework/streaming/rebuild/ordered_rows.py ordered_rows",
    "framework/streaming/rows/blocks.py bytes_table",
    "framework/streaming/spark/executors.py require_driver_versions", "jobs/authoring/schema.py run", "jobs/reading/edge.py run",
    "jobs/reading/metrics.py run",
})  # fmt: skip
"""Readers of what this process, its workers, this package or the installed environment has made."""
OF_SINK: Final = frozenset({
    "framework/streaming/bucket/bucket.py restore", "framework/streaming/bucket/bucket.py of",
    "framework/streaming/rebuild/backfill.py __init__",
    "framework/streaming/rebuild/split_buckets.py __init__", "framework/streaming/rebuild/add_queries.py changed",
    "framework/streaming/rows/blocks.py bytes_arrays", "framework/streaming/rows/instants/ahead.py _read",
    "framework/streaming/run/live_queries.py _boundary",
})  # fmt: skip
"""Readers of the state and the tables that the job itself keeps in its sink. This list may only become shorter."""


def unguarded(tree: ast.AST, function: str = "", guarded: bool = False) -> Iterator[str]:
    """Yield the functions that call a reader outside of a try with handlers and of a guard."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from unguarded(node, node.name)
        elif isinstance(node, ast.Try):
            for part in node.body:
                yield from unguarded(ast.Module([part], []), function, guarded or bool(node.handlers))
            for part in (*node.handlers, *node.orelse, *node.finalbody):
                yield from unguarded(ast.Module([part], []) if isinstance(part, ast.stmt) else part, function, guarded)
        elif isinstance(node, ast.With):
            calls = [i.context_expr.func for i in node.items if isinstance(i.context_expr, ast.Call)]
            named = {ast.unparse(c).rpartition(".")[2] for c in calls}
            yield from unguarded(node, function, guarded or bool(named & GUARDS))
        else:
            if isinstance(node, ast.Call) and ast.unparse(node.func) in READING and not guarded:
                yield function
            yield from unguarded(node, function, guarded)


def test_what_others_wrote_is_read_where_errors_get_a_name() -> None:
    found = set()
    for part in ("framework", "jobs", "edge"):
        for path in (ROOT / part).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            found |= {f"{name} {function}" for function in unguarded(ast.parse(path.read_text(encoding="utf-8")))}
    known = CALLERS | OWN | OF_SINK
    assert found == known, (sorted(found - known), sorted(known - found))


def test_a_reader_without_a_guard_is_found() -> None:
    bad = "def f():\n try:\n  pass\n except ValueError:\n  return json.loads(x)\n"
    good = "def f():\n try:\n  return json.loads(x)\n except ValueError:\n  pass\ndef g():\n with library_errors():\n  DeltaTable(x)\n"
    assert list(unguarded(ast.parse(bad))) == ["f"]
    assert list(unguarded(ast.parse(good))) == []
