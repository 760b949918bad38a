"""What the pages of platforms show: manifests of Kubernetes, a Databricks bundle with its script, a task of Airflow, a pipeline."""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from databricks.bundles.jobs import Job

from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.spark.session import DELTA
from skyband.jobs.cli import command_line
from tests.test_readme import ROOT, blocks

KUBERNETES, DATABRICKS, PIPELINES = (f"docs/how-to/{name}.md" for name in ("kubernetes", "databricks", "declarative-pipelines"))
VERSION = "1.37"
POD_OPERATOR = "10.25.0"
"""The version of apache-airflow-providers-cncf-kubernetes that ``PARAMETERS`` is of."""
PARAMETERS = """
active_deadline_seconds affinity annotations arguments automount_service_account_token base_container_name
base_container_status_polling_interval callbacks cluster_context cmds config_file configmaps container_logs
container_name_log_prefix_enabled container_resources container_security_context deferrable dns_config dnspolicy do_xcom_push durable
env_from env_vars full_pod_spec get_logs host_aliases hostname hostnetwork image image_pull_policy image_pull_secrets in_cluster
init_container_logs init_containers is_delete_operator_pod kubernetes_conn_id labels log_events_on_failure log_events_on_startup
log_formatter log_pod_spec_on_failure logging_interval name namespace node_selector on_finish_action on_kill_action
pod_runtime_info_envs pod_template_dict pod_template_file poll_interval ports priority_class_name progress_callback random_name_suffix
reattach_on_restart runtime_class_name schedule_timeout_seconds schedulername secrets security_context service_account_name
skip_on_exit_code startup_check_interval_seconds startup_timeout_seconds subdomain termination_grace_period termination_message_policy
tolerations trigger_kwargs volume_mounts volumes xcom_sidecar_container_security_context
"""
"""The parameters of KubernetesPodOperator's own."""
OF_ALL = {"task_id", "retries"}
"""Parameters of every operator that the page uses."""


def texts(page: str, beginning: str) -> list[str]:
    """Return the blocks of a page that begin with a text."""
    return [b.text for b in blocks((page,)) if b.info == "text" and b.text.startswith(beginning)]


def manifests() -> list[dict[str, Any]]:
    return [part for text in texts(KUBERNETES, "apiVersion:") for part in yaml.safe_load_all(text)]


