"""Every row of a source has one verdict, however it is read: at once, after it has waited, over restarts, by a rebuild, in the tools.

A matrix of formats, types and odd values. Each row is in exactly one of accepted, filtered and rejected in the end, and ``runs`` adds up.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import FILTERED, REASON
from skyband.framework.preview.judged import judged
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.cuts import verified
from tests.spark.jobs import run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPEC = """\
job: verdicts
source:
  format: FORMAT
  path: DIRECTORY/in
  OPTIONS
  schema: {n: int, id: string, ts: timestamp, s: string, big: bigint, x: double, b: boolean, day: date, at: timestamp, dec: "decimal(6,2)"}
  id: [id]
  event_time: {column: ts, watermark: WATERMARK}
transform:
  - where: "s is null or s <> 'dropped'"
quality:
  max_rejected: 100%
  rows: [{name: small_x, expect: "x < 100"}]
window: {count: 1000}
scoring: {n: {expression: n, direction: max}}
queries:
  best: {type: topk, scoring: n, k: 1000, carry: [n, s, big, x, b, day, at, dec]}
sink: {path: DIRECTORY/out}
"""
GOOD = {"s": "a", "big": 5, "x": 1.5, "b": True, "day": "2020-01-01", "at": "2020-01-01 00:00:00", "dec": 1.25}
ODD: dict[str, list[Any]] = {
    "id": [None],
    "ts": [None, "10:00", "2020-01-01T10:00:00Z", "1960-01-01", "12020-01-01", 1577836800, "2020-13-01"],
    "s": [None, "dropped", "a b", 7],
    "big": [None, "x", 1.5, 2**63, -(2**63), "8"],
    "x": [None, "NaN", 200, "1d", 1e308],
    "b": [None, "yes", 1, False],
    "day": [None, 2024, 19701, 0, -5, "2024", "19701-01-01", "2020-02-30", "2020-01-01 10:00", "0001-01-01", "9999-12-31", "10000-01-01"],
    "at": [None, 1577836800, 253402300800, -62135596801, "2020", "19701-01-01", "10:00", "9999-12-31T23:59:59.999999Z", 10**13],
    "dec": [None, "1.25", "1.255", 1.2, 1, 123456, "12345.67", "1,5", "1e2", True],
}
"""Values of each column as JSON has them."""


def rows() -> list[dict[str, Any]]:
    """Rows that are good but for one value, and two in which a text is spelled as the number beside it."""
    changed: list[dict[str, Any]] = [{}]
    changed += [{name: value} for name, values in ODD.items() for value in values]
    changed += [{"day": 2024, "s": "2024"}, {"at": 1577836800, "s": "1577836800"}]
    return [
        {"n": 1000 + i, "id": str(i), "ts": f"2020-01-01 00:{i // 60:02}:{i % 60:02}", **GOOD, **change} for i, change in enumerate(changed)
    ]


def typed_rows() -> pa.Table:
    """Rows of typed columns with the values that a calendar ends with, and those beyond."""
    days = [None, 0, 2_932_896, 2_932_897, -719_162, -719_163, 2**31 - 1, -(2**31)]
    micros = [
        None,
        0,
        253_402_300_799_999_999,
        253_402_300_800_000_000,
        -62_135_596_800_000_000,
        -62_135_596_800_000_001,
        2**63 - 1,
        -(2**63),
    ]
    n = len(days) + len(micros)
    stamp = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "n": pa.array(range(1000, 1000 + n), pa.int32()), "id": pa.array([str(i) for i in range(n)]),
            "ts": pa.array([1_577_836_800_000_000 + i for i in range(n)], pa.int64()).cast(stamp),
            "s": pa.array(["a"] * n), "big": pa.array([5] * n, pa.int64()), "x": pa.array([1.5] * n), "b": pa.array([True] * n),
            "day": pa.array(days + [0] * len(micros), pa.int32()).cast(pa.date32()),
            "at": pa.array([0] * len(days) + micros, pa.int64()).cast(stamp),
            "dec": pa.array([None] * n, pa.decimal128(6, 2)),
        }
    )  # fmt: skip


def cell(value: Any) -> str:
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{text}"' if "," in text else text


def write(directory: Path, form: str, name: str, part: slice, at: int) -> int:
    """Write some of the rows as a file; return their number."""
    path = directory / "in" / f"{name}.{form}"
    path.parent.mkdir(exist_ok=True)
    if form == "parquet":
        mine = typed_rows().to_batches()[0]
        some = mine.slice(part.start or 0, (part.stop or mine.num_rows) - (part.start or 0))
        pq.write_table(pa.Table.from_batches([some]), path)
        many = some.num_rows
    else:
        made = rows()[part]
        many = len(made)
        if form == "json":
            path.write_text("".join(json.dumps(r) + "\n" for r in made))
        else:
            path.write_text("\n".join([",".join(made[0]), *(",".join(cell(v) for v in r.values()) for r in made), ""]))
    os.utime(path, (1_600_000_000 + at, 1_600_000_000 + at))
    return many


def spec_of(directory: Path, form: str, watermark: str) -> Path:
    directory.mkdir()
    options = "options: {header: true}" if form == "csv" else ""
    text = SPEC.replace("DIRECTORY", str(directory)).replace("FORMAT", form).replace("OPTIONS", options).replace("WATERMARK", watermark)
    (directory / "spec.yaml").write_text(text)
    return directory / "spec.yaml"


def number_of(text: str, form: str) -> int:
    """The number of a rejected row by its text: as it came, or as JSON."""
    found = re.match(r"(\d+),", text) if form == "csv" and not text.startswith("{") else re.search(r'"n": ?(\d+)', text)
    assert found is not None, text
    return int(found[1])


def verdicts(directory: Path, form: str) -> tuple[dict[int, str], Counter[str]]:
    """The verdict of each row by its number, but for those that are filtered; and the sums of ``runs``."""
    accepted = table(directory, "best").to_pylist()
    rejected = table(directory, "rejected").to_pylist()
    found = [(r["n"], "accepted") for r in accepted] + [(number_of(r["text"], form), r["reason"]) for r in rejected]
    assert len(found) == len(dict(found)), "a row has two verdicts"
    sums: Counter[str] = Counter()
    for r in table(directory, "runs").to_pylist():
        assert r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"], r
        sums.update({name: r[name] for name in ("rows_in", "filtered", "rejected", "accepted", "pending_change")})
    assert (sums["accepted"], sums["rejected"]) == (len(accepted), len(rejected))
    return dict(found), sums


def values(directory: Path) -> list[dict[str, Any]]:
    columns = ["n", "s", "big", "x", "b", "day", "at", "dec"]
    return sorted(table(directory, "best").select(columns).to_pylist(), key=lambda r: r["n"])


@pytest.mark.parametrize("form", ["json", "csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_a_row_has_one_verdict_however_it_is_read(spark: SparkSession, tmp_path: Path, form: str) -> None:
    once, waits = tmp_path / "once", tmp_path / "waits"
    spec = spec_of(once, form, "0 seconds")
    many = write(once, form, "a", slice(None), 0)
    run(spark, spec)
    found, sums = verdicts(once, form)
    assert sums["rows_in"] == many and sums["pending_change"] == 0
    assert len(found) == many - sums["filtered"] and sums["filtered"] == (0 if form == "parquet" else 1)

    later = spec_of(waits, form, "1 day")
    for part, name in enumerate("ab"):
        write(waits, form, name, slice(0, many // 2) if not part else slice(many // 2, None), part)
        run(spark, later, finish=False)
    assert table(waits, "best").num_rows == 0
    run(spark, later)
    # What is rejected has no time in the stream; the other rows wait through two runs.
    assert verdicts(waits, form) == (found, sums | {"pending_change": 0})
    assert str(values(waits)) == str(values(once))
    assert verified(later)
    # A rebuild reads the files anew, in other batches.
    assert cli.main(["rebuild", str(later), "--finish"]) == 0
    again, recounted = verdicts(waits, form)
    assert again == found and recounted["rows_in"] == many and recounted["pending_change"] == 0
    assert str(values(waits)) == str(values(once))

    # The tools read without Spark what is certain, and say of that what the run said.
    looked = judged(load_plan(str(spec)), results=False)
    reasons = looked.rows[REASON].to_pylist()
    numbers = [number_of(t, form) if t else n for n, t in zip(looked.rows["n"].to_pylist(), looked.first.texts, strict=True)]
    seen = {n: reason or "accepted" for n, reason in zip(numbers, reasons, strict=True) if reason != FILTERED}
    assert {n: found[n] for n in seen} == seen
    assert many - len(numbers) == looked.first.doubtful <= 12


def test_what_a_run_writes_all_tools_read(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = spec_of(tmp_path / "job", "parquet", "0 seconds")
    text = spec.read_text().replace(
        "transform:\n", "transform:\n  - derive: {later: {sql: 'date_add(day, cast(big as int))', type: date}}\n"
    )
    spec.write_text(text)
    many = write(tmp_path / "job", "parquet", "a", slice(None), 0)
    run(spark, spec)
    accepted = table(tmp_path / "job", "best")
    reasons = Counter(r["reason"] for r in table(tmp_path / "job", "rejected").to_pylist())
    # The day after which the computed one is beyond the year 9999, too.
    assert reasons["year_range:later"] == 1 and reasons["year_range:day"] == 4 and reasons["year_range:at"] == 4
    assert accepted.num_rows == many - sum(reasons.values())
    assert max(r["at"] for r in accepted.to_pylist() if r["at"]) == datetime.fromisoformat("9999-12-31T23:59:59.999999+00:00")
    assert min(r["day"] for r in accepted.to_pylist() if r["day"]) == date(1, 1, 1)
    for words in (["query", str(spec), "best"], ["report", str(spec), "--out", str(tmp_path / "r.html")], ["rejected", str(spec)],
                  ["sql", str(spec), "select * from best_changes"], ["verify", str(spec)]):  # fmt: skip
        assert cli.main(words) == 0, (words, capsys.readouterr())


def test_a_batch_that_is_repeated_with_other_rows_leaves_nothing_of_the_first_attempt(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own reader passes over what follows the first object of a line; then the exact reader repeats the batch."""
    for name, first in (("one", True), ("two", False)):
        directory = tmp_path / name
        spec = spec_of(directory, "json", "1 minute")
        made = rows()[:1] * 3
        lines = [json.dumps(r | {"n": i, "id": str(i), "ts": f"2020-01-01 00:{i:02}:00"}) for i, r in enumerate(made)]
        lines[1] = "[" + lines[1] + "," + json.dumps(rows()[0] | {"n": 7, "id": "7", "ts": "2020-01-01 00:01:30"}) + "]"
        (directory / "in").mkdir()
        (directory / "in" / "a.json").write_text("\n".join(lines) + "\n")
        if first:
            run(spark, spec, finish=False)
        more = json.dumps(rows()[0] | {"n": 9, "id": "9", "ts": "2020-01-01 00:09:00"}) + "\n"
        (directory / "in" / "b.json").write_text(more)
        run(spark, spec)
        assert [r["n"] for r in values(directory)] == [0, 1, 2, 7, 9]
        state = directory / "out" / "_skyband" / "checkpoint" / "state"
        assert not [p.name for p in state.rglob("*.tmp")]
        assert verified(spec)


def test_a_change_feed_with_decimals_in_quotes_has_one_verdict(spark: SparkSession, tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "job", "json", "0 seconds")
    (tmp_path / "job" / "in").mkdir()
    texts = ["1.25", "-3", "0.005", "9999.994", "9999.995", "1e2", "1,5", " 2 ", "x"]
    made = [rows()[0] | {"n": i, "id": str(i), "dec": text} for i, text in enumerate(texts)]
    (tmp_path / "job" / "in" / "a.json").write_text("".join(json.dumps(r) + "\n" for r in made))
    found = judged(load_plan(str(spec)), results=False)
    assert found.first.doubtful == 0
    run(spark, spec)
    assert [str(r["dec"]) for r in values(tmp_path / "job")] == ["1.25", "-3.00", "0.01", "9999.99", "100.00", "2.00"]
    ours = [str(d) for d, reason in zip(found.rows["dec"].to_pylist(), found.rows[REASON].to_pylist(), strict=True) if reason is None]
    assert ours == [str(r["dec"]) for r in values(tmp_path / "job")]
    with pytest.raises(SkybandError):
        judged(load_plan(str(spec_of(tmp_path / "none", "json", "0 seconds"))))
