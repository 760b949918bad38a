"""Random jobs of group queries with every option over random rows, held against the definition in ``tests.oracles.groups``.

Run it for as long as you like; it prints the seed, the spec and the first rows that differ of each case:

    python -m tests.framework.streaming.bucket.random_groups --minutes 60 --seed 1
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import pyarrow as pa

from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.framework.streaming.bucket.random_cases import check_until
from tests.framework.streaming.bucket.test_bucket import MINUTE, keeping_a_journal
from tests.oracles import groups as oracle
from tests.oracles.groups import AGGREGATES, Row, Value, Window, nearest, number
from tests.specs import plan_of_text

SPEC: Final = """\
job: groups
source:
  format: csv
  path: in
  schema: {{{schema}}}
  id: [id]
  event_time: {{column: ts, watermark: {watermark} minutes{tie_break}}}
  partition_by: [grp]
{source}{deletes}window: {window}
queries:
{queries}run: {{buckets: {buckets}}}
sink: {{path: out}}
"""
TYPES: Final = {
    "id": "bigint", "ts": "timestamp", "grp": "string", "v": "bigint", "g": "string", "h": "bigint", "b": "boolean", "n": "bigint",
    "x": "double", "d": "decimal(18,2)", "does": "string",
}  # fmt: skip
VALUES: Final[dict[str, list[Any]]] = {
    "v": [None, 0, 1], "g": ["a", "b", "ä", "", None, "a"], "h": [None, 0, -7, 3], "b": [True, False, None],
    "n": [0, 1, -1, 2, 3, None, 2**53 + 1, 2**53, -(2**53) - 1, 2**62, -(2**62), 2**63 - 1, 7, 9007199254740995],
    "x": [0.0, -0.0, 1.0, 1.5, -2.0, 0.1, 0.2, 0.3, None, math.nan, math.inf, -math.inf, 1e308, -1e308, 1e16, 2.0**-1074, 3.0],
    "d": [None, *map(Decimal, (
        "0.00", "0.10", "-0.10", "0.05", "1.00", "0.20", "9007199254740993.01", "9007199254740993.02", "-9007199254740993.01",
        "9999999999999999.99", "-9999999999999999.99", "1000000000000000.01",
    ))],
}  # fmt: skip
START: Final = 1_000_000 * int(datetime.fromisoformat("2020-01-05T23:40:00+00:00").timestamp())
JOB_WINDOWS: Final = (
    Window(micros=15 * MINUTE), Window(count=6), Window(count=5, micros=9 * MINUTE), Window(count=12, micros=40 * MINUTE),
    Window(micros=40 * MINUTE),
)  # fmt: skip
WINDOWS: Final = (
    Window(micros=5 * MINUTE), Window(micros=8 * MINUTE), Window(count=3), Window(count=1), Window(count=4, micros=6 * MINUTE),
    Window(tumbling=7 * MINUTE), Window(tumbling=9 * MINUTE, offset=2 * MINUTE),
    Window(tumbling=8 * MINUTE, offset=3 * MINUTE, shift=330 * MINUTE), Window(session=4 * MINUTE), Window(session=MINUTE),
)  # fmt: skip


def window_text(window: Window) -> str:
    """Return a window as a spec writes it."""
    made = {"count": window.count}
    made |= {
        n: f"{m // MINUTE} minutes" for n, m in (("time", window.micros), ("tumbling", window.tumbling), ("session", window.session)) if m
    }
    made |= {"offset": f"{window.offset // MINUTE} minutes"} if window.offset else {}
    made |= {"zone": "Asia/Kolkata"} if window.shift else {}
    return f"{{{', '.join(f'{n}: {v}' for n, v in made.items() if v is not None)}}}"


# ---------------------------------------------------------------- expressions over groups


class Argument(NamedTuple):
    """A value of a row: its text, its kind, and what it is. The kind ``double`` is also that of arithmetic."""

    text: str
    kind: str
    of: Callable[[Row], Value]


class Term(NamedTuple):
    """A value of a group: its text, its kind (``decimal`` ranks exactly), and what it is of rows."""

    text: str
    kind: str
    of: Callable[[list[Row]], Value]


def _column(name: str) -> Argument:
    kind = {"string": "text", "bigint": "whole", "double": "double", "boolean": "bool", "timestamp": "time"}.get(TYPES[name], "decimal")
    return Argument(name, kind, lambda row: number(row[name]))


def _doubled(row: Row) -> Value:
    x = number(row["x"])
    return None if x is None else x * 2


COLUMNS: Final = {name: _column(name) for name in TYPES}
DERIVED: Final = (
    Argument("x * 2", "double", _doubled),
    Argument("where(b, x, -1)", "double", lambda row: number(row["x"]) if row["b"] else -1.0),
    Argument("coalesce(h, 5)", "double", lambda row: 5.0 if row["h"] is None else float(row["h"])),
    Argument("length(g)", "double", lambda row: None if row["g"] is None else float(len(row["g"]))),
    Argument("case when g = 'a' then 1 else 0 end", "double", lambda row: 1.0 if row["g"] == "a" else 0.0),
)
ADDS: Final = ("sum", "mean", "avg", "var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "std")
PICKS: Final = ("min", "max", "first", "last")
COUNTS: Final = ("count", "distinct")
ROWS: Final = Term("count()", "count", len)


def aggregate(function: str, argument: Argument) -> Term:
    """Return an aggregate of a value of rows. Of whole numbers and decimals sums and picked values are exact."""

    def of(rows: list[Row]) -> Value:
        value = AGGREGATES[function]([v for v in map(argument.of, rows) if v is not None])
        return nearest(value) if kind == "double" else value

    kind = "count" if function in COUNTS else argument.kind if function in (*PICKS, "sum") else "double"
    return Term(f"{function}({argument.text})", kind, of)


def quantile(argument: Argument, share: str) -> Term:
    """Return a quantile of a value of rows."""
    return Term(
        f"quantile({argument.text}, {share})", argument.kind,
        lambda rows: oracle.quantile([v for v in map(argument.of, rows) if v is not None], share),
    )  # fmt: skip


def _double(term: Term, rows: list[Row]) -> float | None:
    return nearest(term.of(rows))


def _arithmetic(sign: str, x: float | None, y: float | None) -> float | None:
    if x is None or y is None:
        return None
    if sign == "/" and y == 0:
        return None if x == 0 else math.copysign(math.inf, x) * math.copysign(1, y)
    made = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / y}[sign]()
    return None if math.isnan(made) else made


def arithmetic(sign: str, one: Term, other: Term) -> Term:
    """Return two terms joined by a sign: arithmetic of doubles."""
    return Term(f"{one.text} {sign} {other.text}", "double", lambda rows: _arithmetic(sign, _double(one, rows), _double(other, rows)))


def compared(one: Term, sign: str, other: Term) -> Term:
    """Return a comparison of two terms, null if one is."""

    def of(rows: list[Row]) -> bool | None:
        x, y = one.of(rows), other.of(rows)
        if x is None or y is None:
            return None
        return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "=": x == y, "<>": x != y}[sign]

    return Term(f"{one.text} {sign} {other.text}", "bool", of)


def constant(text: str, kind: str) -> Term:
    """Return a number as written: exact beside whole numbers and decimals, else its double."""
    value = Fraction(text) if kind in ("whole", "decimal", "count") else float(text)
    return Term(text, kind, lambda rows: value)


def _both(one: Term, other: Term) -> Term:
    def of(rows: list[Row]) -> bool | None:
        a, b = one.of(rows), other.of(rows)
        return False if a is False or b is False else None if a is None or b is None else True

    return Term(f"{one.text} and {other.text}", "bool", of)


def _not(one: Term) -> Term:
    return Term(f"not ({one.text})", "bool", lambda rows: None if (v := one.of(rows)) is None else not v)


CONSTANTS: Final = {
    "double": ("0", "0.5", "1", "-1", "2.5"), "count": ("1", "2", "3"),
    "whole": ("0", "1", "9007199254740993", "9007199254740992", "4611686018427387904", "-9007199254740993", "9223372036854775807"),
    "decimal": ("0", "0.1", "0.15", "9007199254740993.01", "1000000000000000.01", "-0.10", "9999999999999999.99"),
}  # fmt: skip
CONDITIONS: Final[tuple[tuple[str, Callable[[Row], bool | None]], ...]] = (
    ("g <> 'a'", lambda r: None if r["g"] is None else r["g"] != "a"),
    ("x > 0", lambda r: None if number(r["x"]) is None else r["x"] > 0),
    ("n is not null", lambda r: r["n"] is not None),
    ("b", lambda r: r["b"]),
    ("n > 9007199254740992", lambda r: None if r["n"] is None else r["n"] > 2**53),
    ("d >= 0.1", lambda r: None if r["d"] is None else float(r["d"]) >= 0.1),
)


class _Maker:
    """Makes random queries."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def term(self) -> Term:
        """Return a value of groups that is a number."""
        rng = self.rng
        while True:
            function = rng.choice([*COUNTS, *ADDS, *PICKS, "sum", "sum", "rows", "quantile"])
            if function == "rows":
                return ROWS
            argument = rng.choice([*COLUMNS.values(), *DERIVED, *(COLUMNS[name] for name in "dddnnx")])
            if function in COUNTS:
                if argument.text in COLUMNS:
                    return aggregate(function, argument)
            elif argument.kind in ("double", "whole", "decimal"):
                shares = ["0.1", "0.5", "0.9", "1", "0.75", "0.3"]
                return quantile(argument, rng.choice(shares)) if function == "quantile" else aggregate(function, argument)

    def score(self) -> Term:
        """Return a score."""
        rng, one = self.rng, self.term()
        if rng.random() < 0.65:
            return one
        other = self.term()
        form = rng.randrange(4)
        if form < 2:
            return arithmetic(rng.choice("+-*/"), one, other)
        if form == 2:
            value = rng.choice(["0", "1.5"])
            return Term(f"coalesce({one.text}, {value})", "double", lambda rows: float(value) if (v := _double(one, rows)) is None else v)
        condition = self.condition()
        return Term(
            f"where({condition.text}, {one.text}, {other.text})", "double",
            lambda rows: _double(one, rows) if condition.of(rows) is True else _double(other, rows),
        )  # fmt: skip

    def condition(self) -> Term:
        """Return a condition over aggregates."""
        rng, one, form = self.rng, self.term(), self.rng.randrange(8)
        sign = rng.choice(["<", "<=", ">", ">=", "=", "<>"])
        if form < 4:
            return compared(one, sign, constant(rng.choice(CONSTANTS[one.kind]), one.kind))
        if form == 4:
            column = COLUMNS[rng.choice(["n", "d", "x", "h"])]
            return compared(
                aggregate(rng.choice(["min", "first", "sum"]), column), sign, aggregate(rng.choice(["max", "last", "sum"]), column)
            )
        if form == 5:
            return _both(self.condition(), self.condition())
        if form == 6:
            return Term(f"{one.text} is null", "bool", lambda rows: one.of(rows) is None)
        return _not(self.condition())

    def carried(self) -> tuple[Term, str, bool]:
        """Return a carried aggregate, its column, and whether it is written as a double."""
        rng = self.rng
        while True:
            function = rng.choice([*COUNTS, "sum", "mean", *PICKS, "rows"])
            if function == "rows":
                return ROWS, "count", False
            column = COLUMNS[rng.choice([*VALUES, "id", "ts"])]
            if column.kind == "decimal" and function not in COUNTS:
                continue
            if column.kind not in ("double", "whole") and function not in (*COUNTS, "first", "last"):
                continue
            return aggregate(function, column), f"{function}_{column.text}", function in ("sum", "mean")


