"""Kinds of jobs that, together, have every query type, tables of queries, deletions, keys and boundaries: what kill tests run over."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from skyband.framework.queries.registry import QUERY_TYPES
from skyband.jobs.spec import load_plan
from tests.spark import jobs, ranked, records
from tests.spark.cuts import stream

Rows = list[list[object]]
TIME = jobs.COLUMNS.index("ts")
DISORDER = 6
"""Rows of a group are at most so many places from where their time puts them: under half an hour of the streams below."""

SKYLINES = """\
  sky: {type: skyline, dimensions: {x: min, y: max}, carry: [x, y]}
  sky20: {type: skyline, dimensions: {x: min, y: max}, window: {count: 20}}
  hourly: {type: skyline, dimensions: {x: min, y: max}, every: 1 hour}
  band: {type: skyline, dimensions: {x: max, id: min, side: equal}, band: 3, where: "y > 0"}
  once: {type: skyline, dimensions: {x: min, y: min}, distinct: true, window: {time: 2 hours}}
  first: {type: skyline, dimensions: {x: min, y: max}, top: 2, by: plain, carry: [x]}
  tops: {type: skyline, dimensions: {x: max, id: min, side: equal}, prefer: [id], band: 2, top: 3, by: high, every: 20 minutes}
  prior: {type: skyline, dimensions: {x: min, y: max, id: min}, prefer: [y], window: {count: 20}}
"""
KEYED = """\
  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}
  parted: {type: topk_pairs, scoring: near, k: 2, between: {column: side, a: a, b: b}, every: 1 hour}
  best: {type: topk, scoring: high, k: 4, carry: [x, y]}
  many: {type: topk, k: 3, queries_from: {format: csv, path: queries.csv}, carry: [x]}
  limits: {type: threshold, above: 9, queries_from: {format: csv, path: limits.csv}, every: 1 hour}
  sky: {type: skyline, dimensions: {x: min, y: max}, window: {time: 2 hours}}
  sides: {type: topk_groups, group: [grp, side], score: mean(x), k: 1}
  busy: {type: threshold_groups, group: side, score: sum(y), above: 20, below: 12}
  odd: {type: topk, scoring: odd, k: 3, where: "usual.stddev > 0.5", carry: [usual_max]}
"""
STATS = """\
  odd: {expression: "x - usual.mean", direction: max}
stats:
  usual: {mean: x, stddev: y, max: x, by: [side], window: {count: 9}, at_least: 2}
"""
SETS = """\
  twins: {type: topk_similar_sets, tokens: words, k: 5, where: "a.id <> b.id + 1"}
  close: {type: threshold_pairs, scoring: near, max_score: 0, where: "a.side <> b.side", window: {count: 30}, carry: [x]}
  apart: {type: threshold_pairs, scoring: far, min_score: 9, max_score: 11, between: {column: side, a: a, b: b}, every: 1 hour}
  next: {type: matches, scoring: far, k: 2, min_score: 1, window: {count: 20}, carry: [y]}
  angles: {type: topk_similar_sets, tokens: words, similarity: cosine, k: 3, window: {count: 20}, every: 1 hour}
  alike: {type: similar_sets, tokens: words, min_score: 0.9, window: {count: 30}}
  seen: {type: matches, tokens: words, k: 2, carry: [x], where: "a.id <> b.id + 1"}
"""
TOKENS = """\
transform:
  - derive: {words: "if(y = 3 and x < 6, ' ', concat_ws(' ', grp, side, cast(x as string), concat('y', cast(y as string))))"}
tokens:
  words: {column: words}
"""
TOPK_PAIRS = """\
  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}
  parted: {type: topk_pairs, scoring: near, k: 2, between: {column: side, a: a, b: b}, every: 1 hour}
  spaced: {type: topk_pairs, scoring: near, k: 4, max_per_object: 1, max_score: 3, window: {count: 30}}
"""
RANKED = """\
  best: {type: topk, scoring: high, k: 4, carry: [x, y]}
  sky20: {type: skyline, dimensions: {x: min, y: max}, window: {count: 20}}
  busy: {type: threshold_groups, group: side, score: count(), above: 5, below: 3, window: {count: 9}}
"""
LOYALTY = """\
  loyal: {type: topk_loyalty, object: who, criteria: x > 5, k: 3}
  fresh: {type: topk_loyalty, object: [side, who], criteria: x > 5, stale_after: 30 minutes, k: 2, window: {time: 1 hour}, trace: all}
  steady: {type: threshold_loyalty, object: who, updates: busy, at_least: 150 minutes, where: y < 3}
  slowly: {type: topk_loyalty, object: who, criteria: x > 5, k: 2, every: 20 minutes}
