"""A server that speaks the part of Unity Catalog's open interface that Skyband uses.

The real server is not on the package index that tests can reach. This one follows its published OpenAPI document and what its sources do:
names of letters, digits, ``_``, ``-`` and ``@``; 404 with ``error_code`` for what is not there; 400 for a table that exists; locations as
URLs. ``test_unity.py`` compares it with the official Python client where that is installed.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = "/api/2.1/unity-catalog"
NAME = re.compile(r"[a-zA-Z0-9_@-]{1,255}")


@dataclass
class Server:
    """``requests``: (method, path, authorization) of each. ``fail``: status of every answer; ``slow``: seconds before each; ``redirect``:
    where each leads; ``trickle``: seconds between the bytes of an answer; ``raw``: the body of every answer."""

    url: str = ""
    token: str | None = None
    catalogs: set[str] = field(default_factory=lambda: {"main"})
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    fail: int | None = None
    slow: float = 0.0
    redirect: str | None = None
    trickle: float = 0.0
    raw: bytes | None = None

    def names(self, schema: str) -> set[str]:
        """The tables of a schema."""
        return {t["name"] for name, t in self.tables.items() if name.startswith(f"{schema}.")}

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the JSON object of an answer."""
        kind, _, name = path.removeprefix(ROOT + "/").partition("/")
        kept = {"schemas": self.schemas, "tables": self.tables}.get(kind)
        if kept is None:
            return _error(404, "NOT_FOUND", "no such path")
        name = unquote(name)
        if method == "POST":
            return self._create(kind, kept, body)
        if name.rpartition(".")[0] not in (self.catalogs if kind == "schemas" else self.schemas) or name not in kept:
            return _error(404, "NOT_FOUND", f"{kind.title()[:-1]} not found: {name}")
        return (200, kept.pop(name) and {}) if method == "DELETE" else (200, kept[name])

    def _create(self, kind: str, kept: dict[str, dict[str, Any]], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.bodies.append(body)
        if NAME.fullmatch(str(body.get("name"))) is None:
            return _error(400, "INVALID_ARGUMENT", "Name cannot contain a period, space, forward-slash, or control characters")
        above = body["catalog_name"] if kind == "schemas" else f"{body['catalog_name']}.{body['schema_name']}"
        if above not in (self.catalogs if kind == "schemas" else self.schemas):
            return _error(404, "NOT_FOUND", f"{'Catalog' if kind == 'schemas' else 'Schema'} not found: {above}")
        name = f"{above}.{body['name']}"
        if name in kept:
            return _error(400, f"{kind.upper()[:-1]}_ALREADY_EXISTS", f"{kind.title()[:-1]} already exists: {name}")
        if kind == "tables" and not re.match(r"[a-z0-9]+://", str(body.get("storage_location"))):
            return _error(400, "INVALID_ARGUMENT", "Storage location is required for external table")
        kept[name] = {**body, f"{kind[:-1]}_id": str(uuid.uuid4()), "created_at": 1}
        return 200, kept[name]


def _error(status: int, code: str, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"error_code": code, "message": message}


@contextmanager
def unity_server(token: str | None = None) -> Iterator[Server]:
    """Serve on a free port until the block ends."""
    state = Server(token=token)

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.requests.append((self.command, self.path, self.headers.get("Authorization")))
            time.sleep(state.slow)
            if state.redirect is not None:
                self.send_response(302)
                self.send_header("Location", state.redirect + self.path)
                self.end_headers()
                return
            if state.fail is not None:
                status, said = _error(state.fail, "INTERNAL", f"failed, and here is your header: {self.headers.get('Authorization')}")
            elif state.token is not None and self.headers.get("Authorization") != f"Bearer {state.token}":
                status, said = _error(401, "UNAUTHENTICATED", "the token is not known")
            else:
                status, said = state.answer(self.command, urlsplit(self.path).path, json.loads(body) if body else {})
            data = json.dumps(said).encode() if state.raw is None else state.raw
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if not state.trickle:
                self.wfile.write(data)
                return
            with suppress(OSError):
                for byte in data:
                    self.wfile.write(bytes([byte]))
                    time.sleep(state.trickle)

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
