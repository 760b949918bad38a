"""Who runs a job says how Spark is started: option, variable, file, default, in this order; nobody, what counts for results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import redact_values
from skyband.framework.settings.spark import TASKS, SparkOptions, requested_tasks, spark_settings
from skyband.framework.spec.parsing.document import resolve
from skyband.framework.streaming.spark import cluster
from skyband.jobs.cli import main

FILE = """\
[engine]
master = "local[3]"
[engine.conf]
spark.executor.memory = "4g"          # a table in a table to TOML
"spark.ui.enabled" = true
spark.executor.cores = 2

[profile.prod.engine]
master = "spark://there:7077"
conf."spark.executor.memory" = "16g"
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(asked: SparkOptions | None = None, **env: str) -> str:
    with pytest.raises(SkybandError) as e:
        spark_settings(asked or SparkOptions(), env)
    return e.value.render()


def test_without_a_word_it_is_this_machine() -> None:
    found = spark_settings(SparkOptions(), {})
    assert (found.master, found.conf, found.local) == ("local[*]", {}, True)


def test_the_file_counts_before_the_default_and_its_profile_before_the_rest(directory: Path) -> None:
    (directory / "skyband.toml").write_text(FILE)
    found = spark_settings(SparkOptions(), {})
    assert found.master == "local[3]" and found.local
    assert found.conf == {"spark.executor.memory": "4g", "spark.ui.enabled": "true", "spark.executor.cores": "2"}
    prod = spark_settings(SparkOptions(), {"SKYBAND_PROFILE": "prod"})
    assert prod.master == "spark://there:7077" and not prod.local
    assert prod.conf == {**found.conf, "spark.executor.memory": "16g"}
    assert spark_settings(SparkOptions(), {"SKYBAND_PROFILE": "another"}) == found


def test_an_option_counts_before_a_variable_and_that_before_the_file(directory: Path) -> None:
    (directory / "skyband.toml").write_text(FILE)
    env = {"SKYBAND_MASTER": "local[2]", "SKYBAND_CONF": "spark.executor.memory=5g\n\nspark.task.cpus = 1\n", "SKYBAND_DRIVER_MEMORY": "3g"}
    by_variable = spark_settings(SparkOptions(), env)
    assert by_variable.master == "local[2]"
    assert by_variable.conf == {
        "spark.executor.memory": "5g", "spark.ui.enabled": "true", "spark.executor.cores": "2", "spark.driver.memory": "3g",
        "spark.task.cpus": "1",
    }  # fmt: skip
    asked = SparkOptions("local[1]", ("spark.executor.memory=6g", "spark.driver.extraJavaOptions=-Da=b"))
    by_option = spark_settings(asked, env)
    assert by_option.master == "local[1]"
    assert by_option.conf == by_variable.conf | {"spark.executor.memory": "6g", "spark.driver.extraJavaOptions": "-Da=b"}


