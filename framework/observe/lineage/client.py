"""Connect to the receiver of events with OpenLineage's own client, as the environment of who runs the job configures it.

The client also reads ``openlineage.yml`` of the working directory, which may belong to the author of a spec: here it reads only the file
that ``OPENLINEAGE_CONFIG`` names.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from skyband.framework.base.extras import extra
from skyband.framework.base.redaction import conceal
from skyband.framework.console.receivers import NotDelivered

with extra("lineage", "OpenLineage"):
    from openlineage.client.client import OpenLineageClient
    from openlineage.client.transport.console import ConsoleTransport
    from openlineage.client.transport.http import HttpConfig, HttpTransport
    from openlineage.client.transport.http_common import DEFAULT_RETRY_CONFIG

URL: Final = "SKYBAND_OPENLINEAGE_URL"
TIMEOUT: Final = 4.0
"""Seconds for an answer, unless the client's variables say something else: less than the end of a run waits."""
RETRY: Final[dict[str, Any]] = {**DEFAULT_RETRY_CONFIG, "total": 1, "connect": 1, "read": 0, "backoff_factor": 0.2}
_SECRETS: Final = (URL, "OPENLINEAGE_URL", "OPENLINEAGE_API_KEY")


class OperatorsClient(OpenLineageClient):
    """A client that reads no file but the one that ``OPENLINEAGE_CONFIG`` names."""

    @staticmethod
    def _find_yaml_config_path() -> str | None:
        path = os.environ.get("OPENLINEAGE_CONFIG")
        return path if path and os.path.isfile(path) else None


def connect(env: Mapping[str, str]) -> OpenLineageClient:
    """Return the client. Raises NotDelivered if the configuration names no receiver, or cannot be used. Sends nothing yet."""
    for name in _SECRETS:
        if env.get(name):
            conceal(name, env[name])
    # Without a handler, Python would print the warnings of the client among the lines of the run.
    log = logging.getLogger("openlineage")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    try:
        with _environment_restored():
            client = OperatorsClient(transport=_http(env) if env.get(URL) else None)
    except Exception as e:  # whatever a transport or its library raises
        raise NotDelivered(f"the configuration of the client cannot be used ({type(e).__name__})") from e
    transport = client.transport
    if isinstance(transport, ConsoleTransport) and (client.config.transport or {}).get("type") != "console":
        raise NotDelivered("the configuration of the client names no receiver: set SKYBAND_OPENLINEAGE_URL")
    if isinstance(transport, HttpTransport) and transport.config.retry == DEFAULT_RETRY_CONFIG:
        transport.config.retry = RETRY
        transport.timeout = min(transport.timeout, TIMEOUT)
    return client


def receiver_id(client: OpenLineageClient) -> str:
    """Return a hash that identifies where the client sends events to. It holds no key or password."""
    return hashlib.sha256(repr(_place(client.transport)).encode()).hexdigest()[:32]


def _place(transport: Any) -> list[Any]:
    parts: list[Any] = [getattr(transport, "kind", type(transport).__name__)]
    for holder in (transport, getattr(transport, "config", None)):
        parts += [str(getattr(holder, name)) for name in ("url", "endpoint", "topic", "log_file_path") if hasattr(holder, name)]
    several = getattr(transport, "transports", ())
    return [*parts, *(_place(one) for one in (several.values() if isinstance(several, dict) else several))]


def reason(e: Exception) -> str:
    """Return why an event was not delivered, without the text of a library, which may hold addresses."""
    names = {kind.__name__ for kind in type(e).__mro__}
    status = getattr(getattr(e, "response", None), "status_code", None)
    if isinstance(status, int):
        return f"the receiver answered with status {status}"
    if "Timeout" in names or "TimeoutError" in names:
        return "the receiver did not answer in time"
    if "RetryError" in names:
        return "the receiver answered with errors"
    return "the receiver cannot be reached" if "ConnectionError" in names else f"the client failed ({type(e).__name__})"


def _http(env: Mapping[str, str]) -> HttpTransport:
    given: dict[str, Any] = {"url": env[URL], "endpoint": env.get("OPENLINEAGE_ENDPOINT") or "api/v1/lineage"}
    if env.get("OPENLINEAGE_API_KEY"):
        given["auth"] = {"type": "api_key", "apiKey": env["OPENLINEAGE_API_KEY"]}
    return HttpTransport(HttpConfig.from_dict(given))


@contextmanager
def _environment_restored() -> Iterator[None]:
    """Remove what the client adds to the environment: the key under a name of its own, which processes of the run would inherit."""
    before = set(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - before:
            if name.startswith("OPENLINEAGE__"):
                del os.environ[name]
