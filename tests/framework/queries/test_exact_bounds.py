"""Bounds of groups with more digits than a double holds: they compare as written, in every spelling."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.units import WrittenFloat, written_float
from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.jobs import cli
from tests.seeds import cases
from tests.specs import plan_of_text

SPEC = """\
job: accounts
source:
  format: csv
  path: landing
  schema: {id: bigint, ts: timestamp, who: string, amount: "decimal(18,2)", x: double}
  id: [id]
  event_time: {column: ts}
window: {time: 10 minutes}
queries:
  rich: {type: threshold_groups, group: who, score: SCORE, BOUNDS}
sink: {path: tables}
"""
TESTS = """\
tests:
  - name: only those above the bound
    rows:
      - {id: 1, ts: 2024-01-01 08:00, who: at, amount: "1000000000000000.01", x: 0}
      - {id: 2, ts: 2024-01-01 08:00, who: above, amount: "1000000000000000.02", x: 0}
      - {id: 3, ts: 2024-01-01 08:00, who: below, amount: "1000000000000000.00", x: 0}
      - {id: 4, ts: 2024-01-01 08:01, who: above, amount: "-0.01", x: 0}
      - {id: 5, ts: 2024-01-01 08:02, who: above, amount: "-0.01", x: 0}
    expect:
      rich_changes:
        - {changed_at: 2024-01-01 08:00, step: 1, change: "+", who: above, cause: arrival}
        - {changed_at: LEAVES, step: 2, change: "-", who: above, cause: displaced}
"""
BOUND = "1000000000000000.01"


def spec(bounds: str, score: str = "sum(amount)") -> str:
    return SPEC.replace("SCORE", score).replace("BOUNDS", bounds)


@pytest.mark.parametrize("spelled", [BOUND, f"'{BOUND}'", "1_000_000_000_000_000.01", "1.00000000000000001e+15", "+1000000000000000.010"])
@pytest.mark.parametrize("below", [False, True])
def test_a_bound_that_no_double_holds_compares_as_written(tmp_path: Path, spelled: str, below: bool) -> None:
    path = tmp_path / "accounts.yaml"
    bounds = f"above: {spelled}" + (f", below: {spelled}" if below else "")
    path.write_text(spec(bounds) + TESTS.replace("LEAVES", f"2024-01-01 08:0{2 if below else 1}"), encoding="utf-8")
    assert cli.main(["test", str(path)]) == 0


def test_a_whole_bound_beyond_2_to_53_compares_as_written() -> None:
    made: list[Any] = [plan_of_text(spec(f"above: {n}", "max(amount)")).operators[0].operator for n in (2**53 + 1, f"'{2**53 + 1}'", 2**53)]
    assert [repr(operator.queries[0].above) for operator in made] == ["9007199254740993", "9007199254740993", "9007199254740992.0"]


def test_the_fingerprint_has_the_digits_where_they_decide() -> None:
    def found(bound: str, score: str = "sum(amount)") -> dict[str, Any]:
        kept: dict[str, Any] = json.loads(json.dumps(fingerprint(plan_of_text(spec(f"above: {bound}", score)))))
        return kept

    assert found(BOUND)["queries"]["rich"]["above"] == BOUND
    assert compare(found(BOUND), found("1000000000000000.02")) != []
    assert compare(found(BOUND), found(f"'{BOUND}'")) == []
    # Neither digits below the smallest unit, nor those of a score that is a double, decide anything.
    for bound, double, score in (("0.1", 0.1, "sum(amount)"), ("0.10000000000000000001", 0.1, "sum(amount)"), (BOUND, 1e15, "sum(x)")):
        assert found(bound, score)["queries"]["rich"]["above"] == double


def test_the_bound_is_shown_as_written() -> None:
    assert "1,000,000,000,000,000.01" in explain(plan_of_text(spec(f"above: {BOUND}")))


@pytest.mark.parametrize(
    "text", ["inf", "nan", "1e-5000", "1e5000", "1e-99999999999999999999", "1" * 300 + "." + "1" * 300, "-0.0", "0.10", "7.5e-9"]
)
def test_other_numbers_are_plain_floats(text: str) -> None:
    assert type(written_float(text)) is float


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**22), max_value=10**22))
@settings(max_examples=cases(200))
def test_a_written_number_keeps_its_digits(number: Decimal) -> None:
    read = written_float(str(number))
    assert Decimal(repr(read)) == number and read == float(number)
    assert isinstance(read, WrittenFloat) == (Decimal(repr(float(number))) != number)
    kept = pickle.loads(pickle.dumps(read))
    assert type(kept) is type(read) and repr(kept) == repr(read)
    assert json.loads(json.dumps(read)) == float(number)
    assert type(float(read)) is float
