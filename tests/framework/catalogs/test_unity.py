"""Unity Catalog: what is registered, what is never touched, and what a server that fails cannot do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError, redacted
from skyband.framework.catalogs.registrar import FILE, Unity, definitions
from skyband.framework.tables.delta.ownership import Owner
from skyband.framework.tables.schemas import tables
from tests.framework.catalogs.jobs import TOKEN, plan_at, registrar_of
from tests.framework.catalogs.unity_server import Server, unity_server


@pytest.fixture
def server() -> Iterator[Server]:
    with unity_server(TOKEN) as found:
        yield found


def environment(server: Server) -> dict[str, str]:
    return {"SKYBAND_UNITY_URL": server.url, "SKYBAND_UNITY_TOKEN": TOKEN, "SKYBAND_CONFIG": ""}


def record(directory: Path) -> dict[str, dict[str, str]]:
    path = directory / "out" / "_skyband" / FILE
    return json.loads(path.read_text())["places"] if path.exists() else {}


def registered(directory: Path, server: Server, said: list[str], **more) -> object:
    """Register the tables of a plan as a run does; return the registrar."""
    plan = plan_at(directory, **more)
    made = registrar_of(plan, said, environment(server))
    made.check(plan)
    made.register(plan)
    return made


def test_all_tables_are_registered_with_comments_keys_and_properties(tmp_path: Path, server: Server) -> None:
    said: list[str] = []
    registered(tmp_path, server, said)
    plan = plan_at(tmp_path)
    assert said == [] and server.names("main.rankings") == {t.name for t in tables(plan)}
    job = Owner(tmp_path / "out").id
    for spec in tables(plan):
        entry = server.tables[f"main.rankings.{spec.name}"]
        assert (entry["table_type"], entry["data_source_format"], entry["comment"]) == ("EXTERNAL", "DELTA", spec.comment)
        assert entry["storage_location"] == (tmp_path / "out" / spec.name).as_uri()
        assert [(c["name"], c["position"], c["comment"]) for c in entry["columns"]] == [
            (f.name, i, f.metadata[b"comment"].decode()) for i, f in enumerate(spec.schema)
        ]
        assert entry["properties"]["skyband.job"] == job and entry["properties"]["skyband.name"] == "flights"
    properties = server.tables["main.rankings.best_changes"]["properties"]
    assert (properties["skyband.query"], properties["skyband.table"], properties["skyband.key"]) == ("best", "changes", "grp,step,pos")
    columns = server.tables["main.rankings.best"]["columns"]
    kinds = {c["name"]: (c["type_name"], c["type_text"], json.loads(c["type_json"])) for c in columns}
    assert kinds["price"] == ("DECIMAL", "decimal(12,2)", "decimal(12,2)")
    assert kinds["day"] == ("DATE", "date", "date") and kinds["due"] == ("BOOLEAN", "boolean", "boolean")
    assert kinds["valid_from"] == ("TIMESTAMP", "timestamp", "timestamp") and kinds["from_step"][:2] == ("LONG", "bigint")


def test_an_unchanged_job_asks_the_catalog_nothing(tmp_path: Path, server: Server) -> None:
    registered(tmp_path, server, [])
    before = len(server.requests)
    registered(tmp_path, server, [])
    assert len(server.requests) == before


def test_tables_of_a_removed_query_are_dropped_and_those_of_a_new_one_registered(tmp_path: Path, server: Server) -> None:
    registered(tmp_path, server, [], queries=("best", "worst"))
    kept = server.tables["main.rankings.best"]["table_id"]
    registered(tmp_path, server, said := [], queries=("best", "other"))
    assert said == [] and server.names("main.rankings") == {t.name for t in tables(plan_at(tmp_path, queries=("best", "other")))}
    assert server.tables["main.rankings.best"]["table_id"] == kept


def test_another_schema_gets_the_entries_and_the_former_loses_them(tmp_path: Path, server: Server) -> None:
    registered(tmp_path, server, [])
    registered(tmp_path, server, said := [], catalog="main.other")
    assert said == [] and server.names("main.rankings") == set() and list(record(tmp_path)) == ["main.other"]
    assert server.names("main.other") == {t.name for t in tables(plan_at(tmp_path))}


def test_a_spec_without_a_catalog_drops_the_entries_and_leaves_no_record(tmp_path: Path, server: Server) -> None:
    registered(tmp_path, server, [])
    registered(tmp_path, server, said := [], catalog=None)
    assert said == [] and server.tables == {} and not (tmp_path / "out" / "_skyband" / FILE).exists()


def other_entry(server: Server, location: str, **properties: str) -> dict[str, object]:
    server.schemas.setdefault("main.rankings", {"name": "rankings"})
    made = {
        "name": "best_now", "table_type": "EXTERNAL", "data_source_format": "DELTA", "storage_location": location, "properties": properties,
        "table_id": "theirs",
    }  # fmt: skip
    server.tables["main.rankings.best_now"] = made
    return dict(made)


def test_a_name_that_others_have_is_refused_before_anything_is_made(tmp_path: Path, server: Server) -> None:
    theirs = other_entry(server, "file:///their/table")
    plan = plan_at(tmp_path)
    with pytest.raises(SkybandError) as raised:
        registrar_of(plan, [], environment(server)).check(plan)
    assert raised.value.code == "SKY-E682" and "main.rankings.best_now" in raised.value.message
    assert server.tables == {"main.rankings.best_now": theirs} and {m for m, _, _ in server.requests} == {"GET"}


@pytest.mark.parametrize("case", ["at our location", "with our id elsewhere", "a managed one", "another format"])
def test_what_is_not_proven_to_be_the_jobs_is_neither_replaced_nor_dropped(tmp_path: Path, server: Server, case: str) -> None:
    registered(tmp_path, server, [])
    job, at = str(Owner(tmp_path / "out").id), (tmp_path / "out" / "best_now").as_uri()
    changed = {
        "at our location": {"properties": {"skyband.job": "0" * 32}}, "with our id elsewhere": {"storage_location": "file:///their/table"},
        "a managed one": {"table_type": "MANAGED"}, "another format": {"data_source_format": "PARQUET"},
    }[case]  # fmt: skip
    other_entry(server, at, **{"skyband.job": job})
    server.tables["main.rankings.best_now"] |= changed
    theirs = dict(server.tables["main.rankings.best_now"])
    # The record says that the entry is ours, as it was; everything is looked at again.
    path = tmp_path / "out" / "_skyband" / FILE
    path.write_text(json.dumps({"places": {"main.rankings": dict.fromkeys(record(tmp_path)["main.rankings"], "")}}))
    registered(tmp_path, server, said := [])
    assert len(said) == 1 and "main.rankings.best_now is not registered" in said[0]
    path.write_text(json.dumps({"places": {"main.rankings": {"best_now": "0" * 64}}}))
    registered(tmp_path, server, said := [], catalog=None)
    assert len(said) == 1 and "main.rankings.best_now is left alone" in said[0]
    assert server.tables["main.rankings.best_now"] == theirs


def test_a_forged_record_drops_nothing_of_others(tmp_path: Path, server: Server) -> None:
    registered(tmp_path, server, [])
    theirs = {"name": "flows", "table_type": "EXTERNAL", "data_source_format": "DELTA", "storage_location": "file:///flows"}
    server.schemas["main.prod"] = {"name": "prod"}
    server.tables["main.prod.flows"] = theirs
    path = tmp_path / "out" / "_skyband" / FILE
    path.write_text(json.dumps({"places": {"main.prod": {"flows": "0" * 64}, **record(tmp_path)}}))
    registered(tmp_path, server, said := [])
    assert server.tables["main.prod.flows"] == theirs and "main.prod.flows is left alone" in said[0]
    assert ("DELETE", "/api/2.1/unity-catalog/tables/main.prod.flows") not in [(m, p) for m, p, _ in server.requests]


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"places": {"main/../..": {"a": ""}}}', '{"places": {"main.prod": {"../flows": ""}}}',
        '{"places": {"main.a.b": {"c": ""}}}', '{"places": {"main.prod": {"a?x=1": ""}}}', '{"places": {"main.prod": {"flows": 1}}}',
        '{"places": {}, "url": "http://else"}', '{"places": {"spark_catalog.a-b": {"c": ""}}}',
        '{"places": {"spark_catalog.Main": {"c": ""}}}',
        '{"places": {"SPARK_CATALOG.main": {"c": ""}}}',
    ],
)  # fmt: skip
def test_a_record_that_no_run_has_written_is_ignored(tmp_path: Path, server: Server, text: str) -> None:
    plan_at(tmp_path)
    (tmp_path / "out" / "_skyband" / FILE).write_text(text)
    registered(tmp_path, server, said := [])
    assert len(said) == 1 and FILE in said[0] and "ignored" in said[0]
    assert server.names("main.rankings") == {t.name for t in tables(plan_at(tmp_path))} and list(record(tmp_path)) == ["main.rankings"]
    assert {m for m, _, _ in server.requests} == {"GET", "POST"}


def test_a_link_in_the_place_of_the_record_is_refused(tmp_path: Path, server: Server) -> None:
    plan = plan_at(tmp_path)
    (tmp_path / "else.json").write_text('{"places": {}}')
    os.symlink(tmp_path / "else.json", tmp_path / "out" / "_skyband" / FILE)
    with pytest.raises(SkybandError) as raised:
        registrar_of(plan, [], environment(server))
    assert raised.value.code == "SKY-E518"


@pytest.mark.parametrize("fault", ["down", "500", "slow", "no token", "not this server"])
def test_a_catalog_that_fails_is_a_warning_and_the_next_run_registers(tmp_path: Path, server: Server, fault: str) -> None:
    plan, said = plan_at(tmp_path), []
    env = environment(server)
    if fault == "down":
        env["SKYBAND_UNITY_URL"] = "http://127.0.0.1:1"
    server.fail = 500 if fault == "500" else None
    server.slow = 1.5 if fault == "slow" else 0.0
    if fault == "no token":
        del env["SKYBAND_UNITY_TOKEN"]
    if fault == "not this server":
        env["SKYBAND_UNITY_URL"] += "/somewhere"
        server.fail = None
    made = registrar_of(plan, said, env, patience=0.2 if fault == "slow" else 20.0)
    made.check(plan)
    made.register(plan)
    if fault == "not this server":
        # It answers as a server does that has no such catalog.
        assert len(said) == 1 and "creates none" in said[0]
    else:
        assert len(said) == 1 and said[0].startswith("the tables are not registered in main.rankings: ")
    assert TOKEN not in "".join(said) and server.tables == {}
    server.fail, server.slow = None, 0.0
    registered(tmp_path, server, later := [])
    assert later == [] and server.names("main.rankings") == {t.name for t in tables(plan)}


def test_a_catalog_that_fails_half_way_is_completed_by_the_next_run(tmp_path: Path, server: Server) -> None:
    plan, said = plan_at(tmp_path), []
    made = registrar_of(plan, said, environment(server))
    answer = server.answer

    def fails_after_three(method: str, path: str, body: dict) -> tuple[int, dict]:
        if method == "POST" and len(server.tables) == 3:
            return 503, {"error_code": "UNAVAILABLE", "message": "later"}
        return answer(method, path, body)

    server.answer = fails_after_three  # type: ignore[method-assign]
    made.register(plan)
    assert len(said) == 1 and "answers 503" in said[0] and len(server.tables) == 3
    server.answer = answer  # type: ignore[method-assign]
    registered(tmp_path, server, later := [])
    assert later == [] and server.names("main.rankings") == {t.name for t in tables(plan)}


def test_the_token_goes_to_the_configured_server_only_and_into_no_message(tmp_path: Path, server: Server) -> None:
    plan, said = plan_at(tmp_path), []
    with unity_server() as elsewhere:
        server.redirect = elsewhere.url
        made = registrar_of(plan, said, environment(server))
        made.check(plan)
        made.register(plan)
        assert elsewhere.requests == []
    server.redirect, server.fail = None, 500
    again = registrar_of(plan, said, environment(server))
    again.check(plan)
    assert {authorization for _, _, authorization in server.requests} == {f"Bearer {TOKEN}"}
    assert len(said) == 2 and "answers 302" in said[0] and "answers 500" in said[1]
    assert TOKEN not in "".join(said) and "Bearer ${SKYBAND_UNITY_TOKEN}" in said[1]
    assert TOKEN not in redacted(f"whatever else names {TOKEN}")
    assert not any(TOKEN in p.read_text() for p in (tmp_path / "out").rglob("*.json"))
    assert TOKEN not in json.dumps(server.bodies)


@pytest.mark.parametrize("raw", [b"[" * 200_000, b"<html>", b"[]", b"\xff", b"1" * 10_000, b"{" * 9_000_000, b'"', b"null"])
@pytest.mark.parametrize("status", [None, 500])
def test_an_answer_that_is_no_object_is_a_warning(tmp_path: Path, server: Server, raw: bytes, status: int | None) -> None:
    server.raw, server.fail = raw, status
    registered(tmp_path, server, said := [])
    assert len(said) == 1 and said[0].startswith("the tables are not registered in main.rankings: Unity Catalog ") and len(said[0]) < 400
    server.raw = server.fail = None
    registered(tmp_path, server, said := [])
    assert said == []


def test_a_warning_names_the_schema_whose_entries_are_left(tmp_path: Path, server: Server) -> None:
    registered(tmp_path, server, [])
    server.schemas["main.other"] = {"name": "other"}
    answer = server.answer

    def keeps_entries(method: str, path: str, body: dict) -> tuple[int, dict]:
        return (403, {"error_code": "PERMISSION_DENIED", "message": "not yours"}) if method == "DELETE" else answer(method, path, body)

    server.answer = keeps_entries  # type: ignore[method-assign]
    registered(tmp_path, server, said := [], catalog="main.other")
    assert len(said) == 1 and "more failures" in said[0]
    assert said[0].startswith("entries of tables are left in main.rankings: Unity Catalog answers 403")
    assert server.names("main.other") == {t.name for t in tables(plan_at(tmp_path))}
    # Nobody has a token for the former catalog any more.
    plan = plan_at(tmp_path, catalog=None)
    registrar_of(plan, said := [], {"SKYBAND_CONFIG": ""}).register(plan)
    assert sorted(s.partition(":")[0] for s in said) == [f"entries of tables are left in main.{n}" for n in ("other", "rankings")]
    assert all(s.endswith("no Unity Catalog is configured") for s in said)


@pytest.mark.parametrize("url", ["ftp://host", "host:8080", "http://", "https://me:secret@host", "https://host/?a=b", "http://[::1"])
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(SkybandError) as raised:
        Unity(url, None)
    assert raised.value.code == "SKY-E681" and "secret" not in raised.value.message


def test_a_catalog_that_nobody_has_configured_is_refused(tmp_path: Path) -> None:
    for catalog, variable in (("main.rankings", "SKYBAND_UNITY_URL"), ("rankings", "spark.sql.catalogImplementation")):
        with pytest.raises(SkybandError) as raised:
            registrar_of(plan_at(tmp_path, catalog), [], {"SKYBAND_CONFIG": ""})
        assert raised.value.code == "SKY-E681" and variable in str(raised.value.hint)


def test_an_entry_of_a_moved_sink_is_not_taken_for_the_jobs(tmp_path: Path, server: Server) -> None:
    registered(tmp_path, server, [])
    (tmp_path / "out").rename(tmp_path / "moved")
    (tmp_path / "moved" / "_skyband" / FILE).unlink()
    (tmp_path / "moved").rename(tmp_path / "new")
    (tmp_path / "there").mkdir()
    (tmp_path / "new").rename(tmp_path / "there" / "out")
    plan = plan_at(tmp_path / "there")
    with pytest.raises(SkybandError, match="at another location"):
        registrar_of(plan, [], environment(server)).check(plan)


def test_requests_and_answers_are_those_of_the_official_client(tmp_path: Path, server: Server) -> None:
    client = pytest.importorskip("unitycatalog.client", reason="needs the package unitycatalog-client")
    registered(tmp_path, server, [])
    made = [b for b in server.bodies if "columns" in b]
    assert len(made) == len(tables(plan_at(tmp_path)))
    for body in made:
        assert set(body) <= set(client.CreateTable.model_fields)
        assert all(set(column) <= set(client.ColumnInfo.model_fields) for column in body["columns"])
        assert client.CreateTable.from_dict(body).to_dict()["properties"] == body["properties"]
    for entry in server.tables.values():
        assert client.TableInfo.from_dict(entry).table_type == client.TableType.EXTERNAL
    assert all(client.CreateSchema.from_dict(b) for b in server.bodies if "columns" not in b)


def test_the_definitions_of_a_plan_are_the_same_in_every_run(tmp_path: Path) -> None:
    plan = plan_at(tmp_path)
    one, other = (definitions(plan_at(tmp_path), tmp_path, "f" * 32) for _ in range(2))
    assert [d.digest() for d in one] == [d.digest() for d in other] and len({d.digest() for d in one}) == len(tables(plan))
