"""``skyband why`` against the definition: stays, ranks and verdicts of every item of tiny random streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.verify.budget import Done
from skyband.framework.verify.replay.replay import Stream, stream_of
from skyband.framework.verify.stored import Stored
from skyband.framework.why.history import Answers, Moment, definition, in_order, of_rejected, of_stay, stays
from skyband.framework.why.item import Item, item_of
from tests.framework.verify import small
from tests.seeds import seeds
from tests.spark.jobs import START, stamp, write_spec

MINUTE = 60_000_000
BEGIN = int(START.timestamp()) * 1_000_000
QUERIES = """\
  best: {type: topk, scoring: s, k: 2, min_score: 1}
  high: {type: threshold, scoring: s, at_least: 3, window: {count: 4}}
  front: {type: skyline, dimensions: {x: max, y: min}}
  crest: {type: skyline, dimensions: {x: max, y: min}, top: 1, by: least}
  pairs: {type: topk_pairs, scoring: near, k: 2, where: "a.side <> b.side", max_score: 3}
"""
SCORING = "  s: {expression: x, direction: max}\n  least: {expression: x, direction: min}\n"
Row = list[Any]


def random_rows(seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    minutes = np.sort(rng.integers(0, 60, 24)).tolist()
    return [
        [i, stamp(m), str(rng.choice(["p", "q"])), "" if rng.random() < 0.1 else int(rng.integers(0, 6)), int(rng.integers(0, 4)),
         str(rng.choice(["a", "b"]))]
        for i, m in enumerate(minutes)
    ]  # fmt: skip


class Job:
    """A job that has run over ``rows``, and what the definition says of them."""

    def __init__(self, directory: Path, rows: list[Row], partition: bool = True) -> None:
        directory.mkdir(exist_ok=True)
        spec = write_spec(directory, "{count: 6, time: 15 minutes}", QUERIES, "0 minutes", partition, scoring=SCORING)
        self.plan: Plan = small.make(spec, rows)
        self.stored = Stored(self.plan)
        self.source = small._rows(self.plan, rows).select([f.name for f in self.plan.intake.fields])

    def answers(self, name: str) -> Answers:
        return Answers(self.plan, self.query(name), self.source, self.stored.table("rejected"), self.stored.until)

    def query(self, name: str) -> Any:
        return next(q for q in self.plan.queries if q.name == name)

    def item(self, query: str, *ids: int) -> Item:
        return item_of(self.plan, self.query(query), [str(i) for i in ids])


@pytest.fixture(scope="module", params=seeds(0, 1))
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, list[Row]]:
    rows = random_rows(request.param)
    return Job(tmp_path_factory.mktemp("why"), rows), rows


def minutes_of(row: Row) -> int:
    return round((small.datetime.fromisoformat(row[1]).timestamp() - START.timestamp()) / 60)


def alive(rows: list[Row], at: int, count: int) -> list[tuple[int, Row]]:
    """(seq, row) of a key's rows in the window of ``count`` rows and 15 minutes at minute ``at``."""
    come = [(s, r) for s, r in enumerate(rows) if minutes_of(r) <= at]
    return [(s, r) for s, r in come[-count:] if minutes_of(r) > at - 15]


def best(rows: list[Row], at: int) -> list[int]:
    found = sorted((-r[3], -s, r[0]) for s, r in alive(rows, at, 6) if r[3] != "" and r[3] >= 1)
    return [i for *_, i in found[:2]]


def high(rows: list[Row], at: int) -> list[int]:
    return [i for *_, i in sorted((-r[3], -s, r[0]) for s, r in alive(rows, at, 4) if r[3] != "" and r[3] >= 3)]


def beats(a: Row, b: Row) -> bool:
    return a[3] != "" and b[3] != "" and a[3] >= b[3] and a[4] <= b[4] and (a[3], a[4]) != (b[3], b[4])


def front(rows: list[Row], at: int) -> list[int]:
    here = alive(rows, at, 6)
    return [r[0] for s, r in reversed(here) if r[3] != "" and not any(beats(o, r) for _, o in here)]


