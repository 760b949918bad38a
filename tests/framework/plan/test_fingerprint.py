"""What shapes state is compared by name; what does not may change freely; nothing secret is kept."""

import json
from typing import Any

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import compare, concealed, fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_text
from tests.framework.plan.test_compile import plan_of
from tests.framework.spec.examples import ENV, SENSORS, other


def differences(old: str, new: str) -> list[str]:
    # Through JSON, as the file beside the checkpoint does.
    return compare(json.loads(json.dumps(fingerprint(plan_of(old)))), fingerprint(plan_of(new)))


@pytest.mark.parametrize(
    "old, new, told",
    [
        ("k: 20", "k: 50", ["queries.anomalies.k was 20, now 50"]),
        ("window: {time: 1 day}", "window: {time: 2 days}", ["queries.anomalies_day.window.time was 1 day, now 2 days"]),
        ("partition_by: [building]", "partition_by: [sensor]", ["source.partition_by was [building], now [sensor]"]),
        ("10 minutes", "20 minutes", ["source.event_time.watermark was 10 minutes, now 20 minutes"]),
        ("tie_break: [sensor]", "tie_break: [temp]", ["source.event_time.tie_break was [sensor], now [temp]"]),
        ("id: [sensor, ts]", "id: [sensor, ts, building]", ["source.id was [sensor, ts], now [sensor, ts, building]"]),
        ("humidity: double", "humidity: float", ["source.schema.humidity was double, now float"]),
        ("humidity: double", "humidity: double, extra: int", ["source.schema.extra is new (int)"]),
        ("job: sensor-anomalies", "job: renamed", ["job was sensor-anomalies, now renamed"]),
        ('"${LANDING}/sensors/"', "/elsewhere", ["source.path has changed"]),
        ("keep: {k: 100}", "keep: {k: 200}", ["states.anomalies.k was 100, now 200"]),
        ("max_score: 0.5", "max_score: 0.6", ["queries.twins.max_score was 0.5, now 0.6"]),
        ("every: 1 hour, ", "", ["queries.twins.every was 1 hour, now not set"]),
        ("carry: [temp]", "carry: [humidity]", ["queries.anomalies.carry was [temp], now [humidity]"]),
        ("  id: [sensor", "  unique: assumed\n  id: [sensor", ["source.unique was checked, now assumed"]),
        ("{trigger: once}", "{trigger: once, buckets: 3}", ["run.buckets was 16, now 3"]),
        ("  twins:  ", "  twins2:  ", ["queries.twins was topk_pairs, now removed", "queries.twins2 is new (topk_pairs)"]),
    ],
)
def test_a_change_of_state_is_named(old: str, new: str, told: list[str]) -> None:
    assert old in SENSORS
    assert differences(SENSORS, SENSORS.replace(old, new, 1)) == told


@pytest.mark.parametrize(
    "old, new, path",
    [
        ("\nwindow: {time: 7 days}", "\nwindow: {time: 8 days}", "window.time"),
        ("unix_micros(ts) / 3.6e9", "unix_micros(ts) / 3.6e8", "transform[0].derive.hours"),
        ("temp is not null", "temp is null", "transform[1].where"),
        ("a.sensor <> b.sensor", "a.sensor = b.sensor", "queries.anomalies.where"),
        ("weight: 2.0", "weight: 3.0", "queries.twins.scoring"),
        ("direction: min", "direction: max", "queries.anomalies.direction"),
    ],
)
def test_other_changes_are_named_by_path(old: str, new: str, path: str) -> None:
    assert any(d.startswith(path + " ") for d in differences(SENSORS, SENSORS.replace(old, new, 1)))


@pytest.mark.parametrize(
    "old, new",
    [
        ("{trigger: once}", "{trigger: 10 seconds, max_files: 3, keep: 1 day}"),
        ('"0 * * * *"', '"5 * * * *"'),
        ("temp between -60 and 60", "temp between -70 and 70"),
        ("severity: critical", "severity: warning"),
        ("/sensor_anomalies", "/moved"),
        ("{header: true}", "{header: true, nullValue: NA}"),
        ("a.sensor <> b.sensor", "(a.sensor <> b.sensor)"),
        ("k: 20, where:", "k: 20,   where:"),
    ],
)
def test_what_shapes_no_state_may_change(old: str, new: str) -> None:
    assert old in SENSORS
    assert differences(SENSORS, SENSORS.replace(old, new)) == []


def test_a_changed_side_is_named() -> None:
    text = other("topk_pairs")
    assert differences(text, text.replace("b: sell", "b: lend")) == ["queries.deals.between.b was sell, now lend"]


