"""Show what tests cost in processor time, whatever else the machine does: ``python -m pytest -p tests.costs tests/operators``.

The seconds are those of the tests' process, of its children that have ended, and, where there is a ``/proc``, of those that run, such as a
JVM. A fixture counts where it is first needed. It is for one process: not together with ``-n``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

PROC = Path("/proc")
MOST = 30
"""The most test functions that are shown."""
spent: Counter[str] = Counter()
"""Processor seconds by test function."""
cases: Counter[str] = Counter()


def processor_seconds() -> float:
    """Return the processor seconds of this process and of all below it."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + _of_running()


def _of_running() -> float:
    """Return the seconds of the processes below this one that run, with those of their children that have ended."""
    seconds, children, tick = dict[int, float](), dict[int, list[int]](), os.sysconf("SC_CLK_TCK")
    for path in PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        number = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        seconds[number] = sum(map(int, fields[11:15])) / tick
    total, waiting = 0.0, [*children.get(os.getpid(), [])]
    while waiting:
        number = waiting.pop()
        total += seconds[number]
        waiting += children.get(number, [])
    return total


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count what a test costs."""
    before, name = processor_seconds(), item.nodeid.partition("[")[0]
    result = yield
    # A process that has ended without its parent's notice takes its seconds with it.
    spent[name] += max(0.0, processor_seconds() - before)  # type: ignore[assignment]
    cases[name] += 1
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the files and the functions, the most expensive ones first."""
    files: Counter[str] = Counter()
    for name, seconds in spent.items():
        files[name.partition("::")[0]] += seconds
    terminalreporter.section(f"{sum(files.values()):.1f} s of processor time")
    for name, seconds in files.most_common():
        terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
    terminalreporter.write_line("")
    for name, seconds in spent.most_common(MOST):
        terminalreporter.write_line(f"{seconds:8.1f} s  {name} ({cases[name]})")
