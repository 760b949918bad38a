"""Everything of a plan that shapes state, as plain JSON values, and the differences between two of them, by name.

Kept beside the checkpoint. What is in it: the job's name, where rows come from (hashed: a path may hold secrets, as may SQL), the
columns, what decides which rows are accepted and in which order (transforms, id, time, watermark, keys, uniqueness), windows, queries and
their shared states, the buckets. What is not, because it may change between runs: row rules (what they reject is recorded row by row),
checks, options of the reader, trigger, batch sizes, schedule, the sink's path.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Any, Final

from skyband.framework.plan.model import Derive, LogicalQuery, Plan, QueryNode
from skyband.framework.spec.units import format_duration
from skyband.operators.base import Window

VERSION: Final = 2
_TOLD: Final = 20


def fingerprint(plan: Plan) -> dict[str, Any]:
    """What shapes the state of ``plan``: nested dicts of strings, numbers, booleans, lists and None (JSON), no secrets."""
    intake = plan.intake
    return {
        "version": VERSION,
        "job": plan.job,
        "source": {
            "format": plan.source.format,
            "path": _hash(plan.source.path) if plan.source.path is not None else None,
            "schema": {f.name: f.type if f.source_name in {f.name, None} else f"{f.type} from {f.source_name}" for f in plan.source.fields},
            "id": list(intake.id),
            "event_time": {"column": intake.event_time, "watermark": _duration(intake.delay_micros), "tie_break": list(intake.tie_break)},
            "partition_by": list(intake.partition_by),
            "unique": intake.unique,
            "deletes": _plain(intake.deletes),
        },
        "transform": {
            f"[{i}].derive.{t.name}" if isinstance(t, Derive) else f"[{i}].where": _hash(
                f"{t.sql} as {intake.field(t.name).type}" if isinstance(t, Derive) else t.sql
            )
            for i, t in enumerate(intake.transforms)
        },
        "window": _window(plan.window),
        "queries": {q.name: _query(plan, q) for q in plan.queries},
        "states": {
            o.name: {"k": o.k, "window": _window(o.window), "operator": o.operator.state_format, "queries": list(o.queries)}
            for o in plan.operators
        },
        "run": {"buckets": plan.buckets},
        "texts": list(plan.texts),
    }


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Differences that make old state unusable for a new plan, each by the name a user knows; empty if the state fits.

    For example ``queries.anomalies.k was 20, now 50``. A difference that only follows from another one is not told.
    """
    if old.get("version") != new.get("version"):
        return [f"the state was written by another version of Skyband (format {old.get('version')}, now {new.get('version')})"]
    named = _differences(
        "", {k: v for k, v in old.items() if k not in {"states", "texts"}}, {k: v for k, v in new.items() if k not in {"states", "texts"}}
    )
    if len(named) > _TOLD:
        return [*named[:_TOLD], f"{len(named) - _TOLD} more differences"]
    if named:
        return named
    return _differences("", {k: old.get(k) for k in ("states", "texts")}, {k: new.get(k) for k in ("states", "texts")})


def _differences(path: str, old: Any, new: Any) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found = []
        for key in [*old, *(k for k in new if k not in old)]:
            at = f"{path}.{key}" if path and not str(key).startswith("[") else f"{path}{key}"
            if key not in new:
                found.append(f"{at} has been removed" if _is_hash(old[key]) else f"{at} was {_shown(old[key])}, now removed")
            elif key not in old:
                found.append(f"{at} is new" if _is_hash(new[key]) else f"{at} is new ({_shown(new[key])})")
            else:
                found += _differences(at, old[key], new[key])
        return found
    if old == new:
        return []
    if _is_hash(old) or _is_hash(new):
        return [f"{path} has changed"]
    return [f"{path} was {_shown(old)}, now {_shown(new)}"]


def _shown(value: Any) -> str:
    if _is_hash(value):
        return "given"
    if isinstance(value, Mapping):
        if set(value) == {"column", "direction"}:
            return f"{value['column']['name']} {value['direction']}"
        kind = value.get("type")
        return str(kind) if kind is not None else "given"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(v) for v in value) + "]"
    return "not set" if value is None else str(value)


def _query(plan: Plan, q: QueryNode) -> dict[str, Any]:
    node = plan.operators[q.operator]
    own = {
        "type": q.type, "k": q.k, "window": _window(q.window), "direction": q.direction, "carry": list(q.carry),
        "every": _duration(q.every_micros) if q.every_micros is not None else None, "min_score": q.min_score, "max_score": q.max_score,
    }  # fmt: skip
    if q.members:
        return own | {"queries_from": {a.name: _hash(_spelled(a)) for a in q.asked}}
    shared = _plain(node.operator)
    left_out = {"queries", "window", "direction", "texts", "keep_k"}
    if isinstance(shared, dict):
        own |= {k: v for k, v in shared.items() if k not in left_out and k not in own}
        # What a query has of its own beyond the plan's node (its bounds, for instance).
        every = shared.get("queries")
        if isinstance(every, list) and q.index < len(every) and isinstance(every[q.index], dict):
            own |= {k: v for k, v in every[q.index].items() if k not in own and k not in {"name", "every_micros"}}
    return own


def _spelled(a: LogicalQuery) -> str:
    """Everything a query of a table asks, as text."""
    return repr([_plain(getattr(a, f.name)) for f in dataclasses.fields(a)])


def _plain(value: Any) -> Any:
    """Frozen configuration as JSON values; expressions in their canonical spelling."""
    from skyband.operators.expressions.ast import Node
    from skyband.operators.expressions.canonical import canonical

    if isinstance(value, Node):
        return canonical(value)
    if isinstance(value, Window):
        return _window(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted(str(v) for v in value)
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


def _window(w: Window) -> dict[str, Any]:
    return {"count": w.count, "time": _duration(w.micros) if w.micros is not None else None}


def _duration(micros: int) -> str:
    return format_duration(micros)


def _hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("sha256:")