"""
GROUPS = """\
  totals: {type: topk_groups, group: who, score: sum(x / 3) + sum(y), k: 3, where: y < 3, carry: [last(side), first(ts), count(), sum(x)]}
  means: {type: topk_groups, group: [side, who], score: mean(x), having: count() > 1, k: 2, window: {count: 20}, direction: min}
  busy: {type: threshold_groups, group: who, score: count(), above: 5, below: 3}
  tied: {type: topk_groups, group: who, score: count(), k: 2, ties: include, window: {count: 20}}
  varied: {type: threshold_groups, group: side, score: distinct(who), above: 2, every: 20 minutes, window: {count: 12}}
  widest: {type: topk_groups, group: who, score: max(x) - min(id) / 1000 + last(y) - first(y), k: 2, every: 30 minutes, window: {count: 12}}
  hours: {type: topk_groups, group: who, score: sum(x), k: 3, window: {tumbling: 2 hours, zone: Asia/Kolkata, offset: 10 minutes}}
  quarters: {type: threshold_groups, group: side, score: count(), above: 3, every: 10 minutes, window: {tumbling: 15 minutes}}
  visits: {type: threshold_groups, group: who, score: count(), above: 2, below: 2, window: {session: 16 minutes}}
"""
DELETED = """\
  totals: {type: topk_groups, group: [grp, side], score: sum(x / 3) + sum(y), k: 2, where: y < 3}
  ends: {type: topk_groups, group: who, score: max(x) - min(x) + last(id) / 1000 - first(x), k: 3, every: 20 minutes, window: {count: 9},
    carry: [last(grp), max(id), distinct(x), mean(y)]}
  busy: {type: threshold_groups, group: who, score: count(), above: 3, below: 2, window: {time: 90 minutes}}
  varied: {type: threshold_groups, group: grp, score: "distinct(y) + quantile(x, 0.5)", above: 6, every: 30 minutes, window: {count: 8}}
  cents: {type: topk_groups, group: who, score: sum(price), having: sum(price) >= 0.1, k: 1, ties: include, carry: [distinct(price)]}
  paid: {type: threshold_groups, group: who, score: max(price), above: 0.7, below: 0.4, window: {count: 9}}
  spread: {type: topk_groups, group: who, score: stddev(x) + var_pop(price), k: 2, window: {count: 20}}
  odd: {type: topk, scoring: odd, k: 3, where: "usual.stddev > 0.5", carry: [usual_max]}
  peaks: {type: skyline, dimensions: {x: min, y: max}, carry: [x]}
  crest: {type: skyline, dimensions: {x: min, id: max, y: max}, prefer: [[y, x]], top: 2, by: high, window: {count: 20}}
  layers: {type: skyline, dimensions: {x: max, id: min, side: equal}, band: 2, window: {count: 20}, every: 20 minutes}
"""
FEED = "op: {column: side, insert: [a], update: [b], delete: [d]}"
CORRECTED = """\
  best20: {type: topk, scoring: high, k: 2, window: {count: 20}, carry: [x]}
  hourly: {type: topk, scoring: plain, k: 3, every: 1 hour}
  hot: {type: threshold, scoring: high, at_least: 12}
  totals: {type: topk_groups, group: grp, score: sum(x), k: 2, where: y < 3}
"""
SWITCHED = """\
  loyal: {type: topk_loyalty, object: who, criteria: x > 5, k: 3}
  fresh: {type: topk_loyalty, object: [grp, side], criteria: x > 5, stale_after: 30 minutes, k: 2, window: {time: 1 hour}, trace: all}
  steady: {type: threshold_loyalty, object: who, updates: busy, at_least: 40 minutes, where: y < 3}
"""
RESULTS = """\
  best: {type: topk, scoring: high, k: 4, carry: [x, who]}
  slow: {type: topk, scoring: high, k: 2, every: 30 minutes, carry: [x]}
  busy: {type: topk_groups, group: who, score: sum(x), k: 3}
  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}
  loyal: {type: topk_loyalty, object: who, criteria: x > 5, k: 2}
  worst: {type: topk, from: best, scoring: worst, k: 2, carry: [best_cause]}
  peaks: {type: skyline, from: best, dimensions: {best_score: max, best_seq: min}}
  recent: {type: threshold, from: slow, scoring: recent, at_least: 3, window: {count: 5}}
  close: {type: topk_pairs, from: busy, scoring: close, k: 2}
  steady: {type: topk_loyalty, of: busy, k: 2, window: {time: 1 day}}
  often: {type: threshold_loyalty, of: best, object: who, at_least: 40 minutes}
  again: {type: topk_groups, from: steady, group: who, score: count(), k: 1}
  paired: {type: threshold, from: far5, scoring: paired, at_least: 2}
  last: {type: topk_loyalty, of: worst, object: id, k: 2}
  loyalest: {type: topk_groups, from: loyal, group: who, score: count(), k: 1}
"""
SCORES_OF_RESULTS = """\
  worst: {expression: best_score, direction: min}
  recent: {expression: slow_score}
  close: {expression: abs(a.busy_score - b.busy_score), direction: min}
  paired: {expression: far5_score}
"""
WHO = """\
transform:
  - derive: {who: "if(y = 3 and x < 1, null, concat(side, cast(y as string)))", busy: "if(x = 11, null, x > 5)"}
  - derive: {price: {sql: "if(y = 1, null, x / 10)", type: "decimal(10,2)"}}
