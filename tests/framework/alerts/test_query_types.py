"""Alerts of other query types: pairs, items that are reported once, and tables of queries."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from skyband.framework.alerts.messages import AlertMessages, Identity
from skyband.framework.alerts.positions import Position
from skyband.framework.plan.compile import compile_job
from skyband.framework.spec.load import validate_text
from tests.framework.alerts.jobs import START, last_of, put, tables_of
from tests.specs import spec_text

QUERIES = {
    "apart": "{type: topk_pairs, scoring: gap, k: 3}",
    "like": "{type: matches, scoring: gap, k: 2, where: 'a.author <> b.author'}",
    "twins": "{type: similar_sets, tokens: words, min_score: 0.4}",
    "each": "{type: topk, k: 2, queries_from: {format: csv, path: watch.csv}}",
}


def rows_of(count: int) -> list[dict[str, Any]]:
    rng = random.Random(3)
    texts = ["late again", "late", "again and late", "quiet"]
    return [
        {"id": n, "ts": START + 1_000_000 * n, "author": rng.choice("abc"), "subject": rng.choice(texts), "effort": float(rng.randrange(9))}
        for n in range(count)
    ]


@pytest.mark.parametrize("query", QUERIES)
def test_every_row_of_changes_is_a_message(query: str, tmp_path: Path) -> None:
    (tmp_path / "watch.csv").write_text("name,weight_effort\nmost,1\nleast,-1\n")
    text = spec_text(
        "tickets",
        "{id: bigint, ts: timestamp, author: string, subject: string, effort: double}",
        event_time="{column: ts, watermark: 1 second}",
        options="{header: true}",
        window="{count: 12}",
        tokens="{words: {column: subject}}",
        scoring="{gap: {expression: abs(a.effort - b.effort), direction: max}}",
        queries={query: QUERIES[query]},
        alerts="\n  all: {channel: c}\n  high: {channel: c, when: [value], above: 0.6, message: '{what} {score}'}",
        sink=f"{{path: {tmp_path}/out}}",
    )
    job, errors = validate_text(text, {}, str(tmp_path / "spec.yaml"))
    assert job is not None and not errors, [e.render() for e in errors]
    plan = compile_job(job)
    tables = tables_of(plan, rows_of(40), 8)
    put(tmp_path / "out", tables, -2, last_of(tables))
    changes = tables[f"{query}_changes"]
    every, high = (
        list(
            AlertMessages(tmp_path / "out", plan, alert, Identity("o", "tickets", "g"), Position("g", -1, "0" * 16)).read(
                -1, last_of(tables), {}, None
            )
        )
        for alert in plan.alerts
    )
    assert len(every) == len({m["id"] for m in every}) == changes.num_rows > 10
    ordered = sorted(changes.to_pylist(), key=lambda r: (r["batch_id"], r.get("query", ""), r["step"], r["pos"]))
    assert [(m["step"], m["pos"]) for m in every] == [(r["step"], r["pos"]) for r in ordered]
    kinds = {"enter"} if query == "like" or "change" not in changes.column_names else {"enter", "leave"}
    assert {m["on"] for m in every} == kinds and all(m["item"] and m["text"].count(" ") >= 4 for m in every)
    entered = changes.filter(pc.field("change") == "+") if "change" in changes.column_names else changes
    expected = entered.filter(pc.field("score") > 0.6)
    assert len(high) == expected.num_rows and all(m["on"] == "above" and m["text"].startswith("rose above 0.6 in ") for m in high)
    if query == "each":
        assert {m["key"]["query"] for m in every} == {"most", "least"} and {m["query"] for m in every} == {"each"}
