"""Results that other systems give for their own tests of windows: window top-n, hops and months."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.jobs import cli

HEAD = """\
job: windows
source:
  format: json
  path: in
  schema: {n: bigint, at: timestamp, who: string, x: bigint}
  id: [n]
  event_time: {column: at, watermark: 1 second, tie_break: [n]}
  MORE
window: {time: 3650 days}
transform:
  - derive: {every: "'all'"}
scoring:
  x: {expression: x, direction: max}
queries:
  q: {QUERY}
sink: {path: out}
tests:
  - name: windows
    finish: end
    rows:
"""
# Flink's window top-n: rows by name in windows of 5 seconds, the two with the largest number. Two rows come late for one instant each.
TOP_N = [
    ("a", "00:00:01", 1), ("a", "00:00:02", 2), ("a", "00:00:03", 2), ("a", "00:00:04", 5), ("b", "00:00:07", 3), ("b", "00:00:06", 6),
    ("a", "00:00:08", 3), ("b", "00:00:16", 4), ("b", "00:00:34", 1),
]  # fmt: skip
TOP_N_ROWS = [
    "who: a, window_end: 2020-10-10 00:00:05, rank: 1, x: 5", "who: a, window_end: 2020-10-10 00:00:05, rank: 2, x: 2",
    "who: a, window_end: 2020-10-10 00:00:10, rank: 1, x: 3", "who: b, window_end: 2020-10-10 00:00:10, rank: 1, x: 6",
    "who: b, window_end: 2020-10-10 00:00:10, rank: 2, x: 3", "who: b, window_end: 2020-10-10 00:00:20, rank: 1, x: 4",
    "who: b, window_end: 2020-10-10 00:00:35, rank: 1, x: 1",
]  # fmt: skip
# RisingWave's sum over hops of half an hour every quarter: a row exactly at a boundary is in the next windows.
HOPS = [
    ("a", "10:00:00", 4), ("c", "10:05:00", 3), ("b", "10:14:00", 2), ("a", "10:22:00", 1), ("c", "10:33:00", 5), ("b", "10:42:00", 7),
    ("a", "10:51:00", 6), ("c", "11:02:00", 8),
]  # fmt: skip
HOPS_ROWS = [
    f"valid_from: 2020-10-10 {at}, score: {s}" for at, s in (("10:15", 9), ("10:30", 10), ("10:45", 13), ("11:00", 18), ("11:15", 14))
]


@pytest.mark.parametrize(
    ("query", "table", "rows", "expected", "more"),
    [
        ("type: topk, scoring: x, k: 2, window: {tumbling: 5 seconds}, carry: [x]", "q_final", TOP_N, TOP_N_ROWS, "partition_by: [who]"),
        (
            "type: topk_groups, group: every, score: sum(x), k: 1, window: {hop: {size: 30 minutes, every: 15 minutes}}",
            "q_trajectory", HOPS, HOPS_ROWS, "",
        ),
        (
            "type: topk, scoring: x, k: 1, window: {tumbling: 1 quarter, zone: Europe/Berlin}",
            "q_final", HOPS, ["window_start: 2020-09-30 22:00, window_end: 2020-12-31 23:00, rank: 1, score: 8"], "",
        ),
    ],
    ids=["flink", "risingwave", "quarter"],
)  # fmt: skip
def test_answers(tmp_path: Path, query: str, table: str, rows: list[tuple[str, str, int]], expected: list[str], more: str) -> None:
    text = HEAD.replace("QUERY", query).replace("MORE", more)
    text += "".join(f"      - {{n: {n}, at: 2020-10-10 {at}, who: {who}, x: {x}}}\n" for n, (who, at, x) in enumerate(rows))
    text += f"    expect:\n      {table}:\n" + "".join(f"        - {{{row}}}\n" for row in expected)
    (tmp_path / "spec.yaml").write_text(text, encoding="utf-8")
    assert cli.main(["test", str(tmp_path / "spec.yaml")]) == 0
