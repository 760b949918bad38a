"""The table of docs/reference/spec-text.md against the code: which modules pass text of a spec to which library."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOC = (ROOT / "docs" / "reference" / "spec-text.md").read_text(encoding="utf-8")
ROWS = [
    [c.strip() for c in line.strip("|").split("|")] for line in DOC.splitlines() if line.startswith("| ") and not line.startswith("| Text")
]


def holders(pattern: str) -> set[str]:
    """Return the modules of the framework whose code matches."""
    found = re.compile(pattern, re.MULTILINE)
    return {str(p.relative_to(ROOT)) for p in (ROOT / "framework").rglob("*.py") if found.search(p.read_text(encoding="utf-8"))}


def test_every_row_has_a_reason_and_existing_modules() -> None:
    assert len(ROWS) >= 10
    for row in ROWS:
        assert len(row) == 5 and all(row), row
        named = re.findall(r"`([\w/]+\.py)`", row[4])
        assert named and all((ROOT / n).is_file() for n in named), row


def test_libraries_get_text_of_a_spec_in_these_places_only() -> None:
    assert holders(r"^\s*import great_expectations|expectation_class\(gx, check") == {"framework/quality/checks.py"}
    assert holders(r"sqlglot\.(parse|tokenize)\(") == {"framework/spec/expressions/sql.py", "framework/guess/from_sql.py"}
    assert holders(r"F\.expr\(|\.selectExpr\(|spark\.sql\(") <= {
        "framework/streaming/rows/intake.py",
        "framework/tables/writing/spark_writer.py",
    }
    readers = {f"framework/sources/{name}/spark_reader.py" for name in ("files", "kafka")}
    senders = {"framework/streaming/run/kafka_sink.py", "framework/streaming/run/alerting.py"}
    assert holders(r"\.options\(\*\*") == {*readers, *senders, "framework/tables/writing/spark_writer.py"}
    assert holders(r"\b(eval|exec|__import__)\(|yaml\.(load|unsafe_load|full_load)\(|pickle\.load\(|os\.system\(") == set()
    assert holders(r"pickle\.loads\(") == holders(r"pickle\.dumps\(") == set()
    served = {"framework/serve/tree.py", "framework/serve/database.py"}
    locked = {"framework/tables/sql/statements.py", "framework/sql_without_spark/expression.py", *served}
    assert holders(r"duckdb\.connect\(config=(LOCKED|\{\*\*LOCKED, [^}]*\})\)") == locked
    assert (
        holders(r"duckdb\.connect\((?!config=(LOCKED|\{\*\*LOCKED, ))")
        == holders(r"duckdb\.connect\(config=READING\)")
        == {"framework/tables/sql/source_read.py"}
    )
    lists = "framework/queries/single_rows"
    assert holders(r"read_cells\(") == {f"{lists}/cells.py", f"{lists}/compile.py", f"{lists}/list_check.py"}


def test_checks_are_rebuilt_from_checked_values() -> None:
    checks = (ROOT / "framework" / "quality" / "checks.py").read_text(encoding="utf-8")
    assert "arguments(check.expectation, given)" in checks and "kind(**checked)" in checks
    assert "condition_parser" not in checks and "kind(**json" not in checks
