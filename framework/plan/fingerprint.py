"""The fingerprint of a plan: everything that shapes its state, as JSON values, and the differences of two fingerprints.

Kept beside the checkpoint. What is in it: the job's name, where rows come from (hashed: a path may hold secrets, as may SQL), the
columns, what decides which rows are accepted and in which order (transforms, id, time, watermark, keys, uniqueness), windows, queries and
their shared states, the streams of results that queries take, the buckets (which may grow: ``growth``). What is not, because it may
change between runs: row rules (what they reject is recorded row by row), checks, options of the reader, trigger, batch sizes, schedule,
the sink's path.

What is kept is ``concealed``: hashes, and every leaf of a part of the spec that took something from the environment, are keyed hashes with
the job's own salt. They can be compared, not read, nor looked up in a list made for another job.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.units import WrittenFloat, format_duration, format_months
from skyband.framework.plan.model import Derive, Filter, IntakeNode, LogicalQuery, Plan, QueryNode, SourceNode, StreamNode
from skyband.framework.plan.nodes import LookupNode, SourceClock, StatisticsNode, TokenNode
from skyband.framework.queries.registry import query_type
from skyband.operators.base import Column, Window

VERSION: Final = 3
_SHOWN: Final = 20
_GIVEN: Final = "given"
"""How a value is shown that cannot be, or that has no short name."""
_HASH: Final = re.compile("(sha256|hmac):[0-9a-f]{64}")
_TRACES: Final = re.compile(r"(queries\.[^. ]+)\.traces is new\b.*", re.DOTALL)
_DELETIONS: Final = re.compile(r"queries\.[^. ]+\.deletes (was|has) ")


def fingerprint(plan: Plan) -> dict[str, Any]:
    """What shapes the state of ``plan``: nested dicts of strings, numbers, booleans, lists and None (JSON). To be kept: ``concealed``."""
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
            # Former versions knew neither.
            **({"on_duplicate": intake.on_duplicate} if intake.on_duplicate != "reject" else {}),
            **({"op": _plain(intake.operations)} if intake.operations is not None else {}),
        },
        **({"lookups": {n.name: _lookup(n, intake) for n in intake.lookups}} if intake.lookups else {}),
        **(
            {"sources": {name: _part(part, clock) for (name, part), clock in zip(plan.source.parts, intake.sources, strict=True)}}
            if plan.source.parts
            else {}
        ),
        "transform": {
            f"[{i}].derive.{t.name}" if isinstance(t, Derive) else f"[{i}].where": _hash(
                f"{t.sql} as {intake.field(t.name).type}" if isinstance(t, Derive) else t.sql
            )
            for i, t in enumerate(_written(intake))
        },
        **({"tokens": {t.name: _tokens(t) for t in intake.tokens}} if intake.tokens else {}),
        **({"vectors": {v.column: v.dimension for v in intake.vectors}} if intake.vectors else {}),
        **({"stats": {s.name: _statistics(s) for s in plan.statistics}} if plan.statistics else {}),
        "window": _window(plan.window),
        "queries": {q.name: _query(plan, q) for q in plan.queries} | {q.name: _chained(s, q) for s in plan.streams for q in s.plan.queries},
        "states": {
            o.name: {"k": o.k, "window": _window(o.window), "operator": o.operator.state_format, "queries": list(o.queries)}
            for each in plan.plans
            for o in each.operators
        },
        **({"streams": {s.name: _stream(s) for s in plan.streams}} if plan.streams else {}),
        "run": {"buckets": plan.buckets},
        "texts": list(plan.texts),
    }


def concealed(found: Mapping[str, Any], plan: Plan, salt: str) -> dict[str, Any]:
    """``found``, a fingerprint of ``plan`` or of an earlier spec of its job, as it may be kept; what is concealed already stays. O(size).

    Every hash, and every value of a part of the spec of ``plan`` that took something from the environment, becomes a hash keyed with
    ``salt``.
    """
    made: dict[str, Any] = _concealed(found, (), _parts(plan), salt)
    return made


def _concealed(value: Any, path: tuple[str, ...], parts: set[tuple[str, ...]], salt: str) -> Any:
    if isinstance(value, Mapping):
        return {k: _concealed(v, (*path, k), parts, salt) for k, v in value.items()}
    own = any(path[: len(part)] == part for part in parts) and not (path[0] == "queries" and path[2:] == ("type",))
    return salted(value, salt) if own or _is_hash(value) else value


def _parts(plan: Plan) -> set[tuple[str, ...]]:
    """Return the paths of the fingerprint that may hold values from the environment, a superset in doubt."""
    parts: set[tuple[str, ...]] = set()
    named: set[str] = set()
    for path, _ in plan.variables:
        match path:
            case ("queries", name, *_):
                named.add(str(name))
            case ("scoring" | "window" as part, *_):
                named |= {q.name for q in plan.every_query}
                parts.add((part,))
            case ("sources", name, *_):
                parts.add(("sources", str(name)))
            case ("source", "schema", column, *_):
                parts.add(("source", "schema", str(column)))
            case ("source", part, *_):
                parts.add(("source", str(part)))
            case ("lookups", _, "format" | "path" | "options", *_):
                pass
            case ("lookups", name, *_):
                parts.add(("lookups", str(name)))
            case ("deletes", *_):
                parts |= {("source", "deletes"), ("texts",)}
            case (top, *_):
                parts.add((str(top),))
    if named:
        operators = [o for each in plan.plans for o in each.operators]
        parts |= {("texts",), *(("queries", q) for q in named), *(("states", o.name) for o in operators if named & set(o.queries))}
        # How long entries stay follows from windows, and texts are those of the queries.
        parts |= {("streams", s.name) for s in plan.streams}
    return parts


def salted(value: Any, salt: str) -> str:
    """Return a hash of a JSON value keyed with ``salt``; a hash is returned unchanged."""
    if isinstance(value, str) and _HASH.fullmatch(value) and not value.startswith("sha256:"):
        return value
    return "hmac:" + hmac.new(salt.encode(), json.dumps(value, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def compare(old: Mapping[str, Any], new: Mapping[str, Any], salt: str = "") -> list[str]:
    """Return the differences that make old state unusable for a new plan, each by the name a user knows; empty if the state fits.

    For example ``queries.anomalies.k was 20, now 50``. A difference that only follows from another one is left out. A value that is
    concealed on one side only is compared by its hash with ``salt``.
    """
    if old.get("version") != new.get("version"):
        return [f"the state was written by another version of Skyband (format {old.get('version')}, now {new.get('version')})"]
    last = ("states", "streams", "texts")
    named = _differences("", {k: v for k, v in old.items() if k not in last}, {k: v for k, v in new.items() if k not in last}, salt)
    # Queries know deletions since the source has them.
    named = [d for d in named if not _DELETIONS.match(d)] or named
    # Only jobs of former versions have groups that carry aggregates which their trajectories do not have.
    named = [_TRACES.sub(r"\1.carry: a former version wrote no trajectories of what groups carry", d) for d in named]
    if len(named) > _SHOWN:
        return [*named[:_SHOWN], f"{counted(len(named) - _SHOWN, 'more difference')}"]
    if named:
        return named
    return _differences("", {k: old.get(k) for k in last if k in old}, {k: new.get(k) for k in last if k in new}, salt)


def same(old: Any, new: Any, salt: str = "") -> bool:
    """Whether two parts of fingerprints, of which either may be concealed with ``salt``, say the same."""
    return not _differences("", old, new, salt)


def _differences(path: str, old: Any, new: Any, salt: str) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found = []
        for key in [*old, *(k for k in new if k not in old)]:
            at = f"{path}.{key}" if path and not str(key).startswith("[") else f"{path}{key}"
            if key not in new:
                shown = _shown(old[key])
                found.append(f"{at} has been removed" if shown == _GIVEN else f"{at} was {shown}, now removed")
            elif key not in old:
                shown = _shown(new[key])
                found.append(f"{at} is new" if shown == _GIVEN else f"{at} is new ({shown})")
            else:
                found += _differences(at, old[key], new[key], salt)
        return found
    if old == new:
        return []
    if _is_hash(old) or _is_hash(new):
        if not isinstance(old, Mapping) and not isinstance(new, Mapping) and salted(old, salt) == salted(new, salt):
            return []
        return [f"{path} has changed"]
    return [f"{path} was {_shown(old)}, now {_shown(new)}"]


def _shown(value: Any) -> str:
    if _is_hash(value):
        return _GIVEN
    if isinstance(value, Mapping):
        if set(value) == {"column", "direction"}:
            return f"{_shown(value['column']['name'])} {_shown(value['direction'])}"
        kind = value.get("type", value.get("format"))
        return _shown(kind) if kind is not None else _GIVEN
    if isinstance(value, list):
        return "[" + ", ".join(_shown(v) for v in value) + "]"
    return "not set" if value is None else str(value)


def _query(plan: Plan, q: QueryNode) -> dict[str, Any]:
    node = plan.operators[q.operator]
    own = {
        "type": q.type, "k": q.k, "window": _window(q.window), "direction": q.direction,
        "carry": [*(q.carry if q.written is None else q.written), *(c.name for c in q.item.carried)],
        "every": _duration(q.every_micros) if q.every_micros is not None else None, "min_score": q.min_score, "max_score": q.max_score,
    }  # fmt: skip
    if q.members:
        return own | {"queries_from": {a.name: _hash(_spelled(a)) for a in q.asked}}
    shared = _plain(node.inner)
    left_out = {"queries", "window", "direction", "texts", "keep_k"}
    if isinstance(shared, dict):
        if not query_type(q.type).states_deletions and shared.get("deletes") is False:
            left_out.add("deletes")
        left_out |= {name for name in ("held", "levels") if shared.get(name) is None}  # former versions did not know them
        own |= {k: v for k, v in shared.items() if k not in left_out and k not in own}
        # What a query has of its own beyond the plan's node (its bounds, for instance).
        every = shared.get("queries")
        if isinstance(every, list) and q.index < len(every) and isinstance(every[q.index], dict):
            own |= {k: v for k, v in every[q.index].items() if k not in own and k not in {"name", "every_micros"} and (v or k != "traces")}
    durations = query_type(q.type).durations
    return {k: _duration(v) if k in durations and isinstance(v, int) else v for k, v in own.items()}


def _chained(stream: StreamNode, q: QueryNode) -> dict[str, Any]:
    """Return what a query over the result of another one asks."""
    lasts = {} if stream.renewed is None else {"window": f"while in {stream.of}"}
    return {"from" if stream.takes == "entries" else "of": stream.of, **_query(stream.plan, q), **lasts}


def _stream(stream: StreamNode) -> dict[str, Any]:
    """Return what shapes the state of a stream besides its queries; all of it follows from what the spec says elsewhere."""
    return {
        "of": stream.of,
        "takes": stream.takes,
        "objects": list(stream.objects),
        "window": _window(stream.plan.window),
        # As former versions have it, whose entries were entered again when they left the window.
        "renewed": None if stream.renewed is None else _duration(stream.plan.window.micros or 0),
        "texts": list(stream.plan.texts),
    }


def _lookup(node: LookupNode, intake: IntakeNode) -> dict[str, Any]:
    """Return what decides which columns rows take. Where the table is may change: what a batch has read of it is kept."""
    take = {new: f"{intake.field(new).type} from {column}" for new, column in node.take}
    return {"on": dict(node.on), "take": take, "as_of": None if node.valid is None else list(node.valid), "missing": node.missing}


def _written(intake: IntakeNode) -> tuple[Derive | Filter, ...]:
    """Return the transforms that the spec has, without the one of ``source.op.ignore``."""
    return intake.transforms[:-1] if intake.operations is not None and intake.operations.ignore else intake.transforms


def _part(source: SourceNode, clock: SourceClock) -> dict[str, Any]:
    """Return what shapes the state of one of several sources."""
    return {
        "format": source.format,
        "path": _hash(source.path) if source.path is not None else None,
        "schema": {f.name: f.type if f.source_name == f.name else f"{f.type} from {f.source_name}" for f in source.fields},
        "watermark": _duration(clock.delay_micros),
        "idle_after": None if clock.idle_micros is None else _duration(clock.idle_micros),
    }


def _tokens(node: TokenNode) -> dict[str, Any]:
    """What shapes a set. A job of a former version has no ``normalize`` and no ``short`` (``plan.former``)."""
    kept: dict[str, Any] = _plain(node)
    unknown = {name for name in ("normalize", "short") if kept[name] is None}
    return {k: v for k, v in kept.items() if k not in {"name", "given", *unknown}}


def _statistics(node: StatisticsNode) -> dict[str, Any]:
    functions = dict(node.functions)
    return {**functions, "by": list(node.by), "window": _window(node.window), "at_least": node.at_least}


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
    if isinstance(value, Column):
        return _column(value)
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
    if isinstance(value, WrittenFloat):  # its nearest double would be equal to other bounds
        return repr(value)
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


def _window(w: Window) -> dict[str, Any]:
    found: dict[str, Any] = {"count": w.count, "time": _duration(w.micros) if w.micros is not None else None}
    if w.tumbling is not None:
        c = w.tumbling
        found |= {"tumbling": format_months(c.months) if c.months else _duration(c.micros), "zone": c.zone, "offset": _duration(c.offset)}
    if w.hopping:
        found["hop"] = True
    return found if w.session is None else found | {"session": _duration(w.session)}


def _column(c: Column) -> dict[str, Any]:
    """Name and kind, and what only columns have that former versions did not know."""
    computed = {"expression": _plain(c.expression), "reads": list(c.reads)} if c.expression is not None else {}
    return {"name": c.name, "kind": c.kind, **computed, **({"dimension": c.dimension} if c.dimension else {})}


def _duration(micros: int) -> str:
    return format_duration(micros)


def _hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None
