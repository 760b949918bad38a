"""Mistakes in ``lookups``, each with its place; the names of what may change between runs are in no fingerprint."""

from __future__ import annotations

import pytest

from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.spec.load import validate_text
from tests.specs import plan_of_text, spec_text

LOOKUP = {
    "format": "parquet",
    "path": "sites",
    "options": "{}",
    "schema": "{host: string, region: string, tier: int, since: timestamp, until: date}",
    "match": "{host: host}",
    "take": "[region, tier]",
    "as_of": "{from: since, to: until}",
    "missing": "null",
}


def text(derive: str = "{y: {sql: x + tier, type: double}}", time: str = "{column: ts}", **lookup: str) -> str:
    return spec_text(
        "looked", "{id: bigint, ts: timestamp, host: string, x: double}", event_time=time, lookups={"site": {**LOOKUP, **lookup}},
        transform=[f"derive: {derive}"], window="{count: 4}", scoring={"s": "{expression: x}"},
        queries={"best": "{type: topk, scoring: s, k: 2, carry: [region]}"},
    )  # fmt: skip


def test_a_look_up_is_valid() -> None:
    plan = plan_of_text(text())
    (node,) = plan.intake.lookups
    assert (node.on, node.take, node.valid, node.missing) == (
        (("host", "host"),), (("region", "region"), ("tier", "tier")), ("since", "until"), "null",
    )  # fmt: skip
    assert [f.name for f in plan.intake.fields] == ["id", "ts", "host", "x", "region", "tier", "y"]
    assert [f.name for f in plan.source.fields] == ["id", "ts", "host", "x"]
    assert plan_of_text(text(missing='"null"', match="{host: host}")) == plan_of_text(text(missing="null"))


def test_the_former_name_of_match_is_read_without_quotes() -> None:
    for written in ("on", '"on"'):
        former = text().replace("match: {", f"{written}: {{")
        assert former != text() and plan_of_text(former) == plan_of_text(text())
    _, errors = validate_text(text().replace("    match: {host: host}", "    match: {host: host}\n    on: {host: host}"), {})
    assert [e.code for e in errors] == ["SKY-E102"], [e.render() for e in errors]


@pytest.mark.parametrize(
    ("lookup", "code", "at", "said"),
    [
        ({"format": "json"}, "SKY-E113", "json", "'format' cannot be 'json'"),
        ({"options": "{mode: x}"}, "SKY-E119", "mode", "does not take the option"),
        ({"format": "delta", "options": "{startingVersion: 1}"}, "SKY-E119", "startingVersion", "it takes no options"),
        ({"schema": LOOKUP["schema"].replace("tier", "token: strin, tier")}, "SKY-E113", "strin,", "'strin' is not a column type"),
        ({"take": "{region: region, tier: tier, api_key: none}"}, "SKY-E120", "none", "no column 'none'"),
        ({"match": "{hst: host}"}, "SKY-E120", "hst", "unknown column"),
        ({"match": "{host: hots}"}, "SKY-E120", "hots", "no column 'hots'"),
        ({"match": "{host: tier}"}, "SKY-E126", "tier", "'host' is string, but 'tier' of the look-up is int"),
        ({"match": "{x: tier}", "schema": LOOKUP["schema"].replace("int", "double")}, "SKY-E126", "tier", "cannot be joined on"),
        ({"take": "[region, tier, x]", "schema": LOOKUP["schema"].replace("since", "x: int, since")}, "SKY-E125", "x]", "already exists"),
        ({"take": "{region: region, tier: tier, __a: tier}"}, "SKY-E116", "__a", "reserved"),
        ({"take": "{region: region, tier: teer}"}, "SKY-E120", "teer", "no column 'teer'"),
        ({"take": "[]"}, "SKY-E114", "[]", "take"),
        ({"as_of": "{from: region, to: until}"}, "SKY-E126", "region", "needs a timestamp or a date"),
        ({"as_of": "event_time"}, "SKY-E113", "event_time", "as_of"),
        ({"missing": "drop"}, "SKY-E113", "drop", "'missing' cannot be 'drop'"),
        ({"cache": "1"}, "SKY-E110", "cache", "unknown field"),
        ({"derive": "{tier: x}"}, "SKY-E125", "tier: x", "already exists"),
        ({"derive": "{at: ts, y: tier}", "time": "{column: at}"}, "SKY-E117", "as_of", "'at' is derived after look-ups"),
    ],
)
def test_mistakes_have_their_place(lookup: dict[str, str], code: str, at: str, said: str) -> None:
    written = text(**lookup)
    job, errors = validate_text(written, {})
    assert job is None
    assert [e.code for e in errors] == [code], [e.render() for e in errors]
    where = errors[0].where
    assert where is not None and said in errors[0].message
    line = written.splitlines()[where.line - 1]
    assert where.text == line and line[where.col - 1 :].startswith(at)


def test_where_a_table_is_may_change() -> None:
    plan, moved = plan_of_text(text()), plan_of_text(text(path="elsewhere", format="csv", options="{sep: ;}"))
    assert not compare(fingerprint(plan), fingerprint(moved))
    other = compare(fingerprint(plan), fingerprint(plan_of_text(text(missing="reject"))))
    assert other == ["lookups.site.missing was null, now reject"]
    assert "lookups" not in fingerprint(plan_of_text(text().replace("lookups:", "unused:").split("unused:")[0] + _rest(text())))


def _rest(written: str) -> str:
    return "transform:\n  - derive: {region: host}\n" + written[written.index("window:") :]


def test_values_of_the_environment_are_concealed() -> None:
    written = text(path='"${PLACE}/sites"', options='{nullValue: "${SECRET}"}', format="csv")
    job, errors = validate_text(written, {"PLACE": "/nowhere", "SECRET": "hidden"})
    assert job is not None and not errors
    assert "hidden" not in repr(job) and job.lookups["site"].path == "/nowhere/sites"