def crest(rows: list[Row], at: int) -> list[int]:
    member = {i: n for n, i in enumerate(front(rows, at))}  # the newest first
    return sorted(member, key=lambda i: (next(r[3] for r in rows if r[0] == i), member[i]))[:1]


DEFINITIONS: dict[str, Callable[[list[Row], int], list[int]]] = {"best": best, "high": high, "front": front, "crest": crest}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_verdict_on_every_row_at_every_minute_is_that_of_the_definition(job: tuple[Job, list[Row]], name: str) -> None:
    made, rows = job
    answers = made.answers(name)
    (asked,) = made.query(name).asked or (None,)
    count = 4 if name == "high" else 6
    seen = set()
    for grp in "pq":
        mine = [r for r in rows if r[2] == grp]
        until = (answers.until[(grp,)] - BEGIN) // MINUTE
        for seq, row in enumerate(mine):
            for at in range(until + 1):
                verdict = answers.verdict((grp,), [seq], BEGIN + at * MINUTE, asked)
                result = DEFINITIONS[name](mine, at)
                assert verdict.inside == (row[0] in result)
                here = dict(alive(mine, at, count))
                if minutes_of(row) > at:
                    said = "had not arrived yet"
                elif seq not in here:
                    said = "expired at"
                elif row[0] in result:
                    said = f"at rank {result.index(row[0]) + 1} of {len(result)}"
                elif row[3] == "":
                    said = "not ranked"
                elif name == "front" or (name == "crest" and row[0] not in front(mine, at)):
                    better = [o[0] for o in reversed(here.values()) if beats(o, row)]
                    said = f"{len(better)} alive in the window {'beats' if len(better) == 1 else 'beat'} it"
                    assert [b.named["id"] for b in verdict.beside] == better[:5]
                elif name == "high" or (name == "best" and row[3] < 1):
                    said = f"out of bounds: the query takes at least {3 if name == 'high' else 1}; score {row[3]}"
                else:
                    said = f"all {len(result)} of the result rank before it; score {row[3]}"
                    assert [(b.rank, b.named["id"]) for b in verdict.beside] == list(enumerate(result, 1))
                assert said in verdict.said, (verdict, row, at)
                seen.add(said.split(" ")[0])
    assert len(seen) >= 4


def test_expiry_is_told_with_its_instant(job: tuple[Job, list[Row]]) -> None:
    made, rows = job
    answers = made.answers("best")
    mine = [r for r in rows if r[2] == "p"]
    for seq, row in enumerate(mine):
        after = [minutes_of(r) for r in mine[seq + 6 : seq + 7]]
        ends = min([minutes_of(row) + 15, *after])
        if BEGIN + ends * MINUTE <= answers.until[("p",)]:
            said = answers.verdict(("p",), [seq], answers.until[("p",)], made.query("best").asked[0]).said
            assert f"expired at 2020-01-01 00:{ends:02}:00 UTC" in said


@pytest.mark.parametrize("name", ["best", "high", "front", "crest", "pairs"])
def test_stays_and_ranks_are_those_of_the_changes_one_by_one(job: tuple[Job, list[Row]], name: str) -> None:
    made, rows = job
    query = made.query(name)
    stream = stream_of(made.stored, query)
    columns = ["older_id", "newer_id"] if name == "pairs" else ["id"]
    named = list(zip(*(stream.rows[c].to_pylist() for c in columns), strict=True))
    for row in rows:
        found = stays(made.plan, stream, made.item(name, row[0]))
        mine = [i for i in range(stream.rows.num_rows) if row[0] in named[i]]
        assert [s.enters for s in found] == sorted(
            (i for i in mine if stream.change[i] == "+"), key=lambda i: (stream.at[i], stream.step[i], i)
        )
        assert {s.leaves for s in found} - {None} == {i for i in mine if stream.change[i] == "-"}
        for stay in found:
            ranks, last = [], stream.step[stay.leaves] if stay.leaves is not None else max(stream.step) + 1
            for step in range(stream.step[stay.enters], last):
                inside = {i for i in range(stream.rows.num_rows) if stream.keys[i] == stay.stream and stream.step[i] <= step}
                left = {(named[i], stream.items[i]) for i in inside if stream.change[i] == "-"}
                now = sorted(
                    (stream.ranks[i], stream.items[i]) for i in inside
                    if stream.change[i] == "+" and not any(
                        stream.change[j] == "-" and stream.items[j] == stream.items[i] and stream.step[j] > stream.step[i] for j in inside
                    )
                )  # fmt: skip
                assert left or now
                ranks.append([item for _, item in now].index(stream.items[stay.enters]) + 1)
            assert (stay.first, stay.best, stay.last) == (ranks[0], min(ranks), ranks[-1])


