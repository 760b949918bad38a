"""The events of a run: valid by OpenLineage's classes, complete, without secrets and values of rows, and no danger to the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import ACCEPTED, ROWS_IN, Tally
from skyband.framework.console.receivers import NotDelivered
from skyband.framework.observe.chosen import chosen, sends_lineage
from skyband.framework.observe.lineage import Unavailable, observer_of
from skyband.framework.observe.lineage import client as client_module
from skyband.framework.observe.lineage.client import OpenLineageClient, connect
from skyband.framework.observe.lineage.observer import Lineage
from skyband.framework.observe.lineage.parent import parent_facet
from skyband.framework.observe.lineage.table_columns import path_name
from skyband.framework.observe.observers import Observer, Observers, StartedRun
from skyband.framework.plan.model import Plan
from skyband.framework.storage import delta_read
from skyband.framework.streaming.run.batch import Batch
from skyband.framework.tables.schemas import batch_tables
from skyband.jobs.outcome import Outcome
from tests.framework.observe.lineage.jobs import examples, texts
from tests.framework.observe.lineage.receiver import Receiver, check_event, receiver
from tests.spark.cuts import stream
from tests.spark.jobs import write_spec
from tests.specs import plan_of_text, spec_text

ROOT = Path(__file__).resolve().parents[4]
URL = "SKYBAND_OPENLINEAGE_URL"
CHECK = {
    "table_name": "best", "expectation": "expect_column_values_to_be_between", "arguments": '{"column": "score", "max_value": 731}',
    "severity": "critical", "success": False, "observed": '{"max": 977}', "rows_checked": 40, "unexpected": 3, "error": None,
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_standard_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("OPENLINEAGE"):
            monkeypatch.delenv(name)
    yield
    assert not [name for name in os.environ if name.startswith("OPENLINEAGE__TRANSPORT__TRANSPORTS")]


def plan_of(name: str = "skyline") -> Plan:
    return plan_of_text(texts()[name])


def batch(number: int, rows: int = 10, **rejected: int) -> Batch:
    return Batch(number, Tally({ROWS_IN: rows, ACCEPTED: rows - sum(rejected.values())}), reasons=rejected, changes={"best": 2})


def outcome_of(plan: Plan, batches: list[Batch], before: int | None = None, checks: Any = (), made: str = "made") -> Outcome:
    """The outcome of a run that found all tables at version ``before``, after as many batches; ``made``: the tables' id."""
    outcome = Outcome(None, wanted=True)
    state = None if before is None else (before, made)
    versions: dict[str, tuple[int, str] | None] = {t.name: state for t in batch_tables(plan)}
    last = batches[-1].number if batches else before
    outcome.watch(plan.job, [q.name for q in plan.every_query], lambda: dict(versions), lambda: last)
    for b in batches:
        outcome.add(b.number, {"in": b.get(ROWS_IN), "filtered": 0, "accepted": b.get(ACCEPTED)}, b.reasons, b.changes, 0)
        versions |= dict.fromkeys(versions, (b.number, made))
    outcome.look(lambda: checks)
    return outcome


def run(
    env: dict[str, str], plan: Plan, code: int = 0, batches: int = 2, patience: float = 10.0, command: str = "run", spec: str = "none",
    continuous: bool = False, before: int | None = None, errors: Any = (), checks: Any = (), root: str = "/warehouse/tables",
    table_id: str = "made",
) -> list[str]:  # fmt: skip
    """One run without Spark; its warnings."""
    observers = Observers([observer_of(env)] if sends_lineage(env) else [], patience)
    observers.started(StartedRun(command, plan, root, spec, continuous))
    first = 0 if before is None else before + 1
    made = [batch(n, parse=n) for n in range(first, first + batches)]
    for b in made:
        observers.committed(b)
    return observers.ended(lambda: outcome_of(plan, made, before, checks, table_id).document(code, errors))


