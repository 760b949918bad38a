"""The server's side of the edge filter: its message, and whole jobs whose tables and proofs are those of the unfiltered stream."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.edge import Border, EdgeFilter, Message, Query, parse_message
from skyband.edge.message import text_of
from skyband.framework.base.errors import SkybandError
from skyband.framework.edges.message import message_of
from skyband.framework.plan.model import Plan
from skyband.framework.storage import delta_read
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.framework.verify import small
from tests.jobs.test_machines import known
from tests.oracles import loyalty as oracle

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
WINDOW = 3600 * SECOND
SPEC = """\
job: small
source:
  format: csv
  path: in
  schema: {id: bigint, ts: timestamp, grp: string, x: double, y: int, side: string, region: {type: string, from: Region}}
  id: [id]
  event_time: {column: ts, watermark: 10 minutes}
window: {time: 1 hour}
queries:
  loyal: {type: topk_loyalty, object: grp, updates: y, held: side, k: 2}
  steady: {type: threshold_loyalty, object: grp, updates: y, held: side, at_least: 30 minutes}
sink: {path: out}
"""


def written(directory: Path, old: str = "", new: str = "") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    text = SPEC.replace(", region: {type: string, from: Region}", "")
    assert old in text
    (directory / "spec.yaml").write_text(text.replace(old, new) if old else text, encoding="utf-8")
    return directory / "spec.yaml"


def micros(row: list[Any]) -> int:
    return (datetime.fromisoformat(row[1]) - BEGIN) // timedelta(microseconds=1) + int(BEGIN.timestamp()) * SECOND


def random_rows(seed: int, count: int) -> list[list[Any]]:
    """Reports [id, ts, grp, x, y, side] on eight objects, some seldom on."""
    rng = np.random.default_rng(seed)
    bias = np.linspace(0.05, 0.9, 8)
    found: list[list[Any]] = []
    seconds = 0
    for i in range(count):
        seconds += int(rng.choice([0, 5, 60, 200]))
        who = int(rng.integers(8))
        ts = (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        found.append([i, ts, f"o{who}", 1.0, int(rng.random() < bias[who]), ""])
    return found


def loyalties(rows: list[list[Any]], at: int) -> list[int]:
    """The loyalty of all objects at an instant, the largest first, by the definition."""
    reports = [oracle.Report(micros(r), r[2], r[4] == 1) for r in rows if micros(r) <= at]
    return sorted((oracle.loyalty(s, WINDOW, at) for s in oracle.spans(reports, None).values()), reverse=True)


def filtered(rows: list[list[Any]]) -> tuple[list[list[Any]], EdgeFilter]:
    """The rows by way of an edge that learns the border now and then, some time late."""
    edge, columns, sent = EdgeFilter(complete=True, margin=60 * SECOND), ("id", "ts", "grp", "x", "y", "side"), []

    def message(at: int | None) -> str:
        best = [] if at is None else loyalties(rows, at)
        borders = (Border((), best[1]),) if len(best) > 1 else ()
        queries = (Query("loyal", WINDOW, None, borders), Query("steady", WINDOW, WINDOW // 2))
        return text_of(Message("small", at or 0, "ts", ("grp",), "y", "side", queries, ("id",)))

    edge.receive(message(None))
    for i, row in enumerate(rows):
        sent += edge.offer(dict(zip(columns, row, strict=True)))
        if i % 10 == 9:
            sent += edge.receive(message(micros(rows[i - 5])))
    sent += edge.flush()
    return [["" if r[c] is None else r[c] for c in columns] for r in sent], edge


def tables(plan: Plan) -> dict[str, Any]:
    found = {}
    for query in ("loyal", "steady"):
        for name in (f"{query}_changes", f"{query}_trajectory"):
            table = delta_read.read(delta_read.open_table(plan.sink, name)).drop_columns(["batch_id"])
            found[name] = sorted(table.to_pylist(), key=repr)
    return found


def test_a_filtered_job_has_the_tables_of_the_unfiltered_one_and_is_proved(tmp_path: Path) -> None:
    rows = random_rows(1, 260)
    some, edge = filtered(rows)
    assert edge.counters["saved"] > 30 and any(r[5] and " " in r[5] for r in some)
    whole, part = small.make(written(tmp_path / "a"), rows), small.make(written(tmp_path / "b"), some)
    assert tables(part) == tables(whole)
    assert [d.text() for d in small.found(part, some)] == []
    at = micros(rows[-1])
    message = message_of(part)
    assert message == message_of(whole)
    assert (message.event_time, message.object, message.updates, message.held, message.order) == ("ts", ("grp",), "y", "side", ("id",))
    assert message.as_of == at
    assert message.queries == (Query("loyal", WINDOW, None, (Border((), loyalties(rows, at)[1]),)), Query("steady", WINDOW, WINDOW // 2))


def test_the_command_replaces_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, file = written(tmp_path), tmp_path / "edge.json"
    known(small.make(spec, random_rows(2, 60)))
    assert main(["edge", str(spec), "--out", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: 2 queries, 1 border\n"
    assert main(["edge", str(spec)]) == 0
    assert parse_message(capsys.readouterr().out) == parse_message(file.read_text(encoding="utf-8")) == message_of(load_plan(str(spec)))
    assert main(["edge", str(spec), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_text(encoding="utf-8"))
    assert main(["edge", str(spec), "--out", str(tmp_path / "none" / "edge.json")]) == 2
    assert "SKY-E203" in capsys.readouterr().err


def test_before_the_first_run_there_are_no_borders(tmp_path: Path) -> None:
    message = message_of(load_plan(str(written(tmp_path))))
    assert [q.borders for q in message.queries] == [(), ()]


def test_names_of_columns_are_those_of_the_source(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(SPEC.replace("object: grp", "object: [grp, region]"), encoding="utf-8")
    assert message_of(load_plan(str(path))).object == ("grp", "Region")


def test_a_job_that_changes_at_boundaries_only_is_refused_by_the_name_of_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("validate", "edge"):
        assert main([command, str(written(tmp_path, "held: side, k: 2", "held: side, k: 2, every: 1 minute"))]) != 0
        said = capsys.readouterr().err
        assert "SKY-E117" in said and "held switches cannot be used with every: an edge does not know them" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", held: side, k: 2", ", k: 2", "query loyal has no 'held' column"),
        ("object: grp, updates: y, held: side, k: 2", "object: [grp, y], updates: y, held: side, k: 2", "differ in 'object'"),
        ("updates: y, held: side, k: 2", "criteria: y = 1, held: side, k: 2", "must take its reports from 'updates'"),
        ("k: 2}", "k: 2, where: x > 0}", "without 'where'"),
        ("window: {", "transform: [{where: x > 0}]\nwindow: {", "it filters rows"),
        ("window: {", 'transform: [{derive: {g: "upper(grp)"}}]\nwindow: {', None),
        ("sink: {", 'quality: {rows: [{name: r, expect: "x > 0"}]}\nsink: {', "it rejects rows by rules"),
        ("queries:", "scoring: {s: {expression: x, direction: max}}\nqueries:\n  best: {type: topk, scoring: s, k: 1}", "needs every row"),
    ],
)
def test_a_job_that_edges_cannot_filter_for_is_refused(tmp_path: Path, old: str, new: str, said: str | None) -> None:
    plan = load_plan(str(written(tmp_path, old, new)))
    if said is None:
        assert message_of(plan).job == "small"
        return
    with pytest.raises(SkybandError) as error:
        message_of(plan)
    assert error.value.code == "SKY-E704" and said in str(error.value)