@dataclass
class Case:
    """A spec, the same as the oracle takes it, and rows in the order of arrival."""

    spec: str
    job: oracle.Job
    queries: list[oracle.Query]
    rows: list[Row]
    watermark: int

    def plan(self) -> Plan:
        """Return the plan of the spec."""
        return plan_of_text(self.spec)


def _bound(rng: random.Random, score: Term) -> tuple[str, Value]:
    exact = score.kind == "decimal"
    text = rng.choice(CONSTANTS[score.kind if score.kind in ("decimal", "count") else "double"] if rng.random() < 0.9 else ["-1000"])
    value = Fraction(text) if exact else float(text)
    return (f"'{text}'" if exact and rng.random() < 0.5 else text), value


def _query(
    rng: random.Random, name: str, deletes: bool, before: list[tuple[dict[str, str], oracle.Query]]
) -> tuple[dict[str, str], oracle.Query]:
    """Return a query as fields of a spec and as the oracle takes it; some share what has a state with one before."""
    maker = _Maker(rng)
    fields: dict[str, str] = {}
    if before and rng.random() < 0.4:
        other_fields, other = rng.choice(before)
        fields = {n: v for n, v in other_fields.items() if n in ("group", "score", "having", "where", "window", "direction")}
        group, score, exact = other.group, other.score, other.exact
        having, where, window, direction = other.having, other.where, other.window, other.direction
        kind = "decimal" if exact is not None else "double"
    else:
        group = rng.choice([("g",), ("g",), ("h",), ("g", "h"), ("b",), ("n",), ("h", "b", "g"), ("v",)])
        fields["group"] = group[0] if len(group) == 1 else f"[{', '.join(group)}]"
        term = maker.score()
        kind, exact = term.kind, 2 if term.kind == "decimal" else None
        score = term.of if term.kind == "decimal" else partial(_double, term)
        fields["score"] = f'"{term.text}"'
        having = where = window = None
        direction = "max"
        if rng.random() < 0.35:
            condition = maker.condition()
            fields["having"], having = f'"{condition.text}"', condition.of
        if rng.random() < 0.3:
            text, where = rng.choice(CONDITIONS)
            fields["where"] = f'"{text}"'
        if rng.random() < 0.65:
            window = rng.choice([w for w in WINDOWS if w.session is None or not deletes])
            fields["window"] = window_text(window)
    every = rng.choice([3, 4, 10]) * MINUTE if rng.random() < 0.25 else None
    if every is not None:
        fields["every"] = f"{every // MINUTE} minutes"
    carried = {}
    for _ in range(rng.choice([0, 0, 1, 3, 6])):
        term, column, as_double = maker.carried()
        carried[column] = (term, as_double)
    if carried:
        fields["carry"] = f"[{', '.join(dict.fromkeys(t.text for t, _ in carried.values()))}]"
    carry = tuple((n, (lambda rows, t=t: nearest(t.of(rows))) if d else t.of) for n, (t, d) in carried.items())
    options: dict[str, Any] = {}
    if rng.random() < 0.6 or direction == "min":
        fields["type"] = "topk_groups"
        options["k"] = rng.choice([1, 1, 2, 3, 9])
        fields["k"] = str(options["k"])
        if "direction" not in fields and not before and rng.random() < 0.4:
            direction = fields["direction"] = "min"
        if rng.random() < 0.4:
            options["ties"], fields["ties"] = True, "include"
    else:
        fields["type"] = "threshold_groups"
        fields.pop("direction", None)
        fields["above"], options["above"] = _bound(rng, Term("", kind if kind != "whole" else "double", len))
        if rng.random() < 0.6:
            for _ in range(20):
                text, below = _bound(rng, Term("", kind if kind != "whole" else "double", len))
                if below <= options["above"]:
                    fields["below"], options["below"] = text, below
                    break
    return fields, oracle.Query(name, group, score, having, where, window, every, carry, exact, direction, **options)


