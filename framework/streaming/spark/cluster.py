"""Spark's network settings for a cluster, and the merge of the user's settings into Skyband's. Does not import Spark."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

from skyband.framework.base.errors import SkybandError

LOOPBACK: Final = "127.0.0.1"
_HOST, _BIND = "spark.driver.host", "spark.driver.bindAddress"
_JOINED: Final = {"spark.driver.extraJavaOptions": " ", "spark.jars.packages": ","}
"""Settings whose values are appended to Skyband's own, with the separator."""
_CLASS_PATH: Final = ("spark.jars", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath", "spark.driver.defaultJavaOptions")
_SECONDS: Final = 5.0


def network(master: str) -> dict[str, str]:
    """Return the settings for the driver's address: loopback for a local master, else this machine's address as the master sees it.

    Return {} for cluster managers that choose the address themselves. Raise SkybandError SKY-E614 if no master answers.
    """
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        return {_HOST: LOOPBACK, _BIND: LOOPBACK}
    if not master.startswith("spark://"):
        return {}
    address = _address_towards(master)
    return {_HOST: address, _BIND: address}


def _address_towards(master: str) -> str:
    """Return this machine's address on the route to the first master that answers."""
    why = "no host is named"
    for name in master.removeprefix("spark://").split(","):
        host, _, port = name.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as connection:
                return str(connection.getsockname()[0])
        except (OSError, OverflowError) as e:
            why = str(getattr(e, "strerror", None) or e).lower()
    raise SkybandError(
        "SKY-E614", f"no master answers at {master}: {why}", hint="start it, or name another one by --master or SKYBAND_MASTER"
    )


def merged(own: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Return Skyband's ``own`` settings overridden by ``given``; Java options and packages are appended instead."""
    both = {**own, **given}
    for name, between in _JOINED.items():
        if name in own and name in given:
            both[name] = f"{own[name]}{between}{given[name]}"
    if _HOST in given and _BIND not in given:
        # Spark then listens at the address that ``given`` names.
        both.pop(_BIND, None)
    return both


def jvm_directory(python: str, scratch: Path) -> Path | None:
    """Return the working directory in which the JVM finds ``python``, if that is a relative path; else None.

    Executors find it in an archive that they unpack into their working directory. The JVM starts a Python worker by the same path: a link
    in ``scratch`` leads to this process's environment.
    """
    first, *rest = PurePath(python).parts or ("",)
    if not rest or os.path.isabs(python) or first == ".." or os.path.exists(python):
        return None
    link = scratch / first
    link.unlink(missing_ok=True)
    link.symlink_to(sys.prefix)
    return scratch


def changes_class_path(given: Mapping[str, str]) -> bool:
    """Return True if a setting changes the class path: then only Spark's script can make the JVM's command line."""
    return any(re.match(rf"{re.escape(name)}($|\.)", g) for g in given for name in _CLASS_PATH)


def without(command: Sequence[str], names: Collection[str]) -> list[str]:
    """Return ``command`` without ``--conf NAME=VALUE`` of the settings ``names``: every user of the machine can read command lines."""
    left: list[str] = []
    for word in command:
        if left and left[-1] == "--conf" and word.partition("=")[0] in names:
            left.pop()
        else:
            left.append(word)
    return left
