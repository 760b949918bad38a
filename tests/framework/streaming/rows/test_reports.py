"""Rows that report on objects: those that name none, or are no update, are rejected by name; others of their columns' values are not."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from skyband.framework.base.reasons import REASON
from skyband.framework.plan.model import IntakeNode, OperationNode, ReportNode
from skyband.framework.streaming.rows.reports import judged, reasons
from skyband.operators.expressions.parser import parse

ROWS = pa.table(
    {
        "station": ["a", None, "a", None, "b", "b"],
        "unit": pa.array([1, 1, None, None, 2, 2], pa.int64()),
        "wet": pa.array([True, True, None, None, None, False], pa.bool_()),
        "state": pa.array([1, 0, 2, -1, None, 0], pa.int32()),
        "kind": ["rain", "rain", "rain", "note", "note", None],
    }
)
KINDS = {"kind": "text"}
INTAKE = IntakeNode((), (), (), ("id",), "ts", 0, (), (), "checked")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (ReportNode(("station",), None, None), [None, "null_object:station", None, "null_object:station", None, None]),
        (
            ReportNode(("unit", "station"), None, None),
            [None, "null_object:station", "null_object:unit", "null_object:unit", None, None],
        ),
        (
            ReportNode(("station",), "wet", None),
            [None, "null_object:station", "no_update:wet", "null_object:station", "no_update:wet", None],
        ),
        (
            ReportNode(("station",), "state", None),
            [None, "null_object:station", "no_update:state", "null_object:station", "no_update:state", None],
        ),
        (
            ReportNode(("station",), "wet", parse("kind = 'rain'", KINDS, ("",), "predicate")),
            [None, "null_object:station", "no_update:wet", None, None, None],
        ),
    ],
)
def test_reports_are_judged_row_by_row(node: ReportNode, expected: list[str | None]) -> None:
    assert reasons(node, ROWS, ("rain",), INTAKE).to_pylist() == expected
    empty = reasons(node, ROWS.slice(0, 0), ("rain",), INTAKE)
    assert empty.to_pylist() == []


def test_a_row_that_deletes_is_no_report() -> None:
    deletes = parse("kind = 'note'", KINDS, ("",), "predicate")
    found = reasons(ReportNode(("unit",), "wet", None), ROWS, ("note",), replace(INTAKE, deletes=deletes)).to_pylist()
    assert found == [None, None, "null_object:unit", None, None, None]
    feed = OperationNode("kind", insert=("rain",), delete=("note",))
    assert reasons(ReportNode(("unit",), "wet", None), ROWS, (), replace(INTAKE, operations=feed)).to_pylist() == found


def test_the_first_reason_stays() -> None:
    rows = ROWS.append_column(REASON, pa.array(["late", None, None, "filtered", None, None], pa.string()))
    nodes = [ReportNode(("station",), None, None), ReportNode(("unit",), "wet", None)]
    told = judged(rows, replace(INTAKE, reports=tuple(nodes)), ())[REASON].to_pylist()
    assert told == ["late", "null_object:station", "null_object:unit", "filtered", "no_update:wet", None]
    assert judged(rows, INTAKE, ()) is rows