def facets_of(event: dict[str, Any], table: str) -> dict[str, Any]:
    (found,) = [d for d in event["outputs"] if d["name"] == f"/warehouse/tables/{table}"]
    return {**found["facets"], **found["outputFacets"]}


def test_a_run_of_a_job_of_every_kind_is_reported_in_valid_events() -> None:
    with receiver() as got:
        for name in texts():
            plan = plan_of(name)
            assert run({URL: got.url}, plan, checks=[CHECK]) == []
            start, running, complete = got.events[-3:]
            assert got.kinds()[-3:] == ["START", "RUNNING", "COMPLETE"]
            for event in (start, running, complete):
                check_event(event)
            assert len({e["run"]["runId"] for e in (start, running, complete)}) == 1
            assert (start["job"]["namespace"], start["job"]["name"]) == ("skyband", plan.job)
            tables = {f"/warehouse/tables/{t.name}" for t in batch_tables(plan)}
            assert {d["name"] for d in start["outputs"]} == {d["name"] for d in complete["outputs"]} == tables
        assert {h["path"] for h in got.heads} == {"/api/v1/lineage"} and len(got.events) == 3 * len(texts())


def test_what_the_end_says(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("job: offers\n")
    with receiver() as got:
        error = SkybandError("SKY-E500", "critical check failed on table best")
        assert run({URL: got.url}, plan_of(), 1, spec=str(tmp_path / "spec.yaml"), errors=[error], checks=[CHECK]) == []
    start, _, end = got.events
    assert end["eventType"] == "FAIL"
    assert end["run"]["facets"]["errorMessage"]["message"] == "SKY-E500 critical check failed on table best"
    counts = end["run"]["facets"]["skyband_rejectedRows"]
    assert {k: v for k, v in counts.items() if k[0] != "_"} == {
        "batches": 2, "rowsIn": 20, "filtered": 0, "accepted": 19, "rejected": {"parse": 1},
    }  # fmt: skip
    assert len(end["job"]["facets"]["skyband_spec"]["sha256"]) == 64
    assert end["job"]["facets"]["jobType"]["processingType"] == "BATCH" and end["job"]["facets"]["jobType"]["integration"] == "SKYBAND"
    changes = facets_of(end, "best_changes")
    assert changes["outputStatistics"]["rowCount"] == 4 and changes["version"]["datasetVersion"] == "1"
    assert changes["lifecycleStateChange"]["lifecycleStateChange"] == "CREATE" and changes["storage"]["storageLayer"] == "delta"
    assert facets_of(end, "rejected")["outputStatistics"]["rowCount"] == 1
    (assertion,) = facets_of(end, "best")["dataQualityAssertions"]["assertions"]
    assert assertion == {
        "assertion": "expect_column_values_to_be_between", "success": False, "column": "score", "severity": "error",
        "params": {"rows_checked": 40, "unexpected": 3},
    }  # fmt: skip
    # Neither what a check observed, nor its arguments: both may be values of rows.
    assert "977" not in json.dumps(end) and "731" not in json.dumps(end)
    price = next(f for f in facets_of(end, "best")["schema"]["fields"] if f["name"] == "price")
    said = {"name": "price", "type": "double", "description": "price of the object", "fields": []}
    assert price == {**said, "ordinal_position": price["ordinal_position"]}
    (source,) = end["inputs"]
    assert (source["namespace"], source["name"]) == ("file", os.path.abspath("landing"))
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == source["inputFacets"]["dataQualityMetrics"]["rowCount"] == 20
    assert start["inputs"][0]["inputFacets"] == {}


def test_column_lineage_names_the_columns_of_the_source() -> None:
    with receiver() as got:
        run({URL: got.url}, plan_of("kafka"))
    found = facets_of(got.events[0], "best")["columnLineage"]
    (who,) = found["fields"]["who"]["inputFields"]
    assert who == {
        "namespace": "kafka://kafka1.example:9092", "name": "readings", "field": "user.name",
        "transformations": [{"type": "DIRECT", "subtype": "IDENTITY"}],
    }  # fmt: skip
    by_field = {f["field"]: [(t["type"], t["subtype"]) for t in f["transformations"]] for f in found["dataset"]}
    assert by_field == {"$timestamp": [("INDIRECT", "SORT"), ("INDIRECT", "WINDOW")], "x": [("INDIRECT", "FILTER")]}
    assert "step" not in found["fields"] and "topic_offset" not in found["fields"]


def test_tables_that_have_not_changed_are_no_outputs_of_the_end(tmp_path: Path) -> None:
    (tmp_path / "_skyband").mkdir()
    with receiver() as got:
        env = {URL: got.url}
        run(env, plan_of(), batches=1, root=str(tmp_path))
        run(env, plan_of(), batches=0, before=0, root=str(tmp_path))
        run(env, plan_of(), batches=1, before=0, root=str(tmp_path))
        run(env, plan_of(), batches=1, command="rebuild", root=str(tmp_path), table_id="rebuilt")
    ends = [e for e in got.events if e["eventType"] == "COMPLETE"]
    changes = [[d["facets"].get("lifecycleStateChange", {}).get("lifecycleStateChange") for d in e["outputs"]] for e in ends]
    many = len(batch_tables(plan_of()))
    assert changes == [["CREATE"] * many, [], [None] * many, ["OVERWRITE"] * many]


def test_an_event_covers_what_runs_left_that_failed_or_were_killed(tmp_path: Path) -> None:
    """Real tables: batches are counted from them where they are not the run's own."""
    from tests.framework.verify import small

    spec = write_spec(tmp_path, queries="  near: {type: topk_pairs, scoring: near, k: 3, carry: [x]}\n")
    plan = small.make(spec, stream(1, 60))
    root = Path(plan.sink)
    every = pq_rows(root, "near_changes")
    (root / "_skyband").mkdir(exist_ok=True)
    last, rows = max(r["batch_id"] for r in pq_rows(root, "runs")), len(every)
    assert last >= 0 and rows > 0
    state = {t.name: delta_read.versions(root, [t.name])[t.name] for t in batch_tables(plan)}

    def ran(got: Receiver, code: int, batches: list[Batch], before: dict[str, Any]) -> dict[str, Any]:
        observers = Observers([observer_of({URL: got.url})])
        observers.started(StartedRun("run", plan, str(root), "none", False))
        looked = iter([before, state])
        outcome = Outcome(None, wanted=True)
        outcome.watch(plan.job, ["near"], lambda: next(looked), lambda: last)
        for b in batches:
            outcome.add(b.number, {"in": 1, "filtered": 0, "accepted": 1}, {}, {"near": 1}, 0)
        outcome.look(list)
        assert observers.ended(lambda: outcome.document(code, ())) == []
        return got.events[-1]

    def of(event: dict[str, Any]) -> dict[str, Any]:
        (found,) = [d for d in event["outputs"] if d["name"].endswith("/near_changes")]
        return {**found["facets"], **found["outputFacets"]}

    with receiver() as got:
        # A gate that failed: its event covers the tables, and is not one of success.
        assert ran(got, 1, [batch(last)], dict.fromkeys(state))["eventType"] == "FAIL"
        # A run was killed meanwhile, and one that finds nothing follows: all rows are announced.
        found = of(ran(got, 0, [], state))
        assert found["outputStatistics"]["rowCount"] == rows and found["version"]["datasetVersion"] == str(state["near_changes"][0])
        assert found["lifecycleStateChange"]["lifecycleStateChange"] == "CREATE"
        assert ran(got, 0, [], state)["outputs"] == []
        # A receiver that refused an event gets it again; another receiver has had none yet.
        with receiver() as other:
            assert of(ran(other, 0, [], state))["outputStatistics"]["rowCount"] == rows
        assert ran(got, 0, [], state)["outputs"] == []
        # An event that covers some of the batches only.
        file = root / "_skyband" / "announced.json"
        known = json.loads(file.read_text())
        assert len(known["receivers"]) == 2
        for one in known["receivers"].values():
            one["batch"] = 0
            one["tables"]["near_changes"]["version"] -= 1
        file.write_text(json.dumps(known))
        event = ran(got, 0, [], state)
        assert [d["name"].rpartition("/")[2] for d in event["outputs"]] == ["near_changes"]
        assert of(event)["outputStatistics"]["rowCount"] == sum(r["batch_id"] > 0 for r in every)
    with receiver(500) as down:
        file.write_text("damaged")
        observers = Observers([observer_of({URL: down.url})])
        observers.started(StartedRun("run", plan, str(root), "none", False))
        looked = iter([state, state])
        outcome = Outcome(None, wanted=True)
        outcome.watch(plan.job, ["near"], lambda: next(looked), lambda: last)
        outcome.look(list)
        assert len(observers.ended(lambda: outcome.document(0, ()))) == 1
        # Not taken, so not recorded.
        assert file.read_text() == "damaged"


def pq_rows(root: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = delta_read.read(delta_read.open_table(root, table)).to_pylist()
    return found


@pytest.mark.parametrize(
    ("code", "kind"), [(0, "COMPLETE"), (1, "FAIL"), (2, "FAIL"), (3, "FAIL"), (4, "FAIL"), (130, "ABORT"), (143, "ABORT")]
)
def test_how_a_run_ended(code: int, kind: str) -> None:
    with receiver() as got:
        assert run({URL: got.url}, plan_of(), code, continuous=True) == []
    assert got.kinds() == ["START", "RUNNING", kind]
    assert got.events[0]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    check_event(got.events[-1])


def test_progress_is_reported_after_the_first_batch_and_once_a_minute() -> None:
    with receiver() as got:
        observer = Lineage(connect({URL: got.url}), "skyband", None)
        observer.started(StartedRun("run", plan_of(), "/t", "none", True))
        at = datetime(2026, 1, 1, tzinfo=UTC)
        for seconds in (0, 1, 59, 60, 61, 119.9, 120, 1000):
            observer.committed(batch(int(seconds)), at + timedelta(seconds=seconds))
        observer.close(30)
    sent = [e for e in got.events if e["eventType"] == "RUNNING"]
    assert [e["run"]["facets"]["skyband_rejectedRows"]["batches"] for e in sent] == [1, 4, 7, 8]
    assert [e["eventTime"][11:19] for e in sent] == ["00:00:00", "00:01:00", "00:02:00", "00:16:40"]


def test_the_parent_of_a_run() -> None:
    task, dag = "0193a5c1-0000-7000-8000-000000000001", "0193a5c1-0000-7000-8000-000000000002"
    env = {"OPENLINEAGE_PARENT_ID": f"air/flow/dag.run/{task}", "OPENLINEAGE_ROOT_PARENT_ID": f"air/flow/dag/{dag}"}
    with receiver() as got:
        run({URL: got.url, **env, "OPENLINEAGE_NAMESPACE": "prod"}, plan_of())
    for event in got.events:
        check_event(event)
        parent = event["run"]["facets"]["parent"]
        assert (parent["job"]["namespace"], parent["job"]["name"], parent["run"]["runId"]) == ("air/flow", "dag.run", task)
        assert (parent["root"]["job"]["name"], parent["root"]["run"]["runId"]) == ("dag", dag)
        assert event["job"]["namespace"] == "prod"
    for wrong in ("", "x", "a/b", f"/b/{task}", "a/b/no-uuid"):
        assert parent_facet({"OPENLINEAGE_PARENT_ID": wrong}) is None


SECRETS = {
    "PLACE": "s3cret-place", "TOPIC": "s3cret.topic", "BROKER": "s3cret.example:9092", "NAME": "s3cret_column", "WORD": "s3cret-word",
    "KEY": "s3cret-key",
}  # fmt: skip
SECRETIVE = spec_text(
    "secretive", '{id: bigint, at: timestamp, x: {type: double, from: "${NAME}"}, who: string}', path='"/data/${PLACE}/in"',
    event_time="{column: at}", transform=["derive: {y: \"concat(who, '${WORD}')\"}", "where: \"who <> '${WORD}'\""],
    quality={"tables": ['{table: best, expectation: expect_column_values_to_be_in_set, column: who, value_set: ["${WORD}"]}']},
    lookups={"more": {"format": "csv", "path": '"/data/${PLACE}/more"', "schema": '{who: string, z: {type: double, from: "${NAME}"}}',
                      "on": "{who: who}", "take": "{z: z}"}},
    window="{count: 20}", scoring={"x": "{expression: x + z, direction: max}"},
    queries={"best": "{type: topk, scoring: x, k: 3, carry: [who, y, z], where: \"who <> '${WORD}'\"}"},
    sink='{path: "/data/${PLACE}/out"}',
)  # fmt: skip
FROM_KAFKA = spec_text(
    "messages", "{id: bigint, at: timestamp, x: double}", format="kafka", path=None,
    options='{servers: "${BROKER}", topic: "${TOPIC}", user: app, password: "${KEY}", mechanism: PLAIN, tls: "true"}', id="position",
    event_time="{column: at}", window="{count: 30}", scoring={"x": "{expression: x}"}, queries={"best": "{type: topk, scoring: x, k: 3}"},
)  # fmt: skip


@pytest.mark.parametrize("text", [SECRETIVE, FROM_KAFKA])
def test_nothing_from_the_environment_is_sent(text: str) -> None:
    plan = plan_of_text(text, SECRETS)
    check = {**CHECK, "arguments": '{"column": "who", "value_set": ["s3cret-word"]}', "observed": '["s3cret-word"]'}
    named = {**CHECK, "arguments": json.dumps({"column": "s3cret_column" if text is SECRETIVE else "x"})}
    gone = "the file /data/s3cret-place/in/1.csv" if text is SECRETIVE else "a record of s3cret.topic"
    error = SkybandError("SKY-E301", f"{gone} is gone")
    with receiver() as got:
        observers = Observers([observer_of({URL: f"{got.url}/", "OPENLINEAGE_API_KEY": "s3cret-api-key"})])
        observers.started(StartedRun("run", plan, plan.sink, "none", False))
        observers.committed(batch(0))
        assert observers.ended(lambda: outcome_of(plan, [batch(0)], checks=[check, named]).document(3, [error])) == []
    sent = json.dumps(got.events)
    assert "s3cret" not in sent and len(got.events) == 3
    assert {h["Authorization"] for h in got.heads} == {"Bearer s3cret-api-key"}
    if text is SECRETIVE:
        assert {d["name"] for d in got.events[0]["inputs"]} == {"/data/${PLACE}/in", "/data/${PLACE}/more"}
        assert "/data/${PLACE}/out/best" in {d["name"] for d in got.events[0]["outputs"]} and '"${NAME}"' in sent
        assert "the file /data/${PLACE}/in/1.csv is gone" in sent
    else:
        assert (got.events[0]["inputs"][0]["namespace"], got.events[0]["inputs"][0]["name"]) == ("kafka://${BROKER}", "${TOPIC}")


class Hearing(Observer):
    name = "other"

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def committed(self, batch, at):
        self.heard.append(batch.number)


def test_a_receiver_that_hangs_holds_up_no_other_observer_and_the_end_only_as_long_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Hearing()
    with receiver(hangs=True) as got:
        observers = Observers([observer_of({URL: got.url}), other], patience=4.0)
        observers.started(StartedRun("run", plan_of(), "/t", "none", False))
        for n in range(50):
            observers.committed(batch(n))
        # Ended at all, although the receiver answers only below.
        (warning,) = observers.ended(lambda: outcome_of(plan_of(), [batch(0)]).document(0, ()))
    assert other.heard == list(range(50))
    assert warning == "OpenLineage: 3 events were not delivered, the last one for this reason: the receiver did not answer in time"


def test_a_receiver_that_fails_is_reported_with_the_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver(500) as got:
        (warning,) = run({URL: got.url}, plan_of())
    assert warning == "OpenLineage: 3 events were not delivered, the last one for this reason: the receiver answered with errors"
    with receiver(403) as got:
        (warning,) = run({URL: f"{got.url}/?token=s3cret"}, plan_of())
    assert warning == "OpenLineage: 3 events were not delivered, the last one for this reason: the receiver answered with status 403"
    (warning,) = run({URL: "http://127.0.0.1:9/?token=s3cret"}, plan_of())
    assert warning == "OpenLineage: 3 events were not delivered, the last one for this reason: the receiver cannot be reached"


@pytest.mark.parametrize(
    "env", [{URL: "no address"}, {"OPENLINEAGE__TRANSPORT__TYPE": "no.such.Transport"}, {"OPENLINEAGE_CONFIG": "/none"}]
)
def test_a_configuration_that_cannot_be_used_is_a_warning(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    (warning,) = run(env, plan_of())
    assert warning.startswith("OpenLineage: 1 event was not delivered, the last one for this reason: the configuration of the client ")


def test_a_missing_package_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith(("openlineage", "skyband.framework.observe.lineage."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openlineage", None)
    observer = observer_of({URL: "http://127.0.0.1:9"})
    assert isinstance(observer, Unavailable)
    with pytest.raises(NotDelivered, match=r"needs the package openlineage.*pip install 'skyband\[lineage\]'"):
        observer.started(StartedRun("run", plan_of(), "/t", "none", False))
    observer.close(1)


def test_only_the_operators_file_configures_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as got, receiver() as authors:
        config = "transport: {type: http, url: %s}\nfacets: {environment_variables: [SECRET_OF_THE_RUN]}\n"
        monkeypatch.setenv("SECRET_OF_THE_RUN", "s3cret")
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".openlineage").mkdir()
        for directory in (tmp_path, tmp_path / ".openlineage"):
            (directory / "openlineage.yml").write_text(config % authors.url)
        monkeypatch.chdir(tmp_path)
        # The client itself would read it: if it no longer does, the class that keeps it from that is not needed any more.
        assert OpenLineageClient._find_yaml_config_path() == str(tmp_path / "openlineage.yml")
        assert run({URL: got.url}, plan_of()) == []
        monkeypatch.setenv("OPENLINEAGE_URL", got.url)
        assert run({"OPENLINEAGE_URL": got.url}, plan_of()) == []
        assert got.kinds() == ["START", "RUNNING", "COMPLETE"] * 2 and authors.events == []
        assert "s3cret" not in json.dumps(got.events)
        (tmp_path / "operator.yml").write_text(config % got.url)
        monkeypatch.delenv("OPENLINEAGE_URL")
        monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "operator.yml"))
        assert run({"OPENLINEAGE_CONFIG": str(tmp_path / "operator.yml")}, plan_of()) == []
        assert len(got.events) == 9 and got.events[-1]["run"]["facets"]["environmentVariables"]
        assert authors.events == []


def test_standard_variables_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as got:
        env = {
            "OPENLINEAGE__TRANSPORT__TYPE": "http", "OPENLINEAGE__TRANSPORT__URL": got.url, "OPENLINEAGE__TRANSPORT__TIMEOUT": "17",
            "OPENLINEAGE__TRANSPORT__AUTH": '{"type": "api_key", "apiKey": "k"}',
        }  # fmt: skip
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        assert run(env, plan_of()) == []
        assert got.kinds() == ["START", "RUNNING", "COMPLETE"] and got.heads[0]["Authorization"] == "Bearer k"
    retry: Any = {**client_module.RETRY}
    made: Any = connect({URL: "http://127.0.0.1:9"}).transport
    assert made.config.retry == retry and made.timeout == client_module.TIMEOUT


@pytest.mark.parametrize(
    ("env", "on"),
    [
        ({}, False),
        ({URL: ""}, False),
        ({"OPENLINEAGE_NAMESPACE": "x", "OPENLINEAGE_API_KEY": "k", "OPENLINEAGE_PARENT_ID": "a/b/c"}, False),
        ({URL: "http://x"}, True),
        ({"OPENLINEAGE_URL": "http://x"}, True),
        ({"OPENLINEAGE_CONFIG": "x.yml"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "http"}, True),
        ({"OPENLINEAGE__TRANSPORT": "{}"}, True),
        ({URL: "http://x", "OPENLINEAGE_DISABLED": "True "}, False),
    ],
)
def test_what_turns_it_on(env: dict[str, str], on: bool) -> None:
    assert sends_lineage(env) == on


def test_nothing_is_imported_when_it_is_off() -> None:
    code = (
        "import sys; import skyband.jobs.running.run; from skyband.framework.observe.chosen import chosen; assert not chosen({});"
        "print([m for m in sys.modules if 'openlineage' in m or 'observe.lineage' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    with receiver() as got:
        run({URL: got.url}, plan_of())
        assert len(got.events) == 3
    chosen({URL: "http://127.0.0.1:9"}).ended(lambda: {})
    assert "lineage" not in {t.name for t in threading.enumerate()} and threading.active_count() <= before


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/data/x", "file", "/data/x"),
        ("file:///data/x/", "file", "/data/x"),
        ("file:/data/x", "file", "/data/x"),
        ("/data/2024-*/x.csv", "file", "/data"),
        ("/data/{a,b}/x", "file", "/data"),
        ("s3://bucket/some/key", "s3://bucket", "some/key"),
        ("s3a://bucket/some/*.parquet", "s3://bucket", "some"),
        ("s3://user:s3cret@bucket/k", "s3://bucket", "k"),
        ("gs://bucket", "gs://bucket", "/"),
        ("abfss://box@account.dfs.core.windows.net/a/b", "abfss://box@account.dfs.core.windows.net", "a/b"),
        ("hdfs://name:8020/a/b", "hdfs://name:8020", "/a/b"),
    ],
)
def test_names_of_datasets(path: str, namespace: str, name: str) -> None:
    found = path_name(path)
    assert (found.namespace, found.name) == (namespace, name) and "s3cret" not in found.uri


def test_names_are_those_of_openlineages_own_helpers() -> None:
    from openlineage.client.naming import dataset

    for theirs, path in (
        (dataset.S3("bucket", "some/key"), "s3://bucket/some/key"),
        (dataset.GCS("bucket", "some/key"), "gs://bucket/some/key"),
        (dataset.HDFS("name", "8020", "/a/b"), "hdfs://name:8020/a/b"),
        (dataset.LocalFileSystem("/data/x"), "/data/x"),
        (dataset.ABFSS("box", "account", "a/b"), "abfss://box@account.dfs.core.windows.net/a/b"),
    ):
        assert (theirs.get_namespace(), theirs.get_name()) == path_name(path)[:2]


def test_an_invalid_event_is_found() -> None:
    with receiver() as got:
        run({URL: got.url}, plan_of())
    for spoil in (
        lambda e: e["run"].update(runId="x"),
        lambda e: e.pop("eventTime"),
        lambda e: e["outputs"][0]["facets"]["schema"].update(more=1),
        lambda e: e["outputs"][0]["facets"]["columnLineage"].pop("fields"),
        lambda e: e["run"]["facets"]["skyband_rejectedRows"].update(rowsIn="7"),
        lambda e: e["job"]["facets"]["jobType"].update(processingType=3),
    ):
        event = json.loads(json.dumps(got.events[-1]))
        spoil(event)
        with pytest.raises(Exception):  # noqa: B017
            check_event(event)


def test_examples_have_a_column_that_nothing_uses() -> None:
    assert all("noise" in text for text in examples().values()) and isinstance(Receiver(), Receiver)