def test_the_file_is_the_callers_and_never_the_specs(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spec's author may write beside the spec; who calls from elsewhere does not hear of it."""
    (directory / "specs").mkdir()
    (directory / "specs" / "skyband.toml").write_text(FILE)
    (directory / "skyband.toml").write_text("[engine]\nmaster = 'local[1]'\n")
    assert spark_settings(SparkOptions(), {}).master == "local[1]"
    assert spark_settings(SparkOptions(), {"SKYBAND_CONFIG": ""}).master == "local[*]"
    assert spark_settings(SparkOptions(), {"SKYBAND_CONFIG": "specs/skyband.toml"}).master == "local[3]"
    assert "SKY-E610" in refused(SKYBAND_CONFIG="gone.toml")
    # One that others may write counts only if it is named.
    (directory / "skyband.toml").chmod(0o666)
    assert "all users may write it" in refused()
    assert spark_settings(SparkOptions(), {"SKYBAND_CONFIG": "skyband.toml"}).master == "local[1]"
    (directory / "skyband.toml").unlink()
    os.mkfifo(directory / "skyband.toml")
    assert "is not a file" in refused()


def test_commands_that_are_about_no_job_of_the_users_stay_here(directory: Path) -> None:
    (directory / "skyband.toml").write_text(FILE)
    found = spark_settings(SparkOptions(alone=True), {"SKYBAND_MASTER": "spark://there:7077", "SKYBAND_CONF": "spark.executor.memory=5g"})
    assert (found.master, found.conf) == ("local[*]", {})
    assert spark_settings(SparkOptions(alone=True), {"SKYBAND_MASTER": "local[2]"}).master == "local[2]"


@pytest.mark.parametrize(
    "text, code, line, said",
    [
        ("[engine]\nmaster = \n", "SKY-E610", 2, "TOML syntax"),
        ("[engine]\nmastre = 'local'\n", "SKY-E610", 2, "unknown key 'mastre' in [engine]"),
        ("\n\n[engin]\n", "SKY-E610", 3, "did you mean 'engine'?"),
        ("[engine]\nmaster = 3\n", "SKY-E610", 2, "master is a text"),
        ("engine = 3\n", "SKY-E610", 1, "engine is a table"),
        ("[profile]\nprod = 1\n", "SKY-E610", 2, "profile.prod is a table"),
        ("[profile.prod.engine]\nconf = {a = 1}\n", "SKY-E611", 2, "'a' is not a Spark setting"),
        ("[engine.conf]\nspark.x = [\n 1,\n 2]\n", "SKY-E610", 4, "spark.x takes a text"),
        ("[engine.conf]\nspark.x = 1\n\nspark.sql.ansi.enabled = true\n", "SKY-E611", 4, "spark.sql.ansi.enabled may not be changed"),
    ],
)  # fmt: skip
def test_mistakes_of_the_file_have_their_line(directory: Path, text: str, code: str, line: int, said: str) -> None:
    (directory / "skyband.toml").write_text(text)
    told = refused()
    assert told.startswith(f"{directory}/skyband.toml:{line}:") and code in told and said in told


@pytest.mark.parametrize(
    "name, why",
    [
        ("spark.sql.shuffle.partitions", "SKYBAND_SHUFFLE_PARTITIONS"),
        ("spark.sql.session.timeZone", "times are UTC"),
        ("spark.sql.ansi.enabled", "rejected"),
        ("spark.sql.variable.substitute", "environment"),
        ("spark.sql.streaming.stateStore.providerClass", "between batches"),
        ("spark.sql.streaming.checkpointLocation", "between batches"),
        ("spark.sql.extensions", "how Skyband starts"),
        ("spark.sql.catalog.spark_catalog", "how Skyband starts"),
        ("spark.sql.adaptive.enabled", "from batch to batch"),
        ("spark.sql.legacy.timeParserPolicy", "who runs the job"),
        ("spark.databricks.delta.schema.autoMerge.enabled", "commits"),
        ("spark.master", "--master"),
        ("spark.submit.deployMode", "own process"),
        ("spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB", "between batches"),
    ],
)
def test_what_results_depend_on_is_nobodys_to_change(name: str, why: str) -> None:
    for told in (refused(SparkOptions(conf=(f"{name}=x",))), refused(SKYBAND_CONF=f"{name}=x")):
        assert "SKY-E611" in told and f"{name} may not be changed" in told and why in told


def test_what_only_costs_time_or_memory_may_be_changed() -> None:
    names = ("spark.sql.files.maxPartitionBytes", "spark.speculation", "spark.executorEnv.HOME",
             "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.hadoop.fs.s3a.endpoint", "spark.cores.max")  # fmt: skip
    assert set(spark_settings(SparkOptions(conf=tuple(f"{n}=1" for n in names)), {}).conf) == set(names)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[2,3]", "spark://h:7077", "spark://h:1,i:2", "yarn"])
def test_masters(master: str) -> None:
    found = spark_settings(SparkOptions(master), {})
    assert found.master == master and found.local == master.startswith("local")


@pytest.mark.parametrize(
    "master", ["loacl[2]", "local[x]", "spark://h", "spark://h:7077/x", "http://h:7077", "local-cluster[1,1,1]", "spark-submit"]
)
def test_what_is_no_master(master: str) -> None:
    assert "SKY-E611" in refused(SparkOptions(master)) and "SKY-E611" in refused(SKYBAND_MASTER=master)


def test_a_setting_without_a_value_is_refused_without_showing_it() -> None:
    told = refused(SparkOptions(conf=("hunter2hunter2",)))
    assert "--conf takes NAME=VALUE" in told and "hunter2" not in told


def test_a_secret_is_neither_shown_nor_on_a_command_line() -> None:
    found = spark_settings(SparkOptions(), {"SKYBAND_CONF": "spark.hadoop.fs.s3a.secret.key=hunter2hunter2\nspark.executor.memory=1g"})
    assert found.secrets() == ["spark.hadoop.fs.s3a.secret.key"]
    assert redact_values("key: hunter2hunter2") == "key: ${spark.hadoop.fs.s3a.secret.key}"
    words = ["java", "--conf", "spark.hadoop.fs.s3a.secret.key=hunter2hunter2", "--conf", "spark.executor.memory=1g", "pyspark-shell"]
    assert cluster.without(words, found.secrets()) == ["java", "--conf", "spark.executor.memory=1g", "pyspark-shell"]


def test_no_spec_can_read_the_settings() -> None:
    _, used, problems = resolve("${SKYBAND_CONF}", {"SKYBAND_CONF": "spark.x=secret"})
    assert not used and [p.code for p in problems] == ["SKY-E119"]


def test_settings_come_over_skybands_own_and_lists_are_added_to() -> None:
    own = {"spark.driver.extraJavaOptions": "-Xss16m", "spark.jars.packages": "a:b:1", "spark.driver.host": "127.0.0.1",
           "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "1g"}  # fmt: skip
    given = {"spark.driver.extraJavaOptions": "-Dx=y", "spark.jars.packages": "c:d:2", "spark.driver.host": "10.0.0.7"}
    assert cluster.merged(own, {}) == own
    assert cluster.merged(own, given) == {
        "spark.driver.extraJavaOptions": "-Xss16m -Dx=y", "spark.jars.packages": "a:b:1,c:d:2", "spark.driver.host": "10.0.0.7",
        "spark.executor.memory": "1g",
    }  # fmt: skip


def test_classes_from_elsewhere_leave_the_start_to_sparks_script() -> None:
    for name in ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"):
        assert cluster.changes_class_path({name: "x"})
    assert not cluster.changes_class_path({"spark.jarsx": "x", "spark.driver.extraJavaOptions": "x", "spark.executor.memory": "1g"})


def test_the_driver_listens_where_the_master_can_reach_it() -> None:
    import socket

    assert cluster.network("local[2]") == {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    assert cluster.network("yarn") == {}
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        assert cluster.network(f"spark://127.0.0.1:1,127.0.0.1:{port}") == {
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"
        }  # fmt: skip
    with pytest.raises(SkybandError) as e:
        cluster.network(f"spark://127.0.0.1:{port}")
    assert e.value.code == "SKY-E614"


@pytest.mark.parametrize(
    "command", [["run"], ["rebuild"], ["verify"], ["preview", "--engine"], ["why", "q", "1"], ["replay-rejected", "f.csv"]]
)
def test_commands_that_start_spark_reject_settings_first(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    name, *rest = command
    assert main([name, "--conf", "spark.sql.ansi.enabled=true", "gone.yaml", *rest]) == 2
    told = capsys.readouterr().err
    assert "SKY-E611" in told and "spark.sql.ansi.enabled may not be changed" in told


def test_a_refused_setting_is_an_outcome(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--master", "nowhere", "--outcome", "out.json", "gone.yaml"]) == 2
    assert '"SKY-E611"' in (directory / "out.json").read_text()
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("said", ["0", "-1", "2.5", "two", "1000000", "٣", " 2", "1e3"])
def test_a_number_of_tasks_that_is_none_is_refused(said: str) -> None:
    with pytest.raises(SkybandError, match=f"SKY-E201 {TASKS} is not a number of tasks") as e:
        requested_tasks({TASKS: said})
    assert e.value.hint == "set it to a whole number from 1 to 999999"


def test_a_number_of_tasks_may_be_asked_for() -> None:
    assert [requested_tasks({TASKS: said}) for said in ("1", "999999", "")] == [1, 999999, None] and requested_tasks({}) is None
