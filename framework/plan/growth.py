"""Detect an edited plan that only has more buckets, or only more queries, and find what to split or to backfill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.fingerprint import concealed, fingerprint, same
from skyband.framework.plan.model import OperatorNode, Plan
from skyband.operators.shards import Shardable, can_be_sharded
from skyband.operators.state_keys import HoldsCodes, state_keys

MOST: Final = 4096
"""The largest number of buckets (``run.buckets``)."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The job has state in ``was`` buckets and is to have it in ``now``; ``refused``: why that cannot be done, None if it can."""

    was: int
    now: int
    refused: str | None = None

    @property
    def error(self) -> SkybandError | None:
        """Return SkybandError SKY-E650 if the state cannot be split."""
        if self.refused is None:
            return None
        multiple = f"run.buckets can become a multiple of {self.was}; " if self.now % self.was else ""
        hint = f"{multiple}skyband rebuild SPEC takes any number"
        return SkybandError("SKY-E650", f"run.buckets was {self.was}, now {self.now}: {self.refused}", hint=hint)


def kept_buckets(old: Mapping[str, Any], salt: str) -> int:
    """Return the number of buckets in a kept fingerprint, also if it is concealed there; 0 if it is unknown."""
    said = old.get("run", {}).get("buckets")
    if isinstance(said, int):
        return said
    return next((n for n in range(1, MOST + 1) if same(said, n, salt)), 0)


def growth(old: Mapping[str, Any], plan: Plan, salt: str) -> Growth | None:
    """What ``plan`` does to the job whose kept fingerprint is ``old``; None if it differs in anything but its buckets, or in nothing."""
    was = kept_buckets(old, salt)
    if was in (0, plan.buckets):
        return None
    before = replace(plan, buckets=was)
    if not same(old, concealed(fingerprint(before), before, salt), salt):
        return None
    if plan.streams:
        taken = ", ".join(q.name for s in plan.streams for q in s.plan.queries)
        return Growth(was, plan.buckets, f"the states of queries over the results of others ({taken}) cannot be divided")
    if plan.buckets % was:
        return Growth(was, plan.buckets, "keys of two buckets would have to come into one")
    whole = [node.name for node in plan.operators if state_keys(node.operator) is None]
    if whole:
        return Growth(was, plan.buckets, f"the state of {', '.join(whole)} cannot be divided (its operator does not say how)")
    return Growth(was, plan.buckets)


_FOLLOWS = ("states", "streams", "texts")


@dataclass(frozen=True, slots=True)
class Additions:
    """``queries``: those that have come, as the spec orders them. ``states``: what has to be made, by name.

    ``again``: queries of before whose state is among those, since they share it with a new one. ``gone``: states that others take the
    place of, or nothing. ``fresh``: new states that begin empty, with the first row that comes. ``removed``: queries that have gone.
    """

    queries: tuple[str, ...]
    states: tuple[str, ...]
    again: tuple[str, ...]
    gone: tuple[str, ...]
    fresh: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def additions(old: Mapping[str, Any], plan: Plan, salt: str) -> Additions | None:
    """What ``plan`` has more than the job whose kept fingerprint is ``old``; None if it differs in anything else, or in nothing.

    Statistics may be new beside queries. A state stays if it is the same for the same queries. One that keeps codes of texts does not where
    the plan's constants have changed: these are codes themselves.
    """
    now = concealed(fingerprint(plan), plan, salt)
    before = old.get("queries", {})
    new = tuple(q.name for q in plan.every_query if q.name not in before)
    queries = {n: v for n, v in now["queries"].items() if n in before}
    rest = {k: v for k, v in now.items() if k not in (*_FOLLOWS, "stats")} | {"queries": queries}
    # New queries may bring statistics, which nothing else reads.
    if stats := {n: v for n, v in now.get("stats", {}).items() if n in old.get("stats", {})}:
        rest["stats"] = stats
    if not new or not same({k: v for k, v in old.items() if k not in _FOLLOWS}, rest, salt):
        return None
    texts = same(old.get("texts"), now["texts"], salt)
    states = old.get("states", {})
    operators = [o for each in plan.plans for o in each.operators]
    kept = {
        o.name
        for o in operators
        if o.name in states and same(states[o.name], now["states"][o.name], salt) and (texts or not holds_codes(o))
    }
    made = tuple(o.name for o in operators if o.name not in kept)
    again = tuple(n for o in operators if o.name in made for n in o.queries if n in before)
    return Additions(new, made, again, tuple(n for n in states if n not in now["states"]))


