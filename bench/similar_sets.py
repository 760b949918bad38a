"""Top-k similar sets alone against the peers, in one run: windows of 1,000, 10,000 and 50,000 sets (baskets: 10,000 at most).

Peers: SCase on sets in Numba (``scase_numba``, always), the C++ ones where ``peer_programs`` finds them, run before and after ours, the
better of the two counting; and the package SetSimilaritySearch where it is installed, which joins the whole window anew, once for every so
many sets.
CPU time of this process; the window is full before the clock starts. Real data is read where it is found, and left out where it is not.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import scase_numba
from bench.peer_programs import ROOT, peer
from skyband.operators.base import Arrivals, Ragged, Window
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.topk_similar_sets.operator import TopKSimilarSets

PEERS = ("swoop", "swoop-walk", "scase", "base")
SLOW = {"scase": 2000, "base": 40}
"""Peers that score all pairs: so many events at most."""

WORD = re.compile(r"\w+")

EVERY = 2000
"""Sets between two joins of the whole window."""


def data_directory() -> Path:
    """Where the real data is."""
    return (ROOT / os.environ.get("SKYBAND_SHARED", "../shared")).resolve() / "data"


def numbered(sets: Iterable[Iterable[Any]]) -> list[list[int]]:
    """Sets with their tokens as numbers, duplicates folded, those of fewer than two tokens dropped."""
    names: dict[Any, int] = {}
    found = ([names.setdefault(x, len(names)) for x in dict.fromkeys(s)] for s in sets)
    return [s for s in found if len(s) > 1]


def commit_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Author and subject of every commit."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield row["author_id"], row["subject"] or ""


def commits(path: Path) -> Iterator[list[str]]:
    """The words of every commit's subject."""
    return (WORD.findall(subject.lower()) for _, subject in commit_texts(path))


def basket_texts(path: Path) -> Iterator[str]:
    """The goods of every basket, with spaces between."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for _, _, goods in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield goods


def baskets(path: Path) -> Iterator[list[str]]:
    """The goods of every basket."""
    return (goods.split(" ") for goods in basket_texts(path))


def synthetic(rows: int) -> Iterator[list[int]]:
    """Sets of geometric size, mean 10, of 50,000 tokens by Zipf's law; a tenth are one of the last 20,000 with a token drawn anew."""
    rng = np.random.default_rng(1)
    ladder = np.cumsum(1.0 / np.arange(1, 50_001))

    def drawn(size: int) -> Any:
        return ladder.searchsorted(rng.random(size) * ladder[-1])

    made: list[Any] = []
    for size, again in zip(1 + rng.geometric(1 / 9, rows), rng.random(rows) < 0.1, strict=True):
        tokens = drawn(size)
        if again and made:
            tokens = made[int(rng.integers(max(0, len(made) - 20_000), len(made)))].copy()
            tokens[rng.integers(len(tokens))] = drawn(1)[0]
        made.append(tokens)
        yield tokens.tolist()


def datasets() -> dict[str, list[list[int]]]:
    """The sets that are to be had."""
    found = {"synthetic": numbered(synthetic(100_000))}
    for name, file, read in (("commits", "commits_anon.tsv.gz", commits), ("baskets", "baskets.tsv.gz", baskets)):
        if (data_directory() / file).exists():
            found[name] = numbered(read(data_directory() / file))
    return found


class Rows:
    """Sets as flat arrays."""

    def __init__(self, sets: list[list[int]]) -> None:
        self.start = np.cumsum([0, *map(len, sets)]).astype(np.int64)
        self.values = np.array([t for s in sets for t in s], np.int64)

    def block(self, lo: int, hi: int) -> Arrivals:
        """Sets lo..hi as one key's arrivals, a microsecond apart."""
        seq, start = np.arange(lo, hi), self.start
        tokens = Ragged(start[lo : hi + 1] - start[lo], self.values[start[lo] : start[hi]])
        return Arrivals(np.zeros(hi - lo, np.int64), seq, seq, {}, {"tokens": tokens})


def logic_of(k: int, window: int) -> Any:
    w = Window(window)
    return TopKSimilarSets(tokens="tokens", similarity="jaccard", window=w, queries=(PairQuery("q", k, w),), keep_k=k).build(None)


