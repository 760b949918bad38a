"""Spark's settings where it computes elsewhere, and how those of who runs the job come among Skyband's own. Imports no Spark."""

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
"""Settings that are added to Skyband's own, by what stands between."""
_CLASS_PATH: Final = ("spark.jars", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath", "spark.driver.defaultJavaOptions")
_SECONDS: Final = 5.0


def network(master: str) -> dict[str, str]:
    """Settings of where the driver listens: on loopback if nobody else has to reach it, else at the address that leads to the master.

    Empty for cluster managers that Spark has an answer of its own for. SkybandError SKY-E614 if no master answers.
    """
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        return {_HOST: LOOPBACK, _BIND: LOOPBACK}
    if not master.startswith("spark://"):
        return {}
    address = _way_to(master)
    return {_HOST: address, _BIND: address}


def _way_to(master: str) -> str:
    """This machine's address as the first master that answers sees it."""
    said = "nobody named one"
    for name in master.removeprefix("spark://").split(","):
        host, _, port = name.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as way:
                return str(way.getsockname()[0])
        except (OSError, OverflowError) as e:
            said = str(getattr(e, "strerror", None) or e).lower()
    raise SkybandError("SKY-E614", f"no master answers at {master}: {said}", hint="is it started? --master or SKYBAND_MASTER names it")


def merged(own: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Settings of Spark's: Skyband's ``own``, over which ``given`` count; Java options and packages are added instead."""
    both = {**own, **given}
    for name, between in _JOINED.items():
        if name in own and name in given:
            both[name] = f"{own[name]}{between}{given[name]}"
    if _HOST in given and _BIND not in given:
        # Spark's default: where the driver is to be reached.
        both.pop(_BIND, None)
    return both


def stand_in(python: str, scratch: Path) -> Path | None:
    """Where Spark's own process has to stand so that ``python``, executors' by a relative path, is there for it, too; else None.

    Executors find it in an archive that they unpack where they stand. But Spark asks a Python worker of its own for the state's
    columns, by the same path: in ``scratch`` that leads to this process's environment.
    """
    first, *rest = PurePath(python).parts or ("",)
    if not rest or os.path.isabs(python) or first == ".." or os.path.exists(python):
        return None
    link = scratch / first
    link.unlink(missing_ok=True)
    link.symlink_to(sys.prefix)
    return scratch


def changes_class_path(given: Mapping[str, str]) -> bool:
    """Whether the settings have classes or libraries come from elsewhere: then only Spark's script knows Spark's command line."""
    return any(re.match(rf"{re.escape(name)}($|\.)", g) for g in given for name in _CLASS_PATH)


def without(command: Sequence[str], names: Collection[str]) -> list[str]:
    """``command`` without ``--conf NAME=VALUE`` of these settings: a command line can be read by every user of the machine."""
    left: list[str] = []
    for word in command:
        if left and left[-1] == "--conf" and word.partition("=")[0] in names:
            left.pop()
        else:
            left.append(word)
    return left
