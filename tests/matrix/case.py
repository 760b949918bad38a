"""A job of the matrix: options, queries and rows, from which its spec is written and its definition is computed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tests.matrix.covering import Options

Row = dict[str, Any]
MINUTE: Final = 60_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
START: Final = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000

COLUMNS: Final = {
    "id": "bigint", "ts": "timestamp", "grp": "string", "kind": "string", "x": "double", "y": "bigint", "side": "string", "words": "string",
    "what": "string",
}  # fmt: skip

FACTORS: Final[dict[str, tuple[str, ...]]] = {
    "type": (
        "topk", "threshold", "skyline", "topk_pairs", "threshold_pairs", "matches", "topk_similar_sets", "similar_sets", "topk_groups",
        "threshold_groups", "topk_loyalty", "threshold_loyalty",
    ),
    "source": ("memory", "shards", "csv", "json", "parquet"),
    "window": ("count", "time", "count and time"),
    "own window": ("no own window", "own count", "own time", "own tumbling", "own session", "own hop"),
    "corrections": ("reject", "keep_first", "replace", "op", "assumed"),
    "deletes": ("no deletes", "deletes"),
    "chain": ("no chain", "from", "of"),
    "k": ("k 1", "k 3"),
    "variant": ("plain", "bounded", "other"),
    "every": ("every event", "boundaries"),
    "cuts": ("one batch", "some batches", "many batches"),
    "restarts": ("no restart", "restarts"),
    "order": ("in order", "disordered", "late"),
    "buckets": ("1 bucket", "3 buckets"),
    "keys": ("no key", "one key", "two keys"),
    "where": ("all rows", "some rows"),
    "rules": ("no rule", "rule rejects", "rule warns"),
    "stream": ("ties", "bursts", "sparse", "few", "silence"),
}  # fmt: skip
"""The options of a job, by factor. What a level means is in ``Case`` and ``random_rows``."""

DISK: Final = ("csv", "json", "parquet")
PAIRS: Final = ("topk_pairs", "threshold_pairs", "matches")
SETS: Final = ("topk_similar_sets", "similar_sets")
GROUPS: Final = ("topk_groups", "threshold_groups")
LOYALTY: Final = ("topk_loyalty", "threshold_loyalty")
WEIGHTS: Final = {"memory": 4.0, "shards": 2.0, "no restart": 0.5}


def allowed(options: Mapping[str, str]) -> bool:
    """Return False if two of the options exclude each other."""

    get = options.get

    def has(factor: str, *levels: str) -> bool:
        return get(factor) in levels

    def lacks(factor: str, *levels: str) -> bool:
        return factor in options and options[factor] not in levels

    excluded = [
        # Loyalty has no windows that follow each other, and of these only groups have boundaries within.
        has("own window", "own tumbling", "own session") and has("type", *LOYALTY),
        has("own window", "own tumbling", "own session") and lacks("type", *GROUPS) and has("every", "boundaries"),
        # The job's window bounds those of queries.
        has("own window", "own count") and has("window", "time"),
        has("own window", "own time", "own tumbling", "own session") and has("window", "count"),
        has("own window", "own hop") and (has("type", "matches", *LOYALTY) or has("every", "boundaries") or has("window", "count")),
        # A silence is counted from rows, which may be deleted.
        has("own window", "own session") and _deleting(options),
        # Loyalty adds up time.
        has("type", *LOYALTY) and (has("own window", "own count") or has("window", "count", "count and time")),
        has("type", "matches") and (has("every", "boundaries") or has("chain", "from", "of")),
        # Of entries, those of rows are taken; members are the groups, objects and rows of any lasting result.
        has("chain", "from") and lacks("type", "topk", "threshold", "skyline"),
        has("chain", "of") and has("type", *PAIRS, *SETS),
        has("corrections", "op", "assumed") and has("deletes", "deletes"),
        has("k", "k 3") and has("type", "threshold", "skyline", "threshold_pairs", "similar_sets", "threshold_groups", "threshold_loyalty"),
        # A rehearsal has one bucket; on disk each batch of rows is a run of its own.
        has("buckets", "3 buckets") and lacks("source", *DISK),
        has("source", *DISK) and (has("cuts", "many batches") or has("restarts", "no restart")),
        has("cuts", "one batch") and (has("restarts", "restarts") and lacks("source", *DISK)),
        has("cuts", "one batch") and has("order", "late"),
        has("variant", "other") and has("type", "topk", "threshold", "threshold_loyalty"),
        # Shards search for pairs.
        has("source", "shards") and (lacks("type", *PAIRS, *SETS) or has("own window", "own tumbling", "own session", "own hop")),
        # The reserves of deletions are not searched by shards.
        has("source", "shards") and has("type", "topk_pairs", "topk_similar_sets") and _deleting(options),
    ]
    return not any(excluded)


def _deleting(options: Mapping[str, str]) -> bool:
    return options.get("deletes") == "deletes" or options.get("corrections") in ("replace", "op")


# ---------------------------------------------------------------- expressions


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _and(*values: bool | None) -> bool | None:
    return False if False in values else None if None in values else True


ROW_SCORES: Final[dict[str, Callable[[Row], float]]] = {
    "x": lambda r: _number(r["x"]),
    "x + y": lambda r: _number(r["x"]) + _number(r["y"]),
    "abs(x - y)": lambda r: abs(_number(r["x"]) - _number(r["y"])),
}
PAIR_SCORES: Final[dict[str, Callable[[Row, Row], float]]] = {
    "abs(a.x - b.x)": lambda a, b: abs(_number(a["x"]) - _number(b["x"])),
    "abs(a.x - b.x) + abs(a.y - b.y)": lambda a, b: abs(_number(a["x"]) - _number(b["x"])) + abs(_number(a["y"]) - _number(b["y"])),
    "b.x - a.x": lambda a, b: _number(b["x"]) - _number(a["x"]),
}
ROW_CONDITIONS: Final[dict[str, Callable[[Row], bool | None]]] = {
    "y >= 1": lambda r: None if r["y"] is None else r["y"] >= 1,
    "side <> 'b'": lambda r: None if r["side"] is None else r["side"] != "b",
    "x > 1": lambda r: None if r["x"] is None else r["x"] > 1,
}
PAIR_CONDITIONS: Final[dict[str, Callable[[Row, Row], bool | None]]] = {
    "a.side <> b.side": lambda a, b: None if a["side"] is None or b["side"] is None else a["side"] != b["side"],
    "a.y = b.y": lambda a, b: None if a["y"] is None or b["y"] is None else a["y"] == b["y"],
}
GROUP_SCORES: Final = ("count()", "sum(x)", "max(y)", "distinct(side)")


# ---------------------------------------------------------------- queries


@dataclass(frozen=True)
class Query:
    """An entry of ``queries:``. ``scoring``: (expression, direction) of its scoring function; ``window``: (unit, number) by kind."""

    name: str
    type: str
    fields: dict[str, Any]
    scoring: tuple[str, str] | None = None
    window: dict[str, int] = field(default_factory=dict)
    every: int | None = None
    where: str | None = None

    def text(self) -> str:
        """Return the entry as YAML."""
        fields: dict[str, Any] = {"type": self.type, **self.fields}
        if self.scoring is not None:
            fields["scoring"] = f"s_{self.name}"
        if self.window:
            fields["window"] = window_text(self.window)
        if "hop" in self.window:
            fields["window"] = f"{{hop: {{size: {self.window['hop']} minutes, every: {self.every} minutes}}}}"
        elif self.every is not None:
            fields["every"] = f"{self.every} minutes"
        if self.where is not None:
            fields["where"] = self.where
        return "{" + ", ".join(f"{name}: {value if name == 'window' else _yaml(value)}" for name, value in fields.items()) + "}"


def _yaml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{n}: {_yaml(v)}" for n, v in value.items()) + "}"
    return (
        json.dumps(value) if isinstance(value, str) else "[" + ", ".join(map(str, value)) + "]" if isinstance(value, list) else str(value)
    )


def window_text(window: Mapping[str, int]) -> str:
    """Return a window as YAML: rows of ``count``, minutes of the others."""
    return "{" + ", ".join(f"{kind}: {n}" + ("" if kind == "count" else " minutes") for kind, n in window.items()) + "}"


def random_query(rng: random.Random, options: Mapping[str, str], name: str, of: str | None = None) -> Query:
    """Return a query with the ``options``; ``of``: the query whose entries it takes."""
    kind, variant = options["type"], options["variant"]
    k, bounded, other = int(options["k"][2:]), variant == "bounded", variant == "other"
    fields: dict[str, Any] = {} if of is None else {"from": of}
    scoring = None
    where = rng.choice(list(PAIR_CONDITIONS if kind in (*PAIRS, *SETS) else ROW_CONDITIONS)) if options["where"] == "some rows" else None
    direction = rng.choice(["min", "max"])
    if kind == "topk":
        scoring, fields = (rng.choice(list(ROW_SCORES)), direction), {**fields, "k": k}
        fields |= {"min_score": 1} if bounded else {}
    elif kind == "threshold":
        scoring = (rng.choice(list(ROW_SCORES)), direction)
        fields |= {"above": 0, "below": 3} if bounded else {rng.choice(["at_least", "at_most"]): 1}
    elif kind == "skyline":
        fields["dimensions"] = {"x": direction, "y": rng.choice(["min", "max"])}
        fields |= {"band": 2, "distinct": "true"} if bounded else {}
        if other:
            fields["dimensions"]["side"] = "equal"
            fields |= {"prefer": [rng.choice("xy")]}
    elif kind in PAIRS:
        scoring = (rng.choice(list(PAIR_SCORES)), direction)
        fields |= {} if kind == "threshold_pairs" else {"k": k}
        fields |= {"max_score": 1} if bounded else {"min_score": 0.5} if kind == "threshold_pairs" else {}
        if other:
            fields |= {"max_per_object": 1} if kind == "topk_pairs" else {"between": {"column": "side", "a": "a", "b": "b"}}
    elif kind in SETS:
        similarity = rng.choice(["cosine", "dice", "overlap"]) if bounded else "hamming" if other else "jaccard"
        fields |= {"tokens": "words", "similarity": similarity} | ({"k": k} if kind == "topk_similar_sets" else {})
        least = {"overlap": 2, "hamming": 2}.get(similarity, 0.5)
        if kind == "similar_sets" or rng.random() < 0.5:
            fields |= {"max_score" if similarity == "hamming" else "min_score": least}
    elif kind in GROUPS:
        fields |= {"group": rng.choice([["side"], ["side", "y"]]), "score": rng.choice(GROUP_SCORES)}
        fields |= {"k": k, "direction": direction} if kind == "topk_groups" else {"above": rng.choice([0, 1])}
        if bounded:
            fields |= {"having": "count() >= 2"}
        if other:
            fields |= {"carry": ["count()", "last(y)"]} | ({"ties": "include"} if kind == "topk_groups" else {"below": 0})
    else:
        fields |= {"object": ["side"], "criteria": "x > 1"}
        fields |= {"k": k} if kind == "topk_loyalty" else {"at_least": f"{rng.choice([1, 2])} minutes"}
        fields |= {"stale_after": f"{rng.choice([1, 3])} minutes"} if bounded else {"trace": "all"} if other else {}
    if kind in ("topk", "threshold", "skyline"):
        fields["carry"] = ["x", "y", "side"]
    own = options["own window"].removeprefix("own ")
    size = {
        "count": rng.choice([2, 3]),
        "time": rng.choice([3, 5]),
        "tumbling": 4,
        "session": rng.choice([2, 4]),
        "hop": rng.choice([3, 5]),
    }
    size["hop"] = size["time"]
    window = {own: size[own]} if own in size else {}
    if kind in LOYALTY and of is not None:
        window = {"time": rng.choice([5, 12, 30])}
    every = rng.choice([3, 4]) if options["every"] == "boundaries" or own == "hop" else None
    return Query(name, kind, fields, scoring, window, every, where)


# ---------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """A job with its rows, batch by batch; what a batch is on disk (a run over some files) is in ``tests.matrix.drivers``."""

    options: Options
    window: dict[str, int]
    watermark: int
    queries: tuple[Query, ...]
    batches: tuple[tuple[Row, ...], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the columns of ``partition_by``."""
        return {"no key": (), "one key": ("grp",), "two keys": ("grp", "kind")}[self.options["keys"]]

    @property
    def rows(self) -> list[Row]:
        """Return all rows in the order of arrival."""
        return [row for batch in self.batches for row in batch]

    def spec(self, directory: str) -> str:
        """Return the spec, which reads and writes below a directory."""
        o = self.options
        format_ = o["source"] if o["source"] in DISK else "csv"
        corrections = o["corrections"]
        lines = ["job: matrix", "source:", f"  format: {format_}", f'  path: "{directory}/in"']
        lines += ["  options: {header: true}"] if format_ == "csv" else []
        lines += ["  schema: {" + ", ".join(f"{n}: {t}" for n, t in COLUMNS.items()) + "}", "  id: [id]"]
        lines += [f"  event_time: {{column: ts, watermark: {self.watermark} minutes, tie_break: [side]}}"]
        lines += [f"  partition_by: [{', '.join(self.keys)}]"] if self.keys else []
        if corrections == "assumed":
            lines += ["  unique: assumed"]
        elif corrections == "op":
            lines += ["  op: {column: what, insert: [i], update: [u], delete: [d]}"]
        else:
            lines += [f"  on_duplicate: {corrections}"]
        lines += ["deletes: what = 'd'"] if o["deletes"] == "deletes" else []
        lines += ["quality:", "  max_rejected: 100%"]
        if o["rules"] != "no rule":
            severity = {"rule rejects": "reject", "rule warns": "warn"}[o["rules"]]
            lines += ["  rows:", f'    - {{name: small_x, expect: "x < 5", severity: {severity}}}']
        lines += [f"window: {window_text(self.window)}"]
        scored = [q for q in self.queries if q.scoring is not None]
        lines += ["scoring:"] if scored else []
        lines += [f'  s_{q.name}: {{expression: "{q.scoring[0]}", direction: {q.scoring[1]}}}' for q in scored if q.scoring]
        lines += ["tokens:", "  words: {column: words}"] if any(q.type in SETS for q in self.queries) else []
        lines += ["queries:", *(f"  {q.name}: {q.text()}" for q in self.queries)]
        buckets = o["buckets"].split()[0] if self.keys else "1"
        engine = "engine: local, " if o["source"] in DISK else ""
        lines += [f"run: {{{engine}trigger: once, max_files: 2, buckets: {buckets}}}", f'sink: {{path: "{directory}/out"}}']
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        """Return the case as JSON, which ``read`` reads."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    def report(self) -> str:
        """Return the spec and its rows, to be read."""
        batches = "\n".join(f"batch {i}:\n" + "\n".join(f"  {_shown(r)}" for r in rows) for i, rows in enumerate(self.batches))
        return f"{self.options}\n{self.spec('DIRECTORY')}{batches}"


def _shown(row: Row) -> str:
    at = (EPOCH + timedelta(microseconds=row["ts"])).strftime("%H:%M:%S.%f") if row["ts"] is not None else None
    return str({**row, "ts": at})


def read(path: Path) -> Case:
    """Return a stored case."""
    made = json.loads(path.read_text(encoding="utf-8"))
    queries = tuple(Query(**{**q, "scoring": tuple(q["scoring"]) if q["scoring"] else None}) for q in made["queries"])
    batches = tuple(tuple(batch) for batch in made["batches"])
    return Case(made["options"], made["window"], made["watermark"], queries, batches)


def random_case(options: Options, seed: int) -> Case:
    """Return a job with the options, and with a further query whose options are random."""
    rng = random.Random(f"{seed} {sorted(options.items())}")
    window = {"count": {"count": rng.choice([3, 6])}, "time": {"time": rng.choice([6, 9])}}
    window["count and time"] = {"count": rng.choice([3, 6]), "time": rng.choice([6, 9])}
    queries = [random_query(rng, options, "main")]
    if options["chain"] == "from":
        queries.append(_chained(rng, "main", options))
    elif options["chain"] == "of":
        queries.append(_members(rng, queries[0]))
    queries.append(_beside(rng, options))
    watermark = 0 if options["order"] == "in order" else rng.choice([1, 2])
    rows = random_rows(rng, options, watermark)
    return Case(options, window[options["window"]], watermark, tuple(queries), _cut(rng, options, rows))


def _chained(rng: random.Random, of: str, options: Options) -> Query:
    types = ("topk", "threshold", "skyline", "topk_pairs", "threshold_pairs", "topk_groups", "threshold_groups", *LOYALTY)
    kind = rng.choice(types)
    own = rng.choice(["no own window", "own count", "own time"]) if kind not in LOYALTY else "no own window"
    made = {"type": kind, "variant": rng.choice(["plain", "bounded"]), "own window": own, "k": options["k"]}
    made |= {"every": rng.choice(FACTORS["every"]), "where": rng.choice(FACTORS["where"])}
    return random_query(rng, made, "next", of)


def _members(rng: random.Random, of: Query) -> Query:
    fields: dict[str, Any] = {"of": of.name, "k": rng.choice([1, 2])}
    if of.type in ("topk", "threshold", "skyline"):
        fields["object"] = ["side"]
    return Query("next", "topk_loyalty", fields, None, {"time": rng.choice([5, 12])}, rng.choice([None, 3]), None)


def _beside(rng: random.Random, options: Options) -> Query:
    """Return a query beside the main one: other queries must leave no trace in its result, nor it in theirs."""
    while True:
        made = {**options, **{f: rng.choice(FACTORS[f]) for f in ("type", "variant", "own window", "every", "where", "k")}}
        made |= {"chain": "no chain", "source": "memory", "buckets": "1 bucket", "cuts": "many batches"}
        # What a loyalty query rejects is rejected for all queries: only where it is asked for.
        if allowed(made) and made["type"] not in LOYALTY:
            return random_query(rng, made, "beside")


def random_rows(rng: random.Random, options: Mapping[str, str], watermark: int) -> list[Row]:
    """Return rows in the order of arrival: equal instants, equal values, ids that come again, nulls, and what the options say."""
    stream, corrections = options["stream"], options["corrections"]
    n = rng.randrange(2, 6) if stream == "few" else {"no key": 40, "one key": 60, "two keys": 90}[options["keys"]]
    at, made = START, list[Row]()
    for i in range(n):
        if stream == "bursts":  # more rows at one instant than the window has
            at += MINUTE * rng.choice([0, 0, 0, 0, 0, 0, 0, 0, 5])
        elif stream == "sparse":
            at += rng.choice([MINUTE * 4, MINUTE * 7, MINUTE * 3 + 1, 1])
        else:
            at += MINUTE * rng.choice([0, 0, 1, 1, 2])
        if stream == "silence" and i == n // 2:
            at += MINUTE * rng.choice([10, 31])
        again = corrections != "assumed" and rng.random() < 0.3 and made
        row: Row = {
            "id": rng.choice(made[-8:])["id"] if again else 100 + i, "ts": at, "grp": rng.choice("pq"), "kind": rng.choice("uv"),
            "x": rng.choice([None, 0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 5.0] if stream != "ties" else [None, 1.0, 1.0, 2.0]),
            "y": rng.choice([None, 0, 1, 1, 2]), "side": rng.choice(["a", "a", "a", "b", "b", "b", "c", "c", None]),
            "words": rng.choice(["a", "b a", "a b c", "c d", "d", "b c", None]), "what": "i",
        }  # fmt: skip
        if again and (corrections == "op" or options["deletes"] == "deletes"):
            row["what"] = rng.choice("dddu" if corrections == "op" else "ddi")
        if corrections == "op" and rng.random() < 0.05:
            row["what"] = rng.choice([None, "z"])
        if again and rng.random() < 0.8:  # mostly of the key of the row with that id
            row |= {c: next(r[c] for r in made if r["id"] == row["id"]) for c in ("grp", "kind")}
        if rng.random() < 0.04:
            row[rng.choice(["id", "grp"]) if corrections != "assumed" else "grp"] = None
        made.append(row)
    if options["order"] != "in order":
        apart = MINUTE * (watermark if options["order"] == "disordered" else 4 * watermark)
        arrival = [(r["ts"] + rng.random() * apart, i) for i, r in enumerate(made)]
        made = [made[i] for _, i in sorted(arrival)]
    return made


def _cut(rng: random.Random, options: Mapping[str, str], rows: list[Row]) -> tuple[tuple[Row, ...], ...]:
    """Cut the rows into batches, also within an instant."""
    if options["cuts"] == "one batch":
        return (tuple(rows),)
    size = {"some batches": -(-len(rows) // (2 if options["source"] in DISK else 4)), "many batches": 3}[options["cuts"]]
    return tuple(tuple(rows[i : i + size]) for i in range(0, len(rows), size))


def without_rows(case: Case, gone: range) -> Case:
    """Return the case without some of its rows, by their places."""
    batches, place = list[tuple[Row, ...]](), 0
    for batch in case.batches:
        batches.append(tuple(r for i, r in enumerate(batch, place) if i not in gone))
        place += len(batch)
    return replace(case, batches=tuple(b for b in batches if b))


def shrunk(case: Case, fails: Callable[[Case], bool], most: int = 120) -> Case:
    """Return a smaller case that still fails: with fewer queries, batches and rows, after at most so many tries."""
    tries = 0

    def failing(made: Case) -> bool:
        nonlocal tries
        tries += 1
        return tries <= most and bool(made.batches) and fails(made)

    for query in reversed(case.queries):
        rest: Sequence[Query] = [q for q in case.queries if q is not query and query.name not in (q.fields.get("from"), q.fields.get("of"))]
        if rest and failing(made := replace(case, queries=tuple(rest))):
            case = made
    size = max(1, len(case.rows) // 2)
    while size:
        at = 0
        while at < len(case.rows):
            if failing(made := without_rows(case, range(at, at + size))):
                case = made
            else:
                at += size
        size //= 2
    return case
