"""The file that says what a run did: its fields at every kind of end."""

from __future__ import annotations

import io
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError, Where
from skyband.framework.quality.unusable import Use
from skyband.jobs import cli
from skyband.jobs.outcome import CHECK_FIELDS, STATUSES, Outcome
from tests.spark.jobs import write_spec

ROOT = Path(__file__).resolve().parents[2]


def written(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def test_a_run_is_added_up(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text('{"format": 1, "exit_code": 3}')
    outcome = Outcome(str(path))
    outcome.begin()
    outcome.place((None, str(tmp_path / "sink")), "spec.yaml")
    assert not path.exists()
    before = {"top": None, "runs": (3, "r"), "gone": (4, "g"), "rebuilt": (9, "old")}
    found = iter([before, {"top": (1, "t"), "runs": (5, "r"), "gone": None, "rebuilt": (2, "new")}])
    outcome.watch("small", ["top", "low"], lambda: next(found), lambda: 8)
    outcome.add(7, {"in": 10, "filtered": 1, "accepted": 5}, {"late": 2}, {"top": 4}, pending=2)
    outcome.add(8, {"in": 4, "filtered": 0, "accepted": 4}, {"late": 1, "rule:sane": 1}, {"top": 1}, pending=0)
    outcome.use = Use(objects=9, unusable={"top": 2, "low": 0}, sent=9, nulls={"x": 9, "y": 1}).document()
    check = dict.fromkeys(CHECK_FIELDS) | {"table_name": "top", "success": False}
    outcome.look(lambda: [check | {"run_id": "not a field"}])
    outcome.write(1, [SkybandError("SKY-E500", "a check failed", "look at it", Where("a.yaml", 3, 4, text="secret"))])
    got = written(path)
    for name in ("started_at", "ended_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", got.pop(name))
    assert got.pop("wall_seconds") >= 0
    assert got == {
        "format": 1,
        "job": "small",
        "status": "checks_failed",
        "exit_code": 1,
        "batches": {"count": 2, "first": 7, "last": 8},
        "rows": {"in": 14, "filtered": 1, "accepted": 9, "rejected": {"late": 3, "rule:sane": 1}, "pending": 0},
        "changes": {"top": 5, "low": 0},
        "unusable": {"top": {"rows": 2, "of": 9}},
        "empty_columns": ["x"],
        "last_batch": 8,
        "tables": {
            "top": {"from": None, "to": 1, "id": "t"},
            "runs": {"from": 3, "to": 5, "id": "r"},
            "gone": {"from": 4, "to": None, "id": None},
            "rebuilt": {"from": None, "to": 2, "id": "new"},
        },
        "checks": [check],
        "errors": [
            {"code": "SKY-E500", "message": "a check failed", "hint": "look at it", "where": {"file": "a.yaml", "line": 3, "column": 4}}
        ],
    }


def test_a_table_that_cannot_be_read_hides_no_other_error(tmp_path: Path) -> None:
    outcome = Outcome(str(tmp_path / "out.json"))

    def broken() -> dict[str, tuple[int, str] | None]:
        raise SkybandError("SKY-E400", "no")

    outcome.watch("small", [], dict)
    outcome._versions = broken
    outcome.look(list)
    outcome.write(3, [])
    assert written(tmp_path / "out.json")["tables"] == {}


def test_without_a_file_nothing_is_looked_at() -> None:
    outcome = Outcome(None)
    outcome.begin()
    outcome.watch("small", ["top"], lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    outcome.look(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    outcome.write(0, [])


def test_a_refused_spec_is_an_outcome_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, out = write_spec(tmp_path, window="{count: none}"), tmp_path / "out.json"
    assert cli.main(["run", str(spec), "--outcome", str(out)]) == 2
    got = written(out)
    assert (got["status"], got["exit_code"], got["batches"]["count"], got["tables"]) == ("refused", 2, 0, {})
    (error,) = got["errors"]
    assert error["code"] == "SKY-E112" and error["where"]["file"] == str(spec) and error["where"]["line"] > 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "spec.yaml"]


def test_a_secret_is_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKED", str(tmp_path / "s3cr3t-place"))
    spec, out = write_spec(tmp_path), tmp_path / "out.json"
    spec.write_text(spec.read_text().replace(f"{tmp_path}/in", "${LOCKED}"))
    assert cli.main(["run", str(spec), "--outcome", str(out)]) in (2, 3)
    assert "s3cr3t" not in out.read_text() and "${LOCKED}" in out.read_text()


def test_a_file_that_cannot_be_written_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path)
    assert cli.main(["run", str(spec), "--outcome", str(tmp_path / "no" / "out.json")]) == 2
    said = capsys.readouterr().err
    assert "SKY-E203" in said and "SKY-E206" not in said and not (tmp_path / "out").exists()


def test_a_signal_is_an_end_like_others(tmp_path: Path) -> None:
    command = cli._Command(io.StringIO())
    command.outcome = Outcome(str(tmp_path / "out.json"))
    assert command.stopped(signal.SIGTERM) == 143
    assert written(tmp_path / "out.json")["status"] == "stopped"


def test_every_field_is_documented() -> None:
    doc = (
        (ROOT / "docs" / "reference" / "run-output.md")
        .read_text(encoding="utf-8")
        .split("## Outcome of a run\n", 1)[1]
        .split("\n## ", 1)[0]
    )
    listed = {name for line in doc.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    outcome = Outcome("-")
    assert listed == set(outcome.document(0, []))
    assert set(re.findall(r"`(\w+)`", next(x for x in doc.splitlines() if x.startswith("| `status`")))) >= {*STATUSES.values(), "stopped"}
    assert set(re.findall(r"`(\w+)`", next(x for x in doc.splitlines() if x.startswith("| `checks`")))) >= set(CHECK_FIELDS)
