"""A plan as a Mermaid flow chart: source, intake, shared states, queries, tables."""

from __future__ import annotations

from skyband.framework.errors import told
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec.names import TRAJECTORY


def tables_of_query(q: QueryNode) -> list[str]:
    """Names of the tables that hold what a query answers."""
    lasting = [q.name, f"{q.name}_now"] if q.item.lasting else []
    return [f"{q.name}_changes", *lasting, *([q.name + TRAJECTORY] if q.item.motion is not None else [])]


def mermaid(plan: Plan) -> str:
    """The chart's text. Labels hold names and types only: nothing of expressions, paths or options. O(queries)."""
    lines = [
        "flowchart LR",
        f'  source[("{_label(plan.source.format)}")] --> intake["{_label(", ".join(_intake(plan)))}"]',
        '  rejected[("rejected")]',
    ]
    lines.append("  intake -.-> rejected")
    for n, node in enumerate(plan.operators):
        lines.append(f'  intake --> state{n}["state {_label(node.name)}"]')
    for n, q in enumerate(plan.queries):
        lines.append(f'  state{q.operator} --> query{n}["{_label(q.name)}<br/>{_label(q.type)}"]')
        tables = "<br/>".join(map(_label, tables_of_query(q)))
        lines.append(f'  query{n} --> tables{n}[("{tables}")]')
    return "\n".join(lines)


def _intake(plan: Plan) -> list[str]:
    many = {"transform": len(plan.intake.transforms), "rule": len(plan.intake.rules)}
    return ["parse", *(f"{n} {what}{'s' if n != 1 else ''}" for what, n in many.items() if n), "order"]


def _label(text: str) -> str:
    """Text that ends no label and starts no markup."""
    return "".join(c if c.isalnum() or c in "_-.,+ " else f"#{ord(c)};" for c in told(text))
