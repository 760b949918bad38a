"""The C++ peers of top-k pairs (``peer_programs``): their times, and the comparison of their answers with ours."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.peer_programs import peer

CHECKED = 200
"""Rows after which all answers are compared (``supreme`` gives none)."""


class Task(NamedTuple):
    """What the peers are to compute: the ``k`` best pairs by ``fn`` of windows of ``n`` rows."""

    fn: str
    n: int
    k: int
    smaller: bool
    """Whether smaller scores are better."""


def checksum(task: Task, feed: Callable[[int, int], None], best: Callable[[], Any]) -> str:
    """Return the peers' checksum (their README) over our answers after each of the rows n..n + ``CHECKED``.

    ``feed(lo, hi)`` gives rows lo..hi to the operator, ``best()`` returns its answer.
    """
    total, mask, sign = 0x243F6A8885A308D3, (1 << 64) - 1, 1.0 if task.smaller else -1.0
    feed(0, task.n)
    for i in range(CHECKED):
        feed(task.n + i, task.n + i + 1)
        answer = best()
        words = [len(answer)]
        for at in range(len(answer)) if i % 16 == 0 else (0, -1):
            older, newer = (answer.items[at] + 1).tolist()  # the peers count from 1
            words += [int((sign * answer.score[at : at + 1 or None]).view(np.uint64)[0]), older << 32 | newer]
        for word in words:
            total = (total ^ word) * 0x9E3779B97F4A7C15 & mask
            total ^= total >> 29
    return f"{total:016x}"


def times(x: Any, task: Task, algorithms: Sequence[str], answers: Callable[[], str], seconds: float) -> dict[str, float]:
    """Return the CPU ns an event of the peers over the rows ``x`` (rows, d), as they print it; nothing if they are not built.

    Each runs for about ``seconds``. ``answers()`` returns our checksum. Raises AssertionError if a peer's is another one.
    """
    binary = peer("pairs")
    if binary is None:
        return {}
    found: dict[str, float] = {}
    expected = answers()
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "rows"
        x.astype("<f8").tofile(data)
        for algorithm in algorithms:
            command = [str(binary), "--data", str(data), "--d", str(x.shape[1]), "--n", str(task.n), "--k", str(task.k), "--fn", task.fn]
            command += ["--algo", algorithm, "--events", "2000", "--seconds", str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            number = re.search(r"(?:cpu_ns_per_event|ns_per_event)=([0-9.]+)", done.stdout)
            if number:
                found[algorithm] = float(number[1])
            answered = re.search(r"checksum200=([0-9a-f]+)", done.stdout)
            if answered and algorithm != "supreme":
                assert answered[1] == expected, f"{algorithm} and we disagree: {task}"
    return found
