"""Every part by its definition, and a job that names all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.quality.expectations import OWN
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.sources.registry import SOURCES
from skyband.framework.spec.expressions.scoring_functions import SCORING_FUNCTIONS
from skyband.framework.spec.load import validate_text
from skyband.jobs import cli
from skyband.jobs.plugin_template.package.expectation import NO_VALUE_DOMINATES
from skyband.jobs.plugin_template.package.operator import FrequentOperator
from skyband.jobs.plugin_template.package.query_type import FREQUENT
from skyband.jobs.plugin_template.package.scoring import RELATIVE_DIFFERENCE
from skyband.jobs.plugin_template.package.source import TSV
from skyband.operators.base import Window
from skyband.operators.contract import check_operator

SPEC = """\
job: accounts
source:
  format: tsv
  path: in
  schema: {id: bigint, ts: timestamp, account: bigint, amount: double}
  id: [id]
  event_time: {column: ts}
quality:
  tables:
    - {table: alike, expectation: expect_column_no_value_to_dominate, column: older_account, most: 0.9}
window: {count: 100}
scoring:
  alike: {function: relative_difference, columns: {value: amount}}
queries:
  busy: {type: frequent, account: account, times: 2}
  alike: {type: topk_pairs, scoring: alike, k: 3, carry: [account]}
sink: {path: out}
"""


def test_every_part_is_installed() -> None:
    assert QUERY_TYPES.get("frequent") is FREQUENT
    assert SOURCES.get("tsv") is TSV
    assert SCORING_FUNCTIONS.get("relative_difference") is RELATIVE_DIFFERENCE
    assert OWN.get("expect_column_no_value_to_dominate") is NO_VALUE_DOMINATES


def test_a_spec_may_name_them_all() -> None:
    job, errors = validate_text(SPEC, {})
    assert job is not None, [e.render() for e in errors]
    plan = compile_job(job)
    assert dict(plan.source.options) == {"header": "true", "sep": "\t", "escape": '"'}
    assert len(plan.operators) == 2 and len(plan.checks) == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("account: account, times", "account: amount, times", "accounts are whole numbers"),
        ("{value: amount}", "{valeu: amount}", "relative_difference has no parameter 'valeu'"),
        ("most: 0.9", "most: 90", "most takes a number from 0 to 1"),
    ],
)
def test_mistakes_are_reported_at_their_place(old: str, new: str, said: str) -> None:
    _, errors = validate_text(SPEC.replace(old, new), {})
    assert any(said in e.message and e.where is not None for e in errors), [e.render() for e in errors]


@pytest.mark.parametrize("window", [Window(12), Window(None, 40), Window(9, 25)])
def test_the_operator_keeps_the_contract(window: Window) -> None:
    assert sum(check_operator(FrequentOperator("account", 2, window), seed) for seed in range(10)) > 0


def test_its_state_can_be_divided_by_keys() -> None:
    arrays = {
        "rows": np.array([(0, 1, 5, 7), (2, 1, 6, 8), (2, 2, 7, 8)]), "entered": np.array([(2, 8, 2)]),
        "step": np.array([(0, 1), (1, 1), (2, 4)]), "account": np.array([(7, 70), (8, 80)]),
    }  # fmt: skip
    mine = FrequentOperator.state_keys.picked(arrays, np.array([1, 2]))
    assert mine["rows"].tolist() == [[1, 1, 6, 8], [1, 2, 7, 8]] and mine["entered"].tolist() == [[1, 8, 2]]
    assert mine["step"].tolist() == [[0, 1], [1, 4]] and mine["account"].tolist() == arrays["account"].tolist()


def test_the_expectation_is_its_definition() -> None:
    rows = pa.table({"x": ["a", "b", "a", None, "a"]})
    found = NO_VALUE_DOMINATES.look(rows, {"column": "x", "most": 0.75})
    assert (found.success, found.observed, found.examples) == (True, 0.75, ["a"])
    assert not NO_VALUE_DOMINATES.look(rows, {"column": "x"}).success
    assert NO_VALUE_DOMINATES.look(rows.slice(3, 1), {"column": "x"}).success


@pytest.mark.spark
def test_a_job_runs_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    amounts = [100, 101, 250, 7, 6.9, 1000]
    rows = [f"{i}\t2024-01-01T00:00:{i:02}Z\t{1 + i % 2}\t{amount}" for i, amount in enumerate(amounts)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tsv").write_text("\n".join(["id\tts\taccount\tamount", *rows]) + "\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    assert cli.main(["run", str(spec), "--finish", "--quiet"]) == 0
    assert cli.main(["verify", str(spec)]) == 0
    capsys.readouterr()
    assert cli.main(["query", str(spec), "alike", "--format", "csv"]) == 0
    head, *found = capsys.readouterr().out.splitlines()
    apart = [(abs(a - b) / max(a, b), i, j) for j, b in enumerate(amounts) for i, a in enumerate(amounts[:j])]
    score = head.split(",").index("score")
    assert [float(row.split(",")[score]) for row in found] == pytest.approx([s for s, _, _ in sorted(apart)[:3]])
