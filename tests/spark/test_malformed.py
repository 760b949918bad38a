"""Malformed rows of more than twenty kinds through a run: each is counted once, under the reason it was made for, whatever is repeated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Template

import pytest
from pyspark.sql import SparkSession

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.streaming.run.spark_engine import SparkEngine
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.jobs.spec import load_plan
from tests.spark.jobs import table
from tests.specs import spec_text

pytestmark = pytest.mark.spark

SPEC = Template(
    spec_text(
        "malformed",
        "{id: bigint, ts: timestamp, grp: string, x: double, n: bigint, flag: boolean, day: date, words: string, op: string, tag: string}",
        path='"$directory/in"',
        event_time="{column: ts, watermark: 10 minutes}",
        partition_by="[grp]",
        sink='{path: "$directory/out"}',
        transform=["where: \"op is null or op <> 'skip'\""],
        quality={
            "max_rejected": "100%",
            "rows": [
                '{name: sane_x, expect: "x < 1000000"}',
                "{expectation: expect_column_values_to_be_in_set, column: op, value_set: [skip, odd], name: known_op}",
                "{expectation: expect_column_values_to_not_be_in_set, column: op, value_set: [odd], severity: warn, name: even}",
            ],
        },
        tokens={"words": "{column: words, max_tokens: 3, short: reject}"},
        window="{time: 60 days}",
        scoring={"high": "{expression: x, direction: max}"},
        queries={"top": '{type: topk, scoring: high, k: 3, where: "n > -5"}'},
    )
)
START = datetime(2024, 1, 1, tzinfo=UTC)
COLUMNS = ("id", "ts", "grp", "x", "n", "flag", "day", "words", "op", "tag")
Row = dict[str, str]


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def good(i: int, tag: str) -> Row:
    """Row ``i``, in which nothing is wrong."""
    words = ("one two", "one", "two three")[i % 3]
    return dict(zip(COLUMNS, (str(i), stamp(i), "pq"[i % 2], "1.5", str(i), "true", "2024-01-31", words, "", tag), strict=True))


def cells(row: Row) -> bytes:
    return ",".join(row[c] for c in COLUMNS).encode()


def has(**values: str) -> Callable[[Row], bytes]:
    return lambda row: cells(row | values)


KINDS: dict[str, tuple[str, Callable[[Row], bytes]]] = {
    "number": ("parse", has(x="many")),
    "decimal_comma": ("parse", has(x="1,5")),
    "time": ("parse", has(ts="yesterday")),
    "few": ("parse", lambda row: row["tag"].encode() + b",1,2"),
    "utf8": ("parse", lambda row: cells(row | {"x": "1@"}).replace(b"@", b"\xe9")),
    "overflow": ("parse", has(id="99999999999999999999")),
    "flag": ("parse", has(flag="perhaps")),
    "day": ("parse", has(day="31.1.2024")),
    "null_id": ("null_id", has(id="")),
    "null_time": ("null_time", has(ts="")),
    "null_key": ("null_key", has(grp="")),
    "before": ("time_range", has(ts="1969-12-31T23:59:59Z")),
    "after": ("time_range", has(ts="9999-12-31T12:00:00Z")),
    "x": ("rule:sane_x", has(x="2e6")),
    "op": ("rule:known_op", has(op="other")),
    "x_and_op": ("rule:sane_x,known_op", has(x="2e6", op="other")),
    "x_of_nothing": ("rule:sane_x", has(x="2e6", id="", grp="")),
    "no_words": ("empty_set:words", has(words="- -")),
    "many_words": ("large_set:words", has(words="a b c d")),
    "stands_for_null": ("int_range", has(n="-9223372036854775808")),
    "twice": ("duplicate_id", lambda row: cells(row | {"ts": stamp(int(row["id"]) + 0.5)})),
    "late": ("late", cells),
}


def first_drop(each: int) -> Iterator[bytes]:
    """Rows as they come first, of every kind ``each``: good ones, those that are filtered or only warned of, malformed ones."""
    for i in range(each):
        yield cells(good(i, f"<good-{i}>"))
        yield has(op="skip")(good(10_000_000 + i, f"<skip-{i}>"))
        yield has(op="odd", id=str(20_000_000 + i))(good(i, f"<odd-{i}>"))
        for number, (kind, (_, made)) in enumerate(KINDS.items()):
            if kind not in ("late", "twice"):
                yield made(good(i + 100_000_000 * (number + 1), f"<{kind}-{i}>") | {"ts": stamp(i)})
            elif kind == "twice":
                yield made(good(i, f"<{kind}-{i}>"))


def second_drop(each: int) -> Iterator[bytes]:
    """What comes a day later: one good row moves the time on, the others were due before."""
    yield cells(good(30_000_000, "<last-0>") | {"ts": stamp(86_400)})
    for i in range(each):
        yield cells(good(40_000_000 + i, f"<late-{i}>") | {"ts": stamp(-86_400 - i)})


def write(directory: Path, name: str, rows: Iterator[bytes]) -> None:
    (directory / "in").mkdir(exist_ok=True)
    (directory / "in" / name).write_bytes(b"\n".join([",".join(COLUMNS).encode(), *rows]) + b"\n")


def run(spark: SparkSession, directory: Path) -> None:
    plan = load_plan(str(directory / "spec.yaml"))
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), lambda _: None).run(once=True)


@pytest.mark.parametrize("each", [20, pytest.param(4_550, marks=pytest.mark.slow)])
def test_every_malformed_row_is_counted_once_for_its_reason(
    spark: SparkSession, tmp_path: Path, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.substitute(directory=tmp_path))
    write(tmp_path, "1.csv", first_drop(each))
    whole = Sink.commit

    def killed(self: Sink, *given: object) -> None:
        whole(self, *given)  # type: ignore[arg-type]
        raise SkybandError("SKY-E900", "killed when it had written")

    with monkeypatch.context() as patched:
        patched.setattr(Sink, "commit", killed)
        with pytest.raises(SkybandError, match="killed when it had written"):
            run(spark, tmp_path)
    first = sorted(map(str, table(tmp_path, "rejected").to_pylist()))
    assert len(first) >= each * (len(KINDS) - 3)
    run(spark, tmp_path)  # the batch that was written is repeated
    again = [str(r) for r in table(tmp_path, "rejected").to_pylist() if r["batch_id"] == 0]
    assert sorted(again) == first
    write(tmp_path, "2.csv", second_drop(each))
    run(spark, tmp_path)
    rejected = table(tmp_path, "rejected").to_pylist()
    tags = [tuple(re.search("<([a-z_0-9]+)-([0-9]+)>", r["text"]).groups()) for r in rejected]  # type: ignore[union-attr]
    assert Counter((kind, r["reason"]) for (kind, _), r in zip(tags, rejected, strict=True)) == {
        (kind, reason): each for kind, (reason, _) in KINDS.items()
    }
    assert len(set(tags)) == len(tags) == each * len(KINDS)
    assert {(kind, r["origin"]) for (kind, _), r in zip(tags, rejected, strict=True)} == {
        (kind, "2.csv" if kind == "late" else "1.csv") for kind in KINDS
    }
    runs = sorted(table(tmp_path, "runs").to_pylist(), key=lambda r: r["batch_id"])
    read, left_out, lost, taken = (sum(r[n] for r in runs) for n in ("rows_in", "filtered", "rejected", "accepted"))
    assert read == each * (len(KINDS) + 3) + 1 == left_out + lost + taken + runs[-1]["pending"]
    assert (left_out, lost, taken, runs[-1]["pending"]) == (each, each * len(KINDS), 2 * each, 1)
    assert sum(int(re.sub(r"\D", "", r["warned"]) or 0) for r in runs) == each
