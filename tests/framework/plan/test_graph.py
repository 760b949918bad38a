"""The plan as a Mermaid chart."""

from __future__ import annotations

import re

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.explain import tables_of
from skyband.framework.plan.graph import _label, _quoted, dot, edges, mermaid, tables_of_query
from skyband.framework.spec.load import validate_text
from tests.framework.spec.examples import ENV, OTHERS, SENSORS, other


@pytest.mark.parametrize("text", [SENSORS, *map(other, OTHERS)])
def test_every_query_has_its_state_and_its_tables(text: str) -> None:
    job, errors = validate_text(text, ENV, "spec.yaml")
    assert job is not None, errors
    plan = compile_job(job)
    chart = mermaid(plan)
    named = re.findall(r'tables\d+\[\("(.*?)"\)\]', chart)
    assert [part.split("<br/>") for part in named] == [tables_of_query(q) for q in plan.queries]
    assert {t for part in named for t in part.split("<br/>")} <= set(tables_of(plan))
    states = dict(re.findall(r'intake --> (state\d+)\["state (.*?)"\]', chart))
    asked = {name: states[state] for state, name in re.findall(r'(state\d+) --> query\d+\["(.*?)<br/>', chart)}
    assert asked == {q.name: plan.operators[q.operator].name for q in plan.queries}
    # Every line is a node or an arrow between nodes.
    node = r'\w+(?:\["[\w<>/#;., +-]*"\]|\[\("[\w<>/#;., +-]*"\)\])?'
    head, *lines = chart.splitlines()
    assert head == "flowchart LR" and all(re.fullmatch(rf"  {node}(?: -(?:-|\.-)> {node})?", line) for line in lines), chart


def test_labels_hold_no_markup() -> None:
    assert _label('a"]; click x "http') == "a#34;#93;#59; click x #34;http"


@pytest.mark.parametrize("text", [SENSORS, *map(other, OTHERS)])
def test_dot_draws_what_mermaid_draws(text: str) -> None:
    job, errors = validate_text(text, ENV, "spec.yaml")
    assert job is not None, errors
    plan = compile_job(job)
    drawn = {(e.start.id, e.end.id) for e in edges(plan)}
    head, turned, *lines, last = dot(plan).splitlines()
    assert (head, turned, last) == (f'digraph "{plan.job}" {{', "  rankdir=LR;", "}")
    assert {tuple(m) for m in re.findall(r"^  (\w+) -> (\w+)(?: \[style=dotted\])?;$", "\n".join(lines), re.M)} == drawn
    nodes = dict(re.findall(r'^  (\w+) \[shape=(?:box|cylinder), label="((?:[^"\\]|\\.)*)"\];$', "\n".join(lines), re.M))
    assert set(nodes) == {n for pair in drawn for n in pair} and len(lines) == len(nodes) + len(drawn)
    assert {t for n, label in nodes.items() if n.startswith("tables") for t in label.split("\\n")} <= set(tables_of(plan))
    assert {
        tuple(re.sub(r"[\[(].*", "", part) for part in re.split(r" -\.?->? ", line.strip())) for line in mermaid(plan).splitlines()[1:]
    } == drawn


def test_a_string_of_dot_ends_where_it_ends() -> None:
    assert _quoted(('a"]; x', "b\\", "c\nd")) == '"a\\"]; x\\nb\\\\\\nc d"'
