"""What Spark's Python processes have loaded by the time they are asked to do something."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.streaming.spark.worker_pools import HOST
from tests.framework.base.test_loaded_modules import said

THREADS = "len(os.listdir('/proc/self/task')) if os.path.exists('/proc/self/task') else 1"


@pytest.mark.parametrize("host", [True, False])
def test_workers_are_forked_from_a_process_of_one_thread_that_has_what_they_need(root: Path, host: bool) -> None:
    code = f"""
from skyband.framework.streaming.spark import daemon
daemon.prepare()
import gc
print({THREADS}, gc.get_freeze_count() > 10_000, *(m in sys.modules for m in (
    "pyspark.worker", "pyarrow.compute", "skyband.framework.streaming.rows.pack", "skyband.framework.streaming.bucket.bucket",
    "skyband.framework.streaming.bucket.calls", "pandas", "deltalake")))
import pyarrow as pa
print(pa.compute.sum(pa.array([1, 2])).as_py())
"""
    found = said(root, code, **(HOST if host else {}))
    assert found == ["1", "True", "True", "True", "True", str(host), str(host), "False", "False", "3"]
