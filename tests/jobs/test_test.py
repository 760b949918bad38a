"""``skyband test``: what passes, what fails and how that is told, what a test cannot say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.spec.load import validate_text
from tests.conftest import ROOT
from tests.framework.spec_tests.small import SMALL, test_command

TWO = """\
tests:
  - name: the best of three
    rows:
      - {id: 1, ts: 2020-01-01 00:00, x: 1}
      - {id: 2, ts: 2020-01-01 00:01, x: 3}
      - {id: 3, ts: 2020-01-01 00:02, x: 2}
    expect:
      best_now: [{id: 2, rank: 1, score: 3}]
      best_changes:
        - {change: "+", id: 1}
        - {change: "-", id: 1, cause: displaced}
        - {change: "+", id: 2}
  - name: without a finish the newest wait
    finish: false
    rows:
      - {id: 1, ts: 2020-01-01 00:00, x: 1}
      - {id: 2, ts: 2020-01-01 00:01:30, x: 3}
      - drop
      - {id: 3, ts: 2020-01-01 00:00, x: 2}
    expect:
      best_now: [{id: 1}]
      rejected: [{reason: late, id: 3, x: 2, ts: 2020-01-01 00:00}]
"""


def spec(directory: Path, tests: str) -> str:
    path = directory / "job.yaml"
    path.write_text(SMALL + tests)
    return str(path)


def test_tests_that_pass_say_so_without_variables_source_or_sink(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        test_command(
            spec(
                tmp_path,
                TWO.replace('- {change: "+", id: 1}', '- {change: "+", id: 1, cause: arrival}').replace(
                    '- {change: "+", id: 2}', '- {change: "+", id: 2, cause: arrival}'
                ),
            )
        )
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  (")[0] for line in lines] == [
        f"{tmp_path}/job.yaml:15 ok  the best of three",
        f"{tmp_path}/job.yaml:26 ok  without a finish the newest wait",
        f"{tmp_path}/job.yaml: 2 passed, 0 failed",
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "job.yaml"]


def test_a_column_that_some_rows_name_is_null_in_the_others(tmp_path: Path) -> None:
    assert test_command(spec(tmp_path, TWO)) == 1


def test_a_difference_shows_what_was_expected_and_what_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = """\
tests:
  - name: wrong
    rows: [{id: 1, ts: 2020-01-01 00:00, x: 1}, {id: 2, ts: 2020-01-01 00:01, x: 3}]
    expect:
      best_changes: [{changed_at: 2020-01-01 00:00, id: 1}, {changed_at: 2020-01-01T00:01:00Z, id: 2}]
