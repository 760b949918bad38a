"""What bounds a type's results is said by its room, for every query of its example, and strict bounds are strict."""

from __future__ import annotations

import math
from typing import Any

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.queries.protocol import Limits
from skyband.framework.queries.registry import QUERY_TYPES, query_type
from skyband.framework.spec.load import validate_text


def plan_of(text: str) -> Plan:
    job, problems = validate_text(text, {})
    assert job is not None, problems
    return compile_job(job)


def limits(plan: Plan, name: str) -> Limits:
    query = next(q for q in plan.queries if q.name == name)
    return query_type(query.type).limits(plan, query, query.asked[0] if query.asked else None)


@pytest.mark.parametrize("name", QUERY_TYPES.all())
def test_every_type_says_what_bounds_its_results(name: str) -> None:
    kind = QUERY_TYPES.get(name)
    assert kind is not None
    plan = plan_of(kind.example)
    for query in plan.queries:
        found = limits(plan, query.name)
        operator: Any = plan.operators[query.operator].operator
        asked = operator.queries[query.index]
        assert found.most == (None if getattr(asked, "ties", False) else getattr(asked, "size", query.k))
        assert {c for c, _, _ in found.bounds} <= {v.name for v in query.item.values}
        assert query.item.scored <= bool(found.bounds)
        assert all(least is None or greatest is None or least <= greatest for _, least, greatest in found.bounds)
        if query.min_score is not None or query.max_score is not None:
            assert found.bounds[0][1:] == (query.min_score, query.max_score)


@pytest.mark.parametrize(("every", "least"), [("", None), (", every: 1 minute", 1.0)])
def test_a_group_that_entered_between_boundaries_is_shown_down_to_the_bound_at_which_it_leaves(every: str, least: float | None) -> None:
    query = f"{{type: threshold_groups, group: g, score: last(x), above: 2, below: 1{every}}}"
    spec = SPEC.replace("{type: TYPE, SAID}", query).replace("x: double}", "x: double, g: string}")
    found = limits(plan_of(spec), "q")
    assert found.bounds == (("score", math.nextafter(2, math.inf), None),) and found.least_shown == least


SPEC = """\
job: small
source: {format: csv, path: in, schema: {id: bigint, ts: timestamp, x: double}, id: [id], event_time: {column: ts}}
window: {time: 1 hour}
scoring: {heat: {expression: x, direction: max}}
queries:
  q: {type: TYPE, SAID}
sink: {path: out}
"""


@pytest.mark.parametrize(
    ("said", "bounds"),
    [
        ("at_least: 3", (3.0, None)),
        ("above: 3", (math.nextafter(3.0, math.inf), None)),
        ("at_most: 3", (None, 3.0)),
        ("above: 1, below: 3", (math.nextafter(1.0, math.inf), math.nextafter(3.0, -math.inf))),
    ],
)
def test_a_strict_bound_is_the_next_number(said: str, bounds: tuple[Any, Any]) -> None:
    plan = plan_of(SPEC.replace("TYPE", "threshold").replace("SAID", f"scoring: heat, {said}"))
    assert limits(plan, "q") == Limits(None, (("score", *bounds),))


def test_loyalty_is_between_its_bound_and_the_window() -> None:
    text = SPEC.replace("SAID", "object: id, criteria: x > 1, at_least: 10 minutes").replace(
        "scoring: {heat: {expression: x, direction: max}}\n", ""
    )
    plan = plan_of(text.replace("TYPE", "threshold_loyalty"))
    assert limits(plan, "q") == Limits(None, (("loyalty_seconds", 600.0, 3600.0),))
