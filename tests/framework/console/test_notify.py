"""Who is told of a failed run: what it gets, when, and that nothing of a spec or of a receiver changes that."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skyband.framework.base import redaction
from skyband.framework.base.errors import SkybandError
from skyband.framework.console.receivers import COMMAND, WEBHOOK, Receivers
from skyband.framework.plan.model import Plan
from skyband.framework.quality.gate import Gate
from skyband.framework.spec.parsing.document import resolve
from skyband.jobs import cli
from skyband.jobs.outcome import STATUSES, Outcome
from tests.spark.jobs import write_file, write_spec


@contextmanager
def receiver(answer: int = 204, head: dict[str, str] | None = None, wait: float = 0.0) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook on loopback that answers so: its URL, and what it has been told."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append({"path": self.path, "type": self.headers["Content-Type"], "outcome": json.loads(body)})
            time.sleep(wait)
            self.send_response(answer)
            for name, value in (head or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook?token=s3cret-token", got
        finally:
            server.shutdown()


def writing(path: Path, then: str = "") -> str:
    """A command that writes what it is told into a file."""
    return f'"{sys.executable}" -c "import sys; open(sys.argv[1], \'w\').write(sys.stdin.read()); {then}" "{path}"'


@pytest.fixture
def refused(tmp_path: Path) -> str:
    """A spec with a mistake, whose run ends before any engine is started."""
    spec = write_spec(tmp_path)
    spec.write_text(spec.read_text().replace("window:", "windo:", 1))
    return str(spec)


def test_a_webhook_is_told_the_outcome(refused: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    with receiver() as (url, got):
        monkeypatch.setenv(WEBHOOK, url)
        assert cli.main(["run", refused, "--outcome", str(tmp_path / "out.json")]) == 2
    (told,) = got
    assert told["path"] == "/hook?token=s3cret-token" and told["type"] == "application/json"
    assert told["outcome"]["status"] == "refused" and told["outcome"]["exit_code"] == 2
    assert told["outcome"]["errors"][0]["code"] == "SKY-E110"
    written = json.loads((tmp_path / "out.json").read_text())
    assert {**written, "wall_seconds": 0, "ended_at": ""} == {**told["outcome"], "wall_seconds": 0, "ended_at": ""}
    assert "SKY-E560" not in capsys.readouterr().err


def test_a_command_is_told_and_the_options_goes_before_the_environments(
    refused: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(COMMAND, writing(tmp_path / "of the environment"))
    assert cli.main(["run", refused]) == 2
    assert cli.main(["run", refused, "--notify-command", writing(tmp_path / "asked; touch not-run")]) == 2
    assert cli.main(["run", refused, "--notify-command", ""]) == 2
    for name in ("of the environment", "asked; touch not-run"):
        assert json.loads((tmp_path / name).read_text())["status"] == "refused"
    assert sorted(p.name for p in tmp_path.iterdir() if "run" in p.name) == ["asked; touch not-run"]


@pytest.mark.parametrize("code", [*STATUSES, 130, 143])
def test_only_a_failure_is_told(code: int, tmp_path: Path) -> None:
    outcome = Outcome(None)
    outcome.receivers = Receivers.of({}, writing(tmp_path / "told"))
    assert outcome.notify(code, []) == []
    assert (tmp_path / "told").exists() == (0 < code < 5)


def test_a_run_that_goes_on_is_told_as_one(tmp_path: Path) -> None:
    outcome = Outcome(None)
    outcome.receivers = Receivers.of({}, writing(tmp_path / "told"))
    outcome.watch("small", ["top"], lambda: {"top": (3, "t")})
    outcome.look(lambda: [])
    assert outcome.notify(None, [SkybandError("SKY-E500", "a check failed")]) == []
    told = json.loads((tmp_path / "told").read_text())
    assert (told["status"], told["exit_code"], told["ended_at"]) == ("running", None, None)
    assert told["errors"][0]["code"] == "SKY-E500" and told["tables"] == {"top": {"from": 3, "to": 3, "id": "t"}}


def test_a_gate_that_fails_between_batches_is_told_once_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ``run`` with Spark left out: a continuous run passes its gate four times, then ends."""
    told: list[tuple[str, int]] = []
    passed: list[int] = []

    class Continuous:
        def __init__(self, _: Any, plan: Plan, *__: Any, gate: Callable[[Any], None], **___: Any) -> None:
            self.gate, self.plan = gate, plan

        def run(self, **_: Any) -> Any:
            for _ in range(4):
                self.gate(SimpleNamespace(plan=self.plan))
                passed.append(len(told))
            return SimpleNamespace(completed=True, sink=SimpleNamespace(plan=self.plan), header=None)

    def look(gate: Gate, *_: Any) -> int:
        # The third look finds something, the last of all finds nothing new.
        gate.code = max(gate.code, int(len(passed) == 2))
        return gate.code

    def tell(_: Receivers, outcome: dict[str, Any]) -> list[SkybandError]:
        told.append((outcome["status"], outcome["exit_code"]))
        return []

    monkeypatch.setattr("skyband.framework.streaming.spark.session.get_session", lambda *_, **__: None)
    monkeypatch.setattr("skyband.framework.streaming.run.fork_ahead.fork_ahead", lambda *_: None)
    monkeypatch.setattr("skyband.framework.streaming.run.runner.Runner", Continuous)
    monkeypatch.setattr("skyband.framework.tables.writing.factory.writer_for", lambda *_: None)
    monkeypatch.setattr("skyband.framework.quality.rejections.report", lambda *_: 0)
    monkeypatch.setattr(Gate, "look", look)
    monkeypatch.setattr(Receivers, "tell", tell)
    spec = write_spec(tmp_path)
    write_file(tmp_path, "1.csv", [], at=1)
    assert cli.main(["run", str(spec), "--continuous", "--quiet", "--notify-command", "true"]) == 1
    assert passed == [0, 0, 1, 1] and told == [("running", None), ("checks_failed", 1)]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/no/such/command", "/no/such/command: No such file or directory"),
        (f'"{sys.executable}" -c "import sys; sys.exit(3)"', "ended with exit code 3"),
        (f'"{sys.executable}" -c "import time; time.sleep(60)"', "no answer within 0.2 s"),
    ],
)
def test_a_command_that_fails_is_told_and_changes_nothing(command: str, said: str) -> None:
    made = Receivers(command=Receivers.of({}, command).command, seconds=0.2 if "sleep" in command else 10)
    (error,) = made.tell({"status": "failed"})
    assert error.code == "SKY-E560" and error.message.startswith("the outcome of the run did not reach the command")
    assert said in error.message


