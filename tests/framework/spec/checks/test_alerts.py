"""What a spec may say of alerts, and what comes of it."""

from __future__ import annotations

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.nodes import AlertNode
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.job.generations import staged
from skyband.framework.streaming.job.layout import Layout
from tests.framework.alerts.jobs import QUERIES, text_of
from tests.specs import plan_of_text


def test_defaults_and_what_a_run_makes_of_them() -> None:
    plan = plan_of_text(
        text_of("{hot: {channel: pager}, deep: {channel: desk, queries: [busy], when: [value], above: 30, message: '{item}: {value}'}}")
    )
    assert plan.alerts == (
        AlertNode("hot", "pager", tuple(QUERIES), ("enter", "leave"), None, None, None, 100, 10_000_000, 100),
        AlertNode("deep", "desk", ("busy",), ("value",), 30.0, None, "{item}: {value}", 100, 10_000_000, 100),
    )
    assert plan_of_text(text_of("{}")).alerts == () and fingerprint(plan) == fingerprint(plan_of_text(text_of("{}")))
    assert staged(plan, Layout("/srv/out")).alerts == ()
    shown = explain(plan)
    assert "alert hot to channel pager: enter, leave of best, groups, busy, traced, flat; at most 100 messages a minute" in shown
    assert "alert deep to channel desk: above 30 of busy" in shown


@pytest.mark.parametrize(
    "said, code, part, marked",
    [
        ("{}", "SKY-E111", "channel", "hot"),
        ("{channel: 'http://x'}", "SKY-E1", "", "'http://x'"),
        ("{channel: c, url: x}", "SKY-E110", "url", "url"),
        ("{channel: c, queries: [bets]}", "SKY-E128", "no query 'bets'", "bets"),
        ("{channel: c, queries: [best, best]}", "SKY-E102", "twice", "best"),
        ("{channel: c, queries: [best], when: [value]}", "SKY-E663", "needs a bound", "[value]"),
        ("{channel: c, above: 3}", "SKY-E663", "'above' is only for", "above"),
        ("{channel: c, queries: [best, flat], when: [value], above: 3}", "SKY-E663", "'flat' have no value", "flat"),
        ("{channel: c, message: 'a {scor} b'}", "SKY-E662", "no value 'scor'", "{scor}"),
        ("{channel: c, queries: [best], message: 'a {loyalty_seconds}'}", "SKY-E662", "no value", "{loyalty_seconds}"),
        ("{channel: c, message: '{item.id}'}", "SKY-E662", "without a name", "{item.id}"),
        ("{channel: c, message: 'x }'}", "SKY-E662", "without '{'", "}"),
        ("{channel: c, message: 'x ${SECRET}'}", "SKY-E119", "cannot come from the environment", "'x ${SECRET}'"),
        ("{channel: '${SECRET}'}", "SKY-E119", "cannot come from the environment", "'${SECRET}'"),
        ("{channel: c, batch: 0}", "SKY-E1", "", "0"),
        ("{channel: c, every: soon}", "SKY-E1", "", "soon"),
    ],
)
def test_what_it_refuses_and_where(said: str, code: str, part: str, marked: str) -> None:
    text = text_of(f"\n  hot: {said}")
    _, errors = validate_text(text, {"SECRET": "sesame"})
    assert len(errors) == 1, [e.render() for e in errors]
    where = errors[0].where
    assert errors[0].code.startswith(code) and part in errors[0].message and where is not None and "sesame" not in errors[0].render()
    line = text.splitlines()[where.line - 1]
    assert line[where.col - 1 : where.col - 1 + where.length].rstrip(":") == marked
