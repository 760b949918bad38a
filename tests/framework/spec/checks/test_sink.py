"""What a spec may say of the topics that changes are sent to, and what comes of it."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import KafkaNode
from skyband.framework.sources.kafka.client import JAR, refused
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.spark.packages import packages
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "readings",
    "{sensor: string, at: timestamp, x: double}",
    path="/srv/in",
    format="json",
    id="[sensor, at]",
    event_time="{column: at, watermark: 1 day}",
    sink="{path: /srv/out SAID}",
    window="{count: 10}",
    scoring="{x: {expression: x, direction: max}}",
    queries={
        "best": "{type: topk, scoring: x, k: 2}",
        "rest": "{type: topk, scoring: x, k: 9}",
    },
)
ENV = {"SECRET": 's3cr"et\\', "TOPIC": "hid-{query}"}
GOOD = "servers: 'broker:9092'"


def plan_of(said: str | None) -> Plan:
    return plan_of_text(SPEC.replace(" SAID", "" if said is None else f", kafka: {{{said}}}"), ENV)


def test_topics_and_what_a_run_of_them_needs() -> None:
    assert plan_of(None).kafka is None and packages(plan_of(None)) == ()
    plan = plan_of(GOOD)
    assert plan.kafka == KafkaNode(
        (("best", "readings.best.changes"), ("rest", "readings.rest.changes")), (("servers", "broker:9092"), ("tls", "false"))
    )
    assert packages(plan) == (JAR,)
    one = plan_of(GOOD + ", topic: 'all.{job}', queries: [rest], user: me, password: '${SECRET}', mechanism: PLAIN, tls: true").kafka
    assert one is not None and one.topics == (("rest", "all.readings"),)
    assert dict(one.options) == {"servers": "broker:9092", "user": "me", "password": ENV["SECRET"], "mechanism": "PLAIN", "tls": "true"}


def test_it_may_change_between_runs_and_is_shown_without_its_values() -> None:
    assert fingerprint(plan_of(None)) == fingerprint(plan_of(GOOD)) == fingerprint(plan_of(GOOD + ", topic: other"))
    shown = explain(plan_of(GOOD + ", user: me, password: '${SECRET}'"))
    assert "readings.best.changes" in shown and "at least once" in shown and "broker" not in shown and "s3cr" not in shown
    node = plan_of(GOOD + ", user: me, password: '${SECRET}'").kafka
    assert "s3cr" not in repr(node) and pickle.loads(pickle.dumps(node)) == node
    assert dataclasses.replace(plan_of(GOOD), kafka=None) == plan_of(None)


@pytest.mark.parametrize(
    "said, code, part",
    [
        ("topic: x", "SKY-E111", "servers"), ("servers: b", "SKY-E114", "HOST:PORT"), (GOOD + ", topic: a/b", "SKY-E114", "topic"),
        (GOOD + ", topic: '${TOPIC}'", "SKY-E119", "cannot come from the environment"),
        (GOOD + ", topic: 'all.${SECRET}'", "SKY-E119", "cannot come from the environment"),
        (GOOD + ", topic: '{jobs}'", "SKY-E114", "topic"), (GOOD + ", topic: '..'", "SKY-E114", "topic"),
        (GOOD + ", queries: [bets]", "SKY-E128", "no query 'bets'"), (GOOD + ", queries: [best, best]", "SKY-E102", "twice"),
        (GOOD + ", user: me, password: open", "SKY-E119", "does not stand in a spec"), 
        (GOOD + ", user: me", "SKY-E111", "needs 'password'"),
        (GOOD + ", mechanism: OAUTHBEARER", "SKY-E113", "mechanism"), (GOOD + ", acks: 0", "SKY-E110", "acks"),
    ],
)  # fmt: skip
def test_what_it_refuses(said: str, code: str, part: str) -> None:
    errors = validate_text(SPEC.replace(" SAID", f", kafka: {{{said}}}"), ENV)[1]
    assert [e.code for e in errors] == [code] and part in errors[0].message, errors
    assert errors[0].where is not None and errors[0].where.line == 13


@pytest.mark.parametrize(
    "said, part",
    [
        ("TimeoutException: Topic readings.best.changes not present in metadata after 60000 ms.", "or there is no such topic"),
        ("org.apache.kafka.common.errors.TimeoutException: Expiring 3 record(s) for t-0:120000 ms has passed", "no broker answers"),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized", "refuse the login"),
    ],
)
def test_a_writers_errors_in_the_users_words(said: str, part: str) -> None:
    known = refused(said)
    assert known is not None and part in known[0] and refused("something else") is None


@pytest.mark.parametrize(
    "sink",
    ["/srv/out/_skyband", "/srv/out/_skyband/next", "file:///srv//out/x/../_skyband/./old/y", "_skyband/next", "s3://b/out/_skyband/x"],
)
def test_it_lies_in_no_directory_that_keeps_a_jobs_state(sink: str) -> None:
    _, errors = validate_text(SPEC.replace("/srv/out SAID", sink), {})
    assert [(e.code, e.message) for e in errors] == [
        ("SKY-E119", "the sink cannot be inside a directory _skyband, which holds the state of a job")
    ]