def ours(rows: Rows, k: int, window: int, events: int, batch: int) -> dict[str, float]:
    """CPU and wall ns a set, what was looked at a set, and the length of the skyband."""
    logic = logic_of(k, window)
    logic.advance(rows.block(0, window), window)
    logic.counters()
    cpu, wall = time.process_time(), time.perf_counter()
    for lo in range(window, window + events, batch):
        hi = min(lo + batch, window + events)
        logic.advance(rows.block(lo, hi), hi)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    found = logic.counters()
    looked = {name: found[name] / events for name in ("read", "weighed", "counted", "candidates")}
    return {"cpu": cpu / events * 1e9, "wall": wall / events * 1e9, "skyband": len(logic.skyband()), **looked}


def scase(rows: Rows, k: int, window: int, events: int) -> float:
    """CPU ns a set of SCase in Numba; the window is filled with ours (this measures only the cost of SCase)."""
    logic = logic_of(k, window)
    logic.advance(rows.block(0, window), window)
    band = logic.skyband()
    m, size = len(band), 8 * len(band) + 4 * window
    ks, ko, ts, to = np.empty(size), np.empty(size, np.int64), np.empty(size), np.empty(size, np.int64)
    ks[:m], ko[:m] = -band.score, band.items[:, 0]
    values = rows.values.copy()
    for i in range(window + events + 2):
        values[rows.start[i] : rows.start[i + 1]].sort()
    m, tm, _ = scase_numba.run(scase_numba.jaccard, (rows.start, values), k, window, window, window + 2, ks, ko, m, ts, to, 0)
    cpu = time.process_time()
    scase_numba.run(scase_numba.jaccard, (rows.start, values), k, window, window + 2, window + 2 + events, ks, ko, m, ts, to, tm)
    return (time.process_time() - cpu) / events * 1e9


def joined(sets: list[list[int]], window: int, at_least: float) -> dict[str, float]:
    """CPU ns a set of a join of the whole window for every ``EVERY`` sets, given the worst score of the result beforehand."""
    if importlib.util.find_spec("SetSimilaritySearch") is None:
        return {}
    from SetSimilaritySearch import all_pairs

    cpu = time.process_time()
    list(all_pairs(sets[:window], similarity_func_name="jaccard", similarity_threshold=at_least))
    return {f"joined every {EVERY:,}": (time.process_time() - cpu) / EVERY * 1e9}


def anchors(file: Path, k: int, window: int, events: int) -> dict[str, float]:
    """CPU ns a set of the C++ peers, as they print it; nothing where they are not built."""
    binary = peer("swoop")
    found: dict[str, float] = {}
    for algo in PEERS if binary is not None else ():
        if algo == "base" and window > 10_000:
            continue
        command = [str(binary), "--data", str(file), "--w", str(window), "--k", str(k), "--algo", algo, "--limit", "3"]
        run = [*command, "--events", str(min(events, SLOW.get(algo, events)))]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        if number := re.search(r"\bcpu_ns_per_event=([0-9.]+)", done.stdout):
            found[algo] = float(number[1])
    return found


def measured(name: str, sets: list[list[int]], rows: Rows, file: Path, window: int, k: int, events: int) -> dict[str, Any]:
    """One point: peers, ours in batches of 4,000, peers again. ``file`` holds the sets for the C++ peers."""
    before = anchors(file, k, window, events)
    found = ours(rows, k, window, events, 4000)
    after = anchors(file, k, window, events)
    peers = {algo: min(before[algo], after[algo]) for algo in before}
    peers["scase-numba"] = scase(rows, k, window, 50 if window > 10_000 else 200)
    if k == 10 and window == 10_000:
        peers |= joined(sets, window, 0.9)
    return {
        "operator": "topk_similar_sets",
        "params": {"data": name, "n": window, "k": k, "events": events, "skyband": found["skyband"]},
        "cpu_ns_per_event": found["cpu"], "wall_ns_per_event": found["wall"],
        "read": found["read"], "weighed": found["weighed"], "counted": found["counted"], "candidates": found["candidates"],
        "sets_per_s": 1e9 / found["cpu"], "peers": peers,
    }  # fmt: skip


def write(sets: list[list[int]], file: Path) -> None:
    """Write sets as the C++ peers read them, a line each."""
    file.write_text("".join(" ".join(map(str, s)) + "\n" for s in sets), encoding="ascii")


def run() -> Iterator[dict[str, Any]]:
    """Measurements: data, windows, k = 10 and 1,000."""
    with tempfile.TemporaryDirectory() as place:
        for name, sets in datasets().items():
            rows, file = Rows(sets), Path(place) / name
            write(sets, file)
            for window in (1000, 10_000, 50_000):
                for k in (10, 1000):
                    events = min(40_000 if k == 10 else 8000, len(sets) - window - 3)
                    if events < 1000:
                        continue
                    yield measured(name, sets, rows, file, window, k, events)
