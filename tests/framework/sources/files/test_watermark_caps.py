"""How far each file of a drop may move the watermark: no row is late, whatever order and batches Spark makes of it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.backlog import FileBacklog
from skyband.framework.sources.logs import watermark
from skyband.framework.sources.watermark_caps import DROP, NEVER, NO_ROWS, UNKNOWN, Span, UnreadFile, WatermarkCaps, caps, fits, least
from tests.framework.streaming import checkpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_SPARK = cast("SparkSession", None)


def no_rows(spark: SparkSession, paths: object) -> DataFrame:
    raise AssertionError("nothing is to be read")


def pieces(*modified: int) -> list[UnreadFile]:
    return [UnreadFile(f"f{i}", ms, 10) for i, ms in enumerate(modified)]


def capped(modified: tuple[int, ...], spans: list[Span], delay: int = 0) -> list[int | None]:
    given_ = {f"f{i}": s for i, s in enumerate(spans)}
    found = caps(pieces(*modified), given_, delay)
    return [found[u] for u in given_]


def test_files_in_the_order_of_their_rows_have_no_cap() -> None:
    months = [(0, 10), (10, 19), (20, 30)]
    assert capped((1, 2, 3), months) == [None, None, None]
    assert capped((1, 2, 3), [(0, 15), (10, 24), (20, 30)], delay=5) == [None, None, None]


def test_what_comes_before_earlier_rows_is_capped_by_them_and_the_delay() -> None:
    months = [(0, 10), (11, 19), (20, 30)]
    assert capped((3, 2, 1), months) == [None, 0, 0]
    assert capped((3, 2, 1), months, delay=5) == [None, 5, 5]
    assert capped((2, 1, 3), [*months[:2], NO_ROWS]) == [None, 0, None]


def test_files_of_one_time_come_in_any_order() -> None:
    months = [(0, 10), (11, 19), (20, 30)]
    assert capped((1, 1, 1), months) == [None, 0, 0]
    assert capped((1, 1, 2), [(0, 10), (0, 9), (3, 4)]) == [0, 0, None]


def test_nothing_moves_before_a_file_that_may_hold_anything() -> None:
    assert capped((1, 2, 3), [(4, 5), UNKNOWN, (6, 7)], delay=1) == [1, 7, None]


@pytest.mark.parametrize(
    ("sizes", "files", "most", "one"),
    [([], None, 1, True), ([50], None, 1, True), ([5, 5], None, 10, True), ([5, 6], None, 10, False), ([5, None], None, 10, False),
     ([5, 6], 2, 1, True), ([1, 1, 1], 2, 100, False)],
)  # fmt: skip
def test_whether_one_batch_takes_all(sizes: list[int | None], files: int | None, most: int, one: bool) -> None:
    assert fits([UnreadFile(str(i), 0, s) for i, s in enumerate(sizes)], files, most) is one


class Engine:
    """Reads files in batches as Spark does, and counts rows that are late; times are in ms, so as to have no fractions."""

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.watermark = 0
        self.late: list[tuple[str, int]] = []

    def batch(self, files: dict[str, list[int]], drop: WatermarkCaps) -> None:
        seen = self.watermark
        for url, rows in files.items():
            cap = drop.cap(url)
            self.late += [(url, t) for t in rows if t < self.watermark]
            seen = max([seen, *((t if cap is None else min(t, cap)) - self.delay for t in rows)])
        self.watermark = seen


rows_of_files = st.lists(st.lists(st.integers(0, 40), max_size=4), min_size=2, max_size=8)


def spans_of(files: dict[str, list[int]]) -> dict[str, Span]:
    return {u: (min(r), max(r)) if r else NO_ROWS for u, r in files.items()}


def plan(drop: WatermarkCaps, begun: list[str], files: dict[str, list[int]], modified: dict[str, int], delay: int) -> None:
    """What a run does before its query starts."""
    spans = spans_of(files)
    found = caps([UnreadFile(u, modified[u], 1) for u in files], spans, delay)
    needed = any(c is not None for c in found.values())
    drop.plan(begun, found if needed else {}, least(spans, delay) if needed else None)


@given(st.data(), rows_of_files, st.integers(0, 9), st.integers(1, 3))
def test_no_order_and_no_bound_makes_rows_of_a_drop_late(data: st.DataObject, rows: list[list[int]], delay: int, most: int) -> None:
    """Cut short anywhere, with more files then: rows of the first drop are never late, those of later files only where F was already."""
    first = {f"a{i}": r for i, r in enumerate(rows)}
    times = st.integers(0, 3)
    modified = {u: data.draw(times) for u in first}
    chance = {u: data.draw(st.integers(0, 99)) for u in first}
    order = sorted(first, key=lambda u: (modified[u], chance[u]))
    batches = [order[i : i + most] for i in range(0, len(order), most)]
    engine, drop = Engine(delay), WatermarkCaps(Path("unused"))
    plan(drop, [], first, modified, delay)
    stop = data.draw(st.integers(0, len(batches) - 1))
    for some in batches[:stop]:
        engine.batch({u: first[u] for u in some}, drop)
    # Batch ``stop`` has begun and is repeated, maybe after more than one start; files that nobody planned for may be in it.
    begun = {u: first[u] for u in batches[stop]} | {"x": data.draw(st.lists(st.integers(0, 40), max_size=3))}
    before = {u: drop.cap(u) for u in begun}
    more = {f"b{i}": r for i, r in enumerate(data.draw(rows_of_files))}
    modified |= {u: data.draw(times) for u in more}
    left = {u: first[u] for some in batches[stop + 1 :] for u in some} | more
    for _ in range(data.draw(st.integers(1, 2))):
        plan(drop, list(begun), left, modified, delay)
        assert {u: drop.cap(u) for u in begun} == before
    engine.batch(begun, drop)
    assert [u for u, _ in engine.late if u != "x"] == []
    passed = engine.watermark
    for u in sorted(left, key=lambda u: modified[u]):
        engine.batch({u: left[u]}, drop)
    # A file that nobody planned for comes between those of a drop in order only if it is older than they are: it may go past them.
    reach = -1 if before["x"] is not None else max(begun["x"], default=0) - delay
    assert all(t < passed and (u not in first or t < reach) for u, t in engine.late if u != "x")
    everything = [t for r in (*first.values(), *more.values(), begun["x"]) for t in r]
    if not drop.capped and stop == 0 and not any(before.values()):
        # In order: nothing was held back.
        assert engine.watermark == max([0, *(t - delay for t in everything)])


def test_fifty_months_written_within_a_few_milliseconds() -> None:
    rng = random.Random(50)
    files = {f"{i:02}": [30 * i + rng.randrange(30) for _ in range(100)] for i in range(50)}
    modified = {u: rng.randrange(4) for u in files}
    order = sorted(files, key=lambda u: (modified[u], rng.random()))
    late = {}
    for name in ("capped", "as before"):
        engine, drop = Engine(delay=5), WatermarkCaps(Path("unused"))
        if name == "capped":
            plan(drop, [], files, modified, 5)
        for u in order:
            engine.batch({u: files[u]}, drop)
        late[name] = len(engine.late)
    assert late["capped"] == 0 and late["as before"] > 2_500


@given(rows_of_files)
def test_files_in_order_move_the_watermark_batch_by_batch(rows: list[list[int]]) -> None:
    in_order = sorted(t for r in rows for t in r)
    files, at = {}, 0
    for i, r in enumerate(rows):
        files[f"a{i}"], at = in_order[at : at + len(r)], at + len(r)
    drop = WatermarkCaps(Path("unused"))
    plan(drop, [], files, {u: i for i, u in enumerate(files)}, 0)
    assert not drop.capped and drop.caps == {}


def test_it_is_kept(tmp_path: Path) -> None:
    assert not WatermarkCaps.load(tmp_path).capped
    drop = WatermarkCaps(tmp_path / DROP)
    assert drop.plan([], {"a": 5, "b": None}, 5) and drop.capped
    assert not drop.plan([], {"a": 5, "b": None}, 5)
    drop.greatest = 70
    drop.save()
    assert WatermarkCaps.load(tmp_path) == drop
    assert [drop.cap(u) for u in ("a", "b", "new")] == [5, None, 5]
    (tmp_path / DROP).write_text('{"caps": 3}')
    with pytest.raises(SkybandError, match=r"drop\.json cannot be read") as e:
        WatermarkCaps.load(tmp_path)
    assert e.value.code == "SKY-E303"


def parquet(path: Path, times: list[int | None], kind: pa.DataType | None = None, **how: object) -> str:
    column = pa.array(times, pa.int64()).cast(kind or pa.timestamp("us", "UTC"))
    pyarrow.parquet.write_table(pa.table({"id": pa.array(range(len(times))), "ts": column}), path, **how)
    return path.as_uri()


def lying(directory: Path, kind: str = "parquet") -> FileBacklog:
    source = SourceNode(kind, str(directory), (), ())
    listed = sorted(p.as_uri() for p in directory.glob("*.*"))
    return FileBacklog(source, None, directory.parent / "out" / "_skyband", lambda spark: listed, no_rows)


def test_footers_of_parquet_files_say_their_span(tmp_path: Path) -> None:
    fine = parquet(tmp_path / "fine.parquet", [5_000, None, 3_000, 9_000], row_group_size=1)
    ms = parquet(tmp_path / "ms.parquet", [5, 7], pa.timestamp("ms"))
    none = parquet(tmp_path / "none.parquet", [None, None])
    unsaid = [
        parquet(tmp_path / "ns.parquet", [5], pa.timestamp("ns", "UTC"), use_deprecated_int96_timestamps=True),
        parquet(tmp_path / "bare.parquet", [5], write_statistics=False),
        parquet(tmp_path / "number.parquet", [5], pa.int64()),
        parquet(tmp_path / "early.parquet", [-5, 5]),
    ]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no more")
    urls = [fine, ms, none, *unsaid, (tmp_path / "bad.parquet").as_uri(), "s3://elsewhere/a.parquet"]
    assert lying(tmp_path).footers("ts", urls) == {fine: (3_000, 9_000), ms: (5_000, 7_000), none: NO_ROWS}
    assert lying(tmp_path).footers("other", urls) == {}
    assert lying(tmp_path, "csv").footers("ts", urls) == {}
    assert NO_ROWS[0] == NEVER


def test_what_lies_unread_is_what_the_engines_log_does_not_name(tmp_path: Path) -> None:
    directory, home = tmp_path / "in", tmp_path / "out" / "_skyband"
    directory.mkdir()
    for i in range(5):
        (directory / f"{i}.csv").write_text("id\n1\n")
    (directory / "new.csv").write_text("id\n")
    # Batch 0 is done, 1 and 2 are planned... 2 only found: its files come with the next batch, whatever that takes besides.
    checkpoints.make(home, batches=1, planned=3)
    (home / "checkpoint" / "offsets" / "2").unlink()
    begun, unread = lying(directory, "csv").unread(lambda: sorted(p.as_uri() for p in directory.iterdir()), 3, 0)
    assert begun == [(directory / "1.csv").as_uri()]
    assert [(p.url.rsplit("/", 1)[-1], p.modified_ms == -1, p.size) for p in unread] == [
        ("2.csv", True, 5), ("3.csv", False, 5), ("4.csv", False, 5), ("new.csv", False, 3),
    ]  # fmt: skip

    # Where one batch takes all there is, Spark is not asked which files are the source's.
    def asked() -> list[str]:
        pytest.fail("it was asked")

    few = lying(directory, "csv")
    assert few.unread(asked, 4, 0) == few.unread(asked, None, 18) == (begun, [])
    assert unread[1].modified_ms == (directory / "3.csv").stat().st_mtime_ns // 1_000_000


def test_the_engines_watermark_is_read_from_its_log(tmp_path: Path) -> None:
    home = tmp_path / "out" / "_skyband"
    assert watermark(home / "checkpoint") == 0
    checkpoints.make(home, batches=2)
    checkpoints.write(home / "checkpoint" / "offsets" / "2", 'v1\n{"batchWatermarkMs":77}\n-\n-')
    assert watermark(home / "checkpoint") == 77
    checkpoints.write(home / "checkpoint" / "offsets" / "2", "v1\n" + json.dumps([])[:1])
    with pytest.raises(SkybandError, match="offsets/2 cannot be read"):
        watermark(home / "checkpoint")
