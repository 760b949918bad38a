"""The benchmarks name their machine, and split a batch's cost into parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bench.__main__ as command
from bench import keys
from bench.machine import described


@pytest.mark.parametrize(
    ("cpuinfo", "processor", "instructions"),
    [
        ("model name : Some CPU\nflags : sse2 avx avx2\n", "Some CPU", "AVX2"),
        ("cpu family : 6\nmodel : 85\nmodel name : Some CPU\nflags : sse2 avx2 avx512f\n", "Some CPU (family 6, model 85)", "AVX-512"),
        ("model name : An Arm\nFeatures : fp asimd\n", "An Arm", "NEON"),
    ],
)
def test_a_machine_is_named_with_its_widest_instructions(cpuinfo: str, processor: str, instructions: str) -> None:
    assert described(cpuinfo) == {"processor": processor, "instructions": instructions}


def test_every_line_of_a_benchmark_names_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"operator": "topk", "params": {"keys": 1}, "cpu_ns_per_event": 1.5, "peers": {}}
    monkeypatch.setattr(command, "OUT", tmp_path)
    monkeypatch.setattr(keys, "run", lambda: iter([row]))
    assert command.run("keys") == [row]
    (line,) = (tmp_path / "keys.jsonl").read_text(encoding="utf-8").splitlines()
    found = json.loads(line)
    assert set(found.pop("machine")) == {"processor", "instructions", "cores"}
    assert found == row


def test_a_part_excludes_the_parts_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0

    def spend(ns: int) -> None:
        nonlocal now
        now += ns

    monkeypatch.setattr("time.process_time_ns", lambda: now)
    parts = keys.Parts()
    inner = parts.timed(spend, lambda *_: "inner")

    def both() -> None:
        spend(3)
        inner(5)
        spend(7)

    spend(100)
    parts.start()
    spend(1)
    parts.timed(both, lambda *_: "outer")()
    assert parts.stop() == {"rest": 1, "outer": 10, "inner": 5}


@pytest.mark.parametrize("operator", keys.QUERIES)
def test_a_batch_is_measured_by_part(operator: str) -> None:
    held = 1200
    row = keys.measured(operator, held, 2)
    assert row["params"] == {"keys": held, "held": keys.HELD, "batch": keys.BATCH, "batches": 2}
    assert list(row["parts_ns"]) == ["kernel", "sequencing", "store", "changes", "skyband", "state", "rest"]
    assert 0 < row["written"] < row["state"]
    assert row["skyband_bytes"] > 8 * held
