"""Sources by their names in Unity Catalog: found before all else, checked like paths, and noticed when they move."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.catalogs import registrar
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.job.layout import Layout, changed_since
from skyband.jobs import cli
from skyband.jobs.spec import SpecText, load_plan
from tests.framework.catalogs.jobs import TOKEN
from tests.framework.catalogs.unity_server import Server, unity_server

SPEC = """\
job: flights
source:
  format: delta
  table: main.prod.flows
  schema: {id: bigint, ts: timestamp, x: double}
  id: [id]
  event_time: {column: ts}
window: {count: 100}
scoring: {high: {expression: "x", direction: max}}
queries: {best: {type: topk, scoring: high, k: 3}}
sink: {path: out}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with unity_server(TOKEN) as found:
        monkeypatch.setenv("SKYBAND_UNITY_URL", found.url)
        monkeypatch.setenv("SKYBAND_UNITY_TOKEN", TOKEN)
        found.schemas["main.prod"] = {"name": "prod"}
        found.tables["main.prod.flows"] = {
            "name": "flows", "table_type": "EXTERNAL", "data_source_format": "DELTA", "storage_location": "file:///data/my%20flows",
        }  # fmt: skip
        yield found


def written(directory: Path, text: str = SPEC) -> str:
    (directory / "flights.yaml").write_text(text, encoding="utf-8")
    return str(directory / "flights.yaml")


def test_a_plan_has_the_location_as_if_the_spec_had_named_the_path(tmp_path: Path, server: Server) -> None:
    named = load_plan(written(tmp_path))
    assert (named.source.path, named.source.table) == ("/data/my flows", "main.prod.flows")
    other = SPEC.replace("table: main.prod.flows", "path: /data/my flows")
    assert compare(fingerprint(load_plan(written(tmp_path, other))), fingerprint(named)) == []
    server.tables["main.prod.flows"]["storage_location"] = "s3a://bucket/flows"
    moved = load_plan(written(tmp_path))
    assert moved.source.path == "s3://bucket/flows"
    assert compare(fingerprint(named), fingerprint(moved)) == ["source.path has changed"]


def test_explain_shows_the_name_and_the_location(tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", written(tmp_path)]) == 0
    assert "table main.prod.flows at /data/my flows" in capsys.readouterr().out


def test_one_of_several_sources_can_be_named(tmp_path: Path, server: Server) -> None:
    one = "{format: delta, table: main.prod.flows, schema: {id: bigint, ts: timestamp, x: double}}"
    other = one.replace("table: main.prod.flows", "path: theirs")
    kept = [line for line in SPEC.splitlines() if not line.startswith(("  format", "  table", "  schema"))]
    text = "\n".join(kept).replace("window:", f"sources: {{a: {one}, b: {other}}}\nwindow:")
    found = dict(load_plan(written(tmp_path, text)).source.parts)
    assert (found["a"].path, found["a"].table) == ("/data/my flows", "main.prod.flows")
    assert (found["b"].path, found["b"].table) == (str(tmp_path / "theirs"), None)


def test_a_plan_asks_once_and_validation_never(tmp_path: Path, server: Server) -> None:
    text = SpecText(written(tmp_path))
    text.plan()
    text.plan()
    assert [p for _, p, _ in server.requests] == ["/api/2.1/unity-catalog/tables/main.prod.flows"]
    assert cli.main(["validate", written(tmp_path)]) == 0
    assert load_plan(written(tmp_path), locate=False).source.path is None
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"table_type": "MANAGED"}, "managed table"),
        ({"data_source_format": "PARQUET"}, "not a Delta table"),
        ({"table_type": "VIEW", "storage_location": None}, "not a Delta table"),
        ({"storage_location": "hdfs://host/flows"}, "cannot read it"),
        ({"storage_location": "file:///data/../etc"}, "cannot read it"),
        ({"storage_location": "file:///data/%2A"}, "cannot read it"),
        ({"storage_location": "file:///"}, "cannot read it"),
        ({"storage_location": "relative/path"}, "cannot read it"),
        ({"storage_location": "s3://AKIA:hunter2@bucket/flows"}, "is at s3://bucket/flows, where"),
        ({"storage_location": "jdbc:postgresql://me:hunter2@host/db?password=hunter2"}, "is at jdbc:postgresql://host/db, where"),
        ({"storage_location": "jdbc:sqlserver://host;user=me;password=hunter2"}, "is at jdbc:sqlserver://host, where"),
    ],
)
def test_what_is_no_table_that_can_be_read_is_refused(tmp_path: Path, server: Server, change: dict[str, str], said: str) -> None:
    server.tables["main.prod.flows"] |= change
    with pytest.raises(SkybandError, match=said) as raised:
        load_plan(written(tmp_path))
    assert raised.value.code == "SKY-E683" and "main.prod.flows" in raised.value.message
    assert "hunter2" not in raised.value.message + str(raised.value.hint)


