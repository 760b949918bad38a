"""What the edge filter refuses, and what it needs: damaged messages, states and rows; no library."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from skyband.edge import Border, EdgeError, EdgeFilter, Message, Query, parse_message, write_message
from skyband.edge.instants import instant_of, written_like
from skyband.edge.message import text_of
from tests.conftest import ROOT
from tests.edge.test_loyalty import filter_with, row

MESSAGE = Message("j", 7, "t", ("who",), "on", "held", (Query("q", 100, None, (Border(("a",), 5),)), Query("w", 9, 3)), ("id",), ("key",))


def test_an_edge_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, skyband.edge\n"
        "mine = {m.split('.')[1] for m in sys.modules if m.startswith('skyband.')}\n"
        "print(sorted(mine), sorted({'pyarrow', 'pyspark', 'numba', 'pandas', 'numpy', 'pydantic', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.strip(), done.returncode) == ("['edge'] []", 0), done.stderr


def test_a_message_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "edge.json"
    write_message(MESSAGE, file)
    assert parse_message(file.read_text(encoding="utf-8")) == MESSAGE
    assert parse_message(text_of(MESSAGE).replace('"as_of": 7', '"as_of": 3') + "\n" + text_of(MESSAGE)) == MESSAGE
    assert [p.name for p in tmp_path.iterdir()] == ["edge.json"]


def altered(**fields: Any) -> str:
    return json.dumps(json.loads(text_of(MESSAGE)) | fields)


def with_query(**fields: Any) -> str:
    return altered(queries=[{"name": "q", "window": 9, "at_least": None, "borders": []} | fields])


DAMAGED = [
    "", "[]", "{}", "null", text_of(MESSAGE)[:-2], "[" * 100_000, '{"skyband_edge": NaN}', altered(skyband_edge=2),
    altered(skyband_edge=True), altered(more=1), altered(job=""), altered(job=1), altered(as_of=1.5), altered(as_of=2**63),
    altered(as_of=True), altered(object=[]), altered(object="who"), altered(queries=[]), with_query(window=0), with_query(at_least=10),
    with_query(borders=[{"key": ["a"], "loyalty": 10}]), with_query(borders=[{"key": [], "loyalty": 1}]),
    with_query(borders=[{"key": [[]], "loyalty": 1}]), with_query(borders=[{"key": ["a"], "loyalty": -1}]),
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_message_is_refused_and_then_everything_is_sent(text: str) -> None:
    edge = filter_with(60)
    assert edge.offer(row(1, 1, 1)) == []
    with pytest.raises(EdgeError) as error:
        edge.receive(text)
    assert error.value.code == "SKY-E701"
    assert edge.offer(row(3, 2, 1)) == [{"t": 2, "id": 1, "who": 1, "on": 1, "held": "1"}, row(3, 2, 1) | {"held": None}]
    edge.receive(text_of(Message("j", 0, "t", ("who",), "on", "held", (Query("q", 100),), ("id",))))
    assert edge.offer(row(4, 3, 1)) == []


def test_a_message_of_another_job_is_refused() -> None:
    edge = filter_with(60)
    with pytest.raises(EdgeError, match="of job 'other'"):
        edge.receive(altered(job="other"))
    assert edge.offer(row(1, 1, 1)) != []


def test_queries_that_change_send_what_is_held_back() -> None:
    edge = filter_with(60)
    edge.offer(row(1, 1, 1))
    edge.offer(row(2, 2, 1))
    other = Message("j", 0, "t", ("who",), "on", "held", (Query("q", 200, None, (Border((), 60),)),), ("id",))
    assert [r["who"] for r in edge.receive(text_of(other))] == [1, 2]
    assert [edge.offer(row(t, 1, 0)) != [] for t in (3, 4)] == [True, True]  # it was perhaps on all the time before


def test_a_state_is_saved_and_loaded() -> None:
    edge = filter_with(60)
    late = datetime(2020, 1, 1, tzinfo=UTC)
    edge.offer({**row(1, 1, 1), "seen": late})
    other = EdgeFilter()
    other.load(edge.save())
    assert other.save() == edge.save()
    assert other.counters == edge.counters
    assert other.advance(40) == edge.advance(40) == [{"t": 30, "id": 1, "who": 1, "on": 1, "seen": late, "held": "1"}]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"skyband_edge_state": 1}', filter_with(60).save().replace('"heights"', '"height"'),
             filter_with(60).save().replace('"complete"', '"incomplete"')]
)  # fmt: skip
def test_a_damaged_state_is_refused(text: str) -> None:
    edge = filter_with(60)
    before = edge.save()
    with pytest.raises(EdgeError) as error:
        edge.load(text)
    assert (error.value.code, edge.save()) == ("SKY-E702", before)


def test_a_row_before_the_last_one_of_its_object_is_refused() -> None:
    edge = filter_with(60)
    edge.offer(row(5, 1, 1))
    for old in (row(4, 1, 0), {"t": "yesterday", "id": 1, "who": 1, "on": 1}):
        with pytest.raises(EdgeError) as error:
            edge.offer(old)
        assert error.value.code == "SKY-E703"
    assert edge.counters["offered"] == 1
    assert edge.offer(row(4, 2, 0)) == []  # of another object


@pytest.mark.parametrize(
    "value", [5, "1970-01-01T00:00:00.000005", "1970-01-01T00:00:00.000005Z", datetime(1970, 1, 1, microsecond=5),
              datetime(1970, 1, 1, 1, microsecond=5, tzinfo=timezone(timedelta(hours=1)))]
)  # fmt: skip
def test_instants_are_read_and_written_alike(value: Any) -> None:
    assert instant_of(value) == 5
    later = written_like(value, 6)
    assert (type(later), instant_of(later)) == (type(value), 6)
