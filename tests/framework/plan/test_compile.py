"""Specs to plans: nodes, defaults, and which queries share which state."""

import pickle

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.drafts import query_window
from skyband.framework.plan.model import Derive, Field, Filter, Plan, RowRule
from skyband.framework.plan.nodes import Check
from skyband.framework.queries.models import QueryWindow
from skyband.framework.queries.registry import query_type
from skyband.operators.base import Window
from tests.framework.spec.examples import ENV, SENSORS, other
from tests.specs import plan_of_text

DAY = 86_400_000_000


def plan_of(text: str) -> Plan:
    return plan_of_text(text, ENV)


def with_queries(queries: str, window: str = "{time: 7 days}") -> Plan:
    head, rest = SENSORS.split("queries:\n")
    return plan_of(
        head.replace("{time: 7 days}", window).replace("table: anomalies", "table: runs").replace("column: score", "column: batch_id")
        + "queries:\n"
        + queries
        + "\n"
        + rest[rest.index("sink:") :]
    )


def shared(plan: Plan) -> list[tuple[str, ...]]:
    return [o.queries for o in plan.operators]


def test_the_sensor_example() -> None:
    plan = plan_of(SENSORS)
    assert (plan.job, plan.sink, plan.window, plan.trigger_micros, plan.schedule) == (
        "sensor-anomalies", "/data/warehouse/sensor_anomalies", Window(None, 7 * DAY), None, "0 * * * *",
    )  # fmt: skip
    assert plan.source.fields[-1] == Field("pm25", "double", "float", "PM2.5")
    assert plan.source.options == (("header", "true"), ("escape", '"'))
    assert plan.intake.fields == (*plan.source.fields, Field("hours", "double", "float", None))
    assert plan.intake.transforms == (Derive("hours", "unix_micros(ts) / 3.6e9"), Filter("temp is not null"))
    assert plan.intake.rules == (RowRule("plausible_temp", "temp between -60 and 60"),)
    assert plan.intake.id == ("sensor", "ts")
    assert (plan.intake.event_time, plan.intake.delay_micros, plan.intake.tie_break) == ("ts", 600_000_000, ("sensor",))
    assert (plan.intake.partition_by, plan.intake.unique, plan.buckets) == (("building",), "checked", 16)
    assert plan.checks == (Check("anomalies", "expect_column_values_to_not_be_null", '{"column":"score"}', "critical"),)
    assert [q.name for q in plan.queries] == ["anomalies", "anomalies_day", "twins"]


def test_queries_share_a_state_with_the_largest_k_and_window() -> None:
    plan = plan_of(SENSORS)
    assert shared(plan) == [("anomalies", "anomalies_day"), ("twins",)]
    first, second = plan.operators
    assert (first.name, first.k, first.window) == ("anomalies", 100, Window(None, 7 * DAY))
    assert (second.name, second.k) == ("twins", 10)
    assert [(q.operator, q.index, q.k, q.window.micros) for q in plan.queries] == [(0, 0, 20, 7 * DAY), (0, 1, 5, DAY), (1, 0, 10, 7 * DAY)]
    assert plan.queries[2].every_micros == 3_600_000_000 and plan.queries[2].max_score == 0.5
    assert [p.role for p in plan.queries[0].item.parts] == ["older", "newer"] and plan.queries[0].carry == ("temp",)


@pytest.mark.parametrize(
    "second, together",
    [
        ('where: "a.sensor <> b.sensor"', True),
        ('where: "(a.sensor <> b.sensor)"', True),
        ('where: "a.sensor = b.sensor"', False),
        ("every: 1 hour", False),
        ('where: "a.sensor <> b.sensor", every: 1 hour, max_score: 3, carry: [temp]', True),
        ('where: "a.sensor <> b.sensor", min_score: 3', False),
        ('where: "a.sensor <> b.sensor", between: {column: building, a: x, b: y}', False),
    ],
)
def test_sharing_needs_equal_conditions(second: str, together: bool) -> None:
    text = (
        '  p: {type: topk_pairs, scoring: shock, k: 3, where: "a.sensor <> b.sensor"}\n  q: {type: topk_pairs, scoring: shock, k: 3, '
        + second
        + "}"
    )
    assert shared(with_queries(text)) == ([("p", "q")] if together else [("p",), ("q",)])


