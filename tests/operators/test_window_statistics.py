"""Statistics of the rows before each row, by definition in fractions; for any cuts, and from state made again at any cut."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import I64, NULL, Window
from skyband.operators.window_statistics import Statistic, StatisticsRows, WindowStatistics, WindowStatisticsConfiguration
from skyband.operators.window_statistics.configuration import ArgumentKind, Function
from tests.seeds import seeds

FUNCTIONS: tuple[Function, ...] = ("mean", "stddev", "min", "max", "sum", "count")
VALUES = (0.0, -0.0, 1.0, 0.1, 1e16, -1e16, 1e300, 2.0**-1074, math.inf, -math.inf, math.nan)
WHOLE = (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63) + 1, NULL)


class Row(NamedTuple):
    """``group``: -1 for none. ``value``: a float with NaN for null, or an int with ``NULL`` for null. ``target``: a deletion's, else -1."""

    key: int
    time: int
    group: int
    value: float
    target: int = -1


def by_definition(function: Function, values: list[float], scale: int, at_least: int) -> float:
    """The statistic of values that are not null; NaN for null."""
    if function == "count":
        return float(len(values))
    if len(values) < max(at_least, 2 if function == "stddev" else 1):
        return math.nan
    if function in ("min", "max"):
        return float(min(values) if function == "min" else max(values)) + 0.0
    endless = {v for v in values if isinstance(v, float) and math.isinf(v)}
    if endless:
        return endless.pop() if len(endless) == 1 and function != "stddev" else math.nan
    exact = [Fraction(v) / 10**scale for v in values]
    total, n = sum(exact, Fraction(0)), len(exact)
    if function == "sum":
        return rounded(total)
    if function == "mean":
        return rounded(total / n)
    return math.sqrt(rounded(sum(((v - total / n) ** 2 for v in exact), Fraction(0)) / (n - 1)))


def rounded(exact: Fraction) -> float:
    """The nearest double."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def expected(rows: list[Row], configuration: WindowStatisticsConfiguration, null: float) -> list[list[float]]:
    """For each row, every statistic: over the rows before it, of its key and group, in the window, and not deleted."""
    seqs: dict[int, int] = {}
    before: list[tuple[Row, int]] = []
    gone: set[tuple[int, int]] = set()
    window, found = configuration.window, []
    for row in rows:
        if row.target >= 0:
            gone.add((row.key, row.target))
            found.append([math.nan] * len(configuration.statistics))
            continue
        seq = seqs.get(row.key, 0)
        mine = [
            r.value
            for r, s in before
            if (r.key, r.group) == (row.key, row.group) and (r.key, s) not in gone
            and (window.micros is None or r.time + window.micros > row.time) and (window.count is None or s >= seq - window.count)
            and r.value == r.value and r.value != null
        ]  # fmt: skip
        one = [by_definition(s.function, mine, configuration.scales[s.argument], configuration.at_least) for s in configuration.statistics]
        found.append(one if row.group >= 0 else [math.nan] * len(one))
        before.append((row, seq))
        seqs[row.key] = seq + 1
    return found


def taken(rows: list[Row], configuration: WindowStatisticsConfiguration, cuts: list[int], again: bool = False) -> list[list[float]]:
    """The same from the operator, whose input is cut; ``again``: its state is made again from the window's rows at each cut."""
    logic = WindowStatistics(configuration)
    seqs: dict[int, int] = {}
    alive: dict[tuple[int, int], Row] = {}
    found: list[list[float]] = [[] for _ in rows]
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        # As the host gives them: by key, each key's in order.
        order = sorted(range(start, end), key=lambda i: rows[i].key)
        part, seq = [rows[i] for i in order], []
        for row in part:
            seq.append(-1 if row.target >= 0 else seqs.get(row.key, 0))
            if row.target >= 0:
                alive.pop((row.key, row.target), None)
            else:
                alive[row.key, seq[-1]] = row
                seqs[row.key] = seq[-1] + 1
        values = logic.take(block(part, seq, configuration))
        for place, i in enumerate(order):
            found[i] = values[:, place].tolist()
        if again:
            kept = sorted(alive.items())
            logic = WindowStatistics(configuration)
            logic.load(block([row for _, row in kept], [seq for (_, seq), _ in kept], configuration))
    return found


