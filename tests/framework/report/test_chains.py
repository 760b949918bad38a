"""The report and the views of a job with queries over queries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.report import page
from skyband.framework.report.page import QueryFigures, plan_section
from skyband.framework.tables.results.reader import Reader
from skyband.framework.tables.sql.statements import Statements
from skyband.framework.tables.sql.views import views
from tests.framework.verify import chained


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return chained.make(tmp_path_factory.mktemp("report") / "job", chained.rows_of(1))


def test_every_query_has_a_section_that_says_what_it_takes(plan: Plan) -> None:
    statements = Statements(plan)
    said = {q.name: QueryFigures(plan, q, statements).section() for q in plan.every_query}
    assert said["worst"].said == "Results of query worst (topk from best)."
    assert said["steady"].said == "Results of query steady (topk_loyalty of busy)."
    assert said["best"].said == "Results of query best (topk)."
    assert all(f.head for section in said.values() for f in section.figures)
    assert {"Ranks over time", "Stays in the result"} <= {f.title for f in said["third"].figures}
    document = page.report(plan, datetime(2026, 1, 2, tzinfo=UTC))
    assert "topk from worst" in document


def test_the_graph_draws_a_chain_from_left_to_right(plan: Plan) -> None:
    figure = plan_section(plan).figures[0]
    stages = {row[1]: row[0] for row in figure.rows if row[0].startswith("queries")}
    assert (stages["best"], stages["worst"], stages["third"], stages["regular"]) == ("queries", "queries 2", "queries 3", "queries 4")
    assert figure.chart is not None
    edges = figure.chart["layer"][0]["data"]["values"]
    assert {(e["stage"], e["stage2"]) for e in edges} >= {("queries", "state 2"), ("queries 2", "state 3"), ("queries 3", "state 4")}


def test_views_and_results_of_chained_queries_agree(plan: Plan) -> None:
    ask, made = Statements(plan).ask, {v.name for v in views(plan)}
    reader = Reader(plan)
    for query in (q for node in plan.streams for q in node.plan.queries):
        for name in (n for n in made if n.startswith(f"{query.name}_")):
            ask(f'select * from "{name}"')
        if f"{query.name}_history" in made:
            assert ask(f'select * from "{query.name}_history"').num_rows == ask(f'select * from "{query.name}"').num_rows > 0
        now = ask(f'select * from "{query.name}_now"').num_rows
        assert reader.as_of(query.name, None).rows.num_rows == now
    assert reader.snapshot("worst", 1).rows.num_rows == reader.as_of("worst", None).rows.num_rows
    for name in ("worst", "pairs", "two"):
        with pytest.raises(SkybandError, match="k must be from 1 to 1, the k it asks for"):
            reader.snapshot(name, 2)
    assert {f"{q}_{view}" for q in ("worst", "third", "pairs") for view in ("history", "ranks", "summary")} <= made
