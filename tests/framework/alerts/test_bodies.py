"""Requests in the forms of Slack, Teams, PagerDuty, mail and the operator: valid JSON, with nothing of a row that is more than text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.alerts.channels import MOST_MESSAGES, Channel, bodies, configured
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import redact_values, reveal_all
from skyband.framework.plan.nodes import AlertNode
from tests.framework.alerts.jobs import plan_of, receiver
from tests.framework.alerts.test_sender import Job

EVIL = '<!channel> & <https://evil.example|click> [x](https://evil.example) "},{" {job} ${HOME} *b* \u00fc'
ENV = {"KEY": "r0uting-k3y-{job}", "HOOK": "https://hooks.example.com/s3cret-path"}


def message(n: int, on: str = "enter", text: str = "m", item: int = 0, **more: Any) -> dict[str, Any]:
    made = {"id": f"id{n}", "on": on, "text": text, "query": "best", "key": {"site": "A"}, "item": {"id": item}}
    return {**made, "time": "2024-03-01T00:00:00Z", **more}


def alert(*when: str) -> AlertNode:
    return AlertNode("hot", "c", ("best",), when or ("enter", "leave"), None, None, None, 100, 0, 100)


def channel(directory: Path, text: str) -> Channel:
    path = directory / "channels.toml"
    path.write_text(text)
    path.chmod(0o600)
    try:
        found = configured({**ENV, "SKYBAND_CHANNELS": str(path)})
    finally:
        hidden = redact_values(ENV["KEY"])
        reveal_all()
    assert found is not None and ("KEY" not in text or ENV["KEY"] not in hidden)
    return found["c"]


def made(directory: Path, text: str, messages: list[dict[str, Any]], node: AlertNode | None = None) -> list[dict[str, Any]]:
    c = channel(directory, f'[c]\nwebhook = "${{HOOK}}"\n{text}')
    return [json.loads(body) for body in bodies(c.form, c.settings, "machines", node or alert(), messages)]


def test_slack_escapes_what_would_mention_or_link(tmp_path: Path) -> None:
    (body,) = made(tmp_path, 'format = "slack"', [message(1, text=EVIL), message(2, text="two")])
    first, second = body.pop("text").split("\n")
    assert body == {} and second == "two" and "<" not in first and first.startswith("&lt;!channel&gt; &amp; &lt;https://evil.example|click")


def test_teams_gets_a_card_without_markdown_that_fits(tmp_path: Path) -> None:
    many = [message(n, text=EVIL if n else "\u00fc" * 2000) for n in range(MOST_MESSAGES["teams"])]
    c = channel(tmp_path, '[c]\nwebhook = "${HOOK}"\nformat = "teams"')
    (data,) = bodies(c.form, c.settings, "machines", alert(), many)
    assert len(data) < 28_000
    (card,) = json.loads(data)["attachments"]
    assert (card["contentType"], card["content"]["type"]) == ("application/vnd.microsoft.card.adaptive", "AdaptiveCard")
    runs = [run for block in card["content"]["body"] for run in block["inlines"]]
    assert {r["type"] for r in runs} == {"TextRun"} and [r["text"] for r in runs][1:] == [EVIL] * (len(many) - 1)
    assert runs[0]["text"].endswith("\u00fc...")


def test_pagerduty_opens_an_incident_that_the_items_leaving_resolves(tmp_path: Path) -> None:
    text = 'format = "pagerduty"\nrouting_key = "${KEY}"\nseverity = "critical"'
    said = [message(1, item=7, text="x" * 2000), message(2, "leave", item=7), message(3, item=8), message(4, "above", item=7)]
    events = made(tmp_path, text, said, alert("enter", "leave", "value"))
    assert [e["event_action"] for e in events] == ["trigger", "resolve", "trigger", "trigger"]
    assert {e["routing_key"] for e in events} == {ENV["KEY"]}
    keys = [e["dedup_key"] for e in events]
    assert keys[0] == keys[1] and len(set(keys)) == 3 and max(map(len, keys)) <= 255
    payload = events[0]["payload"]
    assert len(payload["summary"]) == 1024 and (payload["source"], payload["severity"]) == ("machines", "critical")
    assert payload["timestamp"] == "2024-03-01T00:00:00Z" and payload["custom_details"] == said[0] and "payload" not in events[1]
    # An alert on leaving alone opens incidents by it.
    (event,) = made(tmp_path, text, [message(2, "leave")], alert("leave"))
    assert event["event_action"] == "trigger"
    combined = {"id": "i", "on": "combined", "text": "3 messages", "count": 3, "from": "a", "to": "2024-03-02T00:00:00Z"}
    (event,) = made(tmp_path, text, [combined])
    assert event["payload"]["timestamp"] == "2024-03-02T00:00:00Z"


def test_mail_has_one_subject_line_and_all_texts(tmp_path: Path) -> None:
    text = 'format = "mail"\nfrom = "skyband@example.com"\nto = ["a@example.com", "b@example.com"]'
    (body,) = made(tmp_path, text, [message(1, text=EVIL), message(2, text="two")])
    assert (body["from"], body["to"]) == ("skyband@example.com", ["a@example.com", "b@example.com"])
    assert body["text"] == f"{EVIL}\ntwo" and body["subject"].startswith(f"machines: {EVIL[:20]}")
    assert body["subject"].endswith("(and 1 more)") and len(body["subject"]) <= 150


def test_the_operators_own_body(tmp_path: Path) -> None:
    text = (
        '[c.body]\nPersonal = {to = [{email = "a@b"}], n = 3}\nSubject = "{subject} {{x}} ${KEY}"\nAll = "{messages}"\nN = "{count} {id}"\n'
    )
    said = [message(1, text=EVIL), message(2)]
    (body,) = made(tmp_path, text, said)
    assert body["Personal"] == {"to": [{"email": "a@b"}], "n": 3} and body["All"] == said and body["N"] == "2 id1"
    # Neither a value of the environment nor one of a row is read as a template.
    assert body["Subject"].endswith(f" {{x}} {ENV['KEY']}") and "{job}" in body["Subject"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('webhook = "${HOOK}"\nformat = "slak"', "format is one of slack, teams, pagerduty or mail|hint: did you mean 'slack'?"),
        ('webhook = "${HOOK}"\nformat = 3', "format is one of"),
        ('webhook = "${HOOK}"\nformat = "slack"\nbody = {a = "b"}', "a channel has 'format' or 'body'"),
        ('command = "cat"\nformat = "slack"', "format is only for a webhook"),
        ('command = "cat"\nbody = {a = "b"}', "body is only for a webhook"),
        ('webhook = "${HOOK}"\nformat = "pagerduty"', "format = \"pagerduty\" needs 'routing_key'"),
        ('webhook = "${HOOK}"\nformat = "pagerduty"\nrouting_key = "k"\nseverity = "bad"', "severity is one of"),
        ('webhook = "${HOOK}"\nformat = "slack"\nrouting_key = "k"', 'routing_key is only for format = "pagerduty"'),
        ('webhook = "${HOOK}"\nformat = "mail"\nfrom = "a"', "format = \"mail\" needs 'to'"),
        ('webhook = "${HOOK}"\nformat = "mail"\nfrom = "a"\nto = []', "to is empty|hint: write at least one address"),
        ('webhook = "${HOOK}"\nformat = "mail"\nfrom = "a"\nto = ["b", 3]', "to is an address, which is a text"),
        ('webhook = "${HOOK}"\nformat = "mail"\nfrom = {}\nto = "b"', "from is an address, which is a text"),
        ('webhook = "${HOOK}"\nbody = "text"', "body is a table"),
        ('webhook = "${HOOK}"\nbody = {a = "{txt}"}', "a message has no value 'txt'|hint: did you mean 'text'?"),
        ('webhook = "${HOOK}"\nbody = {a = "{"}', "'{' without a name"),
        ('webhook = "${HOOK}"\nbody = {a = 2024-01-01}', "a has a value that JSON cannot have"),
        ('webhook = "${HOOK}"\nbody = {a = nan}', "a has a value that JSON cannot have"),
    ],
)
def test_mistakes_are_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SkybandError) as e:
        channel(tmp_path, f"[c]\n{text}")
    message, _, hint = said.partition("|hint: ")
    assert e.value.code == "SKY-E660" and message in e.value.message and (not hint or e.value.hint == hint)


def test_a_job_sends_in_its_channels_form(tmp_path: Path) -> None:
    job = Job(tmp_path / "job", "{all: {channel: c, every: 0 seconds, at_most: 10000}}")
    with receiver() as hook:
        assert job.run(Channel("c", webhook=hook.url, form="slack"), job.last) == []
        lines = [line for body in hook.bodies for line in json.loads(body)["text"].split("\n")]
        assert max(json.loads(b)["text"].count("\n") for b in hook.bodies) == MOST_MESSAGES["slack"] - 1
        assert len(lines) == sum(job.expected_changes().values())
    assert plan_of("{}", tmp_path).alerts == ()