def block(rows: list[Row], seq: list[int], configuration: WindowStatisticsConfiguration) -> StatisticsRows:
    """Rows as arrays."""

    def column(values: list[int]) -> I64:
        return np.array(values, np.int64)

    cells = np.empty((len(configuration.arguments), len(rows)), np.int64)
    for a, kind in enumerate(configuration.arguments):
        if kind == "float":
            cells.view(np.float64)[a] = np.array([float(r.value) + 0.0 for r in rows])
        else:
            cells[a] = [0 if r.target >= 0 else int(r.value) for r in rows]
    target = column([r.target if r.target >= 0 else NULL for r in rows]) if configuration.deletes else column([])
    return StatisticsRows(
        column([r.key for r in rows]), column(seq), column([r.time for r in rows]), column([r.group for r in rows]), cells, target
    )


def stream(rng: np.random.Generator, n: int, values: list[float], deletes: bool) -> list[Row]:
    """Rows of two keys with many equal instants. Groups of a key are not those of another, as the host numbers them."""
    time, made = 0, []
    seqs = {0: 0, 1: 0}
    for _ in range(n):
        time += int(rng.integers(0, 3))
        key = int(rng.integers(0, 2))
        if deletes and seqs[key] and rng.random() < 0.2:
            made.append(Row(key, time, -1, 0.0, int(rng.integers(0, seqs[key]))))
            continue
        group = int(rng.integers(-1, 3))
        made.append(Row(key, time, 3 * key + group if group >= 0 else -1, values[int(rng.integers(0, len(values)))]))
        seqs[key] += 1
    # A row is deleted once.
    once, seen = [], set()
    for row in made:
        if row.target < 0 or (row.key, row.target) not in seen:
            seen.add((row.key, row.target))
            once.append(row)
    return once


def configured(kind: ArgumentKind, window: Window, at_least: int = 1, deletes: bool = False) -> WindowStatisticsConfiguration:
    """All functions that take arguments of a kind."""
    functions = {"units": ("mean", "stddev", "sum", "count"), "present": ("count",)}.get(kind, FUNCTIONS)
    statistics = tuple(Statistic(f, 0) for f in functions)  # type: ignore[arg-type]
    return WindowStatisticsConfiguration(statistics, (kind,), (2 if kind == "units" else 0,), window, at_least, deletes)


def assert_same(rows: list[Row], configuration: WindowStatisticsConfiguration, cuts: list[int], again: bool) -> None:
    """What the operator gives has the bits of what the definition gives."""
    null = math.nan if configuration.arguments == ("float",) else NULL
    want, got = expected(rows, configuration, null), taken(rows, configuration, cuts, again)
    assert [[v.hex() for v in row] for row in got] == [[v.hex() for v in row] for row in want]


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("kind", ["float", "int", "units", "present"])
def test_random_streams(kind: ArgumentKind, deletes: bool) -> None:
    for seed in seeds(0, 8):
        rng = np.random.default_rng(seed)
        values: list[float] = list(VALUES) if kind == "float" else list(WHOLE)
        if seed % 2:
            values = [float(v) for v in rng.lognormal(3, 2, 9)] if kind == "float" else [int(v) for v in rng.integers(-900, 900, 9)]
        rows = stream(rng, 60, values, deletes)
        count, micros = int(rng.integers(1, 9)), int(rng.integers(1, 12))
        window = (Window(count), Window(None, micros), Window(count, micros))[seed % 3]
        cuts = sorted(int(c) for c in rng.integers(0, len(rows), 3))
        assert_same(rows, configured(kind, window, int(rng.integers(1, 4)), deletes), cuts, bool(seed % 2))


ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(-1, 1), st.sampled_from([0.1, 0.2, -3.0, math.nan])), max_size=12
)


@given(ROWS, st.integers(1, 4), st.integers(0, 12), st.booleans())
def test_tiny_domains(given_rows: list[tuple[int, int, int, float]], size: int, cut: int, again: bool) -> None:
    time, rows = 0, []
    for key, step, group, value in given_rows:
        time += step
        rows.append(Row(key, time, 2 * key + group if group >= 0 else -1, value))
    assert_same(rows, configured("float", Window(size, size)), [min(cut, len(rows))], again)


def test_rows_that_have_left_are_dropped() -> None:
    logic = WindowStatistics(configured("float", Window(3)))
    rows = [Row(0, i, 0, float(i)) for i in range(50)]
    for i, row in enumerate(rows):
        logic.take(block([row], [i], logic.configuration))
    assert logic.rows == 4


@pytest.mark.parametrize("function", ["mean", "min"])
def test_functions_of_other_kinds_are_refused(function: Function) -> None:
    kind: ArgumentKind = "present" if function == "mean" else "units"
    with pytest.raises(ValueError, match=f"{function} of an argument of kind {kind}"):
        WindowStatisticsConfiguration((Statistic(function, 0),), (kind,), (0,), Window(3))
