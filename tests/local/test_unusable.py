"""Rows of no use, through the whole job: what they do to the frontier, to the end of a run, and to jobs of former versions."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template

import pytest

from skyband.jobs import cli
from tests.local.jobs import LOCAL
from tests.spark.cuts import verified
from tests.spark.jobs import sorted_rows, table
from tests.specs import spec_text

pytestmark = pytest.mark.long

SPEC = Template(
    spec_text(
        "unusable",
        "{id: bigint, ts: timestamp, score: double, body: string}",
        path='"$directory/in"',
        format="$format",
        sink='{path: "$directory/out"}',
        quality="{max_rejected: 100%$quality}",
        window="{count: 100}",
        tokens="{w: {column: body, $tokens}}",
        scoring="{s: {expression: score, direction: max}}",
        queries={
            "top": "{type: topk, scoring: s, k: 3}",
            "twins": "{type: similar_sets, tokens: w, min_score: 0.5}",
        },
    )
)


def spec_of(directory: Path, format_: str = "csv", tokens: str = "min_tokens: 2, short: reject", quality: str = "") -> Path:
    (directory / "in").mkdir(parents=True, exist_ok=True)
    path = directory / "spec.yaml"
    path.write_text(SPEC.substitute(directory=directory, format=format_, tokens=tokens, quality=quality))
    return path


def write(directory: Path, name: str, format_: str, *rows: tuple[int, str, float | None, str]) -> None:
    names = ("id", "ts", "score", "body")
    if format_ == "json":
        text = "".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in rows)
    else:
        text = ",".join(names) + "\n" + "".join(",".join("" if v is None else str(v) for v in r) + "\n" for r in rows)
    (directory / "in" / name).write_text(text)


def day(number: int) -> str:
    return f"2024-01-{number:02}T00:00:00Z"


def assert_no_later_row_is_late(directory: Path, format_: str, *engine: str) -> None:
    """A row that is rejected as it is read makes no later row late."""
    spec = spec_of(directory, format_)
    write(directory, f"a.{format_}", format_, (1, day(1), 1.0, "a b"), (2, day(28), 1.0, "a"))
    assert cli.main(["run", str(spec), *engine]) == 0
    write(directory, f"b.{format_}", format_, (3, day(2), 2.0, "a b c"), (4, day(3), None, "x y"))
    assert cli.main(["run", str(spec), "--finish", *engine]) == 0
    assert table(directory, "rejected")["reason"].to_pylist() == ["empty_set:w"]
    assert sum(r["accepted"] for r in table(directory, "runs").to_pylist()) == 3
    assert [(r["older_id"], r["newer_id"]) for r in table(directory, "twins_now").to_pylist()] == [(1, 3)]
    assert verified(spec)


def test_a_row_that_is_rejected_as_it_is_read_makes_no_later_row_late(tmp_path: Path) -> None:
    assert_no_later_row_is_late(tmp_path, "csv", *LOCAL)


def test_scores_that_are_all_null_fail_the_run_after_everything_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, outcome = spec_of(tmp_path, tokens="min_tokens: 2"), tmp_path / "outcome.json"
    write(tmp_path, "a.csv", "csv", *((i, day(i), None, "a b" if i > 1 else "a") for i in range(1, 21)))
    assert cli.main(["run", *LOCAL, str(spec), "--finish", "--outcome", str(outcome)]) == 4
    said = capsys.readouterr().err
    assert "WARNING: column score is null in all 20 rows of this run" in said
    assert "SKY-E505 query top cannot use all 20 rows of this run that it asks for" in said
    assert "WARNING: query twins cannot use 1 of the 20 rows of this run that it asks for (5.0 %)" in said
    found = json.loads(outcome.read_text())
    assert found["unusable"] == {"top": {"rows": 20, "of": 20}, "twins": {"rows": 1, "of": 20}}
    assert (found["empty_columns"], found["exit_code"]) == (["score"], 4)
    assert sum(json.loads(r["unusable"]).get("top", 0) for r in table(tmp_path, "runs").to_pylist()) == 20
    assert not table(tmp_path, "published").num_rows
    # With rows that are of use, or if the spec allows it, the next run ends well, and the results are published.
    spec_of(tmp_path, tokens="min_tokens: 2", quality=", max_unusable: 60%")
    write(tmp_path, "b.csv", "csv", (30, day(22), 5.0, "a b"), (31, day(23), None, "a b"))
    assert cli.main(["run", *LOCAL, str(spec), "--finish"]) == 0
    assert table(tmp_path, "published").num_rows
    assert verified(spec)


def test_a_job_of_a_former_version_goes_on_as_it_was_made_until_it_is_rebuilt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = (1, day(1), 1.0, "दिन नदी"), (2, day(2), 2.0, "दीन नाद"), (3, day(3), 3.0, "")
    more = (4, day(4), 4.0, "cafe\u0301 bleu"), (5, day(5), 5.0, "caf\u00e9 bleu"), (6, day(6), 6.0, "")
    written = spec_of(tmp_path / "written", tokens=r"words: '[\pL\pN_]+', normalize: none, short: reject")
    spec = spec_of(tmp_path / "job", tokens=r"words: '[\pL\pN_]+', normalize: none, short: reject")
    for directory in (tmp_path / "written", tmp_path / "job"):
        write(directory, "a.csv", "csv", *first)
        assert cli.main(["run", *LOCAL, str(directory / "spec.yaml"), "--finish"]) == 0
    # What a former version wrote of the sets, and the spec that it wrote it for.
    job = tmp_path / "job" / "out" / "_skyband" / "job.json"
    kept = json.loads(job.read_text())
    for name in ("normalize", "short"):
        del kept["fingerprint"]["tokens"]["w"][name]
    job.write_text(json.dumps(kept))
    spec_of(tmp_path / "job", tokens="min_tokens: 1")
    capsys.readouterr()
    for directory in (tmp_path / "written", tmp_path / "job"):
        write(directory, "b.csv", "csv", *more)
        assert cli.main(["run", *LOCAL, str(directory / "spec.yaml"), "--finish"]) == 0
    assert "a former version made this job: the tokens of w stay as it made them" in capsys.readouterr().err
    for name in ("twins_changes", "twins", "top_changes", "rejected"):
        assert sorted_rows(table(tmp_path / "job", name)) == sorted_rows(table(tmp_path / "written", name)), name
    assert table(tmp_path / "job", "twins_changes").num_rows == 1  # the two Hindi texts, by a sign that they do not have in common
    assert verified(spec) and verified(written)
    assert cli.main(["rebuild", *LOCAL, str(spec), "--finish"]) == 0
    rows = table(tmp_path / "job", "twins_changes").to_pylist()
    assert [(r["older_id"], r["newer_id"], r["score"]) for r in rows] == [(4, 5, 1.0)]
    assert not table(tmp_path / "job", "rejected").num_rows
    assert verified(spec)
