"""Make a DAG per spec: validate >> run >> quality_gate >> publish >> maintain. Imports Airflow, and nothing of Skyband but the loader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, Asset, Param

from . import doc
from .facts import Fact, command, facts, specs
from .tasks import Findings, Gate, Maintain, Publish, Run, Validate

START: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""Earlier than any run; there is no backfill."""
REBUILD: Final = "Rebuild all tables from the source's start, beside the present ones, and swap them in when they are complete"
_UNUSABLE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def load(module: MutableMapping[str, Any], directories: str, named: str | None) -> None:
    """Put the DAG of every spec in ``directories`` (separated as in PATH) into ``module``, where Airflow finds it."""
    words = command(named)
    for dag in dags(facts(specs(directories), words), words):
        module[f"dag_{dag.dag_id}"] = dag


def dags(known: Iterable[Fact], words: Sequence[str]) -> list[DAG]:
    """Return a DAG for every spec that has a schedule or is broken. Of two specs with the same DAG id or job, the second is broken."""
    made: dict[str, DAG] = {}
    first: dict[str, str] = {}
    for fact in known:
        if fact["findings"] is None and fact["schedule"] is None:
            continue
        wrong = fact["findings"]
        if wrong is None:
            for what in (f"DAG {fact['schedule']['id']}", f"job {fact['job']}"):
                other = first.setdefault(what, fact["file"])
                if other != fact["file"]:
                    wrong = f"{fact['file']}: {other} already has {what}\n  hint: rename one of them"
        dag = _dag(fact, words) if wrong is None else _broken(fact | {"findings": wrong}, made)
        made[dag.dag_id] = dag
    return list(made.values())


def asset(job: str, table: str) -> Asset:
    """Return the asset of a result table, ``<job>.<table>``. Its URI omits the path, which may come from the environment."""
    return Asset(name=f"{job}.{table}", uri=f"skyband://{job}/{table}", group="skyband")


def _dag(fact: Fact, words: Sequence[str]) -> DAG:
    when: Mapping[str, Any] = fact["schedule"]
    retries = when["retries"]
    with DAG(
        when["id"],
        description=when["description"],
        schedule=when["cron"] or [_trigger(a) for a in when["assets"]],
        start_date=START,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=when["paused"],
        tags={"skyband", *when["tags"]},
        doc_md=doc.of_good(fact),
        params={"rebuild": Param(False, type="boolean", title="Rebuild", description=REBUILD)},
        default_args={
            "owner": when["owner"],
            "retries": retries["count"],
            "retry_delay": timedelta(seconds=retries["wait"]),
            "retry_exponential_backoff": 2.0,
            "max_retry_delay": timedelta(seconds=retries["longest"]),
        },
    ) as dag:
        validate = Validate(task_id="validate", command=words, spec=fact["file"])
        timeout = None if when["timeout"] is None else timedelta(seconds=when["timeout"])
        run = Run(task_id="run", command=words, spec=fact["file"], connection=when.get("connection"), execution_timeout=timeout)
        gate = Gate(task_id="quality_gate")
        tables = {asset(fact["job"], table): (table, query) for table, query in fact["tables"].items()}
        publish = Publish(
            task_id="publish", tables=[*tables.values()], command=words, spec=fact["file"], inlets=[*tables], outlets=[*tables]
        )
        maintain = Maintain(task_id="maintain", command=words, spec=fact["file"], every=when["maintain"], trigger_rule="none_failed")
        validate >> run >> gate >> publish >> maintain
    return dag


def _trigger(named: str) -> Any:
    return Asset.ref(uri=named) if "://" in named else Asset.ref(name=named)


def _broken(fact: Fact, others: Mapping[str, Any]) -> DAG:
    """Return a paused DAG whose one task fails with the findings."""
    stem = _UNUSABLE.sub("_", Path(fact["file"]).stem)[:150]
    ids = (f"broken.{stem}" + (f".{n}" if n else "") for n in range(len(others) + 1))
    with DAG(
        next(i for i in ids if i not in others),
        description=f"{Path(fact['file']).name} cannot be used",
        schedule=None,
        start_date=START,
        is_paused_upon_creation=True,
        tags={"skyband", "broken"},
        doc_md=doc.of_broken(fact),
    ) as dag:
        Findings(task_id="findings", findings=fact["findings"])
    return dag