def test_a_server_that_sends_a_byte_at_a_time_ends_the_command(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrar, "PATIENCE", 0.5)
    server.trickle = 0.1
    with pytest.raises(SkybandError, match=r"no answer within 0\.5 s") as raised:
        load_plan(written(tmp_path))
    assert raised.value.code == "SKY-E683"


def test_a_job_does_not_read_its_own_tables_by_their_names(tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.tables["main.prod.flows"]["storage_location"] = (tmp_path / "out" / "best").as_uri()
    (tmp_path / "out" / "best" / "_delta_log").mkdir(parents=True)
    assert cli.main(["run", written(tmp_path)]) == 2
    assert "SKY-E" in (said := capsys.readouterr().err) and str(tmp_path / "out") in said
    assert not (tmp_path / "out" / "best_now").exists()


def test_a_table_that_is_not_there_or_a_catalog_that_fails_is_an_error_without_the_token(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fail = 500
    assert cli.main(["explain", written(tmp_path), "--format", "json"]) == 2
    server.fail = None
    del server.tables["main.prod.flows"]
    assert cli.main(["explain", written(tmp_path)]) == 2
    monkeypatch.delenv("SKYBAND_UNITY_URL")
    assert cli.main(["explain", written(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.err.count("SKY-E683") + said.out.count("SKY-E683") == 3 and "SKY-E681" in said.err
    assert TOKEN not in said.err + said.out and "is not in the catalog" in said.err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("table: flows", "SKY-E680"), ("table: 'a.b.c.d'", "SKY-E680"), ("table: 'main.prod.`flows`'", "SKY-E680"),
        ("table: main.prod.flows, path: in", "SKY-E117"), ("table: '${NAME}.prod.flows'", "SKY-E119"),
        ("table: '${SKYBAND_UNITY_TOKEN}.b'", "SKY-E119"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_at_their_place(line: str, code: str) -> None:
    _, errors = validate_text(
        SPEC.replace("table: main.prod.flows", line.replace(", ", "\n  ")), {"NAME": "main", "SKYBAND_UNITY_TOKEN": TOKEN}
    )
    assert [(e.code, e.where.line if e.where else 0) for e in errors] == [(code, 4)]


def test_only_tables_have_names_in_a_catalog() -> None:
    _, errors = validate_text(SPEC.replace("format: delta", "format: csv"), {})
    assert [e.code for e in errors] == ["SKY-E117"]


def test_the_hive_metastore_has_to_be_configured(tmp_path: Path) -> None:
    with pytest.raises(SkybandError) as raised:
        load_plan(written(tmp_path, SPEC.replace("main.prod.flows", "prod.flows")), {"SKYBAND_CONFIG": ""})
    assert raised.value.code == "SKY-E681" and "catalogImplementation" in str(raised.value.hint)


def test_nothing_of_catalogs_is_loaded_for_a_job_without_one(tmp_path: Path) -> None:
    spec = written(tmp_path, SPEC.replace("table: main.prod.flows", "path: in"))
    load = f"import sys\nfrom skyband.jobs.spec import load_plan\nload_plan({spec!r})\n"
    code = load + "print(sorted(m for m in sys.modules if '.catalogs' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == ["skyband.framework.catalogs", "skyband.framework.catalogs.model"]


def test_commands_that_need_no_source_work_without_the_catalog(tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    plan = load_plan(written(tmp_path))
    layout = Layout(plan.sink)
    server.fail = 500
    assert cli.main(["status", written(tmp_path)]) == 0
    assert "never run" in capsys.readouterr().out
    layout.create(plan, 1, None)
    assert changed_since(load_plan(written(tmp_path), locate=False), layout) == []
    server.fail = None
    server.tables["main.prod.flows"]["storage_location"] = "file:///elsewhere"
    assert changed_since(load_plan(written(tmp_path)), layout) == ["source.path has changed"]


def test_a_reset_with_the_catalog_down_resets_and_says_what_is_left(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = written(tmp_path, SPEC.replace("sink: {path: out}", "sink: {path: out, catalog: main.rankings}"))
    plan = load_plan(spec, locate=False)
    layout = Layout(plan.sink)
    layout.home.mkdir(parents=True)
    layout.create(plan, 1, None)
    (layout.home / "catalog.json").write_text('{"places": {"main.rankings": {"best": ""}, "main.former": {"best": ""}}}')
    server.fail = 503
    assert cli.main(["reset", spec, "--yes", "--format", "json"]) == 0
    said = capsys.readouterr()
    left = json.loads(said.out)["left_in_catalog"]
    assert [line.partition(":")[0] for line in left] == [f"entries of tables are left in main.{n}" for n in ("rankings", "former")]
    assert not layout.file.exists() and not (layout.home / "catalog.json").exists() and TOKEN not in said.out + said.err
