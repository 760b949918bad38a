"""Connect Spark's driver worker to the JVM before anything heavy is imported.

The JVM gives the Python process that describes the state of ``transformWithState`` ten seconds to connect, whatever the machine's load.
PySpark's module for it imports for up to half a second of processor time first. ``worker_launcher`` has the JVM run this file instead, by
its path and without ``site``: it connects within some 20 ms of processor time and imports afterwards, when nobody counts the seconds.

Imports the standard library alone: at the start it has no other.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import BinaryIO, cast

OK = b"ok"
"""What the JVM answers if the secret is the right one."""


def connect() -> BinaryIO:
    """Return the stream to the JVM that started this process, which has proven itself and sent its process id.

    As ``pyspark.worker_util.get_sock_file_to_executor`` does, but without a time limit on what the JVM sends later: a JVM that dies closes
    the connection. Raises OSError if the JVM is not there, ConnectionError if it refuses the secret.
    """
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    if path is not None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
    else:
        host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"
        connection = socket.create_connection((host, int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    stream = cast(BinaryIO, connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))))
    if path is None:
        _send(stream, os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode())
        stream.flush()
        answer = stream.read(4)
        if len(answer) < 4 or stream.read(struct.unpack("!i", answer)[0]) != OK:
            raise ConnectionError("the JVM refuses this worker's secret")
    stream.write(struct.pack("!i", os.getpid()))
    stream.flush()
    return stream


def _send(stream: BinaryIO, text: bytes) -> None:
    stream.write(struct.pack("!i", len(text)) + text)


def main() -> None:
    """Connect, import PySpark's worker and run it over the connection."""
    stream = connect()
    import site

    site.main()
    # Not by the adapter: at this moment Skyband need not be importable.
    from pyspark.sql.streaming.transform_with_state_driver_worker import main as work

    with stream:
        work(stream, stream)


if __name__ == "__main__":
    main()
