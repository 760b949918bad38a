"""A client of yaml-language-server, as an editor is one: opens files, reads what is marked in them, asks for completions and hovers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUILT = Path(__file__).resolve().parents[4] / "build" / "editor" / "node_modules" / ".bin" / "yaml-language-server"
"""Where ``make editor-test`` puts it."""
_PATIENCE = 60
"""Seconds after which the server is ended, so that a test fails and does not hang."""


def command() -> str | None:
    """The server's command, or None where there is none."""
    return str(BUILT) if BUILT.exists() and shutil.which("node") else shutil.which("yaml-language-server")


class Editor:
    """One server and what it said of the files."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.asked = self.files = 0
        self.marked: dict[str, list[Any]] = {}

    def opened(self, path: Path, text: str | None = None) -> list[str]:
        """Opens a file (as if it held ``text``): what is marked in it, as ``line:column message``, counted from 1."""
        marked = self.marked[self._open(path, path.read_text(encoding="utf-8") if text is None else text)]
        return [f"{d['range']['start']['line'] + 1}:{d['range']['start']['character'] + 1} {d['message']}" for d in marked]

    def _open(self, path: Path, text: str) -> str:
        """The URI of a file beside ``path``, which is there for the server alone: every text is a new one."""
        self.files += 1
        uri = path.with_stem(f"{path.stem}_{self.files}").as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self._send(method="textDocument/didOpen", params={"textDocument": document})
        self._until(lambda m: m.get("method") == "textDocument/publishDiagnostics" and m["params"]["uri"] == uri)
        return uri

    def completions(self, path: Path, text: str) -> dict[str, str]:
        """What is offered at the ``^`` of a text: label -> words about it."""
        answer = self._at("completion", path, text)
        return {item["label"]: _words(item.get("documentation")) for item in answer["items"]}

    def hover(self, path: Path, text: str) -> str:
        """What is shown over the ``^`` of a text."""
        answer = self._at("hover", path, text)
        return _words(answer["contents"]) if answer else ""

    def _at(self, what: str, path: Path, text: str) -> Any:
        before, after = text.split("^")
        uri = self._open(path, before + after)
        place = {"line": before.count("\n"), "character": len(before) - (before.rfind("\n") + 1)}
        return self.ask(f"textDocument/{what}", {"textDocument": {"uri": uri}, "position": place})

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a request."""
        self.asked += 1
        number = self.asked
        self._send(id=number, method=method, params=params)
        return self._until(lambda m: m.get("id") == number and "method" not in m).get("result")

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Reads messages up to one that is wanted; the server's own questions are answered."""
        while True:
            message = self._read()
            if "method" in message and "id" in message:
                self._send(id=message["id"], result=_answer(message))
            elif message.get("method") == "textDocument/publishDiagnostics":
                self.marked[message["params"]["uri"]] = message["params"]["diagnostics"]
            if wanted(message):
                return message

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server has ended"
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return message


def _answer(message: Mapping[str, Any]) -> Any:
    """Settings: everything on, no schemas but those that a file names."""
    if message["method"] != "workspace/configuration":
        return None
    yaml = {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}
    return [yaml if item.get("section") == "yaml" else None for item in message["params"]["items"]]


def _words(content: Any) -> str:
    return str(content.get("value", "")) if isinstance(content, dict) else str(content or "")


@contextmanager
def editor(started: str) -> Iterator[Editor]:
    """A running server, ended at the end."""
    with subprocess.Popen([started, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        timer = threading.Timer(_PATIENCE, process.kill)
        timer.start()
        try:
            made = Editor(process)
            completion = {"completionItem": {"snippetSupport": True, "documentationFormat": ["markdown"]}}
            able = {
                "textDocument": {"completion": completion, "hover": {"contentFormat": ["markdown"]}},
                "workspace": {"configuration": True},
            }
            made.ask("initialize", {"processId": os.getpid(), "rootUri": None, "capabilities": able})
            made._send(method="initialized", params={})
            yield made
        finally:
            timer.cancel()
            process.kill()
