"""What a run shows while it works: on a terminal a line that changes in place, elsewhere lines; nothing of batches in which nothing was."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skyband.framework.base.messages import Tally
from skyband.framework.console.lines import JsonLines, Lines
from skyband.framework.console.live import LiveLines, on_terminal
from skyband.framework.plan.model import SourceNode
from skyband.framework.plan.nodes import SourceClock
from skyband.framework.sources.files.progress import FileProgress
from skyband.framework.streaming.bucket import kernels
from skyband.framework.streaming.run import progress
from skyband.framework.streaming.run.batch import Batch
from skyband.framework.streaming.run.progress import Progress
from skyband.operators.kernel_files import RUN_VARIABLE, Compiled, KernelFiles

MINUTE = 60_000_000
NEWEST = 1_577_836_800_000_000  # 2020-01-01


class Terminal(io.StringIO):
    """A stream that is a terminal; ``waits`` for a text to be drawn."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._drawn:
            self._drawn.notify_all()
            return super().write(text)

    def waits(self, text: str) -> bool:
        with self._drawn:
            return self._drawn.wait_for(lambda: text in self.getvalue(), 30)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    return Terminal()


def plan(delay: int, *sources: SourceClock) -> Any:
    return SimpleNamespace(intake=SimpleNamespace(delay_micros=delay, sources=sources))