def live_changes(old: Plan, new: Plan) -> Additions:
    """What ``new`` has more or less than ``old``, which differs in its live queries only.

    A new query that begins from now on has a state that begins empty. All other states that are new, or that are shared by other queries
    now, are made from the source.
    """
    was, now = fingerprint(old), fingerprint(new)
    texts = old.texts == new.texts
    kept = {o.name for o in new.operators if was["states"].get(o.name) == now["states"][o.name] and (texts or not holds_codes(o))}
    before = {q.name for q in old.queries}
    added = tuple(q.name for q in new.queries if q.name not in before)
    empty = {q.name for q in new.live.queries if q.start == "from_now" and q.name in added}
    made = [o for o in new.operators if o.name not in kept]
    return Additions(
        queries=added,
        states=tuple(o.name for o in made if not empty.issuperset(o.queries)),
        again=tuple(n for o in made for n in o.queries if n in before),
        gone=tuple(n for n in was["states"] if n not in now["states"]),
        fresh=tuple(o.name for o in made if empty.issuperset(o.queries)),
        removed=tuple(n for n in was["queries"] if n not in now["queries"]),
    )


def holds_codes(node: OperatorNode) -> bool:
    """Return True if the state of ``node`` may have codes of texts in arrays of its own."""
    if isinstance(node.operator, HoldsCodes) and node.operator.holds_codes:
        return True
    return node.operator.keeps == "retained" and any(c.kind == "text" for c in node.attributes)


# Shards: how many tasks share the search for pairs of each bucket, and which operators they search for (docs/algorithms D6).

AUTO: Final = 0
"""``Plan.shards`` of a job that has as many as there are cores, if that pays."""
LEAST_MICROS: Final = 40
"""Microseconds of a row's search from which ``auto`` takes shards: to pass rows and pairs on takes some ten (bench/shards)."""
ASSUMED_ROWS: Final = 100_000
"""Rows of a window of time, whose number nobody knows before the job runs."""


def sharded(plan: Plan) -> tuple[OperatorNode, ...]:
    """Return the operators whose search shards can share."""
    return tuple(node for node in plan.operators if can_be_sharded(node.operator))


def search_micros(plan: Plan) -> float:
    """Return about how many microseconds the searches that shards can share take a row, in full windows of one key."""
    nodes = ((node, node.operator) for node in sharded(plan))
    return sum(o.partner_nanos * (node.window.count or ASSUMED_ROWS) for node, o in nodes if isinstance(o, Shardable)) / 1000


def shards_of(plan: Plan, cores: int, now: int | None) -> int:
    """Return the number of shards that the job is to have; ``now``: those that it has, None before its first run.

    ``auto`` is decided in the first run: as many as there are cores, if the search of a row takes ``LEAST_MICROS``.
    """
    searched = sharded(plan)
    if not searched:
        return 1
    if plan.shards != AUTO:
        return plan.shards
    if now is not None:
        return now
    return max(1, cores) if search_micros(plan) >= LEAST_MICROS else 1


def shard_lines(plan: Plan) -> list[str]:
    """Return what ``explain`` says of shards."""
    if plan.shards == 1:
        return []
    searched = sharded(plan)
    if not searched:
        return ["shards   none: no query searches for pairs, or the rows it searches can be deleted", "  |"]
    many, takes = counted(plan.shards, "task"), f"a row's search takes about {search_micros(plan):,.0f} us"
    if plan.shards == AUTO:
        if shards_of(plan, 2, None) == 1:
            return [f"shards   none (auto): {takes}; from {LEAST_MICROS} on they pay", "  |"]
        many = f"as many tasks as cores (auto: {takes})"
    whole = [node.name for node in plan.operators if node not in searched]
    lines = [f"shards   {many} for each bucket: every one has the window, and searches for the pairs of its share of the rows"]
    lines.append(f"         shared: {', '.join(node.name for node in searched)}")
    if whole:
        lines.append(f"         by the bucket's own task: {', '.join(whole)}")
    return [*lines, "  |"]
