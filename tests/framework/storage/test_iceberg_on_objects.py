"""Published results on object storage are read by an Iceberg client through the store."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from skyband.framework.console.lines import Lines
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import location
from skyband.framework.tables.iceberg import exported
from skyband.framework.tables.iceberg.publishing import export_published
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.published import publish
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing.test_sink import commit


def test_an_export_is_read_from_the_store(directory: str, store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.table import StaticTable

    settings = {
        "s3.endpoint": store["AWS_ENDPOINT_URL"], "s3.access-key-id": store["AWS_ACCESS_KEY_ID"], "s3.region": store["AWS_REGION"],
        "s3.secret-access-key": store["AWS_SECRET_ACCESS_KEY"],
    }  # fmt: skip
    monkeypatch.setattr(exported, "GRACE", -60.0)
    plan = replace(make_plan(directory, ("grp",)), iceberg=True)
    root = location(directory)
    sink = Sink(plan, DriverWriter(root), "g")
    sink.ensure_all()
    changes = random_changes(plan, seed=5, batches=3, steps=12)
    err = io.StringIO()
    for batch in range(3):
        commit(sink, changes, batch)
        derive(sink, batch)
        publish(plan, sink.writer, "x", batch)
        export_published(plan, Lines(err, err))
        assert err.getvalue() == ""
    for name in ("near_changes", "near", "near_now", "heads", "runs"):
        home = f"{directory}/_iceberg/{name}"
        number = (root / "_iceberg" / name / "metadata" / "version-hint.text").read_text()
        table = StaticTable.from_metadata(f"{home}/metadata/v{number}.metadata.json", properties=settings)
        found = table.scan().to_arrow().to_pylist()
        expected = delta_read.read(delta_read.open_table(root, name)).to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, expected)) != []
        assert table.location() == home and all(f.file.file_path.startswith(f"{directory}/{name}/") for f in table.scan().plan_files())
        # The exports before the last two are gone.
        assert sum(1 for p in (root / "_iceberg" / name / "metadata").iterdir() if p.name.endswith(".json")) == min(2, int(number))
    export_published(replace(plan, iceberg=False), Lines(err, err))
    assert err.getvalue() == "" and not (root / "_iceberg").is_dir()
