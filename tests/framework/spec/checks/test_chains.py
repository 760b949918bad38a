"""Queries over queries: what a spec may say, and what is refused, where and how; the share of a window."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.queries.threshold_loyalty.query_type import ThresholdLoyalty
from skyband.framework.spec.load import validate_text
from skyband.jobs.cli import main
from tests.specs import plan_of_text, spec_text

BEST = "{type: topk, scoring: x, k: 3, carry: [user]}"
AGAIN = {"again": "{expression: best_score}"}
FAR = {"far": "{expression: abs(a.x - b.x)}"}
COLUMNS = "grp, id, best_seq, best_time, user, best_score, best_change, best_cause or best_at"


def text_of(queries: dict[str, str], scoring: dict[str, str] | None = None, best: str = BEST, schema: str = "", **more: str) -> str:
    return spec_text(
        "chains",
        schema=f"{{id: bigint, ts: timestamp, grp: string, user: string, x: double{schema}}}", id="[id]",
        event_time="{column: ts, watermark: 5 minutes}", partition_by="[grp]", window="{time: 1 day}",
        scoring={"x": "{expression: x}"} | (scoring or {}),
        queries={"best": best, "busy": "{type: topk_groups, group: user, score: sum(x), k: 2}"} | queries, **more,
    )  # fmt: skip


def errors_of(text: str) -> list[SkybandError]:
    return validate_text(text, {})[1]


def told(error: SkybandError, text: str) -> str:
    """The rest of the line from the place of an error on."""
    assert error.where is not None
    return text.splitlines()[error.where.line - 1][error.where.col - 1 :]


@pytest.mark.parametrize(
    ("query", "scoring", "code", "place", "said", "hint"),
    [
        ("{type: topk, from: bests, scoring: x, k: 1}", {}, "SKY-E120", "bests", "no source or query 'bests'", "did you mean 'best'?"),
        ("{type: topk_loyalty, of: bests, k: 1}", {}, "SKY-E120", "bests", "there is no query 'bests'", "did you mean 'best'?"),
        ("{type: topk_loyalty, of: zzz, k: 1}", {}, "SKY-E120", "zzz", "there is no query 'zzz'", "queries: best or busy"),
        ("{type: topk, from: c, scoring: x, k: 1}", {}, "SKY-E117", "c,", "in a circle: c <- c", "take the source's rows"),
        (
            "{type: topk_loyalty, of: best, k: 1}", {}, "SKY-E111", "c:", "'object' is missing: the result of 'best' consists of rows",
            "such as object: id",
        ),
        (
            "{type: topk_loyalty, of: best, object: nobody, k: 1}", {}, "SKY-E120", "nobody", "the result of 'best' has no column 'nobody'",
            "columns: grp, id, best_seq",
        ),
        (
            "{type: topk_loyalty, of: best, object: [user, x], k: 1}", {}, "SKY-E120", "x]", "the result of 'best' has no column 'x'",
            "columns: grp, id, best_seq",
        ),
        ("{type: topk_loyalty, of: best, object: best_score, k: 1}", {}, "SKY-E126", "best_score", "numbers with a fraction", "derive"),
        (
            "{type: topk_loyalty, of: best, object: user, k: 1, from: best}", {}, "SKY-E117", "from",
            "'from' and 'of' cannot be used together", "leave one of them out",
        ),
        ("{type: topk_loyalty, k: 1, criteria: x > 1}", {}, "SKY-E111", "c:", "needs 'object'", "names the object"),
        ("{type: topk_loyalty, object: user, k: 1}", {}, "SKY-E111", "c:", "needs 'criteria', 'updates' or 'of'", "of: another query"),
        (
            "{type: topk, from: best, scoring: again, k: 1, carry: [x]}", AGAIN, "SKY-E120", "x]", "unknown column 'x'",
            f"columns of the result of 'best': {COLUMNS}",
        ),
        (
            "{type: topk, from: best, scoring: again, k: 1, where: x > 1}", AGAIN, "SKY-E130", "x > 1", "unknown attribute x",
            f"columns of the result of 'best': {COLUMNS}",
        ),
        ("{type: topk, from: best, scoring: x, k: 1}", {}, "SKY-E130", "x}", "unknown attribute x", "columns of the result of 'best'"),
        ("{type: topk_groups, from: best, group: nope, score: count(), k: 1}", {}, "SKY-E120", "nope", "unknown column", "of the result"),
        ("{type: threshold_loyalty, of: busy, share: 0%}", {}, "SKY-E114", "0%", "'share' must be more than 0%", "80%"),
        ("{type: threshold_loyalty, of: busy, share: 101%}", {}, "SKY-E115", "101%", "not a share of 0% to 100%", "%"),
        ("{type: threshold_loyalty, of: busy}", {}, "SKY-E111", "c:", "exactly one of 'at_least' and 'share'", "share: 80%"),
        (
            "{type: threshold_loyalty, of: busy, at_least: 1 hour, share: 80%}", {}, "SKY-E111", "share", "exactly one of 'at_least'",
            "share: 80%",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(query: str, scoring: dict[str, str], code: str, place: str, said: str, hint: str) -> None:
    text = text_of({"c": query}, scoring)
    (error,) = errors_of(text)
    assert error.code == code and said in error.message and hint in str(error.hint) and told(error, text).startswith(place)


@pytest.mark.parametrize("window", ["{time: 1 day, count: 10}", "{count: 10}"])
@pytest.mark.parametrize("takes", ["of: busy", "of: best, object: user", "from: best, object: user, criteria: best_score > 0"])
def test_loyalty_over_a_result_does_not_take_a_window_of_rows_from_the_job(takes: str, window: str) -> None:
    text = text_of({"c": f"{{type: topk_loyalty, {takes}, k: 1}}"})
    assert "window: {time: 1 day}" in text
    rows = text.replace("window: {time: 1 day}", f"window: {window}")
    (error,) = errors_of(rows)
    assert error.code == "SKY-E117" and "query 'c' needs a window of its own" in error.message and told(error, rows).startswith("c:")
    assert errors_of(text) == errors_of(rows.replace(f"{takes}, k: 1", f"{takes}, k: 1, window: {{time: 40 days}}")) == []


@pytest.mark.parametrize("field", ["criteria: x > 1", "updates: user", "held: user", "stale_after: 1 minute"])
def test_of_says_when_an_object_is_on(field: str) -> None:
    text = text_of({"c": f"{{type: topk_loyalty, of: best, object: user, k: 1, {field}}}"})
    (error,) = errors_of(text)
    name = field.partition(":")[0]
    assert error.code == "SKY-E117" and f"'{name}' says otherwise" in error.message and told(error, text).startswith(field)


def test_circles_are_told_by_the_names_of_their_queries() -> None:
    text = text_of(
        {
            "c": "{type: topk, from: d, scoring: x, k: 1}", "d": "{type: topk_loyalty, object: id, of: e, k: 1}",
            "e": "{type: topk, from: c, scoring: x, k: 1}", "behind": "{type: topk, from: e, scoring: x, k: 1}",
        }
    )  # fmt: skip
    circles = [e.message.rpartition(": ")[2] for e in errors_of(text)]
    assert circles == ["c <- d <- e <- c", "d <- e <- c <- d", "e <- c <- d <- e"]
    two = text_of({"c": "{type: topk, from: d, scoring: x, k: 1}", "d": "{type: topk, from: c, scoring: x, k: 1}"})
    assert [e.message.rpartition(": ")[2] for e in errors_of(two)] == ["c <- d <- c", "d <- c <- d"]


def test_a_table_of_queries_is_in_no_chain() -> None:
    table = "{type: topk, queries_from: {path: q.csv}, scoring: x}"
    for queries, place in (
        ({"c": table.replace("topk,", "topk, from: best,")}, "queries_from"),
        ({"t": table, "c": "{type: topk, from: t, scoring: x, k: 1}"}, "t, "),
    ):
        text = text_of(queries)
        said = "a table of queries neither takes a result nor gives one"
        (error,) = (e for e in errors_of(text) if e.message == said)
        assert error.code == "SKY-E117" and told(error, text).startswith(place)


def test_items_that_are_reported_once_are_rows_and_no_members() -> None:
    queries = {"m": "{type: matches, scoring: far, k: 1}", "c": "{type: topk_loyalty, of: m, object: older_id, k: 1}"}
    text = text_of(queries, FAR)
    (error,) = errors_of(text)
    assert error.code == "SKY-E117" and "'m' are reported once" in error.message and told(error, text).startswith("m, ")
    plan = plan_of_text(text_of(queries | {"c": "{type: topk, from: m, scoring: gap, k: 1}"}, FAR | {"gap": "{expression: m_score}"}))
    assert plan.streams[0].renewed is None and plan.streams[0].plan.window.micros == 86_400_000_000


def test_a_function_over_the_source_and_a_result_needs_its_columns_in_both() -> None:
    queries = {"c": "{type: topk, from: best, scoring: again, k: 1}", "d": "{type: topk, scoring: again, k: 1}"}
    text = text_of(queries, AGAIN)
    (error,) = errors_of(text)
    assert (error.code, error.message) == ("SKY-E130", "unknown attribute best_score") and told(error, text).startswith("best_score")
    both = text_of(queries, {"again": "{expression: x}"}, BEST.replace("[user]", "[user, x]"))
    assert {q.name for q in plan_of_text(both).every_query} == {"best", "busy", "c", "d"}


def test_a_column_of_the_users_cannot_have_the_name_of_one_of_a_stream() -> None:
    for column, carry in (("best_score", True), ("best_at", True), ("BEST_CAUSE", True), ("best_at", False)):
        best = BEST.replace("[user]", f"[user, {column}]") if carry else BEST
        text = text_of({"c": "{type: topk, from: best, scoring: again, k: 1}"}, AGAIN, best, f", {column}: string")
        errors = [e for e in errors_of(text) if e.code == "SKY-E125"]
        assert len(errors) == carry
        if carry:
            said = f"the result of 'best' has a column '{column.lower()}' already"
            assert errors[0].message.startswith(said) and told(errors[0], text).startswith("best,")


def test_a_name_of_a_source_and_a_query_is_the_source() -> None:
    text = """\