"""

MORE = {"who": "string", "busy": "boolean", "price": "double", "words": "string"}
"""The columns that ``WHO`` and ``TOKENS`` derive, for jobs that find them in their files (``with_more``): no decimals in CSV."""


def with_more(rows: Rows) -> Rows:
    """Rows of ``COLUMNS`` with ``MORE``: what ``WHO`` and ``TOKENS`` derive from them."""
    made = []
    for row in rows:
        of: dict[str, Any] = dict(zip(jobs.COLUMNS, row, strict=True))
        x, y = (None if of[c] == "" else float(of[c]) for c in "xy")
        who = "" if y == 3 and x is not None and x < 1 else f"{of['side']}{y}"
        busy = "" if x is None or x == 11 else str(x > 5).lower()
        price = "" if x is None or y == 1 else f"{x / 10:.2f}"
        texts = (of["grp"], of["side"], *([] if x is None else [x]), f"y{y}")
        words = " " if y == 3 and x is not None and x < 6 else " ".join(map(str, texts))
        made.append([*row, who, busy, price, words])
    return made


@dataclass(frozen=True, slots=True)
class Kind:
    """A job: its queries, and the rows that it runs over (by seed and number). ``sections`` stand beside the scoring functions."""

    queries: str
    rows: Callable[[int, int], Rows] = stream
    more: dict[str, Any] = field(default_factory=dict)
    sections: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its files."""
        return (*jobs.COLUMNS, *self.more.get("more", ()))

    def every_other_query(self) -> Kind:
        """The same job with its first, third, fifth ... query; a query may take several lines."""
        entries = re.split("(?m)^(?=  [a-z])", self.queries)[1:]
        return replace(self, queries="".join(entries[::2]))

    def from_files(self) -> Kind:
        """The same job, which finds in its files what it would derive."""
        tokens = TOKENS[TOKENS.index("tokens:") :]
        sections = self.sections.replace(WHO, "").replace(TOKENS, tokens).replace(TOKENS.removeprefix("transform:\n"), tokens)
        return Kind(self.queries, lambda seed, n: with_more(self.rows(seed, n)), {**self.more, "more": MORE}, sections)

    def write(self, directory: Path, max_files: int) -> Path:
        """The spec in a new directory, with what it needs beside it, and a rule by which every batch is looked at."""
        directory.mkdir(parents=True)
        ranked.write_queries(directory)
        scoring = ranked.SCORING + self.sections
        path = jobs.write_spec(directory, queries=self.queries, max_files=max_files, scoring=scoring, **self.more)
        path.write_text(path.read_text().replace("quality:\n", f"quality:\n{records.RULE}", 1))
        return path


KINDS = {
    "pairs": Kind(jobs.QUERIES),
    "corrections": Kind(CORRECTED, ranked.deleting_stream, {"source": FEED}),
    "deletions": Kind(
        ranked.QUERIES + DELETED + TOPK_PAIRS + SETS,
        ranked.deleting_stream,
        {"deletes": "deletes: side = 'd'"},
        sections=STATS + WHO + TOKENS.removeprefix("transform:\n"),
    ),
    "skylines": Kind(SKYLINES),
    "sets": Kind(SETS, sections=TOKENS),
    "loyalty": Kind(LOYALTY, more={"window": "{time: 5 hours}"}, sections=WHO),
    "switched": Kind(SWITCHED, ranked.deleting_stream, {"deletes": "deletes: side = 'd'", "window": "{time: 5 hours}"}, sections=WHO),
    "groups": Kind(GROUPS, sections=WHO),
    "shards": Kind(TOPK_PAIRS + SETS + RANKED, more={"shards": 2}, sections=TOKENS),
    "keyed": Kind(KEYED, more={"partition": True, "buckets": 3}, sections=STATS),
}

OVER_RESULTS = {
    "results": Kind(RESULTS, more={"window": "{time: 5 hours}", "partition": True, "buckets": 3}, sections=SCORES_OF_RESULTS + WHO),
}
"""Queries over queries, whose job has no states for queries that are added, or buckets that are split."""


def types_of(spec: Path) -> set[str]:
    """The query types of a spec."""
    return {q.type for q in load_plan(str(spec)).queries}


def all_types() -> set[str]:
    """Every query type there is."""
    return set(QUERY_TYPES.all())


def groups(rows: Rows, count: int, seed: int) -> list[Rows]:
    """The rows in ``count`` groups: all of one are later than all of the one before, so that a finish between two makes none late.

    Within a group they are out of order.
    """
    rng = random.Random(seed)
    rows = sorted(rows, key=lambda r: (str(r[TIME]), str(r)))
    cuts = [0]
    for i in range(1, count):
        at = max(len(rows) * i // count, cuts[-1] + 1)
        while rows[at][TIME] == rows[at - 1][TIME]:
            at += 1
        cuts.append(at)
    made = [rows[a:b] for a, b in pairwise([*cuts, len(rows)])]
    for group in made:
        places = {id(r): i + rng.uniform(0, DISORDER) for i, r in enumerate(group)}
        group.sort(key=lambda r: places[id(r)])
    return made