def random_case(seed: int) -> Case:
    """Return a random job with its rows."""
    rng = random.Random(seed)
    deleting = rng.choice(["", "", "", "deletes", "deletes", "op"])
    on_duplicate = rng.choice(["reject", "reject", "replace", "keep_first"])
    tie_break = ("v",) if rng.random() < 0.3 else ()
    window = rng.choice(JOB_WINDOWS)
    watermark = rng.choice([0, 5])
    buckets = rng.choice([1, 2, 3])
    source = f"  on_duplicate: {on_duplicate}\n" if on_duplicate != "reject" else ""
    source += "  op: {column: does, insert: [i, r], update: [u], delete: [d]}\n" if deleting == "op" else ""
    texts: list[str] = []
    chosen: list[tuple[dict[str, str], oracle.Query]] = []
    corrected = bool(deleting) or on_duplicate == "replace"
    refused: list[str] = []
    while len(texts) < rng.choice([1, 2, 3, 4]) or not texts:
        name = f"q{len(texts)}"
        fields, query = _query(rng, name, corrected, chosen)
        text = f"  {name}: {{{', '.join(f'{n}: {v}' for n, v in fields.items())}}}\n"
        spec = SPEC.format(
            schema=", ".join(f'{n}: "{t}"' for n, t in TYPES.items()), watermark=watermark, source=source, buckets=buckets,
            tie_break=f", tie_break: [{', '.join(tie_break)}]" if tie_break else "", window=window_text(window),
            deletes="deletes: does = 'd'\n" if deleting == "deletes" else "", queries="".join([*texts, text]),
        )  # fmt: skip
        job, errors = validate_text(spec, {})
        if job is not None and not errors:
            texts.append(text)
            chosen.append((fields, query))
            final = spec
        else:
            refused += [e.render() for e in errors]
            assert len(refused) < 200, refused[-5:]
    does = {"": lambda row: 0, "deletes": lambda row: 2 * (row["does"] == "d"), "op": lambda row: {"u": 1, "d": 2}.get(row["does"], 0)}
    return Case(final, oracle.Job(window, tie_break, on_duplicate, does[deleting]), [q for _, q in chosen], _rows(rng, deleting), watermark)


