"""A change feed in JSON, as Debezium writes one, through the whole job: results are those of the table that it tells of."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.local.jobs import run
from tests.spark.cuts import verified
from tests.spark.jobs import table

SPEC = """\
job: orders
source:
  format: json
  path: {directory}/in
  schema:
    op: string
    ts_ms: bigint
    lsn: {{type: bigint, from: source.lsn}}
    id_before: {{type: bigint, from: before.id}}
    id_after: {{type: bigint, from: after.id}}
    shop: {{type: string, from: after.shop}}
    amount: {{type: double, from: after.amount}}
  id: [id]
  event_time: {{column: at, tie_break: [lsn]}}
  op: {{column: op, insert: [c, r], update: [u], delete: [d], ignore: [m, t]}}
transform:
  - derive: {{id: {{sql: "coalesce(id_after, id_before)", type: bigint}}, at: {{sql: timestamp_millis(ts_ms), type: timestamp}}}}
quality: {{max_rejected: 100%}}
window: {{time: 30 days}}
scoring: {{amount: {{expression: amount, direction: max}}}}
queries:
  largest: {{type: topk, scoring: amount, k: 1000}}
  shops: {{type: topk_groups, group: shop, score: sum(amount), k: 2}}
sink: {{path: {directory}/out}}
run: {{max_files: 2}}
"""
START = 1_700_000_000_000


class Shop:
    """A table of orders, whose every change becomes a message."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.said: list[dict[str, Any]] = []
        self.lsn = 0
        self.rng = random.Random(5)

    def change(self) -> None:
        number, kind = self.rng.randrange(25), self.rng.choice("ccuud")
        before = self.rows.pop(number, None)
        if kind == "d":
            after = None
        else:
            kind = "c" if before is None else "u"
            after = self.rows[number] = {"id": number, "shop": self.rng.choice("pqr"), "amount": float(self.rng.randrange(50))}
        if before is not None or after is not None:
            self.say(kind, before, after)

    def say(self, op: str | None, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None) -> None:
        self.lsn += 1
        # Several changes have one millisecond.
        self.said.append({"op": op, "before": before, "after": after, "ts_ms": START + self.lsn // 4, "source": {"lsn": self.lsn}})

    def write(self, directory: Path, files: int, first: int) -> None:
        """What has been said since the last time, in files whose order is not that of the changes."""
        directory.mkdir(exist_ok=True)
        for n in range(files):
            lines = "".join(json.dumps(m) + "\n" for m in self.said[n::files])
            (directory / f"{first + n}.json").write_text(lines)
        self.said = []


def test_results_are_those_of_the_table(tmp_path: Path) -> None:
    spec, shop = tmp_path / "spec.yaml", Shop()
    spec.write_text(SPEC.format(directory=tmp_path))
    rejected = 0
    for part in range(2):
        for _ in range(200):
            shop.change()
        shop.say("m")  # neither an id nor a row
        shop.say("c", after=next(iter(shop.rows.values())))  # sent twice
        shop.say("x", after={"id": 1})
        shop.say("d", before={"id": 99})
        rejected += 3
        shop.write(tmp_path / "in", 3, 3 * part)
        run(spec, finish=bool(part))
    assert {r["id"]: r["score"] for r in table(tmp_path, "largest_now").to_pylist()} == {n: r["amount"] for n, r in shop.rows.items()}
    sums = {s: sum(r["amount"] for r in shop.rows.values() if r["shop"] == s) for s in "pqr"}
    assert [r["score"] for r in table(tmp_path, "shops_now").to_pylist()] == sorted(sums.values(), reverse=True)[:2]
    assert sorted(table(tmp_path, "rejected")["reason"].to_pylist()) == ["bad_op"] * 2 + ["duplicate_id"] * 2 + ["no_target"] * 2
    runs = table(tmp_path, "runs").to_pylist()
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    assert sum(json.loads(r["counters"])["replaced"] for r in runs if "replaced" in r["counters"]) > 50
    assert verified(spec)
