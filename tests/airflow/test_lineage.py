"""Which task has started a run, as Airflow's OpenLineage provider names it; with the real provider where it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from skyband.airflow_dags.skyband_airflow import lineage
from skyband.framework.observe.lineage.parent import PARENT, ROOT, parent_facet
from tests.airflow.home import BIN, Home

TASK, DAG = "0193a5c1-0000-7000-8000-000000000001", "0193a5c1-0000-7000-8000-000000000002"


def provider(monkeypatch: pytest.MonkeyPatch, disabled: bool, fails: bool = False) -> None:
    """Stand in for the provider: what it has of names, and what they return (checked below against the real one)."""

    def parent_id(ti: Any) -> str:
        if fails:
            raise RuntimeError("no database")
        return f"air/{ti.dag_id}.{ti.task_id}/{TASK}"

    macros = SimpleNamespace(lineage_parent_id=parent_id, lineage_root_parent_id=lambda ti: f"air/{ti.dag_id}/{DAG}")
    for name in ("airflow", "airflow.providers", "airflow.providers.openlineage", "airflow.providers.openlineage.plugins"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["airflow.providers.openlineage"].conf = SimpleNamespace(is_disabled=lambda: disabled)  # type: ignore[attr-defined]
    sys.modules["airflow.providers.openlineage.plugins"].macros = macros  # type: ignore[attr-defined]


def test_a_run_gets_its_task_and_dag_run_as_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (lineage.PARENT, lineage.ROOT) == (PARENT, ROOT)
    provider(monkeypatch, disabled=False)
    found = lineage.parents(SimpleNamespace(dag_id="flights", task_id="run"))
    facet: Any = parent_facet(found)
    assert (facet.job.namespace, facet.job.name, facet.run.runId) == ("air", "flights.run", TASK)
    assert (facet.root.job.namespace, facet.root.job.name, facet.root.run.runId) == ("air", "flights", DAG)


def test_without_the_provider_or_with_a_failing_one_there_is_no_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    ti = SimpleNamespace(dag_id="flights", task_id="run")
    provider(monkeypatch, disabled=True)
    assert lineage.parents(ti) == {}
    provider(monkeypatch, disabled=False, fails=True)
    assert lineage.parents(ti) == {}
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    assert lineage.parents(ti) == {}


PROGRAM = """
import sys
sys.path.insert(0, {loader!r})
from airflow.sdk import DAG, Param
from skyband_airflow.tasks import Run

with DAG("lineage", params={{"rebuild": Param(False, type="boolean")}}, schedule=None) as dag:
    Run(task_id="run", command=[{python!r}, {command!r}], spec="flights.yaml")
if __name__ == "__main__":
    assert dag.test().state == "success"
"""
COMMAND = """
import json, os, sys
json.dump({k: v for k, v in os.environ.items() if k.startswith("OPENLINEAGE")}, open(os.environ["SEEN"], "w"))
outcome = {"exit_code": 0, "status": "done", "rows": {"in": 1, "rejected": {}}, "changes": {}, "batches": {"count": 1}, "wall_seconds": 1}
json.dump(outcome, open(sys.argv[sys.argv.index("--outcome") + 1], "w"))
"""


@pytest.mark.airflow
@pytest.mark.slow
def test_the_real_provider_reports_the_same_task(home: Home, tmp_path: Path) -> None:
    """A DAG run in one process: the parent that the command gets is the run whose events the provider sends."""
    installed = subprocess.run([BIN / "python", "-c", "import airflow.providers.openlineage"], capture_output=True, check=False)
    if installed.returncode != 0:
        pytest.skip("needs apache-airflow-providers-openlineage in .venv-airflow")
    events, seen, command, program = (tmp_path / name for name in ("events.jsonl", "seen.json", "command.py", "program.py"))
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    home.more |= {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport), "AIRFLOW__OPENLINEAGE__NAMESPACE": "air", "SEEN": str(seen),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
    }  # fmt: skip
    command.write_text(COMMAND)
    loader = str(Path(lineage.__file__).resolve().parents[1])
    program.write_text(PROGRAM.format(loader=loader, python=sys.executable, command=str(command)))
    done = subprocess.run([BIN / "python", program], env=home.env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    parent: Any = parent_facet(json.loads(seen.read_text()))
    sent = [json.loads(line) for line in events.read_text().splitlines()]
    named = {(e["job"]["namespace"], e["job"]["name"], e["run"]["runId"]) for e in sent if e["eventType"] == "COMPLETE"}
    assert named == {
        (parent.job.namespace, parent.job.name, parent.run.runId),
        (parent.root.job.namespace, parent.root.job.name, parent.root.run.runId),
    }