def test_a_terminal_is_one_that_can_change_a_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal(terminal) and not on_terminal(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not on_terminal(terminal)
    closed = io.StringIO()
    closed.close()
    assert not on_terminal(closed)


def test_the_changing_line_says_where_the_run_is_and_goes_away(terminal: Terminal) -> None:
    lines = LiveLines(terminal)
    seen = Progress(lines, plan=plan(0))
    seen.share = SimpleNamespace(taken=0, of=8, look=lambda: setattr(seen.share, "taken", 2))  # type: ignore[assignment]
    seen.phase("starting Spark")
    seen.show()
    assert terminal.waits("starting Spark")
    seen.phase("reading")
    seen(Batch(0, Tally(rows_in=1000, pending=7), 0.5, 7, NEWEST, NEWEST - MINUTE))
    assert terminal.waits("2 of 8 files (25 %) · 1,000 rows, ") and terminal.waits("watermark 2019-12-31 23:59:00 · 7 waiting")
    assert "batch 0" not in terminal.getvalue()
    lines.tell("warning", "warning", "WARNING: [b]markup[/b] is text")
    assert terminal.waits("WARNING: [b]markup[/b] is text\n")
    seen.close()
    lines.close()
    shown = terminal.getvalue()
    assert shown.endswith("\n") and "done: 1,000 rows" in shown and shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1


def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    lines = LiveLines(terminal)
    lines.show(lambda: "at work")
    assert terminal.waits("at work")
    lines.stopped(15)
    assert terminal.getvalue().endswith("stopped by SIGTERM: run again to go on\n") and "\x1b[?25h" in terminal.getvalue()


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no test of this process had started a JVM, whose log would be named."""
    from skyband.framework.streaming.run import progress

    monkeypatch.setattr(progress, "log_file", lambda: None)


def told(lines_of: Any, *batches: Batch, delay: int = 0, sources: Sequence[SourceClock] = ()) -> list[str]:
    err = io.StringIO()
    seen = Progress(lines_of(err), plan=plan(delay, *sources))
    for batch in batches:
        seen(batch)
    seen.close()
    return err.getvalue().splitlines()


def test_batches_of_the_engines_own_are_not_shown_as_empty(no_spark: None) -> None:
    batches = Batch(0, Tally(rows_in=5, pending=5), 0.5, 5), Batch(1, Tally(), 0.1, 5), Batch(2, Tally(pending=-5, changes=3), 0.2)
    first, second, done = told(Lines, *batches)
    assert first.startswith("batch 0: 5 rows, ") and second == "batch 2: 5 rows that waited, rejected 0, changes 3, 0.2 s"
    assert "in 3 batches" in done and "wait" not in done
    assert [line.count('"event": "batch"') for line in told(JsonLines, *batches)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("pending", "delay", "said"),
    [
        (1, 10 * MINUTE, "; 1 row waits, less than 10 minutes before 2020-01-01 00:00:00, the newest row's time: "),
        (2000, 0, "; 2,000 rows wait, at 2020-01-01 00:00:00, the newest row's time: "),
    ],
)
def test_the_end_says_what_waits_and_why(no_spark: None, pending: int, delay: int, said: str) -> None:
    done = told(Lines, Batch(0, Tally(rows_in=5000), 0.5, pending, NEWEST), delay=delay)[-1]
    assert said in done and done.endswith("the next rows or --finish let them count")


ASKS, BIDS, NEWS = SourceClock("asks", MINUTE, None), SourceClock("bids", 2 * MINUTE, None), SourceClock("news", 0, 60 * MINUTE)
LIMIT = " (`idle_after` of that source limits how long others wait)"


@pytest.mark.parametrize(
    ("sources", "came", "said"),
    [
        ((ASKS, BIDS), {"newest:asks": NEWEST}, "5 rows wait for source bids, which has had no row yet: its next rows or --finish let "
         f"them count{LIMIT}"),
        ((ASKS, BIDS), {"newest:asks": NEWEST, "newest:bids": NEWEST - 30 * MINUTE}, "5 rows wait for source bids, whose newest row's time "
         f"is 2019-12-31 23:30:00: its next rows or --finish let them count{LIMIT}"),
        ((BIDS, ASKS), {"newest:asks": NEWEST - 30 * MINUTE, "newest:bids": NEWEST}, "5 rows wait for source asks, whose newest row's time "
         f"is 2019-12-31 23:30:00: its next rows or --finish let them count{LIMIT}"),
        ((ASKS, NEWS), {"newest:asks": NEWEST, "newest:news": NEWEST - 30 * MINUTE}, "5 rows wait for source news, whose newest row's time "
         "is 2019-12-31 23:30:00: its next rows, later rows of the others (`idle_after`: 1 hour) or --finish let them count"),
        # The cap of a file holds the watermark back for the time being, not the source.
        ((ASKS, SourceClock("bids", MINUTE, None)), {"newest:asks": NEWEST, "newest:bids": 0, "greatest:bids": NEWEST},
         "5 rows wait, at 2020-01-01 00:00:00, the newest row's time: earlier ones may still come; the next rows or --finish let them "
         "count"),
    ],
)  # fmt: skip
def test_the_end_names_the_source_for_which_rows_wait(
    no_spark: None, sources: tuple[SourceClock, ...], came: dict[str, int], said: str
) -> None:
    done = told(Lines, Batch(0, Tally(rows_in=5, **came), 0.5, 5, NEWEST), sources=sources)[-1]
    assert done.endswith(f"; {said}")


def test_the_share_of_the_files(tmp_path: Path) -> None:
    landing, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    log = checkpoint / "sources" / "0"
    log.mkdir(parents=True)
    (landing / "day=1").mkdir(parents=True)
    for name in ("a.csv", "b.csv", "c.csv", "day=1/d.csv", "_half.csv", ".hidden"):
        (landing / name).write_text("x")

    def take(number: int, *names: str) -> None:
        entries = "".join(f'{{"path":"file://{landing}/{n}","timestamp":1,"batchId":{number}}}\n' for n in names)
        (log / str(number)).write_text("v1\n" + entries)

    take(0, "a.csv", "gone.csv")
    share = FileProgress(SourceNode("csv", str(landing), (("recursiveFileLookup", "true"),), ()), checkpoint)
    assert (share.taken, share.of) == (0, 3)
    take(1, "b.csv", "day=1/d.csv")
    share.look()
    share.look()
    assert (share.taken, share.of) == (2, 3)
    assert FileProgress(SourceNode("delta", str(landing), (), ()), checkpoint).of is None
    assert FileProgress(SourceNode("csv", "s3://bucket/in", (), ()), checkpoint).of is None


def test_kernels_that_are_compiled_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "HAVE_NUMBA", True)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    before = kernels.compiled_since(4e9)
    files = KernelFiles(tmp_path / "kernels" / "versions")
    began = time.time()
    time.sleep(0.02)
    monkeypatch.setenv(RUN_VARIABLE, str(os.getpid()))
    files.end(2, 0.01)
    files.end(3, 0.01)
    files.begin("skyband.operators.topk.kernels.advance.advance_bands")
    assert before == kernels.compiled_since(4e9) == (0, 0.0, ())
    finished, seconds, (running,) = kernels.compiled_since(began)
    # The second record covers the time of the first.
    assert finished == 5 and 0.01 <= seconds < 0.02 and running.kernel.endswith("advance_bands")


def test_only_kernels_of_this_process_and_its_workers_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "HAVE_NUMBA", True)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    files = KernelFiles(tmp_path / "kernels" / "versions")
    began = time.time() - 1
    monkeypatch.setenv(RUN_VARIABLE, "1")
    files.begin("skyband.operators.topk.kernels.other.run")
    files.end(7, 0.5)
    files.begin("skyband.operators.topk.kernels.other.run")
    monkeypatch.delenv(RUN_VARIABLE)
    assert kernels.compiled_since(began) == (0, 0.0, ())
    monkeypatch.setenv(RUN_VARIABLE, str(os.getpid()))
    files.end(2, 0.5)
    monkeypatch.delenv(RUN_VARIABLE)
    assert kernels.compiled_since(began).finished == 2
    (files.directory / f"compiled-{os.getpid()}").write_bytes(b"x y z\n1 2\n1 9e9 1\n")
    assert kernels.compiled_since(began).finished == 0
    kernels.end_record()
    assert not (files.directory / f"compiled-{os.getpid()}").exists()


def test_a_run_records_what_is_compiled_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    shown = Progress(Lines(io.StringIO()))
    shown.show()
    assert os.environ[RUN_VARIABLE] == str(os.getpid())
    shown.close()
    assert RUN_VARIABLE not in os.environ


def test_what_is_compiled_is_reported_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Compiled("skyband.operators.topk.kernels.advance.advance_bands", 3.0)
    expression = Compiled("skyband_expression_0c5fd40b15bf630bf21154a8.block", 0.2)
    looks = [
        (0, 0.0, ()), (1, 0.5, (begun, expression)), (84, 2.0, (begun,)), (85, 3.0, ()), (85, 3.0, ()), (85, 3.0, (begun,)), (86, 4.5, ()),
    ]  # fmt: skip
    monkeypatch.setattr(progress, "compiled_since", lambda since: kernels.Compilations(*looks.pop(0)))
    err = io.StringIO()
    watched = Progress(Lines(err))
    monkeypatch.setattr(watched, "_over", SimpleNamespace(wait=lambda seconds: not looks))
    watched._watch_kernels(0.0)
    assert err.getvalue().splitlines() == [
        "compiling kernels, once on this machine: topk.advance_bands (3 s), a scoring expression (0 s)",
        "compiled 85 kernels in 3.0 s",
        "compiling kernels, once on this machine: topk.advance_bands (3 s)",
        "compiled 1 kernel in 1.5 s",
    ]


def test_the_line_that_changes_in_place_names_the_kernel(no_spark: None) -> None:
    shown = Progress(Lines(io.StringIO()))
    shown.phase("reading")
    shown._compiling = (Compiled("skyband.operators.skyline.kernels.advance.advance_keys", 12.4),)
    assert shown._line() == "reading · compiling kernels, once on this machine: skyline.advance_keys (12 s)"
