"""A plan as a chart: source, intake, shared states, queries (also over results), tables; in Mermaid's language and in Graphviz' (DOT)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import redacted
from skyband.framework.base.table_names import FINAL_RESULTS, TRAJECTORY
from skyband.framework.plan.model import Plan, QueryNode


def tables_of_query(q: QueryNode) -> list[str]:
    """Return the names of the tables with a query's results."""
    lasting = [q.name, f"{q.name}_now"] if q.item.lasting else []
    more = [(TRAJECTORY, q.item.time_varying is not None), (FINAL_RESULTS, q.item.closes)]
    return [f"{q.name}_changes", *lasting, *(q.name + suffix for suffix, there in more if there)]


@dataclass(frozen=True, slots=True)
class Node:
    """``lines``: its label. A ``store`` holds rows, a ``step`` does something."""

    id: str
    kind: Literal["store", "step"]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """From one node to another; ``aside``: what does not take part."""

    start: Node
    end: Node
    aside: bool = False


def edges(plan: Plan) -> list[Edge]:
    """The whole chart: every node is in an edge. Labels hold names and types only: nothing of expressions, paths or options. O(queries)."""
    intake = Node("intake", "step", (", ".join(_intake(plan)),))
    found = [Edge(Node("source", "store", (plan.source.shown,)), intake), Edge(intake, Node("rejected", "store", ("rejected",)), True)]
    drawn: dict[str, Node] = {}
    made = 0
    for stream, part in ((None, plan), *((s, s.plan) for s in plan.streams)):
        start = intake if stream is None else drawn[stream.of]
        takes = () if stream is None else (f"takes {stream.takes}",)
        states = [Node(f"state{made + n}", "step", (f"state {node.name}", *takes)) for n, node in enumerate(part.operators)]
        made += len(states)
        found += [Edge(start, state) for state in states]
        for q in part.queries:
            n = len(drawn)
            query = drawn[q.name] = Node(f"query{n}", "step", (q.name, q.type))
            found.append(Edge(states[q.operator], query))
            found.append(Edge(query, Node(f"tables{n}", "store", tuple(tables_of_query(q)))))
    return found


def mermaid(plan: Plan) -> str:
    """Return the chart as a Mermaid flow chart."""
    said: set[str] = set()

    def shown(node: Node) -> str:
        if node.id in said:
            return node.id
        said.add(node.id)
        label = "<br/>".join(map(_label, node.lines))
        return f'{node.id}[("{label}")]' if node.kind == "store" else f'{node.id}["{label}"]'

    return "\n".join(["flowchart LR", *(f"  {shown(e.start)} {'-.->' if e.aside else '-->'} {shown(e.end)}" for e in edges(plan))])


def dot(plan: Plan) -> str:
    """The chart as a digraph of Graphviz' language."""
    found = edges(plan)
    nodes = {n.id: n for e in found for n in (e.start, e.end)}
    shapes: Final = {"store": "cylinder", "step": "box"}
    lines = [f"digraph {_quoted((plan.job,))} {{", "  rankdir=LR;"]
    lines += [f"  {n.id} [shape={shapes[n.kind]}, label={_quoted(n.lines)}];" for n in nodes.values()]
    lines += [f"  {e.start.id} -> {e.end.id}{' [style=dotted]' if e.aside else ''};" for e in found]
    return "\n".join([*lines, "}"])


def _intake(plan: Plan) -> list[str]:
    many = {"look-up": len(plan.intake.lookups), "transform": len(plan.intake.transforms), "rule": len(plan.intake.rules)}
    return ["parse", *(counted(n, what) for what, n in many.items() if n), "order"]


def _label(text: str) -> str:
    """Return text escaped for a label."""
    return "".join(c if c.isalnum() or c in "_-.,+ " else f"#{ord(c)};" for c in redacted(text))


def _quoted(lines: tuple[str, ...]) -> str:
    r"""Lines as a string of DOT. Besides quotes and backslashes only ``\n`` means something in it: ``<`` and ``&`` are themselves."""
    return '"' + "\\n".join(redacted(line).replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines) + '"'
