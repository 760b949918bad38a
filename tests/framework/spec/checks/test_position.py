"""``id: position``: what does not go with it, what a plan makes of it, and the order of rows of one instant, by definition."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.load import validate_text
from skyband.framework.spec_tests.in_memory import tables_of
from skyband.framework.spec_tests.loading import load_tests
from skyband.framework.spec_tests.tables import compare_tables
from tests.specs import plan_of_text, spec_text

SCHEMA = "{ts: timestamp, x: double, f: string}"
QUERIES = {"best": "{type: topk, scoring: x, k: 2, carry: [f]}"}


def text(form: str = "csv", schema: str = SCHEMA, more: str = "", id_: str = "position", **sections: str) -> str:
    path, options = (None, "{servers: a:1, topic: t}") if form == "kafka" else (None, None) if form == "rate" else ("in", None)
    return spec_text(
        "trades", schema, format=form, path=path, options=options, id=id_, more=more, **sections, window="{count: 10}",
        scoring={"x": "{expression: x, direction: max}"}, queries=QUERIES,
    )  # fmt: skip


MISTAKES = [
    (text("delta"), "SKY-E117", "position", "parquet"),
    (text("rate", "{ts: {type: timestamp, from: $time}, x: double, f: string}"), "SKY-E117", "position", "csv"),
    (text(schema="{ts: timestamp, x: double, f: string, file: string}"), "SKY-E125", "file", "from: file"),
    (text(schema="{ts: timestamp, x: double, f: string, File_Row: int}"), "SKY-E125", "File_Row", "another name"),
    (text("kafka", "{ts: timestamp, x: double, f: string, topic_offset: bigint}"), "SKY-E125", "topic_offset", "another name"),
    (text(transform="[{derive: {file: x + 1}}]"), "SKY-E125", "file", None),
    (text(more="unique: checked"), "SKY-E117", "checked", "leave 'unique' out"),
    (text(deletes="x < 0"), "SKY-E117", "x < 0", "name the columns"),
    (text(id_="place"), "SKY-E112", "place", "position"),
    (text(id_="[position]"), "SKY-E120", "position", None),
    (text(tests='[{name: a, rows: [{file: a, x: 1}]}]'), "SKY-E120", "file", None),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "code", "marked", "hint"), MISTAKES)
def test_each_mistake_is_reported_at_its_place(spec: str, code: str, marked: str, hint: str | None) -> None:
    _, errors = validate_text(spec)
    (found,) = errors
    assert found.code == code and found.where is not None, found.render()
    assert found.where.text[found.where.col - 1 :].startswith(marked), found.render()
    assert hint is None or hint in (found.hint or ""), found.render()


def test_a_column_may_be_called_position() -> None:
    schema = "{ts: timestamp, x: double, f: string, position: bigint}"
    assert plan_of_text(text(schema=schema, id_="[position]")).intake.id == ("position",)
    assert plan_of_text(text(schema=schema)).intake.id == ("file", "file_row")


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc"])
def test_what_a_plan_makes_of_it(form: str) -> None:
    plan = plan_of_text(text(form, more="unique: assumed", transform='[{derive: {part: "file_row % 2"}}, {where: "file <> \'b\'"}]'))
    assert plan.intake.id == ("file", "file_row") and plan.intake.unique == "assumed"
    assert [f.name for f in plan.source.fields] == ["ts", "x", "f"] and [f.name for f in plan.source.position] == ["file", "file_row"]
    assert [f"{f.name} {f.type}" for f in plan.intake.fields[-3:]] == ["file string", "file_row bigint", "part bigint"]
    assert "id file, file_row (the position of a row)" in explain(plan)


def test_another_id_does_not_fit_the_state() -> None:
    before, now = (fingerprint(plan_of_text(text(id_=id_))) for id_ in ("[f]", "position"))
    assert compare(before, before) == [] and any("source.id" in d for d in compare(before, now))
    assert "position" not in str(before)


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_one_instant_are_in_the_order_of_their_position(seed: int) -> None:
    """Files arrive in any order; UTF-8 orders their names. Equal rows are different rows."""
    rng = random.Random(seed)
    rows = [
        {"ts": rng.randrange(3), "x": float(rng.randrange(2)), "f": "a", "file": name, "file_row": n + 1}
        for name in rng.sample(["a", "B", "é", "z/a", "z10", "z9"], 3)
        for n in range(rng.randrange(1, 12))
    ]
    rng.shuffle(rows)
    job = Rehearsal(plan_of_text(text(more="event_time: {column: ts, watermark: 1 day}").replace("  event_time: {column: ts}\n", "", 1)))
    cut = rng.randrange(len(rows) + 1)
    for part in (rows[:cut], rows[cut:]):
        job.drop(part)
    job.finish()
    ordered = sorted(rows, key=lambda r: (r["ts"], r["file"].encode(), r["file_row"]))[-10:]
    best = sorted(enumerate(ordered), key=lambda r: (-r[1]["x"], -r[0]))[:2]
    found = job.tables()
    assert [(r["file"], r["file_row"]) for r in found["best_now"].to_pylist()] == [(r["file"], r["file_row"]) for _, r in best]
    assert found["rejected"].num_rows == 0


TESTS = """\
tests:
  - name: positions are numbers in the test
    rows:
      - {ts: 2024-01-01 00:00:00, x: 1}
      - {ts: 2024-01-01 00:00:00, x: 1}
      - drop
      - {ts: 2024-01-01 00:00:01, x: 1}
      - {ts: 2023-01-01 00:00:01, x: 5}
      - {x: 5}
    expect:
      best_now: [{rank: 1, file: test, file_row: 3}, {rank: 2, file: test, file_row: 2}]
      rejected: [{reason: late, file_row: 4}, {reason: null_time, file_row: 5}]
"""


def test_rows_of_tests_are_numbered(tmp_path: Path) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_text(text() + TESTS)
    found, plan = load_tests(str(spec))
    assert found.job is not None
    (test,) = found.job.tests
    assert compare_tables(plan, test, tables_of(plan, test)) == []
