"""What tables show of the stream's columns: those to carry, the dimensions of a skyline, no column twice."""

from __future__ import annotations

import pytest

from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.tables.schemas import tables
from tests.framework.plan.test_compile import plan_of
from tests.framework.plan.test_compile_rows import with_queries
from tests.framework.spec.examples import ENV, SENSORS, other


def columns(plan: Plan, table: str) -> list[str]:
    (found,) = [t.schema.names for t in tables(plan) if t.name == table]
    return found


def test_the_dimensions_of_a_skyline_are_in_its_tables() -> None:
    plain, some = (
        with_queries("skyline", f"a: {{type: skyline, dimensions: {{price: min, volume: max, sector: equal}}{more}}}")
        for more in ("", ", carry: [volume, id]")
    )
    for table in ("a", "a_now", "a_changes", "a_skyband"):
        assert {"id", "price", "volume", "sector"} <= set(columns(plain, table))
        assert columns(plain, table) == list(dict.fromkeys(columns(plain, table)))
    assert [c for c in columns(some, "a") if c in ("id", "price", "volume", "sector")] == ["id", "volume", "price", "sector"]
    # Earlier jobs go on: what is compared and what is kept, in which order, are as they were.
    assert fingerprint(plain)["queries"]["a"]["carry"] == [] and fingerprint(some)["queries"]["a"]["carry"] == ["volume"]
    assert HostConfig.of(plain, (), "x").kept_columns() == ["id", "price", "volume", "sector"]
    assert HostConfig.of(some, (), "x").kept_columns() == ["id", "volume", "price", "sector"]


def test_a_dimension_that_is_called_like_a_column_of_every_result_stays_out() -> None:
    text = other("skyline").replace("volume", "rank")
    job, errors = validate_text(text, ENV)
    assert job is not None and not errors
    names = columns(plan_of(text), "best_now")
    assert names.count("rank") == 1 and "price" in names


@pytest.mark.parametrize("column", ["sensor", "building"])
def test_carrying_what_is_there_already_changes_nothing(column: str) -> None:
    assert "carry: [temp]" in SENSORS
    more = SENSORS.replace("carry: [temp]", f"carry: [{column}, temp]")
    job, errors = validate_text(more, ENV)
    assert job is not None and not errors
    before, after = (columns(plan_of(t), "anomalies") for t in (SENSORS, more))
    assert len(after) == len(set(after)) and [c for c in after if column not in c] == [c for c in before if column not in c]
    if column == "sensor":
        assert after == before and fingerprint(plan_of(more)) == fingerprint(plan_of(SENSORS))
