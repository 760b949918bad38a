"""Find the queries that an edited plan adds to its job, and the states to backfill for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skyband.framework.plan.fingerprint import concealed, fingerprint, same
from skyband.framework.plan.model import OperatorNode, Plan

_FOLLOWS = ("states", "texts")


@dataclass(frozen=True, slots=True)
class Additions:
    """``queries``: those that have come, as the spec orders them. ``states``: what has to be made, by name.

    ``again``: queries of before whose state is among those, since they share it with a new one. ``gone``: states that others take the
    place of.
    """

    queries: tuple[str, ...]
    states: tuple[str, ...]
    again: tuple[str, ...]
    gone: tuple[str, ...]


def additions(old: Mapping[str, Any], plan: Plan, salt: str) -> Additions | None:
    """What ``plan`` has more than the job whose kept fingerprint is ``old``; None if it differs in anything else, or in nothing.

    A state stays if it is the same for the same queries. One that keeps codes of texts does not where the plan's constants have changed:
    these are codes themselves.
    """
    now = concealed(fingerprint(plan), plan, salt)
    before = old.get("queries", {})
    new = tuple(q.name for q in plan.queries if q.name not in before)
    rest = {k: v for k, v in now.items() if k not in _FOLLOWS} | {"queries": {n: v for n, v in now["queries"].items() if n in before}}
    if not new or not same({k: v for k, v in old.items() if k not in _FOLLOWS}, rest, salt):
        return None
    texts = same(old.get("texts"), now["texts"], salt)
    states = old.get("states", {})
    kept = {
        o.name
        for o in plan.operators
        if o.name in states and same(states[o.name], now["states"][o.name], salt) and (texts or not holds_codes(o))
    }
    made = tuple(o.name for o in plan.operators if o.name not in kept)
    again = tuple(n for o in plan.operators if o.name in made for n in o.queries if n in before)
    return Additions(new, made, again, tuple(n for n in states if n not in now["states"]))


def holds_codes(node: OperatorNode) -> bool:
    """Whether the state of ``node`` may have codes of texts in arrays of its own."""
    return node.operator.keeps == "retained" and any(c.kind == "text" for c in node.attributes)
