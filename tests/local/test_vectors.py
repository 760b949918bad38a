"""Vectors through the whole job: JSON and Parquet, restarts, rejected rows, and results by the definition."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.local.jobs import run
from tests.spark.cuts import verified
from tests.spark.jobs import stamp, table
from tests.specs import spec_text

DIMENSION = 11


def write(path: Path, rows: list[dict[str, Any]], type_: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if type_ == "array<double>":
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    else:
        schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("g", pa.string()), ("e", pa.list_(pa.float32()))])
        made = [{**r, "ts": np.datetime64(r["ts"].rstrip("Z"), "us").astype(object)} for r in rows]
        pq.write_table(pa.Table.from_pylist(made, schema), path)
    at = 1_600_000_000 + int(path.stem)
    os.utime(path, (at, at))


def rows_of(rng: np.random.Generator, n: int, type_: str) -> list[dict[str, Any]]:
    centres = rng.normal(size=(5, DIMENSION))
    rows = []
    for i in range(n):
        e: list[Any] | None = (centres[i % 5] + 0.1 * rng.normal(size=DIMENSION)).astype(np.float32).tolist()
        if i % 17 == 3:
            e = None
        elif i % 29 == 5:
            e = e[:-1] if e is not None else e
        elif i % 31 == 7 and e is not None:
            e[4] = None
        elif i % 37 == 9 and e is not None:
            e = [0.0] * DIMENSION
        rows.append({"id": i, "ts": stamp(i), "g": "uv"[i % 2], "e": e})
    return rows


@pytest.mark.parametrize("type_", ["array<float>", pytest.param("array<double>", marks=pytest.mark.slow)])
def test_near_vectors_are_the_definitions(tmp_path: Path, type_: str) -> None:
    ending = "json" if type_ == "array<double>" else "parquet"
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        spec_text(
            "near",
            f'{{id: bigint, ts: timestamp, g: string, e: "{type_}"}}',
            format=ending,
            window="{count: 60}",
            quality={"max_rejected": "50%"},
            vectors={"e": str(DIMENSION)},
            scoring={
                "alike": '{expression: "cosine(a.e, b.e)", direction: max}',
                "apart": '{expression: "l2(a.e, b.e) + 0 * dot(a.e, b.e)"}',
            },
            queries={
                "twins": "{type: topk_pairs, scoring: alike, k: 4}",
                "once": "{type: topk_pairs, scoring: alike, k: 4, max_per_object: 1}",
                "same": "{type: threshold_pairs, scoring: alike, min_score: 0.97}",
                "seen": "{type: matches, scoring: apart, k: 2}",
                "near": '{type: topk_pairs, scoring: apart, k: 3, window: {count: 30}, where: "a.g <> b.g"}',
            },
        )
    )
    rows = rows_of(np.random.default_rng(7), 200, type_)
    for number in range(2):
        write(tmp_path / "in" / f"{number}.{ending}", rows[100 * number : 100 * number + 100], type_)
        run(spec, finish=number == 1)
    assert verified(spec)
    bad = [r for r in rows if r["e"] is not None and (len(r["e"]) != DIMENSION or None in r["e"])]
    assert Counter(table(tmp_path, "rejected")["reason"].to_pylist()) == {"bad_vector:e": len(bad)}
    assert sum(r["rejected_other"] for r in table(tmp_path, "runs").to_pylist()) == len(bad) > 5
    alive = [r for r in rows if r not in bad][-60:]
    vectors = {r["id"]: np.array(r["e"]) for r in alive if r["e"] is not None and any(r["e"])}
    best = sorted(
        (-float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y))), i, j) for i, x in vectors.items() for j, y in vectors.items() if i < j
    )
    found = table(tmp_path, "twins_now").sort_by("rank").to_pylist()
    assert [(r["older_id"], r["newer_id"]) for r in found] == [(i, j) for _, i, j in best[:4]]
    assert np.allclose([r["score"] for r in found], [-s for s, _, _ in best[:4]])