def test_scoring_functions_of_equal_meaning_share() -> None:
    text = SENSORS.replace("queries:\n", "  other: {expression: (abs(a.temp - b.temp)) + 2.0 * abs(a.humidity - b.humidity)}\nqueries:\n")
    text = text.replace("  twins:  ", "  same: {type: topk_pairs, scoring: other, k: 30}\n  twins:  ")
    plan = plan_of(text)
    assert ("same", "twins") in shared(plan)
    assert plan.operators[1].k == 30


def test_direction_separates() -> None:
    text = SENSORS.replace(
        "queries:\n",
        "  far: {combine: sum, terms: [{abs_difference: temp}, {abs_difference: humidity, weight: 2.0}], direction: max}\nqueries:\n",
    )
    text = text.replace("  twins:  ", "  far: {type: topk_pairs, scoring: far, k: 30}\n  twins:  ")
    assert len(plan_of(text).operators) == 3


def test_windows_of_two_kinds() -> None:
    plan = with_queries(
        "  p: {type: topk_pairs, scoring: shock, k: 3, window: {count: 10}}\n"
        "  q: {type: topk_pairs, scoring: shock, k: 3, window: {time: 1 day}}",
        "{count: 100, time: 7 days}",
    )
    assert [q.window for q in plan.queries] == [Window(10, 7 * DAY), Window(100, DAY)]
    assert plan.operators[0].window == Window(100, 7 * DAY)


def test_a_state_is_no_larger_than_its_queries_need() -> None:
    plan = with_queries("  p: {type: topk_pairs, scoring: closest, k: 3, window: {time: 1 day}}")
    assert plan.operators[0].window == Window(None, DAY)


def test_window_rules() -> None:
    job = Window(100, 7)
    assert query_window(job, None) == job
    assert query_window(job, QueryWindow(count=5)) == Window(5, 7)
    assert Window.union([Window(5, 7), Window(100, 3)]) == Window(100, 7)
    assert Window.union([Window(5, None), Window(9, None)]) == Window(9, None)


def test_text_constants_are_numbered_once_for_the_whole_job() -> None:
    plan = with_queries(
        "  p: {type: topk_pairs, scoring: shock, k: 3, where: \"a.sensor = 'x' and b.sensor = 'y'\"}\n"
        "  q: {type: topk_pairs, scoring: shock, k: 3, where: \"a.sensor = 'y'\", between: {column: building, a: z, b: x}}"
    )
    assert sorted(plan.texts) == ["x", "y", "z"]
    assert len(set(plan.texts)) == 3


def test_two_sides() -> None:
    plan = plan_of(other("topk_pairs"))
    assert [p.role for p in plan.queries[0].item.parts] == ["a", "b"]
    assert plan.texts == ("buy", "sell")
    assert plan.buckets == 1
    numbers = other("topk_pairs").replace("side: string", "side: int").replace("a: buy, b: sell", "a: 1, b: 2")
    assert plan_of(numbers).texts == ()


def test_a_plan_can_travel() -> None:
    plan = plan_of(SENSORS)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan


def test_triggers_limits_and_reader_defaults() -> None:
    plan = plan_of(SENSORS.replace("{trigger: once}", "{trigger: 10 seconds, max_bytes: 256m, buckets: 4}").replace("{header: true}", "{}"))
    assert plan.trigger_micros == 10_000_000
    assert plan.keep_micros == 90 * DAY and plan_of(SENSORS.replace("{trigger: once}", "{keep: 1 week}")).keep_micros == 7 * DAY
    assert (plan.source.max_files_per_batch, plan.source.max_bytes_per_batch, plan.buckets) == (None, "256m", 4)
    alone = plan_of(SENSORS.replace("{trigger: once}", "{buckets: 4}").replace("partition_by: [building]", "partition_by: []"))
    assert (alone.intake.partition_by, alone.buckets) == ((), 1), "there are no keys to divide"
    assert dict(plan.source.options) == {"header": "true", "escape": '"'}
    assert dict(plan_of(SENSORS.replace("{header: true}", "{Header: no}")).source.options) == {"Header": "false", "escape": '"'}


def test_a_type_that_there_is_not_is_a_clear_error() -> None:
    with pytest.raises(SkybandError) as e:
        query_type("median")
    assert e.value.code == "SKY-E142" and "median" in e.value.message and "topk_pairs" in str(e.value.hint)
