"""Convert an Airflow connection to Spark settings of Skyband's command. Standard library only.

A spec only names the connection; its owner defines the content. All values, including the master, go into the environment of the command,
which only its user can read, so that none of them is in a log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

KIND: Final = "spark"
"""The only accepted type: a spec must not be able to send the password of, say, a database to its host as a Spark secret."""
MASTER: Final = "SKYBAND_MASTER"
CONF: Final = "SKYBAND_CONF"
_SETTING: Final = re.compile(r"spark\.[A-Za-z0-9_.\-]+")
_NAMED: Final = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""Extras of Airflow's Spark provider -> Spark settings."""
_IGNORED: Final = ("spark-binary", "spark-home")
"""Extras of the provider for ``spark-submit``, which is not used here."""


class Connection(Protocol):
    """The part of Airflow's connection that is used here."""

    conn_type: str
    host: str | None
    port: int | None
    password: str | None
    extra_dejson: Mapping[str, Any]


def settings(name: str, connection: Connection) -> dict[str, str]:
    """Return environment variables for the command; they override those of this process. Raises ValueError for unsupported content."""
    if connection.conn_type != KIND:
        raise ValueError(f"connection {name} is of type {connection.conn_type!r}, not {KIND!r}")
    conf = dict(_conf(name, connection.extra_dejson))
    if connection.password:
        conf |= {"spark.authenticate": "true", "spark.authenticate.secret": connection.password}
    for setting, value in conf.items():
        if not value.isprintable():
            raise ValueError(f"connection {name}: {setting} has a value with more than one line")
    lines = [os.environ.get(CONF, ""), *(f"{setting}={value}" for setting, value in conf.items())]
    return {MASTER: _master(name, connection), CONF: "\n".join(filter(None, lines))}


def refused(name: str) -> str | None:
    """Return why specs may not name this connection, or None if they may."""
    allowed = os.environ.get("SKYBAND_CONNECTIONS")
    if allowed is None or name in {n.strip() for n in allowed.split(",")}:
        return None
    return f"connection {name} is not among those that specs may name (SKYBAND_CONNECTIONS)"


def _master(name: str, connection: Connection) -> str:
    """Return the master from ``host`` and ``port``, as Airflow's Spark provider does: a host, a URL, or a word such as ``yarn``."""
    host = connection.host or ""
    if not host:
        raise ValueError(f"connection {name} has no host")
    if connection.port is None:
        return host
    return f"{host}:{connection.port}" if "://" in host else f"spark://{host}:{connection.port}"


def _conf(name: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings among the extras: under their own names, below ``conf``, or under the provider's names."""
    found: dict[str, str] = {}
    for key, value in extra.items():
        if key == "conf" and isinstance(value, Mapping):
            found |= _conf(name, value)
        elif (key == "deploy-mode" and value == "client") or key in _IGNORED:
            continue
        elif isinstance(value, (str, int, float)) and (setting := _NAMED.get(key, key)) and _SETTING.fullmatch(setting):
            found[setting] = str(value).lower() if isinstance(value, bool) else str(value)
        elif key == "deploy-mode":
            raise ValueError(f"connection {name}: the driver is the command's own process, so deploy-mode can only be client")
        else:
            raise ValueError(f"connection {name}: extra {key!r} is not a Spark setting or a known extra")
    return found
