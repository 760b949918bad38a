"""The benchmarks name their machine, split a batch's cost into parts, and compare with peers that compute the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import bench.__main__ as command
from bench import keys, peers, topk_pairs
from bench.machine import described
from bench.peer_programs import peer


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


def test_times_are_multiples_of_ours_and_a_floor_is_never_best() -> None:
    row = {
        "operator": "topk_pairs", "params": {"n": 10}, "cpu_ns_per_event": 4.0, "wall_ns_per_event": 5.0, "skyband": 3,
        "peers": {"supreme": 1.0, "scase": 12.0, "ta": 2.0},
    }  # fmt: skip
    found = peers.compared(row)
    assert found["best"] == "ta"
    assert found["times"] == {"supreme": 0.25, "scase": 3.0, "ta": 0.5}
    assert {name: found[name] for name in ("operator", "params", "peers")} == {name: row[name] for name in ("operator", "params", "peers")}
    assert "skyband" not in found
    assert peers.compared({**row, "peers": {}})["best"] == "-"


@pytest.mark.slow
@pytest.mark.parametrize("fn", topk_pairs.FUNCTIONS)
def test_the_peers_of_pairs_compute_the_same_function(fn: str) -> None:
    if peer("pairs") is None:
        pytest.skip("the peers are not there")
    x = np.random.default_rng(4).random((300 + 2 * topk_pairs.CHECKED, topk_pairs.D))
    assert set(topk_pairs.anchors(x, fn, 300, 0.01)) == set(topk_pairs.PEERS)  # compares the answers


@pytest.mark.parametrize("name", ["keys", "peers"])
def test_a_table_has_the_columns_that_a_benchmark_names(name: str) -> None:
    row = {"operator": "topk", "params": {"n": 1}, "cpu_ns_per_event": 2.5, "wall_ns_per_event": 3.5}
    head, _, line = command.table([row], command.columns(name)).splitlines()
    assert tuple(head.split()) == tuple(command.columns(name))
    assert line.split() == ["topk", "n=1", "2.5"]
    assert "wall_ns_per_event" in command.table([row])
