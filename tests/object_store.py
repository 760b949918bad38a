"""A server of S3's protocol on loopback, ``moto``'s, in a process of its own: delta-rs may hold Python's lock while it waits for one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WAIT = 60.0


@contextmanager
def object_store(log: Path) -> Iterator[dict[str, str]]:
    """The variables of the environment under which the server is found, with a bucket ``bucket``; it is gone at the end."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    place = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=out, stderr=out)
    try:
        until = time.monotonic() + WAIT
        while not _bucket_made(place):
            assert process.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": place, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
        }  # fmt: skip
    finally:
        process.kill()
        process.wait()


def _bucket_made(place: str) -> bool:
    with suppress(OSError):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(f"{place}/bucket", method="PUT"), timeout=5) as answer:
            return bool(answer.status == 200)
    return False


def environment(more: dict[str, str]) -> dict[str, str]:
    """This process's environment for another one, with ``more``."""
    return {**os.environ, **more}
