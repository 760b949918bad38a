"""``skyband test --record``: what comes out is written into the file, and nothing else of it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.framework.spec_tests.small import SMALL, test_command

ROWS = """\
tests:
  # Why this test is here.
  - name: one   # a name
    rows:
      - {id: 1, ts: 2020-01-01 00:00, x: 1}

      - {id: 2, ts: 2020-01-01 00:01, x: 3}   # the better one
"""
CHANGES = """\
      best_changes:
        - {changed_at: 2020-01-01 00:00, step: 1, change: "+", id: 1, score: 1.0, cause: arrival}
        - {changed_at: 2020-01-01 00:01, step: 2, change: "-", id: 1, score: 1.0, cause: displaced}
        - {changed_at: 2020-01-01 00:01, step: 2, change: "+", id: 2, score: 3.0, cause: arrival}
"""


def recorded(directory: Path, text: str, newline: str = "\n") -> str:
    path = directory / "job.yaml"
    path.write_bytes(text.replace("\n", newline).encode())
    assert test_command("--record", str(path)) == 0
    assert test_command(str(path)) == 0
    made = path.read_bytes().decode()
    assert test_command("--record", str(path)) == 0 and path.read_bytes().decode() == made
    return made


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "behind", ["", "\n# the end\n", "run: {trigger: once}\n", "  - name: two\n    rows: [{id: 1}]\n    expect: {rejected: []}\n"]
)
def test_a_test_that_expects_nothing_gets_the_changes(tmp_path: Path, behind: str, newline: str) -> None:
    made = recorded(tmp_path, SMALL + ROWS + behind, newline)
    then = behind.replace("expect: {rejected: []}", "expect: {rejected: [{reason: null_time, id: 1}]}")
    assert made == (SMALL + ROWS + "    expect:\n" + CHANGES + then).replace("\n", newline)


def test_without_a_newline_at_the_end(tmp_path: Path) -> None:
    assert recorded(tmp_path, (SMALL + ROWS).removesuffix("   # the better one\n")).endswith("cause: arrival}\n")


def test_only_tables_that_differ_are_written_by_the_columns_that_they_name(tmp_path: Path) -> None:
    before = """\
    expect:
      # what is current
      best_now:   # one row
        # the best
        - {rank: 1, id: 1}
        - {rank: 2, id: 2}
      # nothing else
      rejected: []
      best: []
"""
    after = """\
    expect:
      # what is current
      best_now:   # one row
        # the best
        - {rank: 1, id: 2}
      # nothing else
      rejected: []
      best:
        - {valid_from: 2020-01-01 00:00, valid_to: 2020-01-01 00:01, id: 1, score: 1.0}
        - {valid_from: 2020-01-01 00:01, valid_to: null, id: 2, score: 3.0}
"""
    assert recorded(tmp_path, SMALL + ROWS + before + "# end\n") == SMALL + ROWS + after + "# end\n"


def test_a_table_in_braces_stays_in_braces(tmp_path: Path) -> None:
    made = recorded(tmp_path, SMALL + ROWS + "    expect: {best_now: [{id: 1}], rejected: [{reason: late}]}  # now\n")
    assert made == SMALL + ROWS + "    expect: {best_now: [{id: 2}], rejected: []}  # now\n"


def test_rows_that_do_not_come_any_more_leave_an_empty_list(tmp_path: Path) -> None:
    made = recorded(tmp_path, SMALL + ROWS + "    expect:\n      rejected:\n        - {reason: late}\n        - {reason: parse}\n\n# end\n")
    assert made == SMALL + ROWS + "    expect:\n      rejected:\n        []\n\n# end\n"


@pytest.mark.parametrize(
    "tests",
    [
        "tests: [{name: one, rows: [{id: 1, ts: 2020-01-01 00:00, x: 1}]}]\n",
        "tests:\n  - {name: one, rows: [{id: 1, ts: 2020-01-01 00:00, x: 1}]}\n",
        ROWS + "    expect:\n      rejected: &none []\n      best: *none\n",
    ],
)
def test_what_cannot_be_edited_is_left_alone_and_printed(tmp_path: Path, tests: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(SMALL + tests)
    assert test_command("--record", str(path)) == 2
    assert path.read_text() == SMALL + tests
    told = capsys.readouterr().err
    assert "SKY-E530" in told and "id: 1, score: 1.0" in told


def test_no_test_of_another_name_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(SMALL + ROWS + ROWS.removeprefix("tests:\n").replace("name: one", "name: two"))
    assert test_command("--record", "--only", "two", str(path)) == 0
    assert path.read_text() == SMALL + ROWS + ROWS.removeprefix("tests:\n").replace("name: one", "name: two") + "    expect:\n" + CHANGES


def test_a_link_stays_a_link_and_rights_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "job.yaml", tmp_path / "link.yaml"
    path.write_text(SMALL + ROWS)
    path.chmod(0o640)
    link.symlink_to(path)
    assert test_command("--record", str(link)) == 0
    assert link.is_symlink() and path.read_text().endswith(CHANGES) and path.stat().st_mode & 0o777 == 0o640