def test_a_webhook_that_fails_is_told_and_changes_nothing(refused: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with receiver() as (elsewhere, never), receiver(302, {"Location": elsewhere}) as (url, got):
        monkeypatch.setenv(WEBHOOK, url)
        assert cli.main(["run", refused]) == 2
    assert len(got) == 1 and never == []
    assert "SKY-E560 the outcome of the run did not reach the webhook: it answered 302" in capsys.readouterr().err
    # Nobody listens there any more.
    assert cli.main(["run", refused]) == 2
    err = capsys.readouterr().err
    assert "SKY-E560 the outcome of the run did not reach the webhook: Connection refused" in err and "s3cret" not in err


def test_a_receiver_has_so_long() -> None:
    with receiver(wait=3) as (url, _):
        (error,) = Receivers(webhook=url, seconds=0.2).tell({})
    assert error.code == "SKY-E560" and "s3cret" not in error.message


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "hooks.example/x", "http://", "http://host:x/", "http://h/\nx"])
def test_what_is_no_url_of_the_web_is_refused_before_the_run_and_not_shown(url: str, refused: str, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv(WEBHOOK, url)
    assert cli.main(["run", refused]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"SKY-E201 {WEBHOOK} is not a URL") and url not in err


def test_a_command_with_an_open_quote_is_refused() -> None:
    with pytest.raises(SkybandError, match="--notify-command is not a command: no closing quotation"):
        Receivers.of({}, "mail 'me")
    with pytest.raises(SkybandError, match=f"{COMMAND} is not a command"):
        Receivers.of({COMMAND: "mail 'me"})


def test_no_spec_learns_or_names_a_receiver(tmp_path: Path) -> None:
    env = {WEBHOOK: "https://host/token", "SKYBAND_VARIABLES": WEBHOOK}
    text, used, problems = resolve(f"${{{WEBHOOK}}}", env)
    assert text == f"${{{WEBHOOK}}}" and not used
    assert [(p.code, p.hint) for p in problems] == [("SKY-E119", "the variable is reserved for the person who runs the job")]


def test_the_url_is_concealed_wherever_it_reappears() -> None:
    redaction.reveal_all()
    Receivers.of({WEBHOOK: "https://host.example/services/T0/B0/xyz"})
    assert redaction.redact_values("could not reach https://host.example/services/T0/B0/xyz") == f"could not reach ${{{WEBHOOK}}}"
    redaction.reveal_all()