"""
    assert test_command(spec(tmp_path, wrong)) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  best_changes: expected 2 rows (-), got 3 (+)",
        "      {changed_at: 2020-01-01 00:00, id: 1}",
        "    + {changed_at: 2020-01-01 00:01, id: 1}",
        "      {changed_at: 2020-01-01 00:01, id: 2}",
        f"{tmp_path}/job.yaml: 0 passed, 1 failed",
    ]


def test_what_is_alike_far_from_a_difference_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"      - {{id: {i}, ts: 2020-01-01 00:{i:02}, x: {i}}}\n" for i in range(20))
    changes = "".join(f'        - {{change: "+", id: {i}}}\n' + f'        - {{change: "-", id: {i}}}\n' * (i < 19) for i in range(20))
    swapped = [line for pair in zip(changes.splitlines()[1:-1:2], changes.splitlines()[2::2], strict=True) for line in pair]
    right = "\n".join([changes.splitlines()[0], *swapped])
    text = f"tests:\n  - name: long\n    rows:\n{rows}    expect:\n      best_changes:\n{right}\n"
    assert test_command(spec(tmp_path, text)) == 0
    assert test_command(spec(tmp_path, text.replace('"+", id: 19', '"+", id: 18'))) == 1
    told = capsys.readouterr().out.splitlines()
    assert "      ... 36 rows alike" in told and len(told) == 10


@pytest.mark.parametrize(
    "tests, code, place, said",
    [
        ("  - name: a\n    rows: [{idd: 1}]\n", "SKY-E120", "16:13", "the source has no column 'idd'"),
        ("  - name: a\n    rows: [{id: one}]\n", "SKY-E530", "16:17", "'id' takes a whole number"),
        ("  - name: a\n    rows: [{ts: 5}]\n", "SKY-E530", "16:17", "'ts' takes an instant"),
        ("  - name: a\n    rows: [{ts: 2020-13-01 00:00}]\n", "SKY-E530", "16:17", "the calendar has no"),
        ("  - name: a\n    rows: [{id: 1}]\n    expect: {worst: []}\n", "SKY-E122", "17:14", "cannot expect rows of a table 'worst'"),
        ("  - name: a\n    rows: [{id: 1}]\n    expect: {best_skyband: []}\n", "SKY-E122", "17:14", "'best_skyband'"),
        ("  - name: a\n    rows: [{id: 1}]\n    expect: {best: [{scor: 1}]}\n", "SKY-E120", "17:22", "table best has no column 'scor'"),
        ("  - name: a\n    rows: [{id: 1}]\n    expect: {best: [{score: high}]}\n", "SKY-E530", "17:29", "'score' takes a number"),
        ("  - name: a\n    rows: [{id: 1}, stop]\n", "SKY-E113", "16:21", "cannot be 'stop'"),
        ("  - name: a\n    rows: []\n", "SKY-E114", "16:11", "must not be empty"),
        ("  - name: a\n    rows: [{id: 1}]\n  - name: a\n    rows: [{id: 1}]\n", "SKY-E102", "17:11", "two tests named 'a'"),
        ("  - name: a\n    row: [{id: 1}]\n", "SKY-E110", "16:5", "unknown field 'row'"),
    ],
)  # fmt: skip
def test_mistakes_have_their_places(tests: str, code: str, place: str, said: str) -> None:
    _, errors = validate_text(SMALL + "tests:\n" + tests, {"SMALL_IN": "/a", "SMALL_OUT": "/b"}, "job.yaml")
    assert [(e.code, str(e.where)) for e in errors] == [(code, f"job.yaml:{place}")]
    assert said in errors[0].message


def test_a_variable_that_a_test_needs_too_has_to_be_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spec(tmp_path, TWO)
    Path(path).write_text(Path(path).read_text().replace("expression: x,", 'expression: "x * ${SMALL_FACTOR}",'))
    assert test_command(path) == 2
    assert "SKY-E106 environment variable SMALL_FACTOR is not set" in capsys.readouterr().err


def test_what_only_the_engine_evaluates_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spec(tmp_path, 'transform: [{derive: {r: "sin(x)"}}]\n' + TWO)
    assert test_command(path) == 1
    told = capsys.readouterr().out
    assert "SKY-E531 derived column r uses sin()" in told and "--engine" in told


def test_what_runs_does_not_depend_on_tests() -> None:
    env = {"SMALL_IN": "/a", "SMALL_OUT": "/b"}
    plain, tested = (validate_text(SMALL + tests, env)[0] for tests in ("", TWO))
    assert plain is not None and tested is not None and tested.tests
    assert compile_job(plain) == compile_job(tested) and fingerprint(compile_job(plain)) == fingerprint(compile_job(tested))


def test_no_engine_and_no_compiler_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from skyband.jobs.cli import _Command\n"
        f"assert _Command(sys.stderr, alone=True).run(['test', {spec(tmp_path, TWO)!r}]) == 1\n"
        "print(*sorted({'py4j', 'numba', 'llvmlite', 'great_expectations', 'duckdb'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


def test_decimals_of_a_test_are_exact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SMALL.replace("x: double", 'x: "decimal(18,2)"').replace("best: {type: topk, scoring: x, k: 1}", GROUPS) + DECIMAL_TEST
    path = tmp_path / "decimals.yaml"
    path.write_text(text)
    assert test_command(str(path)) == 0, capsys.readouterr().out
    path.write_text(text.replace('"9999999999999999.98"', "9999999999999999.98"))
    assert test_command(str(path)) == 2
    assert "SKY-E530 'x' takes a number of so many digits in quotes" in capsys.readouterr().err


GROUPS = "best: {type: topk_groups, group: id, score: sum(x), k: 1, ties: include}"
DECIMAL_TEST = """\
tests:
  - name: a cent more
    rows:
      - {id: 1, ts: 2020-01-01, x: "9999999999999999.98"}
      - {id: 2, ts: 2020-01-02, x: "9999999999999999.99"}
    expect:
      best_changes:
        - {step: 1, change: "+", id: 1}
        - {step: 2, change: "-", id: 1}
        - {step: 2, change: "+", id: 2}
"""
