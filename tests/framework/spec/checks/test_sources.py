"""Several sources in a spec: what they must have in common, and what is wrong with one of them."""

from __future__ import annotations

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.spec.load import validate_text
from tests.framework.rehearsal.test_several_sources import SPEC, plan_of


@pytest.mark.parametrize(
    ("old", "new", "code", "marked", "said"),
    [
        ("source:\n  id", "source:\n  format: csv\n  id", "SKY-E117", "format", "'format' belongs to each of the sources"),
        ("symbol: string, price: double}}", "price: double}}", "SKY-E120", "schema", "source 'asks' lacks symbol, which"),
        ("price: double, depth: int}", "price: int, depth: int}", "SKY-E126", "int", "'price' is int here and double in 'asks'"),
        ("price: double, depth: int}", "price: double, Source: int}", "SKY-E125", "Source", "the column with the name of a row's source"),
        ("price: double, depth: int}", "price: double, __x: int}", "SKY-E116", "__x", "reserved"),
        ("path: /nowhere/bids", "path: /nowhere/asks/more", "SKY-E119", "/nowhere/asks/more", "directories of 'asks' and 'bids'"),
        ("path: /nowhere/out", "path: /nowhere/bids/out", "SKY-E119", "/nowhere/bids/out", "the sink cannot be"),
        ("from: asks", "from: ask", "SKY-E120", "ask", "there is no source or query 'ask'"),
        ("source: [asks, bids]", "source: [asks, bid]", "SKY-E120", "bid", "there is no source 'bid'"),
        ("format: json", "format: jsn", "SKY-E113", "jsn", "cannot be 'jsn'"),
        ("format: json", "format: several", "SKY-E114", "several", "'several' is not a source format"),
        ("format: json\n    path: /nowhere/bids", "format: json", "SKY-E111", "", "needs the field 'path'"),
        ("depth: int}", "depth: itn}", "SKY-E113", "itn", "not a column type"),
        ("depth: int}", "token: itn}", "SKY-E113", "itn", "'itn' is not a column type"),
        ("idle_after: 30 minutes", "idle_after: 0 minutes", "SKY-E115", "", ""),
        ("id: [id]", "id: [ident]", "SKY-E120", "ident", "unknown column 'ident'"),
    ],
)  # fmt: skip
def test_mistakes_are_named_at_their_places(old: str, new: str, code: str, marked: str, said: str) -> None:
    assert old in SPEC
    job, errors = validate_text(SPEC.replace(old, new, 1), {})
    assert job is None
    found = [e for e in errors if e.code == code and said in e.message]
    assert found and found[0].where is not None, [e.render() for e in errors]
    assert found[0].where.text[found[0].where.col - 1 :].startswith(marked), found[0].render()


def test_one_source_cannot_be_several() -> None:
    text = SPEC[: SPEC.index("sources:")] + SPEC[SPEC.index("window:") :]
    job, errors = validate_text(text, {})
    assert job is None and {e.code for e in errors} >= {"SKY-E111"}
    alone = text.replace("source:\n", "source:\n  format: several\n  schema: {id: bigint, at: timestamp, symbol: string, price: double}\n")
    assert any(e.code == "SKY-E114" and "several" in e.message for e in validate_text(alone, {})[1])


def test_a_change_feed_may_be_one_of_several_sources() -> None:
    """Its format knows of the column that says what a row does, and of the order of what changes a row."""
    text = SPEC.replace("format: json", 'format: delta\n    options: {changes: "true"}').replace(
        "watermark: 3 minutes", "watermark: 3 minutes, tie_break: [version, kind]"
    )
    text = text.replace("depth: int}", "depth: int, version: {type: bigint, from: $version}, kind: {type: string, from: $change_type}}")
    text = text.replace("price: double}}", "price: double, version: bigint, kind: string}}")
    (error,) = validate_text(text, {})[1]
    assert "a column from $change_type needs 'op'" in error.message
    op = "  op: {column: kind, insert: [insert], update: [update_postimage], delete: [delete], ignore: [update_preimage]}\n"
    job, errors = validate_text(text.replace("source:\n", "source:\n" + op, 1), {})
    assert job is not None, [e.render() for e in errors]


def test_explain_names_the_sources_and_how_long_they_are_waited_for() -> None:
    text = explain(plan_of(SPEC))
    for said in (
        "source   asks (csv), bids (json)", "columns source string, id bigint", "asks: watermark 3 minutes; the others wait for it",
        "bids: watermark 5 minutes; idle if 30 minutes behind the others", "order by at, id, source; 5 minutes of disorder waited for",
    ):  # fmt: skip
        assert said in text, text
