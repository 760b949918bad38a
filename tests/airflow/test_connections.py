"""An Airflow connection as settings of the pipeline's command, without Airflow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from skyband.airflow_dags.skyband_airflow import cluster
from skyband.framework.settings.spark import CONF, MASTER, SparkOptions, spark_settings


@dataclass
class Connection:
    conn_type: str = "spark"
    host: str | None = "head"
    port: int | None = 7077
    password: str | None = None
    extra_dejson: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    "host, port, master",
    [
        ("head", 7077, "spark://head:7077"),
        ("spark://head", 7077, "spark://head:7077"),
        ("spark://a:7077,b:7077", None, "spark://a:7077,b:7077"),
        ("k8s://https://there", 6443, "k8s://https://there:6443"),
        ("yarn", None, "yarn"),
        ("local[2]", None, "local[2]"),
    ],
)
def test_host_and_port_are_the_master(host: str, port: int | None, master: str) -> None:
    found = cluster.settings("c", Connection(host=host, port=port))
    assert spark_settings(SparkOptions(), found).master == master


def test_extras_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKYBAND_CONF", raising=False)
    extra = {
        "spark.executor.memory": "2g", "conf": {"spark.cores.max": 4, "spark.ui.enabled": True}, "queue": "root.default",
        "deploy-mode": "client", "spark-binary": "spark3-submit",
    }  # fmt: skip
    found = cluster.settings("c", Connection(extra_dejson=extra))
    assert set(found) == {MASTER, CONF} == {cluster.MASTER, cluster.CONF}
    expected = {"spark.executor.memory": "2g", "spark.cores.max": "4", "spark.ui.enabled": "true", "spark.yarn.queue": "root.default"}
    assert spark_settings(SparkOptions(), found).conf == expected
    assert cluster.settings("c", Connection())[CONF] == ""


def test_those_of_the_worker_count_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYBAND_CONF", "spark.cores.max=1\nspark.executor.memory=1g")
    found = cluster.settings("c", Connection(extra_dejson={"spark.cores.max": 8}))
    assert spark_settings(SparkOptions(), found).conf == {"spark.cores.max": "8", "spark.executor.memory": "1g"}


def test_a_password_is_the_clusters_and_no_part_of_a_command_line() -> None:
    found = cluster.settings("c", Connection(password="hunter2hunter2"))
    settings = spark_settings(SparkOptions(), found)
    assert settings.conf["spark.authenticate"] == "true" and settings.secrets() == ["spark.authenticate.secret"]


@pytest.mark.parametrize(
    "connection, said",
    [
        (Connection(conn_type="postgres"), "of type 'postgres', not 'spark'"),
        (Connection(host=None), "has no host"),
        (Connection(extra_dejson={"deploy-mode": "cluster"}), "deploy-mode can only be client"),
        (Connection(extra_dejson={"jars": "x.jar"}), "extra 'jars' is not a Spark setting"),
        (Connection(extra_dejson={"spark.x": ["hunter2"]}), "extra 'spark.x' is not a Spark setting"),
        (Connection(extra_dejson={"spark.x": "hunter2\nspark.y=1"}), "spark.x has a value with more than one line"),
        (Connection(password="hunter2\n"), "spark.authenticate.secret has a value with more than one line"),
    ],
)
def test_what_cannot_be_taken_is_named_without_its_value(connection: Connection, said: str) -> None:
    with pytest.raises(ValueError) as e:
        cluster.settings("c", connection)
    assert "connection c" in str(e.value) and said in str(e.value) and "hunter2" not in str(e.value)


def test_who_runs_airflow_says_which_connections_specs_may_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKYBAND_CONNECTIONS", raising=False)
    assert cluster.refused("any") is None
    monkeypatch.setenv("SKYBAND_CONNECTIONS", "spark_prod, spark_dev")
    assert cluster.refused("spark_dev") is None
    assert "is not among those" in (cluster.refused("any") or "")
