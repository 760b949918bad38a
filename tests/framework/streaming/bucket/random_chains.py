"""Random chains of queries over random rows, each stage held against a job of its own, and everything against brute force.

Run it for as long as you like; it prints the seed, the spec and the rows of the first case that differs:

    python -m tests.framework.streaming.bucket.random_chains --minutes 60 --seed 1
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import pyarrow as pa

from skyband.framework.plan.model import Plan
from skyband.framework.spec.chains import Stream, _entry_types, divided, resolved
from skyband.framework.spec.checks.columns import column_types
from skyband.framework.spec.load import validate_text
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.scoring import WindowSpec
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.verify.brute_force.sample import compare_rows
from skyband.framework.verify.budget import Budget, Sample
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.stored import Stored
from tests.framework.streaming.bucket.random_cases import check_until
from tests.framework.streaming.bucket.test_bucket import MINUTE, batches_of, keeping_a_journal
from tests.framework.streaming.bucket.test_bucket_streams import as_a_job, texts
from tests.framework.verify import small
from tests.spark.jobs import stamp
from tests.specs import plan_of_text

Rows = list[list[object]]
"""Rows of [id, ts, grp, x, y, side], as ``tests.framework.verify.small`` takes them."""
Tables = dict[str, list[dict[str, Any]]]

SPEC: Final = """\
job: chains
source:
  format: csv
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, grp: string, x: double, y: double, side: string}}
  id: [id]
  event_time: {{column: ts, watermark: {watermark} minutes, tie_break: [side]}}
  partition_by: [grp]
{deletes}window: {window}
scoring:
{scoring}queries:
{queries}run: {{buckets: {buckets}}}
sink: {{path: "{directory}/out"}}
"""
WINDOWS: Final = ("{time: 7 minutes}", "{time: 7 minutes}", "{count: 4}", "{count: 5, time: 9 minutes}")
DEPTH: Final = 6
"""The most queries of a chain, from the source on."""


class Case(NamedTuple):
    """A spec with its placeholder ``{directory}``, and rows in the order of arrival."""

    spec: str
    rows: Rows

    def plan(self) -> Plan:
        """Return the plan of the spec."""
        return plan_of_text(self.spec.replace("{directory}", "d"))


class _Source(NamedTuple):
    """What a query may take: the source's rows, or the result ``of`` a query. ``rows``: whether items are rows or pairs of rows."""

    of: str | None
    depth: int
    numbers: tuple[str, ...]
    texts: tuple[str, ...]
    lasting: bool = True


