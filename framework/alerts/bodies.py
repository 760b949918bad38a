"""Write requests to webhooks in the form that receivers take: Slack, Teams, PagerDuty, services that send mail, or the operator's own.

Texts have values of rows in them, which anybody may have written: they are escaped for the receiver, and put into finished JSON values, so
that none of them mentions a channel, becomes a link or ends a text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from skyband.framework.alerts.messages import Message, envelope
from skyband.framework.alerts.template import cut, fill
from skyband.framework.plan.nodes import AlertNode

FORMATS: Final = ("slack", "teams", "pagerduty", "mail")
MOST_MESSAGES: Final = {"slack": 15, "teams": 10, "pagerduty": 20}
"""The most messages of a request, by format: Slack takes 40,000 characters, Teams 28 KB; PagerDuty gets a request for each."""
SEVERITIES: Final = ("critical", "error", "warning", "info")
NAMES: Final = ("text", "subject", "job", "alert", "count", "id", "messages")
"""Names that the operator's body of a message may insert."""
MESSAGES: Final = "{messages}"
"""A text of a body that becomes the list of messages."""
MAIL: Final = {"subject": "{subject}", "text": "{text}"}
_SUMMARY: Final = 1024
_SUBJECT: Final = 150
_CARD_BYTES: Final = 2000
_SLACK: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def bodies(form: str, settings: Mapping[str, Any], job: str, alert: AlertNode, messages: Sequence[Message]) -> list[bytes]:
    """Return the bodies of the requests for ``messages`` of an alert, in order.

    ``form``: one of ``FORMATS``, or "" for Skyband's own. ``settings``: ``body`` (the operator's, instead of a format), ``routing_key`` and
    ``severity`` of PagerDuty.
    """
    body = settings.get("body")
    if body is not None:
        values = {
            "text": "\n".join(m["text"] for m in messages), "subject": _subject(job, messages), "job": job, "alert": alert.name,
            "count": str(len(messages)), "id": messages[0]["id"],
        }  # fmt: skip
        return [_json(_filled(body, values, list(messages)))]
    if form == "slack":
        return [_json({"text": "\n".join(m["text"].translate(_SLACK) for m in messages)})]
    if form == "teams":
        return [_json(_card([m["text"] for m in messages]))]
    if form == "pagerduty":
        return [_json(_event(settings, job, alert, message)) for message in messages]
    return [envelope(job, alert.name, messages)]


def _subject(job: str, messages: Sequence[Message]) -> str:
    more = f" (and {len(messages) - 1:,} more)" if len(messages) > 1 else ""
    return cut(f"{job}: {messages[0]['text']}", _SUBJECT - len(more)) + more


def _card(texts: Sequence[str]) -> dict[str, Any]:
    """Return a message with an adaptive card. Text runs are no Markdown, other than text blocks."""
    lines = [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": _cut_bytes(text, _CARD_BYTES)}]} for text in texts]
    schema = "http://adaptivecards.io/schemas/adaptive-card.json"
    content = {"$schema": schema, "type": "AdaptiveCard", "version": "1.4", "body": lines}
    return {"type": "message", "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": content}]}


def _event(settings: Mapping[str, Any], job: str, alert: AlertNode, message: Message) -> dict[str, Any]:
    """Return an event of PagerDuty. An item that leaves resolves the incident that its entry has opened."""
    about = [job, alert.name, message.get("query"), message.get("key"), message.get("item")]
    stays = message["on"] in ("enter", "leave") and "enter" in alert.when
    key = hashlib.sha256(_json(about)).hexdigest() if stays else message["id"]
    found = {"routing_key": settings["routing_key"], "dedup_key": key}
    if stays and message["on"] == "leave":
        return {**found, "event_action": "resolve"}
    payload = {
        "summary": cut(message["text"], _SUMMARY), "source": job, "severity": settings.get("severity") or "error", "component": alert.name,
        "timestamp": message.get("time") or message.get("to"), "custom_details": message,
    }  # fmt: skip
    return {**found, "event_action": "trigger", "payload": payload}


def _filled(body: Any, values: Mapping[str, str], messages: list[Message]) -> Any:
    """Return the operator's body with values in its texts."""
    if isinstance(body, str):
        return messages if body == MESSAGES else fill(body, {**values, "messages": str(len(messages))})
    if isinstance(body, dict):
        return {name: _filled(value, values, messages) for name, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, values, messages) for value in body]
    return body


def _cut_bytes(text: str, most: int) -> str:
    data = text.encode()
    return text if len(data) <= most else data[: most - 3].decode(errors="ignore") + "..."


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