def containers(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the containers of a manifest that run the image of Skyband."""
    if isinstance(part, dict):
        if "skyband" in str(part.get("image", "")).rpartition(":")[0]:
            yield part
        part = list(part.values())
    for child in part if isinstance(part, list) else ():
        yield from containers(child)


def arguments_of(words: list[str]) -> argparse.Namespace:
    """Parse words as the command does; what it refuses raises."""
    return command_line(words).parse_args(words)


def test_manifests_fit_their_schemas() -> None:
    kinds = [m["kind"] for m in manifests()]
    assert kinds == ["CronJob", "StatefulSet", "ConfigMap"]
    for manifest in manifests():
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_a_wrong_manifest_is_found() -> None:
    manifest = manifests()[0]
    manifest["spec"]["jobTemplate"]["spec"]["podFailurePolicies"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="podFailurePolicies"):
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_manifests_run_commands_that_exist() -> None:
    found = [c for m in manifests() for c in containers(m)]
    assert len(found) == 2
    for container in found:
        args = arguments_of(container["args"])
        assert args.spec == "/etc/skyband/flights.yaml" and args.log_format == "json"
        assert {m["mountPath"] for m in container["volumeMounts"]} == {"/etc/skyband"}
    probe = found[1]["readinessProbe"]["exec"]["command"]
    assert probe[0] == "skyband" and arguments_of(probe[1:]).spec == args.spec and args.continuous


def test_the_agent_reads_the_port_on_loopback() -> None:
    _, stateful, agent = manifests()
    port = arguments_of(next(containers(stateful))["args"]).metrics_port
    (scraped,) = yaml.safe_load(agent["data"]["prometheus.yml"])["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"127.0.0.1:{port}"]}]
    (volume,) = [
        v for v in stateful["spec"]["template"]["spec"]["volumes"] if v.get("configMap", {}).get("name") == agent["metadata"]["name"]
    ]
    (sidecar,) = stateful["spec"]["template"]["spec"]["initContainers"]
    assert volume["name"] in {m["name"] for m in sidecar["volumeMounts"]}


def operator_call() -> ast.Call:
    (text,) = texts(KUBERNETES, "from airflow")
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "KubernetesPodOperator"]
    assert len(calls) == 1 and not calls[0].args
    return calls[0]


def test_the_airflow_task_uses_parameters_of_its_operator() -> None:
    """Of the version that the page names."""
    assert f"`apache-airflow-providers-cncf-kubernetes` {POD_OPERATOR}" in (ROOT / KUBERNETES).read_text(encoding="utf-8")
    used = {k.arg for k in operator_call().keywords}
    assert used - set(PARAMETERS.split()) == OF_ALL
    words = next(ast.literal_eval(k.value) for k in operator_call().keywords if k.arg == "arguments")
    args = arguments_of(words)
    assert args.once and args.outcome == "/airflow/xcom/return.json"


@pytest.mark.airflow
def test_the_recorded_parameters_are_the_operators() -> None:
    """With the provider, where Airflow's environment has it."""
    python = ROOT / ".venv-airflow" / "bin" / "python"
    program = (
        "import inspect; from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator as Operator; "
        "print(*(n for n, p in inspect.signature(Operator.__init__).parameters.items() if p.kind is p.KEYWORD_ONLY))"
    )
    if not python.exists():
        pytest.skip("no .venv-airflow")
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("apache-airflow-providers-cncf-kubernetes is not installed in .venv-airflow")
    assert done.returncode == 0, done.stderr
    assert {k.arg for k in operator_call().keywords} - OF_ALL <= set(done.stdout.split())


def bundle() -> dict[str, Any]:
    (text,) = texts(DATABRICKS, "bundle:")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_the_job_of_the_bundle_fits_its_classes() -> None:
    job = Job.from_dict(bundle()["resources"]["jobs"]["flights"])
    (task,) = job.tasks
    assert task.spark_python_task is not None and task.spark_python_task.python_file == "src/run_skyband.py"
    (cluster,) = job.job_clusters
    assert task.job_cluster_key == cluster.job_cluster_key and cluster.new_cluster.is_single_node
    _home, package, *words = task.spark_python_task.parameters
    assert package.endswith(".whl[s3]") and arguments_of(words).once


def test_a_wrong_job_is_found() -> None:
    job = bundle()["resources"]["jobs"]["flights"]
    job["tasks"][0]["spark_python_task"]["file"] = "a.py"
    with pytest.raises(ValueError, match="Unexpected field 'file'"):
        Job.from_dict(job)


@pytest.mark.parametrize(("words", "code"), [(("--version",), 0), (("validate", "missing.yaml"), 2)])
def test_the_script_of_the_bundle_runs_the_command_and_keeps_its_code(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """In an environment that is there already; its process has none of the runtime's variables."""
    (text,) = texts(DATABRICKS, '"""Run skyband')
    script, command = tmp_path / "run_skyband.py", tmp_path / "env" / "bin" / "skyband"
    script.write_text(text)
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nenv > "{tmp_path}/seen"\nexec env PYTHONPATH="{ROOT}" "{sys.executable}" -P -m skyband.jobs.cli "$@"\n')
    command.chmod(0o755)
    env = {**os.environ, "SPARK_HOME": "/databricks/spark", "PYSPARK_PYTHON": "/databricks/python", "WAREHOUSE": "s3://tables"}
    done = subprocess.run(
        [sys.executable, script, tmp_path / "env", "skyband", *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("skyband 0" in done.stdout) if code == 0 else ("SKY-E" in done.stderr)
    seen = (tmp_path / "seen").read_text()
    assert "WAREHOUSE=s3://tables" in seen and "SPARK_HOME" not in seen and "PYSPARK_PYTHON" not in seen and "PYTHONPATH" not in seen


PROJECT = ROOT / "specs" / "pipelines"


def test_the_page_of_pipelines_shows_the_example() -> None:
    """``tests/spark/test_declarative_pipelines.py`` runs it."""
    spec = (PROJECT / "departures.yaml").read_text(encoding="utf-8")
    job, errors = validate_text(spec, {"LANDING": "in", "WAREHOUSE": "out"}, str(PROJECT / "departures.yaml"))
    assert job is not None and not errors
    shown = next(b for b in blocks((PIPELINES,)) if b.info == "yaml")
    assert yaml.safe_load(shown.text) == yaml.safe_load(spec)
    (definition,) = texts(PIPELINES, "spark = ")
    assert definition in (PROJECT / "transformations" / "departures.py").read_text(encoding="utf-8")


def test_the_example_uses_skybands_version_of_delta() -> None:
    lines = (PROJECT / "conf" / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    settings = dict(line.split() for line in lines if line and not line.startswith("#"))
    assert settings["spark.jars.packages"] == DELTA
    page = (ROOT / PIPELINES).read_text(encoding="utf-8")
    assert {name for name in settings if f"`{name}" in page} >= {"spark.sql.extensions", "spark.sql.sources.default"}
