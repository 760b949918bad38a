"""Options of Kafka's client, for sources and sinks, made of checked values only: brokers and login. Imports no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

JAR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""Spark's own reader and writer."""
AVRO: Final = "org.apache.spark:spark-avro_2.13:4.1.1"
"""What reads values in Avro. The module of 4.2.0 is not everywhere, and this one has the expression alone: its decoder is Spark's."""
TOPIC: Final = r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "servers": (r"[\w.\-\[\]:]+:\d{1,5}(,[\w.\-\[\]:]+:\d{1,5})*", "HOST:PORT of the brokers, separated by commas"),
    "user": (r"[^\x00-\x1f\x7f]{1,256}", "a text of at most 256 characters"),
    "password": (r"[^\x00-\x1f\x7f]{1,1000}", "a text of at most 1,000 characters"),
}
"""Value -> (what it has to look like, in words)."""
NO_PASSWORD: Final = ("a password does not stand in a spec", 'password: "${NAME}" takes it from the environment')
_MODULES: Final = dict(zip(MECHANISMS, ("plain.PlainLoginModule", *2 * ("scram.ScramLoginModule",)), strict=True))


def lacking(given: set[str]) -> list[str]:
    """Return which of ``user`` and ``password`` a login lacks. ``given``: the names of the options."""
    login = given & {"user", "password", "mechanism"}
    return [name for name in ("user", "password") if login and name not in login]


def connection(given: Mapping[str, str]) -> dict[str, str]:
    """Return the client's options for Spark, the login's values as quoted texts of one of two login modules."""
    login, tls = "user" in given, given.get("tls") == "true"
    options = {"kafka.bootstrap.servers": given["servers"]}
    options["kafka.security.protocol"] = ("SASL_" if login else "") + ("SSL" if tls else "PLAINTEXT")
    if login:
        mechanism = given.get("mechanism", "SCRAM-SHA-512")
        user, password = (given[n].replace("\\", "\\\\").replace('"', '\\"') for n in ("user", "password"))
        options["kafka.sasl.mechanism"] = mechanism
        module = f"org.apache.kafka.common.security.{_MODULES[mechanism]}"
        options["kafka.sasl.jaas.config"] = f'{module} required username="{user}" password="{password}";'
    return options


def refused(said: str) -> tuple[str, str] | None:
    """Return (message, hint) if the error ``said`` of a reader or writer is about topic, login or brokers, else None."""
    if re.search(r"UnknownTopicOrPartition", said):
        return "there is no such topic", "create it, or fix its name"
    if re.search(r"Topic \S+ not present in metadata", said):
        return "no broker answers, or there is no such topic", "are they running, is the topic there? servers and topic name them"
    if re.search(r"SaslAuthentication|AuthorizationException|Authentication failed", said):
        return "the brokers refuse the login", "see user, password and mechanism"
    if re.search(r"No resolvable bootstrap urls|kafka.*TimeoutException|TimeoutException.*(topic|node|partition|record)", said, re.DOTALL):
        return "no broker answers", "are they running? servers names them"
    return None
