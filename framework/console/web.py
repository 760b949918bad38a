"""Handlers of HTTP for urllib: no redirects, and connections that can be closed while an answer is awaited. Standard library only.

Modules that seldom send anything import this one in functions: urllib takes a noticeable part of the start of a command.
"""

from __future__ import annotations

import urllib.request
from http.client import HTTPConnection
from typing import Any


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes every redirect an error: what is sent, with a key in its headers, goes to the configured address only."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None: there is no request to go on with."""


class _Noted:
    """Adds every connection that is opened to ``connections``."""

    def __init__(self, connections: list[HTTPConnection]) -> None:
        super().__init__()
        self._connections = connections

    def do_open(self, http_class: Any, req: Any, **more: Any) -> Any:
        """Open a connection and note it."""

        def connect(host: str, **args: Any) -> HTTPConnection:
            connection: HTTPConnection = http_class(host, **args)
            self._connections.append(connection)
            return connection

        return super().do_open(connect, req, **more)  # type: ignore[misc]


class _Plain(_Noted, urllib.request.HTTPHandler):
    """For http."""


class _Secure(_Noted, urllib.request.HTTPSHandler):
    """For https."""


def opener(connections: list[HTTPConnection]) -> urllib.request.OpenerDirector:
    """Return an opener that follows no redirects and adds its connections to ``connections``."""
    return urllib.request.build_opener(NoRedirects, _Plain(connections), _Secure(connections))