@pytest.mark.parametrize("name", ["best", "front"])
def test_changes_that_do_not_replay_end_with_a_coded_error(job: tuple[Job, list[Row]], name: str) -> None:
    made, rows = job
    stream = stream_of(made.stored, made.query(name))
    left = {(stream.keys[i], stream.items[i]) for i, change in enumerate(stream.change) if change == "-"}
    first = next(i for i, change in enumerate(stream.change) if change == "+" and (stream.keys[i], stream.items[i]) in left)
    rest = [i for i in range(stream.rows.num_rows) if i != first]
    damaged = Stream(stream.stored, stream.query, stream.rows.take(rest))
    with pytest.raises(SkybandError, match="SKY-E900 the changes do not replay"):
        for row in rows:
            stays(made.plan, damaged, made.item(name, row[0]))


def test_a_pair_is_the_same_whichever_is_named_first(job: tuple[Job, list[Row]]) -> None:
    made, _ = job
    stream = stream_of(made.stored, made.query("pairs"))
    assert stream.rows.num_rows
    a, b = (stream.rows[c][0].as_py() for c in ("older_id", "newer_id"))
    assert [s.enters for s in stays(made.plan, stream, made.item("pairs", a, b))] == [
        s.enters for s in stays(made.plan, stream, made.item("pairs", b, a))
    ] != []  # fmt: skip


def test_verdicts_on_pairs(job: tuple[Job, list[Row]]) -> None:
    made, rows = job
    answers, query = made.answers("pairs"), made.query("pairs")
    for grp in "pq":
        mine = [r for r in rows if r[2] == grp]
        for at in range(0, 60, 4):
            if BEGIN + at * MINUTE > answers.until[(grp,)]:
                continue
            here = alive(mine, at, 6)
            pairs = sorted(
                (abs(a[3] - b[3]), -s, -t, (s, t)) for s, a in here for t, b in here if s < t and "" not in (a[3], b[3]) and a[5] != b[5]
            )
            within = [p for *_, p in (x for x in pairs if x[0] <= 3)][: query.k]
            for distance, *_, (s, t) in pairs:
                verdict = answers.verdict((grp,), [s, t], BEGIN + at * MINUTE, None)
                assert verdict.inside == ((s, t) in within)
                if not verdict.inside:
                    said = "out of bounds: the query takes at most 3" if distance > 3 else f"all {len(within)} of the result rank before it"
                    assert f"{said}; score {distance:g}" in verdict.said
            for s, a in here:
                for t, b in here:
                    if s < t and a[5] == b[5]:
                        assert "not ranked" in answers.verdict((grp,), [s, t], BEGIN + at * MINUTE, None).said


