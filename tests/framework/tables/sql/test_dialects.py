"""The SQL of an answer elsewhere: it runs as it is printed, and gives the same rows in the same order."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlglot

from skyband.framework.plan.model import Plan
from skyband.framework.tables.results.reader import Answer, Reader
from skyband.framework.tables.results.stays import Interval, durable
from skyband.framework.tables.sql.dialects import DIALECTS, complete, limited
from skyband.jobs.cli import main
from skyband.jobs.reading import query as command
from skyband.operators.base import Window
from tests.framework.tables.results.test_reader import job
from tests.framework.tables.sql.elsewhere import LIMIT, same_elsewhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answers(plan: Plan) -> list[tuple[str, Answer]]:
    """Every kind of answer: now, at an instant, of one key, and from the skyband within windows of rows, of time and of both."""
    reader = Reader(plan)
    key = {"grp": "b"} if plan.intake.partition_by else {}
    begun = sorted(reader.read("near")["valid_from"].to_pylist())
    found = [
        ("near", reader.as_of("near")),
        ("near", reader.as_of("near", begun[len(begun) // 2])),
        ("near3", reader.as_of("near3", None, key)),
    ]
    for window in (Window(12, None), Window(None, 899_000_000), Window(15, 899_998_990)):
        found += [("near", reader.snapshot("near", 4, window)), ("near3", reader.snapshot("near3", 2, window, key))]
    return found


@pytest.mark.parametrize("keys", [(), ("grp",)])
@pytest.mark.parametrize("roles", [("older", "newer"), ("a", "b")])
def test_every_kind_of_answer_in_duckdb(tmp_path: Path, keys: tuple[str, ...], roles: tuple[str, ...]) -> None:
    plan, _ = job(tmp_path, keys, roles)
    counts = [same_elsewhere(plan, name, answer) for name, answer in answers(plan)]
    assert max(counts) > LIMIT or not keys
    assert counts[1] and sum(n > 0 for n in counts) >= 4


@pytest.mark.spark
@pytest.mark.parametrize("keys", [pytest.param((), marks=pytest.mark.slow), ("grp",)])
def test_every_kind_of_answer_in_spark(spark: SparkSession, tmp_path: Path, keys: tuple[str, ...]) -> None:
    plan, _ = job(tmp_path, keys)
    assert sum(same_elsewhere(plan, name, answer, spark) > 0 for name, answer in answers(plan)) >= 4
    for by in ((), ("older_price",), ("older_x", "newer_price")):
        found = durable(Reader(plan), "near", Fraction(1, 1000), Interval(), by)
        for limit in (None, LIMIT):
            rows = spark.sql(limited(plan, found.sql, "spark", limit)).toArrow().to_pylist()
            assert rows == found.rows.slice(0, limit).to_pylist() and rows


@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_engines_get_statements_of_their_own(tmp_path: Path, dialect: str) -> None:
    plan, _ = job(tmp_path, ("grp",))
    for name, answer in answers(plan):
        text = complete(plan, Reader(plan).query(name), answer.sql, answer.rows.column_names, dialect, LIMIT)
        named = [n for n in ("near", "near3", "near_skyband", "heads") if re.search(rf"{tmp_path}/{n}\b", text)]
        assert named in (["near"], ["near3"], ["near_skyband", "heads"]), text
        assert ("TOP 7" if dialect == "tsql" else "LIMIT 7") in text and "RANK" in text.upper() and "__skyband" not in text
        bare = re.sub(r"OPENROWSET\(BULK '.*?', FORMAT = 'DELTA'\)", "t", text)
        assert sqlglot.parse_one(bare, read=dialect).sql(dialect)
        assert dialect in ("duckdb", "spark", "postgres") or "SECOND" not in text or "DATEADD(" in text or "TIMESTAMP_SUB(" in text


def test_the_command_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.DIALECTS == DIALECTS
    plan, _ = job(tmp_path, ())
    monkeypatch.setattr(command, "load_plan", lambda spec: plan)
    assert main(["query", "spec.yaml", "near", "--limit", "3", "--sql", "spark"]) == 0
    out = capsys.readouterr().out
    assert f"delta.`{tmp_path}/near` AS `near`" in out and "LIMIT 3;" in out and "AS `rank`" in out and '"' not in out
    assert main(["query", "spec.yaml", "near", "--sql"]) == 0
    assert f"delta_scan('{tmp_path}/near') AS \"near\"" in capsys.readouterr().out
