"""Entries of skylines with a score and with priorities: checks, states, explain, and the tables they answer from."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.queries.registry import query_type
from skyband.framework.queries.skyline.query_type import MOST
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.results.reader import Reader
from skyband.jobs import cli
from skyband.operators.base import Window
from skyband.operators.skyline.chosen_configuration import MAX_DIMENSIONS
from tests.framework.plan.test_compile_rows import with_queries
from tests.framework.spec.examples import other
from tests.framework.verify import small
from tests.spark.cuts import stream
from tests.spark.jobs import table, write_spec
from tests.spark.ranked import SCORING

BASE = "type: skyline, dimensions: {price: min, volume: max, sector: equal}"


@pytest.mark.parametrize(
    ("fields", "code", "marked", "said"),
    [
        ("top: 3", "SKY-E111", "top", "needs the field 'by'"),
        ("by: heat", "SKY-E111", "by", "needs the field 'top'"),
        ("top: 0, by: heat", "SKY-E114", "0", ""),
        ("top: 3, by: heet", "SKY-E121", "heet", "unknown scoring function 'heet'"),
        ("top: 3, by: value", "SKY-E130", "", ""),
        ("prefer: price", "SKY-E112", "price", ""),
        ("prefer: [prise]", "SKY-E120", "prise", "is no dimension of the skyline"),
        ("prefer: [[volume, prise]]", "SKY-E120", "prise", "is no dimension of the skyline"),
        ("prefer: [rain]", "SKY-E120", "rain", "is no dimension of the skyline"),
        ("prefer: [sector]", "SKY-E117", "sector", "direction equal"),
        ("prefer: [price, [volume, price]]", "SKY-E125", "price", "listed twice in prefer"),
        ("prefer: [[]]", "SKY-E114", "[]", ""),
    ],
)
def test_a_mistake_is_reported_at_its_place(fields: str, code: str, marked: str, said: str) -> None:
    text = other("skyline").replace(BASE, f"{BASE}, {fields}")
    assert fields in text
    job, errors = validate_text(text, {})
    assert job is None and {e.code for e in errors} == {code}, [e.render() for e in errors]
    error = errors[0]
    assert error.where is not None and said in error.message
    line = text.splitlines()[error.where.line - 1]
    found = line[error.where.col - 1 :][: error.where.length]
    assert found == marked or code == "SKY-E130"


TWO = "type: skyline, dimensions: {price: min, volume: max}"
EVEN = "weights: {price: 1, volume: 1}"


@pytest.mark.parametrize(
    ("fields", "code", "marked", "said"),
    [
        ("size: 3", "SKY-E111", "size", "needs the field 'weights'"),
        (EVEN, "SKY-E111", "weights", "needs the field 'size'"),
        (f"size: 0, {EVEN}", "SKY-E114", "0", ""),
        ("size: 3, weights: {price: -1, volume: 1}", "SKY-E114", "-1", ""),
        ("size: 3, weights: {price: a, volume: 1}", "SKY-E112", "a", ""),
        ("size: 3, weights: {}", "SKY-E114", "{}", ""),
        ("size: 3, weights: {price: 1}", "SKY-E111", "weights", "lacks the dimension 'volume'"),
        ("size: 3, weights: {price: 0, volume: 0}", "SKY-E117", "{", "all weights are 0"),
        ("size: 3, weights: {price: 1, volume: 1, prise: 1}", "SKY-E120", "prise", "is no dimension of the skyline"),
        (f"size: 3, {EVEN}, top: 3, by: heat", "SKY-E117", "top", "do not go together"),
        (f"size: 3, {EVEN}, prefer: [price]", "SKY-E117", "prefer", "do not go together"),
    ],
)
def test_a_mistake_in_a_size_is_reported_at_its_place(fields: str, code: str, marked: str, said: str) -> None:
    text = other("skyline").replace(BASE, f"{TWO}, {fields}")
    assert fields in text
    job, errors = validate_text(text, {})
    assert job is None and [e.code for e in errors] == [code], [e.render() for e in errors]
    error = errors[0]
    assert error.where is not None and said in error.message
    line = text.splitlines()[error.where.line - 1]
    assert line[error.where.col - 1 :].startswith(marked)


def test_a_size_takes_few_dimensions_with_an_order() -> None:
    text = other("skyline").replace(BASE, f"{BASE}, size: 3, {EVEN}")
    _, errors = validate_text(text, {})
    assert [e.code for e in errors] == ["SKY-E117"] and "direction equal" in errors[0].message
    names = "abcdefg"
    columns = "".join(f"\n    {c}: double" for c in names)
    many = f"type: skyline, dimensions: {{{', '.join(f'{c}: min' for c in names)}}}"
    weights = f"size: 3, weights: {{{', '.join(f'{c}: 1' for c in names)}}}"
    text = other("skyline").replace("sector: string", f"sector: string{columns}", 1).replace(BASE, f"{many}, {weights}")
    _, errors = validate_text(text, {})
    assert [e.code for e in errors] == ["SKY-E117"] and "at most 6 dimensions, not 7" in errors[0].message
    assert MOST == MAX_DIMENSIONS


def test_sizes_share_a_state_if_their_weights_are_in_proportion() -> None:
    plan = with_queries(
        "skyline",
        f"a: {{{TWO}}}",
        f"b: {{{TWO}, size: 3, {EVEN}}}",
        f"c: {{{TWO}, size: 5, weights: {{volume: 0.5, price: 0.5}}, window: {{time: 1 hour}}}}",
        f"d: {{{TWO}, size: 5, weights: {{price: 1, volume: 3}}}}",
    )
    assert [(o.queries, o.skyband, type(o.operator).__name__) for o in plan.operators] == [
        (("a",), True, "Skyline"),
        (("b", "c"), False, "SizedSkyline"),
        (("d",), False, "SizedSkyline"),
    ]
    assert [(q.k, q.item.scored) for q in plan.queries] == [(None, False)] * 4
    assert [query_type("skyline").limits(plan, q, None).most for q in plan.queries] == [None, 3, 5, 5]
    text = explain(plan)
    rule = "those that stay among the best for weights closest to"
    assert f"sizes     b: at most 3 rows; c: at most 5 rows; {rule} price 0.5, volume 0.5" in text
    assert f"sizes     d: at most 5 rows; {rule} price 0.25, volume 0.75" in text
    first, more, other_weights = (
        fingerprint(with_queries("skyline", f"a: {{{TWO}, {fields}}}"))
        for fields in (f"size: 3, {EVEN}", f"size: 4, {EVEN}", "size: 3, weights: {price: 1, volume: 3}")
    )
    assert compare(first, more) == ["queries.a.size was 3, now 4"]
    assert any("weights" in line for line in compare(first, other_weights))
    assert not {"size", "weights"} & set(fingerprint(with_queries("skyline", f"a: {{{TWO}}}"))["queries"]["a"])


def test_states_are_shared_by_levels_and_score() -> None:
    plan = with_queries(
        "skyline",
        f"a: {{{BASE}}}",
        f"b: {{{BASE}, top: 3, by: heat}}",
        f"c: {{{BASE}, top: 5, by: heat, window: {{time: 1 hour}}}}",
        f"d: {{{BASE}, top: 5, by: steady}}",
        f"e: {{{BASE}, prefer: [volume]}}",
        f"f: {{{BASE}, prefer: [volume, price], window: {{time: 1 hour}}}}",
        f"g: {{{BASE}, prefer: [[volume, price]]}}",
    )
    assert [(o.queries, o.k, type(o.operator).__name__) for o in plan.operators] == [
        (("a",), 1, "Skyline"),
        (("b", "c"), 1, "RankedSkyline"),
        (("d",), 1, "RankedSkyline"),
        (("e", "f"), 1, "Skyline"),
        (("g",), 1, "Skyline"),
    ]
    assert [(q.k, q.item.scored) for q in plan.queries][:3] == [(None, False), (3, True), (5, True)]
    text = explain(plan)
    assert "prefers   volume; then price: the first of these in which two rows differ decides" in text
    assert "ranks     the rows of the result by" in text and "answers   b: k = 3, window" in text


def test_a_level_of_all_dimensions_is_the_plain_skyline() -> None:
    plain, level = (with_queries("skyline", f"a: {{{BASE}{more}}}") for more in ("", ", prefer: [[price, volume]]"))
    assert plain.operators[0].operator == level.operators[0].operator


def test_fingerprints_name_what_has_changed_and_those_of_plain_skylines_stay() -> None:
    plain, first, more, prior = (
        fingerprint(with_queries("skyline", f"a: {{{BASE}{fields}}}"))
        for fields in ("", ", top: 3, by: heat", ", top: 4, by: heat", ", prefer: [volume]")
    )
    assert "levels" not in plain["queries"]["a"] and "scoring" not in plain["queries"]["a"]
    assert compare(first, more) == ["queries.a.k was 3, now 4"]
    assert any("levels" in line for line in compare(plain, prior))
    assert compare(plain, first) != []


def test_the_tables_of_a_ranked_skyline_answer_any_k_and_smaller_windows(tmp_path: Path) -> None:
    queries = "  first: {type: skyline, dimensions: {x: min, y: max}, band: 4, top: 2, by: plain, carry: [x, y]}\n"
    spec = write_spec(tmp_path, "{count: 40, time: 3 hours}", queries, "10 minutes", False, scoring=SCORING)
    plan = small.make(spec, stream(5, n=200))
    reader = Reader(plan)
    own = reader.as_of("first").rows
    assert own.num_rows == 2 and own["rank"].to_pylist() == [1, 2]
    assert reader.snapshot("first").rows.to_pylist() == own.to_pylist()
    sql = duckdb.connect()
    sql.execute("set timezone = 'UTC'")
    for name in ("heads", "first_skyband"):
        sql.register(name, table(tmp_path, name))
    sizes = set()
    for k, window in ((1, None), (7, None), (3, Window(9, None)), (50, Window(None, 3_600_000_000))):
        answer = reader.snapshot("first", k, window)
        scores = answer.rows["score"].to_pylist()
        assert answer.rows.num_rows <= k and scores == sorted(scores)
        assert all(r["score"] == r["x"] - 2 * r["y"] for r in answer.rows.to_pylist())
        found = sql.sql(answer.sql).to_arrow_table().select(answer.rows.column_names)
        assert found.to_pylist() == answer.rows.to_pylist()
        sizes.add(answer.rows.num_rows)
    assert max(sizes) > 2
    with pytest.raises(SkybandError, match="k must be"):
        reader.snapshot("first", 0)


def test_without_a_skyband_the_own_result_is_whole(tmp_path: Path) -> None:
    queries = (
        "  first: {type: skyline, dimensions: {x: min, y: max}, top: 3, by: plain}\n  all: {type: skyline, dimensions: {x: min, y: max}}\n"
    )
    spec = write_spec(tmp_path, "{count: 40}", queries, "10 minutes", False, scoring=SCORING, deletes="deletes: side = 'd'")
    plan = small.make(spec, stream(5, n=200))
    reader = Reader(plan)
    for name in ("first", "all"):
        own = reader.as_of(name).rows.to_pylist()
        assert len(own) > 1 and reader.snapshot(name, window=plan.window).rows.to_pylist() == own
    assert reader.snapshot("first", 1).rows.num_rows == 1
    with pytest.raises(SkybandError, match="k must be from 1 to 3"):
        reader.snapshot("first", 4)


OFFERS = """\
job: offers
source:
  format: csv
  path: landing
  schema: {id: bigint, ts: timestamp, price: double, distance: double}
  id: [id]
  event_time: {column: ts}
