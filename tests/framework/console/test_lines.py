"""What a command tells, as text and as JSON."""

from __future__ import annotations

import io
import json
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError, Where
from skyband.framework.base.messages import Tally
from skyband.framework.console.lines import FORMATS, JsonLines, Lines, lines
from skyband.jobs import cli
from tests.spark.jobs import stamp, write_file, write_spec


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that begins at second 10, reads from 12 on, and asks for the time at 13 from then on."""
    from skyband.framework.streaming.run import progress

    seconds = iter([10.0, 12.0])
    monkeypatch.setattr(progress, "log_file", lambda: None)  # another test of this process may have started a JVM
    monkeypatch.setattr(progress.clock, "monotonic", lambda: next(seconds, 13.0))


def progress(told: Lines, quiet: bool = False) -> None:
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.progress import Progress

    seen = Progress(told, quiet)
    seen.phase("reading")
    seen(Batch(7, Tally(rows_in=100, late=2, changes=5), 0.5))
    seen(Batch(8, Tally(rows_in=1000, late=2, changes=5), 0.5))
    seen.close()


def parsed(err: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.getvalue().splitlines()]


def test_batches_as_text(clock: None) -> None:
    err = io.StringIO()
    progress(Lines(err))
    assert err.getvalue().splitlines() == [
        "batch 7: 100 rows, 200 rows/s, late 2, rejected 2, changes 5, 0.5 s",
        "WARNING: 2.0 % of the rows of this batch came LATE and are in table `rejected` (2 of 100); "
        "raise source.event_time.watermark if they belong in the results",
        "batch 8: 1,000 rows, 2,000 rows/s, late 2, rejected 2, changes 5, 0.5 s",
        "done: 1,100 rows (1,100 rows/s), 4 rejected, 10 changes in 3.0 s: 2.0 s to start, 1.0 s in 2 batches",
    ]


def test_batches_as_json() -> None:
    err = io.StringIO()
    told = JsonLines(err)
    told.job = "j"
    progress(told)
    found = parsed(err)
    assert [(x["level"], x["event"]) for x in found] == [("info", "batch"), ("warning", "late"), ("info", "batch"), ("info", "done")]
    assert {x["job"] for x in found} == {"j"}
    assert all(datetime.fromisoformat(x["time"]).utcoffset() == timedelta(0) for x in found)
    figures = {"batch": 7, "rows": 100, "late": 2, "rejected": 2, "changes": 5, "seconds": 0.5}
    assert figures.items() <= found[0].items()
    assert {"rows": 1100, "late": 4, "rejected": 4, "changes": 10, "batches": 2}.items() <= found[-1].items()


def test_quiet_leaves_the_warnings() -> None:
    err = io.StringIO()
    progress(JsonLines(err), quiet=True)
    assert [x["event"] for x in parsed(err)] == ["late"]


def test_errors_and_reports() -> None:
    errors = [SkybandError("SKY-E110", "unknown field \x1b", "did you mean 'x'?", Where("s.yaml", 3, 7)), SkybandError("SKY-E300", "no")]
    err, out = io.StringIO(), io.StringIO()
    Lines(err, out).errors(errors)
    Lines(err, out).report("verified", "verified: \x1b", differences=0)
    assert err.getvalue() == "s.yaml:3:7 SKY-E110 unknown field \\u001b\n  hint: did you mean 'x'?\n\nSKY-E300 no\n"
    assert out.getvalue() == "verified: \\u001b\n"
    err = io.StringIO()
    lines("json", err).errors(errors)
    lines("json", err).report("verified", "verified", differences=0)
    first, second, third = parsed(err)
    assert (first["level"], first["code"], first["hint"]) == ("error", "SKY-E110", "did you mean 'x'?")
    assert first["where"] == {"file": "s.yaml", "line": 3, "column": 7} and second["where"] is None
    assert (third["event"], third["differences"]) == ("verified", 0)


def test_a_reader_that_went_away_ends_nothing() -> None:
    err = io.StringIO()
    err.close()
    Lines(err).tell("info", "batch", "text")
    with pytest.raises(ValueError, match="closed"):
        print("text", file=err)


@pytest.mark.parametrize("command", ["run", "verify"])
def test_a_commands_errors_are_json_lines(tmp_path: Any, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert cli.main([command, str(tmp_path / "none.yaml"), "--log-format", "json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["level"], found["event"], found["code"]) == ("error", "error", "SKY-E100")


@pytest.mark.spark
def test_a_run_and_its_verification_as_json(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path, queries="  far5: {type: topk_pairs, scoring: far, k: 5}\n", watermark="1 minute")
    for name, start in (("a.csv", 0), ("b.csv", 400)):
        rows = [[start + i, stamp(start + 10 * i), "p", i, 0, "a"] for i in range(20)]
        write_file(tmp_path, name, [*rows, [999, "2020-13-01", "p", 0, 0, "a"]], at=start)
    assert cli.main(["run", str(spec), "--once", "--log-format", "json"]) == 0
    assert cli.main(["verify", str(spec), "--replay-only", "--log-format", "json"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    found = [json.loads(line) for line in told.err.splitlines()]
    found = [x for x in found if x["event"] != "compiling"]
    batches = [x for x in found if x["event"] == "batch"]
    assert batches and [x["batch"] for x in batches] == list(range(len(batches)))
    events = ["starting", "done", "rejected", "replayed", "books", "proven", "proven", "verified"]
    assert [x["event"] for x in found if x["event"] != "batch"] == events
    done, rejected, replayed, books, *_, verified = found[1 - len(events) :]
    assert (rejected["reason"], rejected["rejected"], rejected["rows"]) == ("parse", 2, 42)
    assert "looks like a date that does not exist" in rejected["message"]
    assert {x["job"] for x in found} == {"small"}
    assert (done["rows"], done["rejected"], done["batches"]) == (42, 2, len(batches))
    assert done["changes"] == sum(x["changes"] for x in batches) == replayed["changes"]
    assert replayed["query"] == "far5" and books["differences"] == verified["differences"] == 0


class Listened(io.StringIO):
    """A stream that waits for a text."""

    def __init__(self) -> None:
        super().__init__()
        self._written = threading.Condition()

    def write(self, text: str) -> int:
        with self._written:
            self._written.notify_all()
            return super().write(text)

    def waits(self, text: str) -> bool:
        with self._written:
            return self._written.wait_for(lambda: text in self.getvalue(), 60)


@pytest.mark.parametrize("form", FORMATS)
def test_what_takes_long_says_what_it_is_at(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.framework.console.lines.SILENT", 0.01)
    err = Listened()
    told = lines(form, err)
    said = iter(["", "", "reading"])
    told.show(lambda: next(said, "computing"))
    assert err.waits("reading ") and err.waits("computing ")
    told.close()
    before = err.getvalue().splitlines()
    assert all(" \u00b7 0 s" in line for line in before if form == "text")
    if form == "json":
        assert {json.loads(line)["event"] for line in before} == {"working"} and json.loads(before[0])["seconds"] >= 0
    # A line that comes by itself is enough.
    monkeypatch.setattr("skyband.framework.console.lines.SILENT", 3600.0)
    told.show(lambda: "never")
    told.tell("info", "batch", "batch 0")
    told.close()
    assert "never" not in err.getvalue()


class Clock:
    """A clock that goes on as somebody waits, for ``seconds`` altogether."""

    def __init__(self, seconds: float) -> None:
        self.now, self.end = 0.0, seconds

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now > self.end


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_activity_is_reported_again_only_after_twice_the_time(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.framework.console.lines.SILENT", 3.0)
    clock, err = Clock(100.0), io.StringIO()
    monkeypatch.setattr("skyband.framework.console.lines.monotonic", lambda: clock.now)
    told = lines(form, err)
    told._report_activity(lambda: "counting" if 30 <= clock.now < 60 else "reading", clock)  # type: ignore[arg-type]
    found = [json.loads(line)["message"] if form == "json" else line for line in err.getvalue().splitlines()]
    assert [t for t in found if t.startswith("reading")][:4] == [f"reading \u00b7 {n} s" for n in (3, 6, 12, 24)]
    # A new activity is reported without delay, and in any case few lines tell of 100 seconds.
    assert len([t for t in found if t.startswith("counting")]) == 1 and len(found) == 6


@pytest.mark.parametrize(
    ("said", "seconds"), [(None, 3.0), ("10", 10.0), ("0.5", 0.5), ("soon", 3.0), ("0", 3.0), ("-1", 3.0), ("nan", 3.0)]
)
def test_who_runs_a_command_says_when(said: str | None, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.framework.console import lines as module

    monkeypatch.delenv(module.SILENCE) if said is None else monkeypatch.setenv(module.SILENCE, said)
    assert module._seconds() == seconds


def test_any_command_that_takes_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.jobs.answer import Answer
    from skyband.jobs.reading import status

    monkeypatch.setattr("skyband.framework.console.lines.SILENT", 0.01)
    err = Listened()
    monkeypatch.setattr("sys.stderr", err)

    def slow(args: Any) -> Answer:
        assert err.waits("skyband status is working \u00b7 ")
        args.lines.doing = "counting files"
        assert err.waits("counting files \u00b7 ")
        return Answer({}, "")

    monkeypatch.setattr(status, "run", slow)
    assert cli.main(["status", str(tmp_path)]) == 0


def test_a_run_says_its_phase_but_not_that_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.framework.console.lines.SILENT", 0.01)
    err = Listened()
    from skyband.framework.streaming.run.progress import Progress

    progress = Progress(Lines(err))
    progress.phase("starting Spark")
    progress.show()
    assert err.waits("starting Spark \u00b7 ")
    progress.phase("waiting for new rows")
    assert progress._at_work() == ""
    progress.phase("making the tables of results")
    assert err.waits("making the tables of results \u00b7 ")
    progress.close()
    assert "waiting for new rows" not in err.getvalue()
