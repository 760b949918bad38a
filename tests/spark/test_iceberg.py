"""Jobs with Iceberg metadata and change data feeds through Spark: run, rebuilt, swapped back, reset, by both writers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.storage.delta_read import open_table
from tests.framework.tables.iceberg.readers import check_all, opened, published
from tests.framework.tables.writing.test_change_feed import check, feed
from tests.spark.rebuilds import job, said_of
from tests.specs import plan_of_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
RESULTS = ("far5_changes", "far5", "far5_now", "best_changes", "best", "best_now")


@pytest.mark.parametrize("writer", ["driver", "spark"])
def test_readers_follow_a_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], writer: str
) -> None:
    monkeypatch.setenv("SKYBAND_WRITER", writer)
    spec, root = job(tmp_path / "job", files=(0, 1)), tmp_path / "job" / "out"
    spec.write_text(spec.read_text().replace('/out"}', '/out", iceberg: true, change_data_feed: [far5]}'))
    plan = plan_of_text(spec.read_text(), {})

    def seen(rows: str) -> list[str]:
        counts = check_all(plan, root, len(RESULTS) + 6)
        assert set(published(root)) == set(RESULTS) and min(counts[n] for n in RESULTS) > 0
        return sorted(map(repr, opened(root, rows).scan().to_arrow().to_pylist()))

    assert "Iceberg" not in said_of(capsys, "run", str(spec))
    first = seen("far5")
    job(tmp_path / "job", files=(2, 3))
    spec.write_text(spec.read_text().replace('/out"}', '/out", iceberg: true, change_data_feed: [far5]}'))
    assert "Iceberg" not in said_of(capsys, "run", str(spec))
    assert seen("far5") != first
    for name in RESULTS:
        if name.startswith("far5"):
            assert check(root, name, feed(root, name)) > 0
        else:
            assert "delta.enableChangeDataFeed" not in open_table(root, name).metadata().configuration
    assert "Iceberg" not in said_of(capsys, "run", str(spec), "--finish")
    finished = seen("far5")
    if writer == "spark":
        return
    said_of(capsys, "verify", str(spec))
    spec.write_text(spec.read_text().replace("k: 5", "k: 7"))
    said_of(capsys, "rebuild", str(spec), "--finish")
    rebuilt = seen("far5")
    assert rebuilt != finished
    said_of(capsys, "rebuild", str(spec), "--undo")
    assert seen("far5") == finished
    said_of(capsys, "reset", str(spec), "--yes")
    assert sorted(p.name for p in root.iterdir()) == ["_skyband"]
