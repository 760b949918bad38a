"""Object storage: its paths and how to connect to it. The environment of a run configures it, never a spec.

The environment uses the variables of every tool of the provider (``AWS_ACCESS_KEY_ID``, ``AWS_REGION``, ``AWS_ENDPOINT_URL``, ...).
Spark's settings (``spark.hadoop.fs.s3a.*`` in the project's file) take precedence over them, for Spark and for Python.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from skyband.framework.settings.spark import CONF, spark_settings

SCHEMES: Final = ("s3", "gs", "abfss")
"""Schemes of paths on object storage. Only ``s3`` is tested against a server."""
SOURCE_SCHEMES: Final = ("file", *SCHEMES, "s3a", "abfs", "hdfs", "dbfs")
"""Schemes of paths that sources and look-ups are read from: those of file systems that Spark lists and reads at any position."""
SPARK_JARS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": (
        "org.apache.hadoop:hadoop-aws:3.5.0", "software.amazon.awssdk:s3:2.35.4", "software.amazon.awssdk:s3-transfer-manager:2.35.4",
        "software.amazon.awssdk:sts:2.35.4",
    ),
}  # fmt: skip
"""What Spark needs for a scheme. For the others who runs a job names their connector (``spark.jars.packages``)."""
EXCLUDED_JARS: Final = (
    "software.amazon.awssdk:bundle", "org.wildfly.openssl:wildfly-openssl", "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore", "commons-codec:commons-codec", "io.netty:netty-codec-http", "io.netty:netty-codec-http2",
    "io.netty:netty-codec", "io.netty:netty-transport", "io.netty:netty-common", "io.netty:netty-buffer", "io.netty:netty-handler",
    "io.netty:netty-resolver", "io.netty:netty-transport-classes-epoll", "io.netty:netty-transport-native-unix-common",
)  # fmt: skip
"""Excluded dependencies of these jars: the bundled SDK (600 MB), and jars that Spark brings."""

_S3A: Final = "spark.hadoop.fs.s3a."
_SAME: Final = {
    "endpoint": "aws_endpoint",
    "endpoint.region": "aws_region",
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
}
"""Setting of Spark's, without its beginning -> the same one of the library that Python reads and writes with."""
_CREDENTIALS: Final = ("access.key", "secret.key", "session.token")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def scheme_of(path: str) -> str | None:
    """The scheme of a path on object storage; None for any other path."""
    scheme, mark, _ = path.partition("://")
    return scheme if mark and scheme in SCHEMES else None


def store_options(path: str, env: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """How delta-rs and obstore reach what is at ``path``, beyond what they read in the environment themselves; None for a local path.

    Raises as ``spark_settings``.
    """
    scheme = scheme_of(path)
    if scheme != "s3":
        return None if scheme is None else {}
    conf = spark_settings(env=env).conf
    found = {name: conf[_S3A + own] for own, name in _SAME.items() if _S3A + own in conf}
    endpoint = found.get("aws_endpoint") or _endpoint(env)
    if endpoint is None:
        return found
    # Plain HTTP only where who runs the job has written it.
    return found | {"aws_endpoint": endpoint} | ({"allow_http": "true"} if endpoint.startswith("http://") else {})


def reached_by_tasks(path: str, env: Mapping[str, str] = os.environ) -> bool:
    """Whether tasks' Python reaches what is at ``path``: everything but objects whose credentials are settings of a JVM elsewhere.

    These go to executors' Java alone. Credentials of the environment, or of the machine, executors have themselves. Raises as
    ``spark_settings``.
    """
    if scheme_of(path) != "s3":
        return True
    asked = spark_settings(env=env)
    return asked.local or not any(_S3A + name in asked.conf for name in _CREDENTIALS)


def workers_env(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables for Spark's process on this machine, and so for its Python workers: what they would not find in ``env``.

    They do not know the command's options: its settings for ``s3://`` come as a part of ``SKYBAND_CONF``, which counts before the file.
    Raises as ``spark_settings``.
    """
    own = [f"{name}={value}" for name, value in spark_settings(env=env).conf.items() if name.startswith(_S3A)]
    return {CONF: "\n".join([env.get(CONF, ""), *own])} if own else {}


def executors_env(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables for Python on executors of a cluster: endpoint and region of ``s3://``, no credentials. Raises as ``spark_settings``."""
    found = store_options("s3://", env) or {}
    region = found.get("aws_region") or _region(env)
    return {name: value for name, value in ((_ENDPOINTS[1], found.get("aws_endpoint")), ("AWS_REGION", region)) if value}


def spark_conf(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Spark's settings for ``s3://``: the scheme's name as users know it, and the endpoint and region of the environment.

    It finds credentials in the environment by itself.
    """
    found = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        # The SDK's asynchronous client gets no answer to what it uploads from files, on the Netty that Spark brings [measured, 4.2.0].
        _S3A + "optimized.copy.from.local.enabled": "false",
    }
    endpoint = _endpoint(env)
    if endpoint is not None:
        found |= {_S3A + "endpoint": endpoint, _S3A + "path.style.access": "true"}
        found[_S3A + "connection.ssl.enabled"] = str(not endpoint.startswith("http://")).lower()
    region = _region(env)
    return found | ({_S3A + "endpoint.region": region} if region else {})


def _region(env: Mapping[str, str]) -> str | None:
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")


def _endpoint(env: Mapping[str, str]) -> str | None:
    return next((env[name] for name in _ENDPOINTS if env.get(name)), None)
