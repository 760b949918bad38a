"""What a gate that failed and a run that was killed have committed is announced by a later run, also one that finds nothing to do."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from skyband.framework.storage.delta_read import open_table
from tests.framework.catalogs.unity_server import unity_server
from tests.framework.observe.lineage.receiver import receiver
from tests.framework.tables.iceberg.readers import delta_rows, rows
from tests.spark.jobs import run_apart, stamp, table, write_file, write_spec

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CHECK = "  tables:\n    - {{table: far5, expectation: expect_column_values_to_be_between, column: score, max_value: {most}}}\n"
MORE = "alerts:\n  all: {channel: log, every: 0 seconds, at_most: 10000, history: true}\n"


def test_every_receiver_gets_what_failed_and_killed_runs_have_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    spec, sink, log = write_spec(tmp_path, watermark="0 seconds"), tmp_path / "out", tmp_path / "messages.jsonl"
    text = spec.read_text().replace('/out"}', '/out", iceberg: true, catalog: main.sky}') + MORE
    spec.write_text(text.replace("  max_rejected: 100%\n", f"  max_rejected: 100%\n{CHECK.format(most=1e12)}"))
    good = spec.read_text()
    bad = good.replace(CHECK.format(most=1e12), CHECK.format(most=0.5))
    assert good != bad and "iceberg" in good
    channels = tmp_path / "channels.toml"
    channels.write_text(f'[log]\ncommand = "tee -a {log}"\n')
    channels.chmod(0o600)

    def more(n: int) -> None:
        write_file(tmp_path, f"{n}.csv", [[i, stamp(i), "g", 7 * i % 11, i % 3, "ab"[i % 2]] for i in range(40 * n, 40 * n + 40)], at=n)

    def told() -> set[tuple[object, ...]]:
        """The changes that messages are about; a channel's command gets a line per object."""
        return {(m["query"], m["step"], m["pos"], m["on"]) for line in log.read_text().splitlines() for m in json.loads(line)["messages"]}

    def held() -> set[tuple[object, ...]]:
        kinds = {"+": "enter", "-": "leave"}
        return {(q, r["step"], r["pos"], kinds[r["change"]]) for q in queries for r in table(tmp_path, f"{q}_changes").to_pylist()}

    with receiver() as lineage, unity_server("key") as catalog:
        env = {
            "SKYBAND_CHANNELS": str(channels), "SKYBAND_OPENLINEAGE_URL": lineage.url, "SKYBAND_UNITY_URL": catalog.url,
            "SKYBAND_UNITY_TOKEN": "key",
        }  # fmt: skip
        more(0)
        # The catalog is down until the last run.
        catalog.fail = 503
        done = run_apart(spec, **env)
        assert done.returncode == 0, done.stderr
        queries = [n.removesuffix("_changes") for n in (p.name for p in sink.iterdir()) if n.endswith("_changes")]
        announced = table(tmp_path, "far5_changes").num_rows
        exported = rows(sink, "far5")
        # A gate that fails: all is written, and what is announced as good is what it was.
        more(1)
        spec.write_text(bad)
        done = run_apart(spec, **env)
        assert done.returncode == 1 and lineage.kinds()[-1] == "FAIL", done.stderr
        assert rows(sink, "far5") == exported != delta_rows(sink, "far5")
        # A run that is killed after it has committed all, and one that finds nothing to do.
        more(2)
        spec.write_text(good)
        done = run_apart(spec, failpoint="checks.before", **env)
        assert done.returncode == -signal.SIGKILL and rows(sink, "far5") == exported, done.stderr
        catalog.fail = None
        done = run_apart(spec, **env)
        assert done.returncode == 0 and "done: 0 rows, 0 rejected" in done.stderr, done.stderr
        assert rows(sink, "far5") == delta_rows(sink, "far5")
        assert lineage.kinds()[-1] == "COMPLETE"
        (changes,) = [d for d in lineage.events[-1]["outputs"] if d["name"].endswith("/far5_changes")]
        assert changes["outputFacets"]["outputStatistics"]["rowCount"] == table(tmp_path, "far5_changes").num_rows - announced > 0
        assert changes["facets"]["version"]["datasetVersion"] == str(open_table(sink, "far5_changes").version())
        assert told() == held() and len(held()) > 40
        assert {"far5", "far5_changes", "far5_now"} <= catalog.names("main.sky")
        # Everything is announced: the next run has nothing to say.
        done = run_apart(spec, **env)
        assert done.returncode == 0 and lineage.events[-1]["outputs"] == [], done.stderr