BOOK = """\
job: book
source: {id: [id], event_time: {column: at}}
sources:
  asks: {format: csv, path: asks, schema: {id: bigint, at: timestamp, symbol: string, price: double}}
  bids: {format: json, path: bids, schema: {id: bigint, at: timestamp, symbol: string, price: double}}
lookups:
  firm: {format: csv, path: firms, schema: {symbol: string, sector: string}, match: {symbol: symbol}, take: [sector]}
window: {time: 1 day}
stats:
  usual: {mean: price, by: [symbol], at_least: 2}
queries:
  sectors: {type: topk_groups, group: sector, score: mean(price - usual.mean), k: 3}
sink: {path: out}
"""


@pytest.mark.parametrize(
    "old, new, told",
    [
        # That the query knows deletions only follows.
        ("source: {id", "source: {on_duplicate: replace, id", ["source.on_duplicate is new (replace)"]),
        ("  bids: {", "  quotes: {", ["sources.bids was json, now removed", "sources.quotes is new (json)"]),
        ("{format: json,", "{idle_after: 1 hour, format: json,", ["sources.bids.idle_after was not set, now 1 hour"]),
        ("{format: csv, path: firms", "{format: csv, missing: reject, path: firms", ["lookups.firm.missing was null, now reject"]),
        ("{format: csv, path: firms", "{format: parquet, path: elsewhere", []),
        ("at_least: 2}", "at_least: 3}", ["stats.usual.at_least was 2, now 3"]),
        ("  usual: {", "  more: {count: id}\n  usual: {", ["stats.more is new"]),
    ],
)
def test_changed_sources_look_ups_statistics_and_corrections_are_named(old: str, new: str, told: list[str]) -> None:
    assert old in BOOK
    assert differences(BOOK, BOOK.replace(old, new, 1)) == told


def test_another_format_version_is_refused() -> None:
    now = fingerprint(plan_of(SENSORS))
    assert len(compare({**now, "version": 0}, now)) == 1


def test_no_path_and_no_option_is_kept_in_the_clear() -> None:
    text = json.dumps(fingerprint(plan_of(SENSORS.replace("{header: true}", "{nullValue: hunter2}"))))
    assert "hunter2" not in text and "landing" not in text


SECRETIVE = (
    SENSORS.replace("k: 20", 'k: "${K}"').replace("a.sensor <> b.sensor", "a.sensor <> '${TEXT}'", 1).replace("7 days", '"${WINDOW}"', 1)
    .replace("humidity: double", "humidity: '${TYPE}'").replace("weight: 2.0", "weight: '${WEIGHT}'").replace("10 minutes", '"${LATE}"')
)  # fmt: skip
VALUES = {"K": "4711", "TEXT": "hunter2", "WINDOW": "987654 seconds", "TYPE": "decimal(31,7)", "WEIGHT": "2.5e3", "LATE": "54321 seconds"}
CANONICAL = ("4711", "hunter2", "987654", "31,7", "2.5e3", "2500", "54321", "11 days", "15 hours")


def secretive(**values: str) -> Plan:
    job, errors = validate_text(SECRETIVE, {**ENV, **VALUES, **values})
    assert job is not None, errors
    return compile_job(job)


def kept(plan: Plan, salt: str = "salt") -> dict[str, Any]:
    return json.loads(json.dumps(concealed(fingerprint(plan), plan, salt)))


def test_nothing_that_came_from_the_environment_is_kept_in_any_spelling() -> None:
    text = json.dumps(kept(secretive()))
    assert all(value not in text for value in (*CANONICAL, "sha256:")) and "landing" not in text
    # What other parts of the spec say is kept in the clear.
    assert kept(secretive())["source"]["partition_by"] == ["building"]


def test_one_value_has_another_hash_in_every_job() -> None:
    one, two = kept(secretive(), "a"), kept(secretive(), "b")
    assert one["source"]["path"] != two["source"]["path"] and one["queries"]["anomalies"]["k"] != two["queries"]["anomalies"]["k"]


@pytest.mark.parametrize(
    "name, value, told",
    [
        ("K", "4712", "queries.anomalies.k has changed"),
        ("TEXT", "hunter3", "queries.anomalies.where has changed"),
        ("TYPE", "decimal(31,8)", "source.schema.humidity has changed"),
        ("LATE", "54322 seconds", "source.event_time.watermark has changed"),
        ("LANDING", "/elsewhere", "source.path has changed"),
    ],
)
def test_a_changed_value_is_named_and_not_shown(name: str, value: str, told: str) -> None:
    found = compare(kept(secretive()), kept(secretive(**{name: value})), "salt")
    assert told in found and all(d.endswith(" has changed") for d in found)


def test_a_value_may_move_into_the_spec_and_back() -> None:
    hidden, plain = secretive(K="20"), compile_job(validate_text(SECRETIVE.replace('"${K}"', "20"), {**ENV, **VALUES})[0])
    other_k = compile_job(validate_text(SECRETIVE.replace('"${K}"', "21"), {**ENV, **VALUES})[0])
    assert compare(kept(hidden), kept(plain), "salt") == compare(kept(plain), kept(hidden), "salt") == []
    assert "queries.anomalies.k has changed" in compare(kept(hidden), kept(other_k), "salt")
