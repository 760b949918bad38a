"""A client of Unity Catalog's open REST interface: schemas and external Delta tables. Standard library only.

The address and the token come from the environment of the person who runs the job. The token is sent to that address only: redirects are
not followed.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote, urlsplit

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import mapping
from skyband.framework.base.redaction import conceal, redact_values
from skyband.framework.catalogs.model import KIND, Definition, Entry, Schema, Unavailable
from skyband.framework.console.web import NoRedirects

URL: Final = "SKYBAND_UNITY_URL"
TOKEN: Final = "SKYBAND_UNITY_TOKEN"
SECONDS: Final = 5.0
"""How long the server may be silent."""
_ROOT: Final = "/api/2.1/unity-catalog"
_MOST: Final = 8 << 20


class Unity:
    """See ``Catalog``. ``url``: of the server, with or without the path of the interface. Raises SkybandError SKY-E681 if it is none."""

    def __init__(self, url: str, token: str | None, seconds: float = SECONDS) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.query and not parts.fragment
        except ValueError:
            usable = False
        if not usable or parts.username is not None or parts.password is not None:
            hint = f"set it to the address of a Unity Catalog server, such as https://catalog.example.com; a token belongs into {TOKEN}"
            raise SkybandError("SKY-E681", f"{URL} is not a URL of http or https with a host, and without user and query", hint)
        if token is not None and (not token.isascii() or not token.isprintable() or " " in token):
            raise SkybandError("SKY-E681", f"{TOKEN} is not a token: it has spaces, or characters other than visible ASCII")
        path = parts.path.rstrip("/")
        self._base = f"{parts.scheme}://{parts.netloc}{path if path.endswith(_ROOT) else path + _ROOT}"
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        self._headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self._seconds = seconds
        self._opener = urllib.request.build_opener(NoRedirects)

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Unity | None:
        """Return the client that the environment configures, None if it does not. The token is concealed from now on."""
        url, token = env.get(URL) or None, (env.get(TOKEN) or "").strip() or None
        if token is not None:
            conceal(TOKEN, token)
        return None if url is None else cls(url, token)

    def table(self, schema: Schema, table: str) -> Mapping[str, Any] | None:
        """Return what the server says of a table, None if there is none. Raises Unavailable."""
        return self._request("GET", f"/tables/{_segment(schema.table(table))}")

    def get(self, schema: Schema, table: str) -> Entry | None:
        """See ``Catalog``."""
        found = self.table(schema, table)
        if found is None:
            return None
        location, properties = found.get("storage_location"), found.get("properties")
        return Entry(
            location if isinstance(location, str) else None, found.get("table_type") == "EXTERNAL",
            str(found.get("data_source_format", "")).upper(), properties if isinstance(properties, dict) else {},
        )  # fmt: skip

    def create_schema(self, schema: Schema) -> None:
        """See ``Catalog``."""
        if self._request("GET", f"/schemas/{_segment(str(schema))}") is None:
            body = {"name": schema.schema, "catalog_name": schema.catalog}
            if self._request("POST", "/schemas", body) is None:
                raise Unavailable(f"Unity Catalog has no catalog {schema.catalog!r}, and Skyband creates none")

    def create(self, schema: Schema, table: Definition) -> None:
        """See ``Catalog``."""
        body = {
            "name": table.name, "catalog_name": schema.catalog, "schema_name": schema.schema, "table_type": "EXTERNAL",
            "data_source_format": KIND, "storage_location": _location(table.location), "comment": table.comment,
            "properties": dict(table.properties),
            "columns": [
                {
                    "name": c.name, "type_text": c.type_text, "type_json": c.type_json, "type_name": c.type_name, "position": i,
                    "type_precision": c.precision, "type_scale": c.scale, "nullable": True, "comment": c.comment,
                }
                for i, c in enumerate(table.columns)
            ],
        }  # fmt: skip
        if self._request("POST", "/tables", body) is None:
            raise Unavailable(f"Unity Catalog has no schema {str(schema)!r}")

    def replace(self, schema: Schema, table: Definition) -> None:
        """See ``Catalog``. The open interface cannot change a table's columns, comments and properties."""
        self.drop(schema, table.name)
        self.create(schema, table)

    def drop(self, schema: Schema, table: str) -> None:
        """See ``Catalog``."""
        self._request("DELETE", f"/tables/{_segment(schema.table(table))}")

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the answer, None if the server says that something is not there. Raises Unavailable."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=self._seconds) as answer:
                return _object(answer.read(_MOST))
        except urllib.error.HTTPError as e:
            with e:
                said = _said(e)
            if e.code == 404 and said is not None:
                return None
            about = "refuses the token" if e.code == 401 else f"answers {e.code}"
            refused = e.code in (400, 403, 404, 409)
            raise Unavailable(f"Unity Catalog {about} to {method} {path}{f': {said}' if said else ''}", refused) from None
        except (OSError, http.client.HTTPException, ValueError) as e:
            why = str(getattr(e, "reason", None) or e) or type(e).__name__
            raise Unavailable(f"Unity Catalog does not answer: {redact_values(why)[:200].lower()}") from None


def _segment(name: str) -> str:
    return quote(name, safe="")


def _location(path: str) -> str:
    """Return the URL of a table's directory."""
    if "://" not in path:
        return PurePosixPath(path).as_uri()
    scheme, _, rest = path.partition("://")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{rest}"


def _object(text: bytes) -> dict[str, Any]:
    """Return a JSON object. An answer without content is an empty one. Raises ValueError."""
    try:
        return mapping(text) if text.strip() else {}
    except ValueError as e:
        raise ValueError("its answer is not a JSON object") from e


def _said(e: urllib.error.HTTPError) -> str | None:
    """Return the message of the server's own error, None if the answer is not one, such as another server's page."""
    try:
        found = _object(e.read(1 << 16))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    text = found.get("message") or found.get("error_code")
    return redact_values(str(text).partition("\n")[0][:200]) if text else None
