"""What a run does about a drop, with a JVM that only answers: what is read first, what cannot be read, and how a drop ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from skyband.framework.base.messages import GREATEST, NEWEST_OF, Tally
from skyband.framework.sources.watermark_caps import UNKNOWN, Span, UnreadFile, WatermarkCaps
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.run import spark_backlog
from skyband.framework.streaming.run.backlog import PartBacklog
from skyband.framework.streaming.run.spark_backlog import SparkBacklogCaps
from skyband.jobs.spec import load_plan
from tests.framework.rehearsal.test_several_sources import SPEC, plan_of
from tests.framework.streaming import checkpoints
from tests.spark.jobs import write_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE = 60_000_000
NO_SPARK = cast("SparkSession", None)


class Lying:
    """Pieces with spans; reading some of them fails with a text that names them, or does not."""

    def __init__(self, spans: dict[str, Span], footers: dict[str, Span], bad: dict[str, str]) -> None:
        self.spans, self.said, self.bad = spans, footers, bad
        self.read: list[list[str]] = []
        self.begun: list[str] = []

    def listed(self, spark: SparkSession) -> list[str]:
        return list(self.spans)

    def unread(self, listed: Callable[[], list[str]], files: int | None, size: int) -> tuple[list[str], list[UnreadFile]]:
        return self.begun, [UnreadFile(u, i, 10) for i, u in enumerate(self.spans) if u not in self.begun]

    def footers(self, column: str, urls: Sequence[str]) -> dict[str, Span]:
        return {u: s for u, s in self.said.items() if u in urls}

    def rows(self, spark: SparkSession, urls: Sequence[str]) -> DataFrame:
        self.read.append(sorted(urls))
        for u in urls:
            if u in self.bad:
                raise RuntimeError(self.bad[u])
        return cast("DataFrame", {u: self.spans[u] for u in urls})

    def too_large(self, urls: Sequence[str]) -> list[str]:
        return []

    def suspects(self, urls: Sequence[str]) -> list[str]:
        return [u for u in urls if u in self.bad]

    def named(self, said: str, urls: Sequence[str]) -> list[str]:
        return [u for u in urls if u in said.split()]


def drops(
    directory: Path, monkeypatch: pytest.MonkeyPatch, lying: Lying, reject: bool = False, rules: bool = True
) -> tuple[SparkBacklogCaps, list[str]]:
    told: list[str] = []
    spec = write_spec(directory, max_files=2, watermark="1 minute")
    text = spec.read_text().replace("format: csv", "format: csv\n  on_bad_file: " + ("reject" if reject else "stop"))
    spec.write_text(text if rules else text.replace(text[text.index("quality:") : text.index("window:")], ""))
    plan = load_plan(str(spec))
    layout = Layout(plan.sink)
    layout.home.mkdir(parents=True, exist_ok=True)
    made = SparkBacklogCaps(NO_SPARK, plan, layout, JobFile("small", "g", {}, 2, ["id"]), told.append, {})
    made.backlogs = [PartBacklog("", plan.source, lying)]
    monkeypatch.setattr(spark_backlog, "_spans", lambda frame, *_: frame)
    return made, told


OUT_OF_ORDER = {"a": (0, 9 * MINUTE), "b": (20 * MINUTE, 29 * MINUTE), "c": (10 * MINUTE, 19 * MINUTE)}


def test_what_waits_is_told_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lying = Lying(OUT_OF_ORDER, {}, {})
    mine, told = drops(tmp_path, monkeypatch, lying)
    assert mine.begin() and lying.read == [["a", "b", "c"]]
    assert WatermarkCaps.load(mine.layout.home).caps == {"a": None, "b": 11 * MINUTE, "c": None}
    assert "3 files are waiting" in told[0] and "rows of 1 of them (1970-01-01 00:20:00 to 1970-01-01 00:29:00) wait in state" in told[0]
    # The next run, with b in a batch that has begun: it is repeated as it was.
    lying.begun = ["b"]
    again, _ = drops(tmp_path, monkeypatch, lying)
    assert again.begin() and again.capped is not None and again.capped.caps == {"b": 11 * MINUTE}


def test_footers_are_enough_unless_rows_may_be_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rules, read in ((False, []), (True, [["a", "b", "c"]])):
        lying = Lying(OUT_OF_ORDER, OUT_OF_ORDER, {})
        mine, _ = drops(tmp_path, monkeypatch, lying, rules=rules)
        assert mine.begin() and lying.read == read
    in_order = {"a": (0, 5), "b": (5, 6), "c": (7, 8)}
    lying = Lying(in_order, in_order, {})
    mine, told = drops(tmp_path, monkeypatch, lying)
    assert not mine.begin() and lying.read == [] and told == []


@pytest.mark.parametrize(
    ("said", "reject", "cap"), [("in c there", True, None), ("in c there", False, MINUTE), ("out of memory", True, MINUTE)]
)
def test_what_cannot_be_read_has_no_rows_or_may_hold_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, reject: bool, cap: int | None
) -> None:
    lying = Lying({**OUT_OF_ORDER, "c": UNKNOWN}, {}, {"c": said})
    mine, _ = drops(tmp_path, monkeypatch, lying, reject=reject)
    assert mine.begin() is (cap is not None)
    assert mine.caps.cap("b") == cap
    assert lying.read[1:] == ([["a", "b"]] if "c" in said.split() else [])


def test_a_drop_ends_where_one_batch_would_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, _ = drops(tmp_path, monkeypatch, Lying(OUT_OF_ORDER, {}, {}))
    assert mine.begin()
    for greatest in (29 * MINUTE + 5, 19 * MINUTE):
        counts = Tally({GREATEST: greatest, "rows_in": 3})
        mine.read(counts)
        assert counts == {"rows_in": 3} and WatermarkCaps.load(mine.layout.home).greatest == 29 * MINUTE + 5
    checkpoints.make(mine.layout.home)
    assert mine.done()
    (row,) = mine.layout.control.glob("drop-*.json")
    assert json.loads(row.read_text()) == {"at": "1970-01-01T00:29:00.000+00:00"}
    assert WatermarkCaps.load(mine.layout.home) == WatermarkCaps(mine.caps.path, released=28 * MINUTE) and mine.capped is None
    # Nothing is ordered where the last batch has moved the watermark there, although it was planned before that.
    mine.read(Tally({GREATEST: 29 * MINUTE}))
    checkpoints.write(mine.layout.checkpoint / "commits" / "0", f'v1\n{{"nextBatchWatermarkMs":{28 * 60_000}}}')
    assert not mine.done() and len(list(mine.layout.control.glob("drop-*.json"))) == 1
    mine.backlogs = []
    assert not mine.begin()


def test_a_watermark_of_several_sources_is_moved_on_once_where_it_lags(tmp_path: Path) -> None:
    plan = plan_of(SPEC.replace("/nowhere", str(tmp_path)))
    for source in ("asks", "bids"):
        (tmp_path / source).mkdir()
    layout = Layout(plan.sink)
    layout.control.mkdir(parents=True)
    times = SourceTimes(plan.intake.sources, [])
    made = SparkBacklogCaps(NO_SPARK, plan, layout, JobFile("book", "g", {}, 2, None), lambda text: None, {}, times)
    assert made.begin()
    checkpoints.make(layout.home)
    delay = 5 * MINUTE

    def batch(number: int, asks: int, bids: int, reached: int) -> list[str]:
        times.add(number, Tally({f"{NEWEST_OF}asks": asks * MINUTE, f"{NEWEST_OF}bids": bids * MINUTE}))
        made.catch_up(reached * MINUTE + delay if reached else 0)
        return sorted(json.loads(p.read_text())["at"][11:16] for p in layout.control.glob("drop-*.json"))

    # While a backlog is read, `done` moves it on.
    assert batch(0, 40, 30, 0) == [] and made.done() and not made.capped
    (row,) = layout.control.glob("drop-*.json")
    row.unlink()
    # The batch with that row was planned at the watermark before it: asked again, `done` must not order the same row for ever.
    checkpoints.write(layout.checkpoint / "offsets" / "0", 'v1\n{"batchWatermarkMs":0}\n-\n-\n-')
    checkpoints.write(layout.checkpoint / "commits" / "0", f'v1\n{{"nextBatchWatermarkMs":{25 * 60_000}}}')
    assert not made.done() and not made.begin()
    checkpoints.write(layout.checkpoint / "offsets" / "1", f'v1\n{{"batchWatermarkMs":{25 * 60_000}}}\n-\n-\n-')
    # Asks wait 3 minutes, bids 5: the frontier is that of bids.
    assert batch(1, 60, 30, 0) == ["00:32"], "bids are idle if 30 minutes behind: 57 - 30 = 27, plus the delay"
    assert batch(2, 60, 40, 0) == ["00:32", "00:40"] and batch(3, 60, 40, 0) == ["00:32", "00:40"]
    assert batch(4, 60, 45, 40) == ["00:32", "00:40"], "its own rows have moved it there"
    assert batch(5, 60, 50, 40) == ["00:32", "00:40", "00:50"] and batch(6, 60, 55, 0) == ["00:40", "00:50", "00:55"]
