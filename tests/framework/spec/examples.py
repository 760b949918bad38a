"""Specs that tests share: one of each part and of each query type."""

ENV = {"LANDING": "/data/landing", "WAREHOUSE": "/data/warehouse"}

SENSORS = r"""job: sensor-anomalies
source:
  format: csv                       # csv | json | parquet | orc | delta
  path: "${LANDING}/sensors/"
  options: {header: true}
  schema: {sensor: string, building: string, ts: timestamp, temp: double, humidity: double, pm25: {type: double, from: PM2.5}}
  id: [sensor, ts]                  # id, event_time and partition_by may name derived columns
  event_time: {column: ts, watermark: 10 minutes, tie_break: [sensor]}
  partition_by: [building]          # optional
transform:                          # deterministic Spark SQL expressions, in order
  - derive: {hours: "unix_micros(ts) / 3.6e9"}
  - where: "temp is not null"       # rows it drops are counted as filtered
quality:
  rows:                             # checked inline on every row, one pass; a row that fails any rule is rejected
    - {name: plausible_temp, expect: "temp between -60 and 60"}
  tables:                           # Great Expectations, by their own names, on any table of the job
    - {table: anomalies, expectation: expect_column_values_to_not_be_null, column: score, severity: critical}
window: {time: 7 days}              # N: the largest window a query may use
scoring:
  shock:                            # arbitrary: any expression over a.<attr>, b.<attr>
    expression: abs(a.hours - b.hours) / (abs(a.temp - b.temp) * abs(a.humidity - b.humidity))
    direction: min
    keep: {k: 100}                  # optional: K for ad hoc snapshots beyond the queries' own
  closest:                          # global: monotone combination of per-attribute local scores
    combine: sum
    terms: [{abs_difference: temp}, {abs_difference: humidity, weight: 2.0}]
queries:
  anomalies:     {type: topk_pairs, scoring: shock, k: 20, where: "a.sensor <> b.sensor", carry: [temp]}
  anomalies_day: {type: topk_pairs, scoring: shock, k: 5, where: "a.sensor <> b.sensor", window: {time: 1 day}}
  twins:         {type: topk_pairs, scoring: closest, k: 10, every: 1 hour, max_score: 0.5}
sink: {path: "${WAREHOUSE}/sensor_anomalies"}      # the checkpoint lives in _skyband/checkpoint below it
run: {trigger: once}                # or {trigger: 10 seconds}
schedule: {cron: "0 * * * *"}       # Airflow
"""

_REST = r"""job: others
source:
  format: parquet
  path: /data/x
  schema:
    id: bigint
    ts: timestamp
    price: double
    volume: bigint
    sector: string
    subject: string
    author: string
    station: string
    rain: double
    side: string
  id: [id]
  event_time: {column: ts}
window: {time: 30 days}
scoring:
  heat: {expression: price * volume, direction: max}
  steady: {linear: {price: 2, volume: -0.5}}
  value: {expression: "b.price - a.price"}
"""

_TOKENS = "tokens:\n  words: {column: subject}\n"

OTHERS = {
    "matches": "  seen: {type: matches, tokens: words, k: 3, min_score: 0.5, where: a.author <> b.author}\n"
    "  next: {type: matches, scoring: value, k: 3}",
    "threshold_pairs": "  near: {type: threshold_pairs, scoring: value, min_score: 0, max_score: 0.5, where: a.sector = b.sector}",
    "topk_similar_sets": "  twins: {type: topk_similar_sets, tokens: words, k: 3, where: a.author <> b.author}",
    "similar_sets": "  alike: {type: similar_sets, tokens: words, similarity: dice, min_score: 0.8}",
    "threshold": "  hot:   {type: threshold, scoring: heat, at_least: 5}",
    "skyline": "  best:  {type: skyline, dimensions: {price: min, volume: max, sector: equal}}",
    "topk": "  top: {type: topk, scoring: heat, k: 3}\n  best_buys: {type: topk, scoring: steady, k: 3}",
    "topk_pairs": "  deals: {type: topk_pairs, scoring: value, k: 3, between: {column: side, a: buy, b: sell}}",
    "topk_loyalty": "  wettest: {type: topk_loyalty, object: station, criteria: rain > 0, stale_after: 2 hours, k: 3}",
    "threshold_loyalty": "  sides: {type: threshold_loyalty, object: [station, side], criteria: rain > 0, at_least: 1 day, trace: all}",
    "topk_groups": "  wettest_sides: {type: topk_groups, group: [station, side], score: sum(rain) / count(), having: count() > 9, k: 3}",
    "threshold_groups": "  busiest: {type: threshold_groups, group: station, score: distinct(side), above: 3, below: 2}",
}
"""Query type -> queries of that type."""


def other(query_type: str) -> str:
    """A whole spec with queries of one type."""
    queries = OTHERS[query_type]
    return f"{_REST}{_TOKENS if 'tokens:' in queries else ''}queries:\n{queries}\nsink: {{path: /data/out}}\n"


FAMILY = """include: []
parameters: {site: berlin, k: 20, wait: 10 minutes, carry: [temp]}
profiles:
  dev: {window: {count: 100}, queries: {hot: {k: 3, every: 1 hour}}, parameters: {k: 3}}
  prod: {sink: {path: "${WAREHOUSE}/${site}"}, schedule: {cron: "@daily"}}
job: "heat-${site}"
source:
  format: csv
  path: "${LANDING}/${site}"
  schema: {id: string, ts: timestamp, temp: double}
  id: [id]
  event_time: {column: ts, watermark: "${wait}"}
window: {time: 7 days}
scoring: {hot: {expression: "temp + ${k}", direction: max}}
queries:
  hot: {type: topk, scoring: hot, k: "${k}", carry: "${carry}", where: "id <> '${site}'"}
sink: {path: out}
"""
"""A spec that is resolved first: parameters, and profiles that mistakes can be in."""
