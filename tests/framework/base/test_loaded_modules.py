"""What a process of ours has loaded: start-up is mostly imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def said(root: Path, code: str, **environment: str) -> list[str]:
    """The words that a Python of its own prints for ``code``."""
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", f"import os, sys\n{code}"],
        env={**os.environ, **environment, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_arrow_without_pandas_is_the_same_when_pandas_is_asked_for(root: Path) -> None:
    code = """
from skyband.framework.base.lean_arrow import lean_arrow
lean_arrow()
import pyarrow as pa, pyarrow.dataset
rows = pa.table({"a": pa.array([1.5, None]), "b": ["x", None]})
print("pandas" in sys.modules)
frame = rows.to_pandas()
print(frame["a"].tolist(), pa.Table.from_pandas(frame)["a"].to_pylist(), sep=";")
lean_arrow()
print("pandas" in sys.modules)
"""
    assert said(root, code) == ["False", "[1.5,", "nan];[1.5,", "None]", "True"]


def test_what_a_run_without_news_loads(root: Path, tmp_path: Path) -> None:
    """Neither the compiler, nor Spark's library, nor pandas: a plan is made and a gate is there without."""
    (tmp_path / "in").mkdir()
    code = f"""
from skyband.framework.base.lean_arrow import lean_arrow
lean_arrow()
os.environ["WARM"] = {str(tmp_path)!r}
from skyband.jobs.spec import load_plan
import skyband.framework.quality.gate, skyband.framework.streaming.run.progress, skyband.framework.tables.writing.factory
load_plan({str(root / "skyband" / "jobs" / "setup" / "warm_job.yaml")!r})
print(*(m for m in ("numba", "scipy", "pyspark", "pandas") if m in sys.modules))
"""
    assert said(root, code) == []


def test_what_a_driver_loads(root: Path) -> None:
    """No compiler: kernels run in tasks. Spark's library is there, but not pandas."""
    code = """
from skyband.framework.base.lean_arrow import lean_arrow
lean_arrow()
import skyband.framework.streaming.run.runner, skyband.framework.tables.writing.factory
print(*(m for m in ("numba", "scipy", "pandas") if m in sys.modules))
"""
    assert said(root, code) == []


def test_what_a_task_loads_for_a_small_file(root: Path, tmp_path: Path) -> None:
    """Neither the compiler nor pandas: they would take longer than the file."""
    lines = ["id,ts,name,x,flag,day", *(f'{i},2024-02-29 10:00:0{i}.5Z,"a,{i}",{i}.5,true,2024-02-29' for i in range(9)), ""]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    code = f"""
from skyband.framework.streaming.spark import daemon
daemon.prepare()
import skyband.framework.streaming.rows.arrow_intake
from skyband.framework.plan.model import Field
from skyband.framework.sources.csv.arrow_reader import CsvArrowReader
types = {{"id": "bigint", "ts": "timestamp", "name": "string", "x": "double", "flag": "boolean", "day": "date"}}
reader = CsvArrowReader({str(tmp_path)!r}, False, tuple(Field(n, t, "text", n) for n, t in types.items()), tuple(types), ",")
print(*(t.num_rows for t in reader.tables("file://" + {str(tmp_path / "rows.csv")!r})))
print(*(m for m in ("numba", "scipy", "pandas") if m in sys.modules))
"""
    assert said(root, code) == ["9"]


def test_what_a_run_loads_is_there_without_any_extra(root: Path, tmp_path: Path) -> None:
    """The demo's environment has none."""
    (tmp_path / "in").mkdir()
    code = f"""
import importlib
from skyband.framework.base.extras import EXTRAS
for name in (n for names in EXTRAS.values() for n in names):
    sys.modules[name] = None
os.environ["WARM"] = {str(tmp_path)!r}
from skyband.jobs.spec import load_plan
load_plan({str(root / "skyband" / "jobs" / "setup" / "warm_job.yaml")!r})
for name in (
    "jobs.cli", "jobs.running.run", "jobs.running.streaming", "jobs.running.opening", "jobs.reading.query", "jobs.reading.status",
    "framework.streaming.local.engine", "framework.streaming.local.loop", "framework.streaming.run.runner",
    "framework.streaming.run.spark_engine", "framework.streaming.run.stream", "framework.streaming.rebuild.add_queries",
    "framework.tables.writing.driver_writer", "framework.tables.writing.spark_writer", "framework.tables.writing.upkeep",
    "framework.tables.results.reader", "framework.verify.verification", "framework.quality.gate", "framework.alerts.alerts",
):
    importlib.import_module(f"skyband.{{name}}")
print("all")
"""
    assert said(root, code) == ["all"]