class Specs:
    """Makes random specs, one query after another."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.window = rng.choice(WINDOWS)
        self.deletes = rng.random() < 0.4
        self.watermark = rng.choice([0, 5])
        self.buckets = rng.choice([1, 2, 3])
        self.scoring: dict[str, str] = {}
        self.queries: dict[str, str] = {}
        self.sources = [_Source(None, 0, ("x", "y"), ("side",))]

    def spec(self) -> str:
        """Return a valid spec with chains of up to ``DEPTH`` queries."""
        deep = self.rng.randrange(2, DEPTH + 1)
        for n in range(deep + self.rng.randrange(4)):
            # First a chain that goes as deep as it may, then branches.
            self._add(self.sources[-1] if n < deep else self.rng.choice(self.sources))
        self._add(self.rng.choice(self.sources[1:]), ("topk_loyalty", "threshold_loyalty"))
        return self._text(self.queries, self.scoring)

    def loyal(self) -> str:
        """Return a valid spec with queries of some types, and loyalty over the source and each of them."""
        for _ in range(self.rng.randrange(1, 5)):
            self._add(self.sources[0] if self.rng.random() < 0.7 else self.rng.choice(self.sources))
        for source in [*self.sources, *self.rng.choices(self.sources, k=2)]:
            if source.of is not None or "count" not in self.window:
                self._add(source, ("topk_loyalty", "threshold_loyalty"))
        return self._text(self.queries, self.scoring)

    def _text(self, queries: dict[str, str], scoring: dict[str, str]) -> str:
        return SPEC.format(
            directory="{directory}", watermark=self.watermark, window=self.window, buckets=self.buckets,
            deletes="deletes: side = 'd'\n" if self.deletes else "",
            scoring="".join(f"  {n}: {{expression: \"{e}\", direction: {d}}}\n" for n, (e, d) in scoring.items()),
            queries="".join(f"  {n}: {{{q}}}\n" for n, q in queries.items()),
        )  # fmt: skip

    def _add(self, source: _Source, kinds: Sequence[str] = ()) -> None:
        """Add a query over ``source`` that has no mistakes; what is refused is tried in another way."""
        name = f"q{len(self.queries)}"
        for _ in range(40):
            kind = self.rng.choice(list(kinds or _KINDS))
            scoring = dict(self.scoring)
            query = f"type: {kind}, " + ", ".join(self._fields(name, kind, source, scoring))
            job, errors = validate_text(self._text({**self.queries, name: query}, scoring).replace("{directory}", "d"), {})
            if job is not None and not errors:
                self.queries[name], self.scoring = query, scoring
                self.sources.append(_source_of(job, name, source.depth + 1))
                return
        raise AssertionError(f"no query over {source} is valid; the last one: {query}: {[e.render() for e in errors]}")

    def _fields(self, name: str, kind: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        rng = self.rng
        fields = [] if source.of is None else [f"from: {source.of}"]
        fields += _KINDS[kind](self, name, source, scoring)
        if "of: " in " ".join(fields):
            fields.remove(f"from: {source.of}")
        if rng.random() < 0.25 and kind != "matches":
            fields.append("every: 4 minutes")
        if "loyalty" in kind:
            fields.append(f"window: {{time: {rng.choice([5, 12, 30])} minutes}}" if source.of is not None or rng.random() < 0.3 else "")
        elif rng.random() < 0.3:
            fields.append(f"window: {rng.choice(['{count: 2}', '{count: 4}', '{time: 3 minutes}', '{time: 6 minutes}'])}")
        if rng.random() < 0.3 and "pairs" not in kind and kind != "matches" and not any(f.startswith("of: ") for f in fields):
            fields.append(f'where: "{self._condition(source)}"')
        return [f for f in fields if f]

    def _number(self, source: _Source, side: str = "") -> str:
        """Return an expression for a number of a row."""
        if source.numbers and (not source.texts or self.rng.random() < 0.8):
            return side + self.rng.choice(source.numbers)
        return f"case when {side}{self.rng.choice(source.texts)} = 'a' then 1 else 2 end"

    def _condition(self, source: _Source) -> str:
        if source.texts and (not source.numbers or self.rng.random() < 0.5):
            return f"{self.rng.choice(source.texts)} <> 'a'"
        return f"{self.rng.choice(source.numbers)} >= {self.rng.choice([0, 1])}"

    def _scored(self, name: str, scoring: dict[str, str], expression: str) -> str:
        scoring[name] = (expression, self.rng.choice(["min", "max"]))  # type: ignore[assignment]
        return f"scoring: {name}"

    def _carry(self, source: _Source) -> str:
        chosen = [c for c in dict.fromkeys((*source.numbers, *source.texts)) if self.rng.random() < 0.5]
        return f"carry: [{', '.join(chosen)}]" if chosen else ""

    def topk(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``topk`` query."""
        return [self._scored(name, scoring, self._number(source)), f"k: {self.rng.randrange(1, 4)}", self._carry(source)]

    def threshold(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``threshold`` query."""
        bound = self.rng.choice(["at_least: 1", "above: 0", "at_most: 2"])
        return [self._scored(name, scoring, self._number(source)), bound, self._carry(source)]

    def skyline(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``skyline`` query."""
        chosen = self.rng.sample(source.numbers, min(len(source.numbers), 2)) or ["none"]
        sides = ", ".join(f"{c}: {self.rng.choice(['min', 'max'])}" for c in chosen)
        return [f"dimensions: {{{sides}}}", self._carry(source)]

    def _pairs(self, name: str, source: _Source, scoring: dict[str, str]) -> str:
        return self._scored(name, scoring, f"abs({self._number(source, 'a.')} - {self._number(source, 'b.')})")

    def topk_pairs(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``topk_pairs`` query."""
        cap = "max_per_object: 1" if self.rng.random() < 0.3 else ""
        return [self._pairs(name, source, scoring), f"k: {self.rng.randrange(1, 4)}", cap, self._carry(source)]

    def threshold_pairs(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``threshold_pairs`` query."""
        return [self._pairs(name, source, scoring), self.rng.choice(["max_score: 1", "min_score: 1"]), self._carry(source)]

    def matches(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``matches`` query."""
        return [self._pairs(name, source, scoring), f"k: {self.rng.randrange(1, 3)}", self._carry(source)]

    def _groups(self, source: _Source) -> list[str]:
        number, text = self.rng.choice(source.numbers or ("none",)), self.rng.choice(source.texts or source.numbers)
        score = self.rng.choice(["count()", f"sum({number})", f"max({number})", f"last({number})"])
        kinds = [f"count({text})", f"last({text})", f"max({number})", f"distinct({text})"]
        carried = [c for c in kinds if self.rng.random() < 0.3]
        return [f"group: {text}", f"score: {score}", f"carry: [{', '.join(carried)}]" if carried else ""]

    def topk_groups(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``topk_groups`` query."""
        return [*self._groups(source), f"k: {self.rng.randrange(1, 3)}"]

    def threshold_groups(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``threshold_groups`` query."""
        return [*self._groups(source), f"above: {self.rng.choice([0, 1, 2])}"]

    def _loyalty(self, source: _Source) -> list[str]:
        column = self.rng.choice(source.texts or ("none",)) if self.rng.random() < 0.7 else self.rng.choice(source.numbers or ("none",))
        all_objects = "trace: all" if self.rng.random() < 0.2 else ""
        if source.of is not None and source.lasting and self.rng.random() < 0.5:
            return [f"of: {source.of}", f"object: {column}", all_objects]
        stale = f"stale_after: {self.rng.choice([1, 4])} minutes" if self.rng.random() < 0.4 else ""
        return [f"object: {column}", f'criteria: "{self._condition(source)}"', stale, all_objects]

    def topk_loyalty(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``topk_loyalty`` query."""
        return [*self._loyalty(source), f"k: {self.rng.randrange(1, 3)}"]

    def threshold_loyalty(self, name: str, source: _Source, scoring: dict[str, str]) -> list[str]:
        """Return the fields of a ``threshold_loyalty`` query."""
        return [
            *self._loyalty(source),
            self.rng.choice(["at_least: 30 seconds", "at_least: 60 seconds", "at_least: 2 minutes", "share: 20%"]),
        ]


_KINDS: Final[dict[str, Callable[[Specs, str, _Source, dict[str, str]], list[str]]]] = {
    name: getattr(Specs, name)
    for name in (
        "topk", "threshold", "skyline", "topk_pairs", "threshold_pairs", "matches", "topk_groups", "threshold_groups", "topk_loyalty",
        "threshold_loyalty",
    )
}  # fmt: skip


def _source_of(job: Job, name: str, depth: int) -> _Source:
    """Return the columns of the entries of a query."""
    job = resolved(job)
    division, query = divided(job), job.queries[name]
    types = next((one.types for one in division.streams if name in one.stream.queries), None) or column_types(division.job)
    stream = Stream(name, "entries", (), (name,), WindowSpec.model_construct(time=1), None, False)
    found = _entry_types(stream, query, division.home(name), types)
    numbers = tuple(c for c, t in found.items() if t in ("double", "bigint", "int"))
    lasting = f"{name}_change" in found
    words = tuple(c for c, t in found.items() if t == "string" and c != "grp")
    # Signs and causes have few values: mostly what the user named is looked at.
    words = tuple(c for c in words if not c.endswith(("_change", "_cause"))) * 4 + words if len(words) > 2 else words
    return _Source(name, depth, numbers, words, lasting)


def random_case(seed: int) -> Case:
    """Return a random job with its rows: many keys, some of which come late, or have nothing in a first result for long."""
    rng = random.Random(seed)
    specs = Specs(rng)
    return Case(specs.spec(), random_rows(rng, specs.deletes))


def random_rows(rng: random.Random, deletes: bool) -> Rows:
    """Return rows in the order of their times; with ``deletes``, some delete others."""
    keys = "abcdefghijkl"[: rng.choice([1, 2, 3, 5, 12])]
    begins = {k: rng.choice([0, 0, 5, 20]) for k in keys}
    shown = {k: begins[k] + rng.choice([0, 0, 10]) for k in keys}
    rows: Rows = []
    minute = 0.0
    for i in range(rng.randrange(10, 70)):
        minute += rng.choice([0, 0, 0.5, 1, 2, 5])
        if rng.random() < 0.02:
            minute += rng.choice([60, 1440, 4000])  # silence, after which all windows are empty
        at = int(minute)
        key = rng.choice([k for k in keys if begins[k] <= at] or list(keys))
        x = rng.choice([0, 1, 1, 2, -1, 3.5, ""]) if shown[key] <= at else rng.choice(["", -1])
        rows.append([i, stamp(minute), key, x, rng.randrange(4), rng.choice("abc")])
        if deletes and rng.random() < 0.2:
            of = rng.choice(rows)
            rows.append([of[0], stamp(minute), of[2], "", 0, "d"])
    return rows


def drive(plan: Plan, batches: Sequence[Rows], number: int, restore: bool, end: int) -> Tables:
    """Return the rows of tables that bucket ``number`` sends, by kind, complete before ``end`` (microseconds)."""
    config = HostConfig.of(plan, (), "test")
    bucket, state = Bucket(config, number), dict[str, bytes]()
    out: Tables = defaultdict(list)
    watermark, newest = 0, 0
    for batch in [*batches, None]:
        table = small._rows(plan, batch or [])
        mine = table.filter(pa.array([k % plan.buckets == number for k in table["__k1"].to_pylist()], pa.bool_()))
        newest = max([newest, *table["ts"].cast(pa.int64()).to_pylist()])
        if batch is None:
            watermark = end // 1000
        for kind, block in bucket.run([table_bytes(mine)] if mine.num_rows else [], watermark, flush=batch is None):
            if kind.startswith(("changes", "trajectory", "final", "rejected")):
                out[kind] += bytes_table(block).to_pylist()
        watermark = max(watermark, newest // 1000 - plan.intake.delay_micros // 1000, 0)
        values, dropped = bucket.save()
        state |= values
        for name in dropped:
            del state[name]
        if restore:
            bucket = Bucket.restore(config, number, state.get)
    return out


def all_buckets(plan: Plan, batches: Sequence[Rows], restore: bool, end: int) -> Tables:
    """Return what all buckets of the job send."""
    out: Tables = defaultdict(list)
    for number in range(plan.buckets):
        for kind, rows in drive(plan, batches, number, restore, end).items():
            out[kind] += rows
    return out


def differences(case: Case, seed: int = 0) -> list[str]:
    """Return what is wrong with the job's tables: against jobs of their own, other cuts and restarts, and brute force."""
    found: list[str] = []
    plan = case.plan()
    rng = random.Random(seed)
    newest = max(small._rows(plan, case.rows)["ts"].cast(pa.int64()).to_pylist())
    end = (newest // MINUTE + 100) * MINUTE
    whole = all_buckets(plan, [case.rows], False, end)
    for node in plan.streams:
        mine = {kind: rows for kind, rows in whole.items() if kind.rpartition(":")[2] in {q.name for q in node.plan.queries}}
        expected = as_a_job(plan, node, whole, end)
        if {k: v for k, v in texts(mine).items() if not k.startswith("final")} != expected:
            found += [f"stream {node.name} is no job of its own: {_first(texts(mine), expected)}"]
    # Rows in the order of their times, cut anywhere: none is late.
    batches = batches_of(case.rows, [rng.randrange(1, 4) for _ in range(8)])
    with keeping_a_journal():
        crowded = [rng.random() < 0.3 for _ in range(1000)]
        with patch.object(Bucket, "crowded", property(lambda _: crowded.pop())):
            other = all_buckets(plan, batches, True, end)
    if texts(other) != texts(whole):
        found.append(f"cuts and restarts leave a trace: {_first(texts(other), texts(whole))}")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "spec.yaml")
        path.write_text(case.spec.replace("{directory}", directory), encoding="utf-8")
        made = small.make(path, case.rows)
        found += [d.text() for d in small.found(made)]
        stored = Stored(made)
        source = small._rows(made, case.rows).select([f.name for f in made.intake.fields])
        compared = compare_rows(stored, Clocks(stored), source, Sample(everything=True), Budget(None))
        found += [d.text() for d in compared.differences]
    return found


def _first(got: dict[str, list[str]], expected: dict[str, list[str]]) -> str:
    for kind in sorted({*got, *expected}):
        a, b = got.get(kind, []), expected.get(kind, [])
        if a != b:
            only = [x for x in a if x not in b][:2], [x for x in b if x not in a][:2]
            return f"{kind}: {len(a)} rows for {len(b)}; only here {only[0]}; only there {only[1]}"
    return "nothing"


def checked(seed: int) -> tuple[list[str], Counter[str]]:
    """Return what to print of the case of a seed if it differs, and the types of its queries."""
    case = random_case(seed)
    found = differences(case, seed)
    return [f"{case.spec}\n{case.rows}", *found] if found else [], Counter(q.type for q in case.plan().every_query)


if __name__ == "__main__":
    sys.exit(check_until(checked, __doc__))
