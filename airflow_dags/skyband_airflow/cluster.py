"""An Airflow connection as the settings of the pipeline's command: where Spark computes, and how. Standard library only.

The connection is its owner's word, not the spec's, which only names it. What it holds goes into the environment of the command, of which
nobody but its user can see anything; its master, too, so that none of it stands in a log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

KIND: Final = "spark"
"""The only type of connection that is taken: a spec must not have the password of a database sent to its host as a master."""
MASTER: Final = "SKYBAND_MASTER"
CONF: Final = "SKYBAND_CONF"
_SETTING: Final = re.compile(r"spark\.[A-Za-z0-9_.\-]+")
_NAMED: Final = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""Extras as Airflow's own Spark provider names them -> Spark's settings."""
_IGNORED: Final = ("spark-binary", "spark-home")
"""Extras of the provider's that say how ``spark-submit`` is called: it is not."""


class Connection(Protocol):
    """What is asked of Airflow's."""

    conn_type: str
    host: str | None
    port: int | None
    password: str | None
    extra_dejson: Mapping[str, Any]


def settings(name: str, connection: Connection) -> dict[str, str]:
    """Variables for the environment of the command, those of this process counting less. ValueError says what cannot be taken."""
    if connection.conn_type != KIND:
        raise ValueError(f"connection {name} is of type {connection.conn_type!r}, not {KIND!r}")
    conf = dict(_conf(name, connection.extra_dejson))
    if connection.password:
        conf |= {"spark.authenticate": "true", "spark.authenticate.secret": connection.password}
    for setting, value in conf.items():
        if not value.isprintable():
            raise ValueError(f"connection {name}: {setting} has a value of more than a line")
    lines = [os.environ.get(CONF, ""), *(f"{setting}={value}" for setting, value in conf.items())]
    return {MASTER: _master(name, connection), CONF: "\n".join(filter(None, lines))}


def refused(name: str) -> str | None:
    """Why no spec may name this connection; None if one may: whoever runs Airflow can say which."""
    allowed = os.environ.get("SKYBAND_CONNECTIONS")
    if allowed is None or name in {n.strip() for n in allowed.split(",")}:
        return None
    return f"connection {name} is not among those that specs may name (SKYBAND_CONNECTIONS)"


def _master(name: str, connection: Connection) -> str:
    """``host`` and ``port`` as in Airflow's Spark provider: a host by itself, a URL, or a word such as ``yarn``."""
    host = connection.host or ""
    if not host:
        raise ValueError(f"connection {name} has no host")
    if connection.port is None:
        return host
    return f"{host}:{connection.port}" if "://" in host else f"spark://{host}:{connection.port}"


def _conf(name: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """Settings among the extras: by their own names, below ``conf``, or as the provider names them."""
    found: dict[str, str] = {}
    for key, value in extra.items():
        if key == "conf" and isinstance(value, Mapping):
            found |= _conf(name, value)
        elif (key == "deploy-mode" and value == "client") or key in _IGNORED:
            continue
        elif isinstance(value, (str, int, float)) and (setting := _NAMED.get(key, key)) and _SETTING.fullmatch(setting):
            found[setting] = str(value).lower() if isinstance(value, bool) else str(value)
        elif key == "deploy-mode":
            raise ValueError(f"connection {name}: the driver is the command's own process: no deploy-mode but client")
        else:
            raise ValueError(f"connection {name}: extra {key!r} is neither a setting of Spark's nor known")
    return found
