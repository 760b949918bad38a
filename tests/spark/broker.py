"""A broker of Kafka on loopback, from Kafka's own published jars: one node, without ZooKeeper. Needs nothing but Java."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyspark

from skyband.framework.base.java import find_java_home

VERSION = "3.9.1"
JARS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skyband-tests" / f"kafka-{VERSION}"
"""54 MB, fetched once by the library that fetches Spark's packages."""
WAIT = 120.0
TAB = "\t"


def _java() -> str:
    return f"{find_java_home()}/bin/java"


def jars() -> str:
    """The class path of the broker and its tools; fetched if it is not there."""
    if not (JARS / "whole").exists():
        ivy = Path(pyspark.__file__).parent / "jars" / "*"
        for part in ("kafka_2.13", "kafka-tools"):
            words = ["-cache", JARS / "ivy", "-dependency", "org.apache.kafka", part, VERSION, "-confs", "default"]
            words += ["-retrieve", f"{JARS}/[artifact]-[revision].[ext]"]
            done = subprocess.run([_java(), "-cp", ivy, "org.apache.ivy.Main", *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0 and list(JARS.glob(f"{part}-*.jar")), done.stdout[-3000:]
        (JARS / "whole").touch()
    return str(JARS / "*")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Broker:
    """``servers`` is where it is. It may be stopped, killed and started again: what it holds stays."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, control = free_port(), free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        settings = {
            "process.roles": "broker,controller", "node.id": 1, "controller.quorum.voters": f"1@127.0.0.1:{control}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}", "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "log.dirs": directory / "data",
            "num.partitions": 3, "offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1, "transaction.state.log.num.partitions": 1,
            "log.retention.check.interval.ms": 1000, "log.initial.task.delay.ms": 1000, "file.delete.delay.ms": 1000,
            "group.initial.rebalance.delay.ms": 0,
        }  # fmt: skip
        directory.mkdir(parents=True, exist_ok=True)
        self.properties = directory / "server.properties"
        self.properties.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        self.tool("kafka.tools.StorageTool", "format", "-t", "c2t5YmFuZC10ZXN0cy0wMA", "-c", str(self.properties))

    def tool(self, main: str, *words: str, given: str = "") -> str:
        """What one of Kafka's tools prints; ``given`` is its input."""
        command = [*self._command("256m"), main, *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, cwd=self.directory)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def topic(self, name: str, partitions: int = 3, *more: str) -> None:
        """Makes a topic."""
        words = ["--create", "--topic", name, "--partitions", str(partitions), "--replication-factor", "1", *more]
        self.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.servers, *words)

    def write(self, topic: str, values: Iterable[str]) -> None:
        """Records with these values, in whatever partitions; a value may begin with a key and a tab."""
        words = ["--bootstrap-server", self.servers, "--topic", topic, "--property", "parse.key=true", "--property", "key.separator=\t"]
        lines = "".join(f"{v if TAB in v else f'{n}{TAB}{v}'}\n" for n, v in enumerate(values))
        self.tool("kafka.tools.ConsoleProducer", *words, given=lines)

    def read(self, topic: str) -> list[list[str]]:
        """All records of a topic, in the order of each partition: [partition, offset, headers, key, value], as text."""
        words = ["--bootstrap-server", self.servers, "--topic", topic, "--from-beginning", "--timeout-ms", "4000"]
        for shown in ("partition", "offset", "headers", "key"):
            words += ["--property", f"print.{shown}=true"]
        printed = self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *words)
        return [line.split(TAB) for line in printed.splitlines() if line.startswith("Partition:")]

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Deletes the records before an offset, as time does it."""
        said = {"partitions": [{"topic": topic, "partition": partition, "offset": before}], "version": 1}
        (self.directory / "delete.json").write_text(json.dumps(said))
        words = ["--bootstrap-server", self.servers, "--offset-json-file", str(self.directory / "delete.json")]
        self.tool("org.apache.kafka.tools.DeleteRecordsCommand", *words)

    def start(self) -> None:
        """Returns when it answers."""
        with open(self.directory / "broker.log", "ab") as log:
            command = [*self._command("256m"), "kafka.Kafka", str(self.properties)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory)
        until = time.monotonic() + WAIT
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.2)
        raise AssertionError((self.directory / "broker.log").read_text()[-3000:])

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Ends it, and waits until it is gone."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def _command(self, memory: str) -> list[str]:
        return [_java(), f"-Xmx{memory}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true", "-cp", jars()]


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[Broker]:
    """A running broker, gone afterwards."""
    made = Broker(directory)
    try:
        made.start()
        yield made
    finally:
        made.stop()
