"""Plans of all kinds of jobs, and rows for them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skyband.framework.plan.model import Field, Plan
from skyband.framework.queries.registry import QUERY_TYPES
from tests.framework.verify import chained
from tests.specs import plan_of_text, spec_text

NOISE = "noise"
"""A column that every job has and none uses."""
SECOND = 1_000_000

STEPS = spec_text(
    "steps", "{id: bigint, at: timestamp, city: {type: string, from: CITY}, x: double, y: double, z: double, w: double, noise: double}",
    event_time="{column: at, watermark: 1 minute, tie_break: [y]}", partition_by="[area]",
    transform=[
        'derive: {area: "upper(city)", twice: "x + x", sum: "twice + z"}', 'where: "coalesce(y, 0) < 3"', 'derive: {far: "sum * 10"}',
    ],
    quality={"rows": ['{name: sane, expect: "w < 3"}', '{name: noted, expect: "z < 1", severity: warn}']},
    window="{count: 20, time: 5 minutes}", scoring={"far": "{expression: far, direction: max}", "x": "{linear: {twice: 1}}"},
    queries={"best": "{type: topk, scoring: far, k: 3, carry: [z, city]}", "low": "{type: threshold, scoring: x, below: 2, where: z > 0}"},
)  # fmt: skip
STATISTICS = spec_text(
    "statistics", "{id: bigint, at: timestamp, host: string, x: double, y: double, noise: double}", event_time="{column: at}",
    window="{count: 20, time: 5 minutes}", stats={"flow": "{mean: x, count: y, by: [host], at_least: 2}"},
    scoring={"odd": "{expression: abs(x - flow.mean), direction: max}", "plain": "{expression: y}"},
    queries={"odd": "{type: topk, scoring: odd, k: 3, carry: [flow_count]}", "plain": "{type: topk, scoring: plain, k: 3}"},
)  # fmt: skip
CORRECTED = spec_text(
    "corrected", "{id: bigint, at: timestamp, gone: boolean, x: double, label: string, noise: double}", event_time="{column: at}",
    deletes="gone", window="{count: 20, time: 5 minutes}", scoring={"x": "{expression: x}"},
    queries={"best": "{type: topk, scoring: x, k: 3, carry: [label]}"},
)  # fmt: skip
SEVERAL = """\
job: several
source: {id: [id], event_time: {column: at, watermark: 3 minutes}, partition_by: [symbol]}
sources:
  asks: {format: csv, path: /nowhere/asks, schema: {id: bigint, at: timestamp, symbol: string, price: double}}
  bids:
    format: json
    path: /nowhere/bids
    schema: {id: bigint, at: timestamp, symbol: string, price: {type: double, from: bid.price}, depth: int}
window: {count: 12, time: 40 minutes}
scoring:
  gap: {expression: abs(a.price - b.price)}
  price: {linear: {price: 1}}
queries:
  close: {type: topk_pairs, scoring: gap, k: 3, between: {source: [asks, bids]}}
  high: {type: topk, scoring: price, k: 2, from: asks, carry: [source]}
  deep: {type: threshold, scoring: price, above: -1, carry: [depth]}
sink: {path: /nowhere/out}
"""
LIST = spec_text(
    "weights", "{id: bigint, at: timestamp, x: double, y: double, noise: double}", event_time="{column: at}", window="{count: 30}",
    scoring={"product": '{expression: "(c + x) * (e + y)", direction: max}'},
    queries={"best": "{type: topk, scoring: product, k: 3, queries_from: {format: csv, path: table.csv}, carry: [y]}"},
)  # fmt: skip
KAFKA = spec_text(
    "messages", '{id: bigint, at: {type: timestamp, from: "$timestamp"}, who: {type: string, from: user.name}, x: double}', format="kafka",
    path=None, options="{servers: 'kafka1.example:9092,kafka2.example:9092', topic: readings}", id="position", event_time="{column: at}",
    window="{count: 30}", scoring={"x": "{expression: x}"}, queries={"best": "{type: topk, scoring: x, k: 3, carry: [who]}"},
)  # fmt: skip
LOOKED = """\
job: looked
source:
  format: csv
  path: {directory}/in
  schema: {{id: bigint, ts: timestamp, host: string, x: double, noise: double}}
  id: [id]
  event_time: {{column: ts}}
lookups:
  site:
    format: csv
    path: {directory}/sites
    schema: {{host: string, region: {{type: string, from: REGION}}, tier: int}}
    match: {{host: host}}
    take: {{region: region, level: tier}}
transform:
  - derive: {{worth: {{sql: "x * level", type: double}}}}
window: {{count: 10}}
scoring: {{worth: {{expression: worth, direction: max}}, x: {{expression: x}}}}
queries:
  best: {{type: topk, scoring: worth, k: 2, carry: [region]}}
  plain: {{type: topk, scoring: x, k: 2}}
sink: {{path: {directory}/out}}
"""


def examples() -> dict[str, str]:
    """The example of every query type, with a column that it does not use."""
    return {name: kind.example.replace("ts: timestamp,", f"ts: timestamp, {NOISE}: double,", 1) for name, kind in QUERY_TYPES.all().items()}


def texts() -> dict[str, str]:
    """Specs that need no file, by name."""
    return examples() | {"steps": STEPS, "statistics": STATISTICS, "corrected": CORRECTED, "several": SEVERAL, "kafka": KAFKA}


def plans(directory: Path) -> dict[str, Plan]:
    """Plans of all kinds; ``directory``: for the files that some need."""
    found = {name: plan_of_text(text) for name, text in texts().items()}
    (directory / "table.csv").write_text("name,c,e\nq1,1.5,2\nq2,-3,4\n")
    (directory / "families.yaml").write_text(LIST)
    (directory / "sites").mkdir()
    (directory / "sites" / "1.csv").write_text("host,REGION,tier\na,eu,1\nb,us,2\n")
    from skyband.jobs.spec import load_plan
    from tests.spark.jobs import write_spec

    chains = write_spec(directory, chained.TIME, chained.queries(chained.TIME), "5 minutes", True, scoring=chained.SCORING)
    return found | {
        "families": load_plan(str(directory / "families.yaml")),
        "chains": load_plan(str(chains)),
        "looked": plan_of_text(LOOKED.format(directory=directory)),
    }


def rows_of(plan: Plan, rng: random.Random, many: int = 60) -> list[dict[str, Any]]:
    """Random rows of a plan, in the order of their event times, with ties and nulls."""
    at, rows = 0, []
    for n in range(many):
        at += rng.choice([0, 1, 5, 20]) * SECOND
        row: dict[str, Any] = {f.name: value(f, rng) for f in plan.source.fields}
        row |= {plan.intake.event_time: at} | {c: n for c in plan.intake.id if plan.intake.field(c).type == "bigint"}
        if plan.source.parts:
            name, part = rng.choice(plan.source.parts)
            row = {f.name: row[f.name] for f in part.fields} | {"source": name}
        rows.append(row)
    return rows


def value(field: Field, rng: random.Random) -> Any:
    """A random value for a column, of few different ones."""
    if rng.random() < 0.05 and field.type not in ("array<string>",):
        return None
    made: Mapping[str, Any] = {
        "string": rng.choice("abc"), "double": float(rng.randrange(-2, 4)), "bigint": rng.randrange(5), "int": rng.randrange(2),
        "boolean": rng.random() < 0.3, "timestamp": rng.randrange(1000) * SECOND, "array<string>": rng.sample("abcdef", rng.randrange(4)),
    }  # fmt: skip
    return made[field.type]