def _rows(rng: random.Random, deleting: str) -> list[Row]:
    at, rows = START, list[Row]()
    keys = "pqrs"[: rng.choice([1, 1, 2, 4])]
    few = {n: rng.sample(values, min(len(values), rng.choice([2, 4, 20]))) for n, values in VALUES.items()}
    for i in range(rng.randrange(1, 60)):
        at += rng.choice([0, 0, MINUTE // 2, MINUTE, 2 * MINUTE, 5 * MINUTE, 1])
        if rng.random() < 0.02:
            at += rng.choice([60, 1440]) * MINUTE
        does = rng.choice("iiir") if rng.random() < 0.85 or not deleting else rng.choice("udud")
        known = rows and (does in "ud" or rng.random() < 0.08)
        old = rng.choice(rows[-12:]) if known else None
        row: Row = {"id": old["id"] if old else i, "ts": at, "grp": old["grp"] if old else rng.choice(keys), "does": does}
        row |= {n: rng.choice(values) for n, values in few.items()}
        rows.append(row)
        if rng.random() < 0.04:
            rows.append(dict(row))
    jitter = rng.choice([0, 0, 3, 8]) * MINUTE
    return sorted(rows, key=lambda r: r["ts"] + rng.random() * jitter)


def table_of(plan: Plan, rows: Sequence[Row]) -> pa.Table:
    """Return rows as they come to the host."""
    schema = HostConfig.of(plan, (), "test").row_schema()
    made = [{**r, "__k1": ord(r["grp"]), "__k2": ord(r["grp"]), "__h1": r["id"], "__h2": r["id"]} for r in rows]
    return pa.table({f.name: pa.array([m.get(f.name) for m in made], f.type) for f in schema}, schema)


def drive(plan: Plan, batches: Sequence[tuple[list[Row], int]], end: int, rng: random.Random, often: float) -> oracle.Tables:
    """Return what all buckets write; ``batches`` have the frontier (microseconds) that rows are compared with.

    ``often``: the share of batches after which a bucket restarts.
    """
    config, out = HostConfig.of(plan, (), "test"), oracle.Tables()
    for number_ in range(plan.buckets):
        bucket, state = Bucket(config, number_), dict[str, bytes]()
        for i, (batch, frontier) in enumerate([*batches, ([], end)]):
            mine = [r for r in batch if ord(r["grp"]) % plan.buckets == number_]
            for kind, block in bucket.run([table_bytes(table_of(plan, mine))] if mine else [], frontier // 1000, flush=i == len(batches)):
                if kind == "counts":
                    out.counts.update(json.loads(block))
                elif kind.startswith(("changes", "trajectory", "final", "rejected")):
                    out.rows[kind] += bytes_table(block).to_pylist()
            values, dropped = bucket.save()
            state |= values
            for name in dropped:
                del state[name]
            if rng.random() < often:
                bucket = Bucket.restore(config, number_, state.get)
    return out


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        since = value - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
        return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
    if isinstance(value, float):
        return "None" if math.isnan(value) else (value + 0.0).hex()
    return repr(value)


def texts(tables: oracle.Tables) -> dict[str, list[str]]:
    """Return rows as text, in an order of their own."""
    dropped = ("text", "origin", "batch_id")
    return {
        kind: sorted(", ".join(f"{n}={_text(r[n])}" for n in sorted(r) if n not in dropped) for r in rows)
        for kind, rows in tables.rows.items() if rows
    }  # fmt: skip


COUNTED: Final = ("late", "duplicate_id", "no_target", "accepted", "changes")


def batches_of(rows: Sequence[Row], sizes: Sequence[int], watermark: int) -> list[tuple[list[Row], int]]:
    """Return rows in batches, each with the frontier of the batches before it."""
    out, i, frontier, newest = list[tuple[list[Row], int]](), 0, 0, 0
    for size in [*sizes, len(rows)]:
        batch = list(rows[i : i + size])
        i += size
        if batch:
            out.append((batch, frontier))
            newest = max([newest, *(r["ts"] for r in batch)])
            frontier = max(frontier, newest // 1000 * 1000 - watermark * MINUTE)
    return out


def differences(case: Case, seed: int = 0) -> list[str]:
    """Return what differs from the definition: in one batch, and in batches with restarts and a journal."""
    plan, rng, found = case.plan(), random.Random(seed), list[str]()
    end = (max(r["ts"] for r in case.rows) // MINUTE + 50) * MINUTE
    whole = batches_of(case.rows, [], case.watermark)
    parts = batches_of(case.rows, [rng.choice([1, 1, 2, 3, 7, 20]) for _ in range(rng.randrange(1, 20))], case.watermark)
    for name, batches, often, journal in (("one batch", whole, 0.0, False), ("batches", parts, 0.5, False), ("journal", parts, 0.5, True)):
        expected = oracle.answer(case.job, case.queries, batches, end)
        if journal:
            crowded = [rng.random() < 0.3 for _ in range(1000)]
            with keeping_a_journal(), patch.object(Bucket, "crowded", property(lambda _, c=crowded: c.pop())):
                got = drive(plan, batches, end, rng, often)
        else:
            got = drive(plan, batches, end, rng, often)
        a, b = texts(got), texts(expected)
        for kind in sorted({*a, *b}):
            x, y = a.get(kind, []), b.get(kind, [])
            if x != y:
                only, missing = list((Counter(x) - Counter(y)).elements()), list((Counter(y) - Counter(x)).elements())
                found.append(f"{name}: {kind}: {len(x)} rows for {len(y)}; not expected {only[:2]}; expected {missing[:2]}")
        counted = [*COUNTED, *(f"{n}:{q.name}" for q in case.queries for n in ("asked", "unusable"))]
        counts = [(n, got.counts[n], expected.counts[n]) for n in counted if got.counts[n] != expected.counts[n]]
        found += [f"{name}: counts {counts}"] if counts else []
    return found


def checked(seed: int) -> tuple[list[str], Counter[str]]:
    """Return what to print of the case of a seed if it differs, and the types of its queries."""
    case = random_case(seed)
    found = differences(case, seed)
    return [case.spec, *found] if found else [], Counter(q.type for q in case.plan().queries)


if __name__ == "__main__":
    sys.exit(check_until(checked, __doc__))