job: chains
sources:
  best: {format: csv, path: in/a, schema: {id: bigint, ts: timestamp, x: double}}
  rest: {format: csv, path: in/b, schema: {id: bigint, ts: timestamp, x: double}}
source: {id: [id], event_time: {column: ts, watermark: 5 minutes}}
window: {time: 1 day}
scoring: {x: {expression: x}}
queries:
  best: {type: topk, scoring: x, k: 3}
  c: {type: topk, from: best, scoring: x, k: 3}
sink: {path: out}
"""
    assert plan_of_text(text).streams == ()


def test_keys_and_tables_of_chained_queries_are_known_to_other_sections() -> None:
    queries = {"c": "{type: topk, from: best, scoring: again, k: 1, carry: [best_cause]}"}
    quality = "{tables: [{table: c_changes, expectation: expect_column_values_to_not_be_null, column: COLUMN}]}"
    for column in ("grp", "id", "best_cause", "score"):
        assert errors_of(text_of(queries, AGAIN, quality=quality.replace("COLUMN", column))) == []
    text = text_of(queries, AGAIN, quality=quality.replace("COLUMN", "best_seq"))
    (error,) = errors_of(text)
    assert error.code == "SKY-E120" and told(error, text).startswith("best_seq")
    test = "[{name: a, rows: [{id: 1, ts: '2020-01-01 00:00:00', grp: p, user: a, x: 1}], expect: {c_now: [{id: 1, nope: 1}]}}]"
    (error,) = errors_of(text_of(queries, AGAIN, tests=test))
    assert error.message == "table c_now has no column 'nope'"


@pytest.mark.parametrize(
    ("share", "window", "least"), [("80%", 10, 8), ("33.3%", 7, 3), ("100%", 7, 7), ("0.1%", 1000, 1), ("14.3%", 1000, 143)]
)
def test_a_share_is_of_the_window_rounded_up(share: str, window: int, least: int) -> None:
    query = ThresholdLoyalty.model_validate({"type": "threshold_loyalty", "of": "best", "object": "user", "share": share})
    assert query.least(window) == least


def test_durable_rows_are_rows_for_a_share_of_the_window() -> None:
    durable = "{type: threshold_loyalty, of: best, object: id, BOUND, window: {time: 30 days}}"
    share, time = (text_of({"durable": durable.replace("BOUND", b)}) for b in ("share: 80%", "at_least: 24 days"))
    assert fingerprint(plan_of_text(share)) == fingerprint(plan_of_text(time))


def test_what_is_rendered_is_the_same_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = {
        "c": "{type: topk, from: best, scoring: again, k: 1}", "steady": "{type: topk_loyalty, of: busy, k: 1}",
        "durable": "{type: threshold_loyalty, of: c, object: id, share: 80%, window: {time: 30 days}}",
        "m": "{type: matches, scoring: far, k: 1}", "n": "{type: topk, from: m, scoring: gap, k: 1}",
    }  # fmt: skip
    text = text_of(queries, AGAIN | FAR | {"gap": "{expression: m_score}"})
    path = str(tmp_path / "spec.yaml")
    Path(path).write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert main(["render", path]) == 0
    shown = capsys.readouterr().out
    (one, none), (two, errors) = validate_text(text, {}, path), validate_text(shown, {}, path)
    assert one is not None and two is not None and not none, [e.render() for e in errors]
    assert fingerprint(compile_job(one)) == fingerprint(compile_job(two))
    assert "object: [user]" in shown and "time: 1 day" in shown


TYPO = "{type: topkk, scoring: x, k: 3}"


def test_a_mistake_in_the_type_of_a_query_is_reported_once() -> None:
    """What names the query, and what follows from its unknown columns, says nothing more."""
    text = text_of(
        {
            "next": "{type: topk, from: best, scoring: again, k: 1, carry: [best_score]}",
            "later": "{type: topk, from: next, scoring: further, k: 1, where: next_best_score > 1}",
            "loyal": "{type: topk_loyalty, of: best, object: user, k: 1}",
        },
        AGAIN | {"further": "{expression: next_best_score}"},
        best=TYPO,
        sink="{path: out, change_data_feed: [best], kafka: {servers: 'k:9092', topic: '{query}', queries: [best, loyal]}}",
        alerts="{hot: {channel: c, queries: [best], message: '{best_score}'}, low: {channel: c, queries: [next], message: '{next_user}'}}",
        quality="{tables: [{table: best_trajectory, expectation: expect_column_values_to_not_be_null, column: score}]}",
        tests="[{name: t, rows: [{id: 1, ts: '2020-01-01T00:00:00'}], expect: {best_changes: []}}]",
    )
    errors = errors_of(text)
    assert [(e.code, told(e, text)[:5]) for e in errors] == [("SKY-E113", "topkk")], [e.render() for e in errors]


def test_a_name_that_no_query_has_is_still_reported_beside_a_mistake() -> None:
    text = text_of(
        {"next": "{type: topk, from: bust, scoring: x, k: 1}", "loyal": "{type: topk_loyalty, of: bust, k: 1}"}, best=TYPO,
        alerts="{hot: {channel: c, queries: [bust]}}", sink="{path: out, change_data_feed: [bust]}",
    )  # fmt: skip
    assert sorted(e.code for e in errors_of(text)) == ["SKY-E113", "SKY-E120", "SKY-E120", "SKY-E128", "SKY-E128"]
    # A query without mistakes is checked as before, although one beside it takes a result that is not known.
    more = text_of({"next": "{type: topk, from: best, scoring: again, k: 1}", "own": "{type: topk, scoring: y, k: 1}"}, AGAIN, best=TYPO)
    assert [e.code for e in errors_of(more)] == ["SKY-E113", "SKY-E121"]


def test_alerts_of_a_job_whose_only_query_has_a_mistake_say_nothing_more() -> None:
    text = spec_text(
        "alone", "{id: bigint, ts: timestamp, x: double}", window="{time: 1 day}", scoring={"x": "{expression: x}"},
        queries={"best": TYPO}, alerts="{hot: {channel: c, message: '{score}'}}",
    )  # fmt: skip
    assert [e.code for e in errors_of(text)] == ["SKY-E113"]
