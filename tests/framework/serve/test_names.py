"""Jobs whose names are those of DuckDB's databases, and links that come into a sink while it is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.serve.database import Database, Limits, answer, job
from skyband.framework.serve.session import Names
from skyband.framework.serve.tree import Parser
from skyband.jobs.spec import load_plan
from tests.framework.serve.support import job_at


def ask(database: Database, sql: str) -> list[dict[str, Any]]:
    checked = Parser().check(sql, Names(database.relations(), database.schemas))
    duck = database.opened(checked, database.schemas, {})
    try:
        return answer(duck, checked.sql, database.limits).to_pylist()
    finally:
        duck.close()


@pytest.mark.parametrize("name", ["skyband", "memory", "SKYBAND"])
def test_a_job_may_have_the_name_of_a_database(tmp_path: Path, name: str) -> None:
    _, spec = job_at(tmp_path)
    spec.write_text(spec.read_text().replace("job: cuts", f"job: {name}"))
    database = Database([job(load_plan(str(spec)))], Limits())
    for relation in ("two", f"{name}.two", f"skyband.{name}.two"):
        assert ask(database, f"select count(*) > 0 as found from {relation}") == [{"found": True}]
    assert ask(database, f"select skyband.{name}.two.grp = grp as same from skyband.{name}.two limit 1") == [{"same": True}]
    assert ask(database, f"select count(version()) > 0 as found from {name}.two_now") == [{"found": True}]


@pytest.mark.parametrize("whole", [True, False], ids=["table", "file"])
def test_a_link_that_comes_into_a_table_is_not_followed(tmp_path: Path, whole: bool) -> None:
    plan, _ = job_at(tmp_path)
    database = Database([job(plan)], Limits())
    assert ask(database, "select count(*) > 0 as found from two") == [{"found": True}]
    table = tmp_path / "out" / "two"
    moved = table if whole else next(table.rglob("*.parquet"))
    moved.rename(tmp_path / "elsewhere")
    moved.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SkybandError, match="is a link to"):
        ask(database, "select count(*) from two")
