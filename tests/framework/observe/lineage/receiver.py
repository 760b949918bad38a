"""A receiver of OpenLineage events on loopback, and what makes an event valid.

The client's package has no JSON schemas, but the classes that OpenLineage generates from them: an event is valid if it can be read into
them. Every facet is found by its ``_schemaURL``, and has all required fields, no others, and values of the right types. Facets of
Skyband's own are checked against the schema in its package.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import threading
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attr
import jsonschema
from openlineage.client import generated
from openlineage.client.generated.base import RunEvent

import skyband.framework.observe.lineage as package
from skyband.framework.observe.lineage.facets import SCHEMA

OWN_SCHEMA = json.loads((Path(package.__file__).parent / "custom_facets.schema.json").read_text())
FACETS = {"facets", "inputFacets", "outputFacets"}


class Receiver:
    """``events``: the bodies in their order; ``heads``: of each request. ``resume``: lets requests that hang go on."""

    def __init__(self) -> None:
        self.url = ""
        self.events: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.resume = threading.Event()

    def kinds(self) -> list[str]:
        return [e["eventType"] for e in self.events]


@contextmanager
def receiver(answer: int = 200, hangs: bool = False) -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hangs:
                found.resume.wait(60)
            found.heads.append({"path": self.path, **self.headers})
            found.events.append(json.loads(body))
            self.send_response(answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield found
        finally:
            found.resume.set()
            server.shutdown()


def check_event(event: dict[str, Any]) -> None:
    """Raise AssertionError or ValueError for an event that is not valid."""
    _read(event, RunEvent, "event")
    assert event["schemaURL"] == RunEvent._get_schema()


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _classes() -> dict[str, type]:
    found: dict[str, type] = {}
    for module in pkgutil.iter_modules(generated.__path__):
        loaded = importlib.import_module(f"{generated.__name__}.{module.name}")
        for kind in vars(loaded).values():
            if isinstance(kind, type) and attr.has(kind) and kind.__name__.endswith("Facet"):
                found[kind._get_schema()] = kind  # type: ignore[attr-defined]
    return found


CLASSES = _classes()


def _read(given: Any, kind: Any, at: str) -> None:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        assert given is not None, f"{at}: nulls are left out"
        (one,) = [k for k in typing.get_args(kind) if k is not type(None)]
        return _read(given, one, at)
    if origin is list:
        assert isinstance(given, list), at
        for n, item in enumerate(given):
            _read(item, typing.get_args(kind)[0], f"{at}[{n}]")
    elif origin is dict:
        assert isinstance(given, dict), at
        for name, item in given.items():
            _read_facet(item, f"{at}.{name}") if at.rpartition(".")[2] in FACETS else _read(item, typing.get_args(kind)[1], f"{at}.{name}")
    elif isinstance(kind, type) and attr.has(kind):
        _read_object(given, kind, at)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        kind(given)
    elif kind is not Any:
        assert isinstance(given, (int, float) if kind is float else kind) and not (kind is int and isinstance(given, bool)), (at, given)
    return None


def _read_object(given: Any, kind: Any, at: str) -> None:
    assert isinstance(given, dict), at
    hints = _hints(kind)
    fields = {f.name: f for f in attr.fields(kind)}
    assert set(given) <= set(fields), (at, set(given) - set(fields))
    missing = [n for n, f in fields.items() if f.default is attr.NOTHING and n not in given]
    assert not missing, (at, missing)
    for name, value in given.items():
        _read(value, hints[name], f"{at}.{name}")
        if fields[name].validator is not None:
            fields[name].validator(None, fields[name], value)


def _read_facet(given: dict[str, Any], at: str) -> None:
    assert given["_producer"].startswith(("urn:skyband", "https://github.com/OpenLineage")), at
    url = given["_schemaURL"]
    if url.startswith(SCHEMA):
        name = url.rpartition("/")[2]
        validator = jsonschema.Draft202012Validator({**OWN_SCHEMA, "$ref": f"#/$defs/{name}"})
        validator.validate(given)
        assert set(given) <= set(OWN_SCHEMA["$defs"][name]["properties"]), at
    else:
        _read_object(given, CLASSES[url], at)