window: {time: 10 minutes}
scoring:
  sum: {expression: price + distance, direction: min}
queries:
  first: {type: skyline, dimensions: {price: min, distance: min}, top: 1, by: sum}
  cheap: {type: skyline, dimensions: {price: min, distance: min}, prefer: [price]}
  one: {type: skyline, dimensions: {price: min, distance: min}, size: 1, weights: {price: 1, distance: 1}}
sink: {path: tables}
tests:
  - name: the next best of the skyline comes up
    rows:
      - {id: 1, ts: 2024-01-01 08:00, price: 2, distance: 2}
      - {id: 2, ts: 2024-01-01 08:01, price: 1, distance: 5}
      - {id: 3, ts: 2024-01-01 08:02, price: 2, distance: 3}
      - {id: 4, ts: 2024-01-01 08:11, price: 9, distance: 9}
    expect:
      first_changes:
        - {changed_at: 2024-01-01 08:00, step: 1, change: "+", id: 1, score: 4, cause: arrival}
        - {changed_at: 2024-01-01 08:10, step: 2, change: "-", id: 1, score: 4, cause: expiry}
        - {changed_at: 2024-01-01 08:10, step: 2, change: "+", id: 3, score: 5, cause: promoted}
      cheap_changes:
        - {changed_at: 2024-01-01 08:00, step: 1, change: "+", id: 1, cause: arrival}
        - {changed_at: 2024-01-01 08:01, step: 2, change: "-", id: 1, cause: displaced}
        - {changed_at: 2024-01-01 08:01, step: 2, change: "+", id: 2, cause: arrival}
        - {changed_at: 2024-01-01 08:11, step: 3, change: "-", id: 2, cause: expiry}
        - {changed_at: 2024-01-01 08:11, step: 3, change: "+", id: 3, cause: promoted}
      one_changes:
        - {changed_at: 2024-01-01 08:00, step: 1, change: "+", id: 1, cause: arrival}
        - {changed_at: 2024-01-01 08:10, step: 2, change: "-", id: 1, cause: expiry}
        - {changed_at: 2024-01-01 08:10, step: 2, change: "+", id: 3, cause: promoted}
