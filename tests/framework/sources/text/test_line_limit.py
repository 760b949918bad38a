"""Files with lines that no reader could hold are found, whatever they are packed with, and without holding the line."""

from __future__ import annotations

import bz2
import gzip
import os
import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.text import line_limit
from skyband.framework.sources.text.line_limit import too_large
from tests.specs import plan_of_text, spec_text

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".deflate": zlib.compress,
    ".zst": lambda data: bytes(pa.Codec("zstd").compress(data, asbytes=True)),
}  # fmt: skip


def source(limit: int = 100, form: str = "csv", **options: str) -> SourceNode:
    return SourceNode(form, "in", tuple(options.items()), (), max_line=limit)


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("block", [1 << 20, 64, 7])
def test_the_longest_line_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, block: int) -> None:
    """Against a definition of its own: the lines of a file, split."""
    monkeypatch.setattr(line_limit, "_BLOCK", block)
    monkeypatch.setattr(line_limit, "_TAIL", max(block // 2, 3))
    monkeypatch.setattr(line_limit, "_RATIO", 1 << 40)
    rng = random.Random(5)
    for n in range(60):
        path = tmp_path / f"{n}.csv{ending}"
        lines = [b"x" * rng.choice([0, 1, 50, 99, 100, 101, 350]) for _ in range(rng.randrange(1, 12))]
        data = rng.choice([b"\n", b"\r\n"]).join(lines) + rng.choice([b"", b"\n"])
        path.write_bytes(PACKED[ending](data))
        assert (too_large(source(), str(path)) is not None) == any(len(line) > 100 for line in lines), lines
    path.write_bytes(PACKED[ending]((b"y" * 90 + b";") * 9))
    assert too_large(source(lineSep=";"), str(path)) is None
    assert too_large(source(), str(path)) == "it has a line of more than 100 bytes: source.max_line"


def test_what_unpacks_to_more_than_there_is_room_for_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n" * 30_000))
    assert too_large(source(), str(path)) == "it unpacks to more than 100,000 bytes: source.max_line"
    assert too_large(source(200), str(path)) is None
    whole = tmp_path / "a.json"
    whole.write_bytes(b"[" + b" " * 1_700 + b"]")
    assert too_large(source(form="json", multiLine="true"), str(whole)) is not None
    assert too_large(source(200, form="json", multiLine="true"), str(whole)) is None


def test_a_packed_file_is_unpacked_once_unless_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backlog, the batch and whoever sets the file aside ask for the same verdict."""
    unpacked, read = list[str](), line_limit._unpacked

    def counting(path: str) -> Iterator[bytes]:
        unpacked.append(path)
        return read(path)

    monkeypatch.setattr(line_limit, "_unpacked", counting)
    good, bad = tmp_path / "good.csv.gz", tmp_path / "bad.csv.gz"
    good.write_bytes(gzip.compress(b"1,2\n" * 50))
    bad.write_bytes(gzip.compress(b"x" * 300))
    for _ in range(3):
        assert too_large(source(), str(good)) is None
        assert too_large(source(), str(bad)) == "it has a line of more than 100 bytes: source.max_line"
    assert sorted(unpacked) == [str(bad), str(good)]
    good.write_bytes(gzip.compress(b"x" * 500))
    assert too_large(source(), str(good)) is not None
    stat = bad.stat()
    os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert too_large(source(), str(bad)) is not None
    assert too_large(source(400), str(bad)) is None
    assert len(unpacked) == 5


def test_a_line_of_300_mb_in_a_small_file_is_found_without_holding_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        assert too_large(source(16 << 20, "json"), str(path)) == "it has a line of more than 16 MB: source.max_line"
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_other_files_and_damaged_ones_are_left_to_their_readers(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(b"\x1f\x8b no more" * 50)
    assert too_large(source(), str(path)) is None
    assert too_large(source(), str(tmp_path / "none")) is None
    path = tmp_path / "a"
    path.write_bytes(b"x" * 500)
    assert too_large(source(form="parquet"), str(path)) is None
    assert too_large(source(encoding="utf-16", multiLine="true"), str(path)) is None


@pytest.mark.parametrize(("more", "limit"), [("", 16 << 20), ("max_line: 64k", 64 << 10)])
def test_the_limit_of_a_spec(more: str, limit: int) -> None:
    queries = {"scoring": "{x: {expression: x, direction: max}}", "queries": "{best: {type: topk, scoring: x, k: 1}}"}
    text = spec_text("small", "{id: bigint, ts: timestamp, x: double}", more=more, window="{count: 5}", **queries)
    assert plan_of_text(text).source.max_line == limit
