"""The plan as text, and predicted sizes."""

import math

import pytest

from skyband.framework.plan.explain import explain, tables_of
from skyband.framework.plan.explain_parts import window_rows
from skyband.framework.queries.topk import query_type as rows
from skyband.framework.queries.topk_pairs import query_type as pairs
from skyband.operators.base import Window
from tests.framework.plan.test_compile import plan_of, with_queries
from tests.framework.spec.examples import SENSORS


def test_the_text_says_what_a_user_asks() -> None:
    text = explain(plan_of(SENSORS))
    for part in (
        "job sensor-anomalies",
        "source   csv",
        "derive hours double = unix_micros(ts) / 3.6e9",
        "one stream per building, 16 buckets",
        "state anomalies: topk_pairs, K = 100, N = 7 days",
        "answers   anomalies_day: k = 5, window 1 day",
        "shared by 2 queries",
        "depends on the rate",
        "anomalies_skyband",
        "twins_skyband",
        "10 minutes of disorder",
        "score <= 0.5",
        "changes every 1 hour",
        "0 * * * *",
        "files present when a run starts are one backlog",
    ):
        assert part in text, part
    assert "anomalies_day_skyband" not in text


def test_no_option_value_is_shown() -> None:
    assert "hunter2" not in explain(plan_of(SENSORS.replace("{header: true}", "{nullValue: hunter2}")))


def test_an_assumed_rate_gives_sizes() -> None:
    text = explain(plan_of(SENSORS), rate=0.5)
    rows = 7 * 86400 * 0.5
    size = 100 + 200 * math.log(rows / math.sqrt(200))
    assert f"skyband   about {size:,.0f} pairs" in text
    assert f"N = {rows:,.0f} rows per key (assuming 0.5 rows a second)" in text


def test_count_windows_need_no_rate() -> None:
    text = explain(with_queries("  p: {type: topk_pairs, scoring: closest, k: 20}", "{count: 10000}"))
    assert "skyband   about 315 pairs = K + 2K ln(N / sqrt(2K)), N = 10,000 rows per key; 13 KB" in text
    assert "rows x " in text


@pytest.mark.parametrize("k, n, size", [(20, 10_000, 315), (100, 10_000, 1412), (20, 100_000, 407)])
def test_the_formula_gives_the_design_notes_figures(k: int, n: int, size: int) -> None:
    assert round(pairs.skyband_size(k, n)) == size


def test_small_windows_hold_no_more_than_all_pairs() -> None:
    assert pairs.skyband_size(100, 3) == 3
    assert pairs.skyband_size(5, 1) == 0
    assert rows.skyband_size(5, 3) == 3


def test_rows_of_a_window() -> None:
    assert window_rows(Window(10, 60_000_000), 1.0) == 10
    assert window_rows(Window(100, 60_000_000), 1.0) == 60
    assert window_rows(Window(None, 60_000_000), None) is None


def test_tables() -> None:
    assert tables_of(plan_of(SENSORS))[:4] == ["anomalies_changes", "anomalies", "anomalies_now", "anomalies_skyband"]
    assert tables_of(plan_of(SENSORS))[-6:] == ["heads", "rejected", "runs", "checks", "published", "job_runs"]


def test_the_jobs_other_bound_is_told() -> None:
    both = "{count: 5000, time: 7 days}"
    queries = "".join(
        f"  q{i}: {{type: topk_pairs, scoring: closest, k: 3, window: {own}}}\n"
        for i, own in enumerate(("{time: 1 day}", "{count: 10}", "{count: 10, time: 1 day}", both))
    )
    answers = [line for line in explain(with_queries(queries, both)).splitlines() if line.startswith("    answers")]
    assert [a.partition("window ")[2].partition(", changes")[0] for a in answers] == [
        "5,000 rows and 1 day (whichever ends first)",
        "10 rows and 7 days (whichever ends first)",
        "10 rows and 1 day (whichever ends first)",
        "5,000 rows and 7 days (whichever ends first)",
    ]
    assert [a.partition("every event")[2] for a in answers] == [
        " (the job's 5,000 rows bound it too)",
        " (the job's 7 days bound it too)",
        "",
        "",
    ]


def test_a_header_is_told_as_it_is() -> None:
    assert "the first line of a file names its columns" in explain(plan_of(SENSORS))
    assert "the first line of a file names its columns" in explain(plan_of(SENSORS.replace("options: {header: true}\n", "\n")))
    assert "files have no header" in explain(plan_of(SENSORS.replace("{header: true}", "{header: false}")))


def test_a_skyline_says_the_price_of_deletions() -> None:
    job = with_queries("  p: {type: skyline, dimensions: {temp: min, humidity: max}, band: 2}", "{count: 10000}\ndeletes: temp > 90")
    text = explain(job)
    assert "SkylineDeletes" in text and "no skyband table" in text and "p_skyband" not in text
    assert "price     of deletions: every row of the window with up to 2 rows that beat it, N = 10,000 rows per key: 560 KB" in text


def test_loyalty_says_the_price_of_deletions() -> None:
    query = "  p: {type: topk_loyalty, object: sensor, criteria: temp > 30, k: 3}"
    text = explain(with_queries(query, "{time: 7 days}\ndeletes: temp > 90"))
    assert "until the object's next report or its own deletion" in text and "price     of deletions" in text
    plain = explain(with_queries(query, "{time: 7 days}"))
    assert "deletion" not in plain