"""


def test_a_test_of_a_spec_shows_who_comes_up(tmp_path: Path) -> None:
    path = tmp_path / "offers.yaml"
    path.write_text(OFFERS, encoding="utf-8")
    assert cli.main(["test", str(path)]) == 0


@pytest.mark.parametrize("deletes", ["", "deletes: side = 'd'"])
def test_the_tables_of_a_chosen_size_hold_the_definition(tmp_path: Path, deletes: str) -> None:
    queries = (
        "  few: {type: skyline, dimensions: {x: min, y: max}, size: 2, weights: {x: 0.7, y: 0.3}, carry: [x, y]}\n"
        "  wide: {type: skyline, dimensions: {x: min, y: max, id: min}, band: 2, size: 4, weights: {x: 1, y: 1, id: 0}, every: 7 minutes}\n"
    )
    spec = write_spec(tmp_path, "{count: 40, time: 3 hours}", queries, "10 minutes", False, deletes=deletes)
    rows = stream(5, n=200)
    plan = small.make(spec, rows)
    for name in ("few", "wide"):
        found = small.of_source(plan, name, rows)
        assert [d.text() for d in [*small.of_tables(plan, name), *found.differences]] == []
        assert found.shares and all(s.complete and s.total for s in found.shares), found.shares
    reader = Reader(plan)
    own = reader.as_of("few").rows
    assert own.num_rows == 2 and own["rank"].to_pylist() == [1, 2] and "score" not in own.column_names
    assert reader.snapshot("few").rows.to_pylist() == own.to_pylist()
    with pytest.raises(SkybandError, match="keeps no skyband"):
        reader.snapshot("few", window=Window(9, None))
    with pytest.raises(SkybandError, match="has no k"):
        reader.snapshot("few", 1)
    changed = small.of_tables(plan, "few")
    small.altered(plan, "few_changes", lambda made: made[:-1])
    assert changed == [] and small.of_tables(plan, "few") != []
