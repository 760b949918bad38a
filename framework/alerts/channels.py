"""The channels that the operator has configured: where alerts are sent. A spec names a channel and nothing else."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from skyband.framework.alerts.channel_file import CHANNELS, CODE, REFERENCE, path_of, text_of
from skyband.framework.alerts.messages import Message, envelope
from skyband.framework.alerts.template import cut, fill, mistakes
from skyband.framework.base.errors import SkybandError, Where, did_you_mean, one_of
from skyband.framework.base.redaction import conceal
from skyband.framework.console.receivers import is_url
from skyband.framework.plan.nodes import AlertNode
from skyband.framework.settings.toml_file import line_of, parse
from skyband.framework.sources.kafka.client import MECHANISMS, TEXTS, TOPIC, lacking

# Write requests to webhooks in the form that receivers take: Slack, Teams, PagerDuty, services that send mail, or the operator's own.
#
# Texts have values of rows in them, which anybody may have written: they are escaped for the receiver, and put into finished JSON values,
# so that none of them mentions a channel, becomes a link or ends a text.

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


SECONDS: Final = 10
"""How long a receiver may take, unless its channel says otherwise."""
_RECEIVERS: Final = ("webhook", "command", "kafka")
_OF_FORMATS: Final = {"pagerduty": ("routing_key", "severity"), "mail": ("from", "to")}
"""Keys of a channel that belong to a format; the first is needed, and of mail both."""
_KEYS: Final = (*_RECEIVERS, "headers", "jobs", "at_most", "seconds", "format", "body", "routing_key", "severity", "from", "to")
_KAFKA: Final = ("servers", "topic", "user", "password", "mechanism", "tls")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_SHORTEST: Final = 8
"""Shorter texts are concealed only if they come from the environment: they may be parts of other words."""
_BAD_REFERENCE: Final = re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*\})")


@dataclass(frozen=True, slots=True)
class Channel:
    """Where messages go: to a ``webhook``, the words of a ``command``, or the Kafka topic ``topic`` of ``kafka`` (options, with login).

    ``jobs``: the jobs that may use it; None: all. ``at_most``: messages a minute of each alert. ``seconds``: how long a request may take.
    ``form`` and ``settings``: what a webhook's requests look like (``bodies``).
    """

    name: str
    webhook: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)
    kafka: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    topic: str = ""
    jobs: frozenset[str] | None = None
    at_most: int | None = None
    seconds: float = SECONDS
    form: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)


def configured(env: Mapping[str, str]) -> dict[str, Channel] | None:
    """Return the channels by name, None if the environment names no file. Raises SkybandError SKY-E660 with the line of a mistake."""
    path = path_of(env)
    if path is None:
        return None
    text = text_of(path)
    file = _File(path, text, env)
    return {name: file.channel(name, table) for name, table in parse(path, text, CODE).items()}


def channels_of(job: str, alerts: Iterable[AlertNode], env: Mapping[str, str] | None = None) -> dict[str, Channel]:
    """Return the channels that ``alerts`` of ``job`` use, by name; imports and reads nothing more if there are none.

    Raises SkybandError SKY-E660 if the file cannot be used, SKY-E661 if a channel is not configured for the job.
    """
    alerts = tuple(alerts)
    if not alerts:
        return {}
    known = configured(os.environ if env is None else env)
    found = {}
    for alert in alerts:
        said = f"alert {alert.name!r} of job {job!r} needs channel {alert.channel!r}, which"
        if known is None:
            raise SkybandError("SKY-E661", f"{said} is not configured", f"set {CHANNELS} to the file with the channels")
        channel = known.get(alert.channel)
        if channel is None:
            hint = did_you_mean(alert.channel, known) or (f"channels: {one_of(list(known), 20)}" if known else f"{CHANNELS} has no channel")
            raise SkybandError("SKY-E661", f"{said} is not configured", hint)
        if channel.jobs is not None and job not in channel.jobs:
            raise SkybandError("SKY-E661", f"{said} is not for this job", "the operator lists the jobs of a channel in its 'jobs'")
        found[channel.name] = channel
    return found


def use_kafka(job: str, alerts: Iterable[AlertNode]) -> bool:
    """Return True if any of ``alerts`` is sent to a topic of Kafka. Raises as ``channels_of``."""
    return any(channel.kafka for channel in channels_of(job, alerts).values())


class _File:
    """A parsed file of channels; checks its parts."""

    def __init__(self, path: Path, text: str, env: Mapping[str, str]) -> None:
        self.path, self.text, self.env = path, text, env

    def channel(self, name: str, table: Any) -> Channel:
        """Return the channel ``name``. Raises SkybandError SKY-E660."""
        at = (name,)
        if _NAME.fullmatch(name) is None:
            raise self._wrong(f"{name!r} is not a name of a channel: letters, digits and _", at)
        self._only(table, _KEYS, at)
        given = [key for key in _RECEIVERS if key in table]
        if len(given) != 1:
            raise self._wrong(f"channel {name!r} needs one of {one_of(_RECEIVERS)}", at)
        if "headers" in table and given != ["webhook"]:
            raise self._wrong("headers are only for a webhook", (*at, "headers"))
        form, settings = self._form(table, at, given == ["webhook"])
        jobs = table.get("jobs")
        if jobs is not None and not (isinstance(jobs, list) and all(isinstance(j, str) for j in jobs)):
            raise self._wrong("jobs is a list of names of jobs", (*at, "jobs"))
        more = self._kafka(table["kafka"], (*at, "kafka")) if "kafka" in table else {}
        return Channel(
            name,
            webhook=self._webhook(table["webhook"], (*at, "webhook")) if "webhook" in table else None,
            headers=self._headers(table.get("headers", {}), (*at, "headers")),
            command=self._command(table["command"], (*at, "command")) if "command" in table else (),
            kafka=tuple((n, v) for n, v in more.items() if n != "topic"),
            topic=more.get("topic", ""),
            jobs=None if jobs is None else frozenset(jobs),
            at_most=self._whole(table, "at_most", 1, 10_000, at),
            seconds=self._whole(table, "seconds", 1, 60, at) or SECONDS,
            form=form,
            settings=settings,
        )

    def _form(self, table: dict[str, Any], at: tuple[str, ...], webhook: bool) -> tuple[str, dict[str, Any]]:
        """Return the format of a webhook's requests and its settings."""
        for key in ("format", "body"):
            if key in table and not webhook:
                raise self._wrong(f"{key} is only for a webhook", (*at, key))
        form = table.get("format", "")
        if "format" in table and form not in FORMATS:
            hint = did_you_mean(form, FORMATS) if isinstance(form, str) else None
            raise self._wrong(f"format is one of {one_of(FORMATS)}", (*at, "format"), hint)
        if form and "body" in table:
            raise self._wrong("a channel has 'format' or 'body'", (*at, "body"))
        for owner, keys in _OF_FORMATS.items():
            for key in (k for k in keys if k in table and owner != form):
                raise self._wrong(f'{key} is only for format = "{owner}"', (*at, key))
        for key in {"pagerduty": ("routing_key",), "mail": ("from", "to")}.get(form, ()):
            if key not in table:
                raise self._wrong(f"format = \"{form}\" needs '{key}'", at)
        if form == "pagerduty":
            severity = table.get("severity", "error")
            if severity not in SEVERITIES:
                raise self._wrong(f"severity is one of {one_of(SEVERITIES)}", (*at, "severity"))
            return form, {"routing_key": self._secret(table["routing_key"], (*at, "routing_key")), "severity": severity}
        if form == "mail":
            to = table["to"] if isinstance(table["to"], list) else [table["to"]]
            if not to:
                raise self._wrong("to is empty", (*at, "to"), "write at least one address")
            addresses = {"from": self._address(table["from"], (*at, "from")), "to": [self._address(one, (*at, "to")) for one in to]}
            return form, {"body": {**addresses, **MAIL}}
        if "body" not in table:
            return form, {}
        if not isinstance(table["body"], dict):
            raise self._wrong("body is a table: the JSON object of a request", (*at, "body"))
        return form, {"body": self._body(table["body"], (*at, "body"))}

    def _address(self, value: Any, at: tuple[str, ...]) -> Any:
        if not isinstance(value, str) or not value:
            raise self._wrong(f"{at[-1]} is an address, which is a text", at)
        return self._body(value, at)

    def _body(self, value: Any, at: tuple[str, ...]) -> Any:
        """Return a part of a body; its texts may have ``{name}`` of a message, and ``${NAME}`` of the environment, which is no template."""
        if isinstance(value, str):
            filled = self._filled(value, at, lambda text: text.replace("{", "{{").replace("}", "}}")) if value else value
            for mistake in mistakes(filled, NAMES):
                raise self._wrong(mistake.message, at, mistake.hint)
            return filled
        if isinstance(value, dict):
            return {name: self._body(one, (*at, name)) for name, one in value.items()}
        if isinstance(value, list):
            return [self._body(one, at) for one in value]
        if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise self._wrong(f"{at[-1]} has a value that JSON cannot have", at, "write a text, a number, true, false, a list or a table")

    def _webhook(self, value: Any, at: tuple[str, ...]) -> str:
        url = self._secret(value, at)
        if not is_url(url):
            raise self._wrong("webhook is not a URL with http or https and a host", at)
        if "@" in urlsplit(url).netloc:
            raise self._wrong("webhook has a login before its host", at, "write it as headers: {Authorization = ...}")
        if not url.isascii() or " " in url:
            raise self._wrong("webhook has characters that a URL cannot have", at, "write them as %20, for instance")
        return url

    def _headers(self, table: Any, at: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        if not isinstance(table, dict):
            raise self._wrong("headers is a table of texts", at)
        made = []
        for name, value in table.items():
            text = self._secret(value, (*at, name))
            if _HEADER.fullmatch(name) is None or not text.isprintable() or not text.isascii():
                raise self._wrong(f"{name!r} is not a header with a value of one line", (*at, name))
            made.append((name, text))
        return tuple(made)

    def _command(self, value: Any, at: tuple[str, ...]) -> tuple[str, ...]:
        # Split before values are put in: none of them becomes several words.
        if not isinstance(value, str):
            raise self._wrong("command is a text: the words of a command", at)
        try:
            words = shlex.split(value)
        except ValueError as e:
            raise self._wrong(f"command is not a command: {str(e).lower()}", at, "write it as in a shell; no shell runs it") from None
        if not words:
            raise self._wrong("command is empty", at)
        made = tuple(self._filled(word, at) for word in words)
        if any("\0" in word for word in made):
            raise self._wrong("a word of the command has a NUL character", at)
        return made

    def _kafka(self, table: Any, at: tuple[str, ...]) -> dict[str, str]:
        self._only(table, _KAFKA, at)
        made: dict[str, str] = {}
        for name in ("servers", "topic"):
            if name not in table:
                raise self._wrong(f"kafka needs '{name}'", at)
        for name in _KAFKA:
            if name in table and name != "tls":
                made[name] = (
                    self._secret(table[name], (*at, name)) if name in ("user", "password") else self._filled(table[name], (*at, name))
                )
        for name, (pattern, what) in TEXTS.items():
            if name in made and re.fullmatch(pattern, made[name]) is None:
                raise self._wrong(f"{name} takes {what}", (*at, name))
        if re.fullmatch(TOPIC, made["topic"]) is None:
            raise self._wrong("topic takes letters, digits, '.', '_' and '-', at most 249", (*at, "topic"))
        if made.get("mechanism", MECHANISMS[0]) not in MECHANISMS:
            raise self._wrong(f"mechanism is one of {one_of(MECHANISMS)}", (*at, "mechanism"))
        for name in lacking(set(made)):
            raise self._wrong(f"a login needs '{name}' as well", at)
        if not isinstance(table.get("tls", False), bool):
            raise self._wrong("tls is true or false", (*at, "tls"))
        return {**made, "tls": str(table.get("tls", False)).lower()}

    def _secret(self, value: Any, at: tuple[str, ...]) -> str:
        """Return a text with values of the environment; unless it is short, all of it is concealed from now on."""
        text = self._filled(value, at)
        if len(text) >= _SHORTEST:
            conceal(CHANNELS, text)
        return text

    def _filled(self, value: Any, at: tuple[str, ...], escape: Callable[[str], str] = str) -> str:
        """Return a text of the file with every ``${NAME}`` replaced by its escaped value. The values are concealed from now on."""
        if not isinstance(value, str) or not value:
            raise self._wrong(f"{at[-1]} is a text", at)
        if _BAD_REFERENCE.search(value):
            raise self._wrong("'${' is not followed by the name of a variable and '}'", at, "write ${NAME}")

        def replace(m: re.Match[str]) -> str:
            name = m.group(1)
            if not self.env.get(name):
                raise self._wrong(f"environment variable {name} is not set", at, f"set it, for instance: export {name}=...")
            conceal(name, self.env[name])
            return escape(self.env[name])

        return REFERENCE.sub(replace, value)

    def _whole(self, table: dict[str, Any], name: str, least: int, most: int, at: tuple[str, ...]) -> int | None:
        value = table.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most):
            raise self._wrong(f"{name} is a whole number from {least:,} to {most:,}", (*at, name))
        return value

    def _only(self, table: Any, known: tuple[str, ...], at: tuple[str, ...]) -> None:
        if not isinstance(table, dict):
            raise self._wrong(f"{'.'.join(at)} is a table: [{'.'.join(at)}]", at)
        for key in table:
            if key not in known:
                hint = did_you_mean(key, known) or f"known: {one_of(known)}"
                raise self._wrong(f"unknown key {key!r} in [{'.'.join(at)}]", (*at, key), hint)

    def _wrong(self, said: str, at: tuple[str, ...], hint: str | None = None) -> SkybandError:
        return SkybandError(CODE, said, hint, Where(str(self.path), line_of(self.text, at), 1))
