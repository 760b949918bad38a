"""The operator's file of channels: what it may say, what is refused and where, and that its secrets are shown nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.alerts.channels import Channel, channels_of, configured
from skyband.framework.alerts.positions import Position, Positions, Request
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import redact_values, reveal_all
from skyband.framework.sources.kafka.client import JAR
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.spark.packages import packages
from tests.framework.alerts.jobs import plan_of, text_of

GOOD = """
[pager]
webhook = "https://hooks.example.com/${PAGER_PATH}"
headers = {Authorization = "Bearer ${PAGER_TOKEN}"}
jobs = ["machines"]
at_most = 5
seconds = 3

[desk]
command = "notify-send --body '${PAGER_PATH} x'"

[bus]
kafka = {servers = "b:9092", topic = "alerts", user = "me", password = "${PAGER_TOKEN}", tls = true}
"""
ENV = {"PAGER_PATH": "T00/secret%20path", "PAGER_TOKEN": "tok-en-123"}


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    reveal_all()


def env_of(directory: Path, text: str, **more: str) -> dict[str, str]:
    path = directory / "channels.toml"
    path.write_text(text)
    path.chmod(0o600)
    return {**ENV, "SKYBAND_CHANNELS": str(path), **more}


def test_channels_and_their_secrets(tmp_path: Path) -> None:
    found = configured(env_of(tmp_path, GOOD))
    assert found == {
        "pager": Channel(
            "pager", "https://hooks.example.com/T00/secret%20path", (("Authorization", "Bearer tok-en-123"),), jobs=frozenset({"machines"}),
            at_most=5, seconds=3,
        ),
        "desk": Channel("desk", command=("notify-send", "--body", "T00/secret%20path x")),
        "bus": Channel(
            "bus", topic="alerts",
            kafka=(("servers", "b:9092"), ("user", "me"), ("password", "tok-en-123"), ("tls", "true")),
        ),
    }  # fmt: skip
    assert found is not None
    for secret in ENV.values():
        assert secret not in repr(found)
        assert secret not in redact_values(f"at https://hooks.example.com/{secret} with {secret}")
    assert "hooks.example.com" not in redact_values(f"POST {found['pager'].webhook}")
    assert configured({}) is None and configured({"SKYBAND_CHANNELS": ""}) is None


@pytest.mark.parametrize(
    "text, said, line",
    [
        ("[pager", "TOML syntax", 1),
        ("pager = 1", "[pager]", 1),
        ("[pager]\nurl = 'x'", "unknown key 'url'", 2),
        ("[pager]\nat_most = 3", "needs one of", 1),
        ("\n[pager]\nwebhook = 'http://a'\ncommand = 'b'", "needs one of", 2),
        ("[pager]\nwebhook = 'ftp://a'", "not a URL", 2),
        ("[pager]\nwebhook = 3", "is a text", 2),
        ("[pager]\nwebhook = 'https://me:secret@a/b'", "a login before its host", 2),
        ("[pager]\nwebhook = 'https://a/b c'", "cannot have", 2),
        ("[pager]\nwebhook = 'https://a/b\u00e9'", "cannot have", 2),
        (f"pager = {'[' * 60_000}", "nested too deeply", None),
        (f"[pager]\nat_most = {'9' * 5_000}", "too long", None),
        ("[pager]\nwebhook = 'http://a/${NOT_SET}'", "NOT_SET is not set", 2),
        ("[pager]\nwebhook = 'http://a/${A-b}'", "not followed by", 2),
        ("[pager]\nwebhook = 'http://a'\nheaders = {'a b' = 'c'}", "not a header", 3),
        ("[pager]\nwebhook = 'http://a'\nheaders = {a = \"b\\nc\"}", "of one line", 3),
        ("[pager]\ncommand = 'a'\nheaders = {a = 'b'}", "only for a webhook", 3),
        ('[pager]\ncommand = "a \'b"', "not a command", 2),
        ("[pager]\ncommand = ' '", "is empty", 2),
        ("[pager]\ncommand = ['a']", "is a text", 2),
        ("[pager]\ncommand = 'a'\njobs = 'b'", "a list of names", 3),
        ("[pager]\ncommand = 'a'\nseconds = 0", "from 1 to 60", 3),
        ("[pager]\ncommand = 'a'\nat_most = true", "whole number", 3),
        ("[pager]\nkafka = {servers = 'b:9', topic = 't', user = 'u'}", "needs 'password'", 2),
        ("[pager]\nkafka = {servers = 'b', topic = 't'}", "HOST:PORT", 2),
        ("[pager]\nkafka = {servers = 'b:9', topic = 'a/b'}", "topic takes", 2),
        ("[pager]\nkafka = {servers = 'b:9'}", "needs 'topic'", 2),
        ("[pager]\nkafka = {servers = 'b:9', topic = 't', acks = 0}", "unknown key 'acks'", 2),
        ("['a-b']\ncommand = 'a'", "not a name", 1),
    ],
)
def test_what_is_refused_and_where(text: str, said: str, line: int | None, tmp_path: Path) -> None:
    with pytest.raises(SkybandError) as e:
        configured(env_of(tmp_path, text))
    assert e.value.code == "SKY-E660" and said in e.value.message and (e.value.where.line if e.value.where is not None else None) == line


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    env = env_of(tmp_path, GOOD)
    path = Path(env["SKYBAND_CHANNELS"])
    for mode, ok in ((0o602, False), (0o666, False), (0o640, True)):
        path.chmod(mode)
        if ok:
            assert configured(env)
        else:
            with pytest.raises(SkybandError, match="all users may write it"):
                configured(env)
    for place in (tmp_path, tmp_path / "none", "/dev/null"):
        with pytest.raises(SkybandError) as e:
            configured({"SKYBAND_CHANNELS": str(place)})
        assert e.value.code == "SKY-E660"
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        with pytest.raises(SkybandError, match="belongs to another user"):
            configured(env)


def test_a_job_needs_its_channels(tmp_path: Path) -> None:
    def refused(env: dict[str, str], channel: str = "pager") -> str:
        with pytest.raises(SkybandError) as e:
            channels_of("machines", plan_of(f"{{a: {{channel: {channel}}}}}", tmp_path).alerts, env)
        assert e.value.code == "SKY-E661"
        return f"{e.value.message} {e.value.hint}"

    env = env_of(tmp_path, GOOD)
    assert set(channels_of("machines", plan_of("{a: {channel: pager}, b: {channel: desk}}", tmp_path).alerts, env)) == {"pager", "desk"}
    assert "set SKYBAND_CHANNELS" in refused({}) and "did you mean 'pager'?" in refused(env, "pagr")
    assert "not for this job" in refused(env_of(tmp_path, GOOD.replace("machines", "others")))
    assert channels_of("machines", (), {"SKYBAND_CHANNELS": "/none"}) == {}


def test_only_a_run_that_sends_needs_the_channels_and_their_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKYBAND_CHANNELS", raising=False)
    bus, desk = (plan_of(f"{{a: {{channel: {channel}}}}}", tmp_path) for channel in ("bus", "desk"))
    assert packages(bus) == ()
    with pytest.raises(SkybandError, match="not configured"):
        packages(bus, alerts=True)
    for name, value in env_of(tmp_path, GOOD).items():
        monkeypatch.setenv(name, value)
    assert packages(bus, alerts=True) == (JAR,) and packages(desk, alerts=True) == ()


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"alerts": 1}', b'{"alerts": {"a": {}}}', b"\xff", b'{"alerts": {}, "more": 1}', None])
def test_positions_that_do_not_fit_are_as_none(content: bytes | None, tmp_path: Path) -> None:
    if content is None:
        (tmp_path / "alerts.json").mkdir()
    else:
        (tmp_path / "alerts.json").write_bytes(content)
    found = Positions(tmp_path, ["a"])
    assert found.get("a") is None and found.damaged


def test_positions_are_of_the_alerts_that_there_are(tmp_path: Path) -> None:
    position = Position("gen1", 4, "0" * 16, messages=3, frontier=5, sending=Request(2, False))
    first = Positions(tmp_path, ["a", "b"])
    first.save("a", position)
    first.save("b", replace(position, batch=-2))
    assert Positions(tmp_path, ["a"]).get("a") == position and Positions(tmp_path, ["a"]).get("b") is None
    Positions(tmp_path, ["b"]).save("b", position)
    assert Positions(tmp_path, ["a", "b"]).get("a") is None and Positions(tmp_path, []).damaged is None


def test_a_spec_may_not_use_what_the_file_uses(tmp_path: Path) -> None:
    env = env_of(tmp_path, GOOD, SITE="here")
    text = text_of("{}").replace("where: load > 0", "where: 'load > ${PAGER_TOKEN}'")
    errors = validate_text(text, env)[1]
    assert [(e.code, e.message) for e in errors] == [("SKY-E119", "a spec may not use the environment variable PAGER_TOKEN")]
    assert errors[0].where is not None and ENV["PAGER_TOKEN"] not in errors[0].render()
    for spelled in (r"\u0024{PAGER_TOKEN}", r"$\u007bPAGER_TOKEN}", r"${PAGER_\u0054OKEN}"):
        escaped = env_of(tmp_path, GOOD.replace("${PAGER_TOKEN}", spelled))
        found = configured(escaped)
        assert found is not None and found["pager"].headers == (("Authorization", "Bearer tok-en-123"),)
        assert [e.code for e in validate_text(text, escaped)[1]] == ["SKY-E119"]
    # A file that cannot be parsed reserves what it names.
    assert [e.code for e in validate_text(text, env_of(tmp_path, f"{GOOD}["))[1]] == ["SKY-E119"]
    allowed: Any = validate_text(text_of("{}").replace("{path: out}", "{path: '/srv/${SITE}'}"), env)
    assert allowed[1] == []