def test_a_story_is_told_in_the_order_of_time(tmp_path: Path) -> None:
    rows = [[1, stamp(0), "p", 2, 0, "a"], [2, stamp(1), "p", 5, 0, "b"], [3, stamp(2), "p", 3, 0, "a"], [1, stamp(3), "p", 9, 0, "a"],
            [4, stamp(4), "p", 1, 0, "a"]]  # fmt: skip
    job = Job(tmp_path / "job", rows, partition=False)
    stream, item = stream_of(job.stored, job.query("best")), job.item("best", 1)
    moments = [m for s in stays(job.plan, stream, item) for m in of_stay(stream, s)]
    moments += of_rejected(job.plan, job.stored.table("rejected"), item)
    moments += definition(job.answers("best"), item, None, None)
    lines = list(in_order(moments))
    said = [line.partition("UTC  ")[2] or line for line in lines if not line.startswith("    ")]
    assert [s.split(" ")[0:2] for s in said] == [["entered", "at"], ["in", "the"], ["left", "(displaced)"], ["a", "row"], ["all", "2"]]
    assert [line[:19] for line in lines if line[:4] == "2020"] == sorted(line[:19] for line in lines if line[:4] == "2020")


def test_how_much_is_computed_is_reported(tmp_path: Path) -> None:
    rows = [[1, stamp(0), "p", 2, 0, "a"], [2, stamp(1), "p", 5, 0, "b"], [3, stamp(2), "p", 3, 0, "a"]]
    job = Job(tmp_path / "job", rows, partition=False)
    begun: list[tuple[str, Done]] = []

    def doing(text: str, done: Done | None) -> None:
        assert done is not None
        begun.append((text, done))

    shares = [begun[0][1]() for _ in definition(job.answers("best"), job.item("best", 1), None, None, doing)]
    ((text, done),) = begun
    assert text == "computing results by their definition"
    every = len(shares)
    assert every > 1 and shares == [(i, every) for i in range(every)] and done() == (every, every)


def test_what_is_about_no_instant_comes_first_and_equal_instants_keep_their_order() -> None:
    moments = [Moment(5, ("b", "  c")), Moment(-1, ("a",)), Moment(5, ("d",)), Moment(None, ("first",))]
    assert list(in_order(moments)) == ["first", "a", "b", "  c", "d"]


def test_rows_that_were_rejected_say_why(tmp_path: Path) -> None:
    rows = [[1, stamp(0), "p", 2, 0, "a"], [2, stamp(30), "p", 2, 0, "a"], [3, stamp(31), "p", 5, 0, "a"], [4, stamp(32), "p", 5, 0, "a"],
            [5, stamp(40), "p", 5, 0, "a"], [6, stamp(5), "p", 5, 0, "a"], [5, stamp(41), "p", 5, 0, "a"]]  # fmt: skip
    job = Job(tmp_path / "job", rows, partition=False)
    told = {i: list(in_order(of_rejected(job.plan, job.stored.table("rejected"), job.item("best", i)))) for i in range(1, 8)}
    assert {i for i, lines in told.items() if lines} == {5, 6}
    assert "of 2020-01-01 00:05 was rejected, reason late" in told[6][0] and "reason duplicate_id" in told[5][0]
    lines = list(in_order(definition(job.answers("best"), job.item("best", 7), None, None)))
    assert lines == ["no row of this name has been accepted: it never arrived, or `transform` drops it"]
    lines = list(in_order(definition(job.answers("best"), job.item("best", 3), BEGIN + 31 * MINUTE, None)))
    assert lines == ["2020-01-01 00:31:00 UTC  in the result, at rank 1 of 2; score 5"]
    lines = list(in_order(definition(job.answers("best"), job.item("best", 3), BEGIN + 600 * MINUTE, None)))
    assert lines == ["results are complete up to 2020-01-01 00:41:00 UTC only"]


@pytest.mark.parametrize("text", ["", "x", "1,2", "idd=1", "id=one"])
def test_what_names_no_row_is_refused(job: tuple[Job, list[Row]], text: str) -> None:
    made, _ = job
    with pytest.raises(SkybandError) as e:
        item_of(made.plan, made.query("best"), [text])
    assert e.value.code == "SKY-E201"
    with pytest.raises(SkybandError, match="by one text, not 2"):
        item_of(made.plan, made.query("best"), ["1", "2"])
    assert item_of(made.plan, made.query("best"), ["id=5"]) == item_of(made.plan, made.query("best"), ["5"])
