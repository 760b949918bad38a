"""A job over lists: read from Parquet or a Delta table, or derived from texts of CSV."""

from __future__ import annotations

import math
import os
import random
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.jobs import START
from tests.specs import spec_text

SCHEMA: Final = pa.schema(
    {"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "words": pa.string(), "emb": pa.list_(pa.float32()), "tags": pa.list_(pa.string())}
)
TOKS: Final = "toks: {sql: \"split(words, ' ')\", type: array<string>}"
AGAIN: Final = "tags: {sql: \"split(csv, ';')\", type: array<string>}"


def rows(seed: int) -> list[dict[str, Any]]:
    """Rows with a vector, a list of texts and a text of words; some of another length, null, or with a null or NaN in them."""
    chosen, made = random.Random(seed), list[dict[str, Any]]()
    for i in range(80):
        emb: list[float | None] = [chosen.randrange(-3, 4) / 2 for _ in range(2 if chosen.random() < 0.1 else 3)]
        if chosen.random() < 0.1:
            emb[1] = chosen.choice([None, math.nan, math.inf])
        tags = None if chosen.random() < 0.1 else [chosen.choice(["a", "b", "c", "", "\u00e9", None]) for _ in range(chosen.randrange(4))]
        words = None if chosen.random() < 0.1 else " ".join(chosen.choice(["x", "y", "z", ""]) for _ in range(1 + chosen.randrange(4)))
        at = START + timedelta(minutes=100 * seed + i + chosen.randrange(20))
        made.append({"id": 100 * seed + i, "ts": at, "words": words, "emb": None if chosen.random() < 0.1 else emb, "tags": tags})
    return made


def write_spec(directory: Path, form: str) -> Path:
    (directory / "in").mkdir(parents=True)
    parquet = form != "csv"
    read = "emb: array<float>, tags: array<string>" if parquet else "csv: string"
    path = directory / "spec.yaml"
    path.write_text(
        spec_text(
            "lists", f"{{id: bigint, ts: timestamp, words: string, {read}}}",
            format=form, path=f"{directory}/in", event_time="{column: ts, watermark: 30 minutes}", sink=f"{{path: {directory}/out}}",
            transform=(f"derive: {{{TOKS}}}" if parquet else f"derive: {{{TOKS}, {AGAIN}}}",),
            tokens={"of_words": "{column: toks}", "of_tags": "{column: tags}"}, quality={"max_rejected": "100%"}, window="{count: 30}",
            **({"vectors": "{emb: 3}"} if parquet else {}),
            scoring={"alike": f'{{expression: "{"cosine(a.emb, b.emb)" if parquet else "abs(a.id - b.id)"}", direction: max}}'},
            queries={
                "pairs": "{type: topk_pairs, scoring: alike, k: 4}", "twins": "{type: topk_similar_sets, tokens: of_words, k: 4}",
                "tagged": "{type: topk_similar_sets, tokens: of_tags, k: 4}",
            }, run="{max_files: 1}",
        )
    )  # fmt: skip
    return path


def write_file(spec: Path, number: int, form: str) -> None:
    """Write file ``number`` of the job."""
    made, file = rows(number + 1), spec.parent / "in" / f"_{number}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(made, SCHEMA), file)
    else:
        lines = [(r["id"], r["ts"].isoformat(), r["words"] or "", ";".join(t or "" for t in r["tags"] or ())) for r in made]
        file.write_text("id,ts,words,csv\n" + "".join(",".join(map(str, line)) + "\n" for line in lines))
    os.utime(file, (1_600_000_000 + number, 1_600_000_000 + number))
    file.replace(spec.parent / "in" / f"{number}.{form}")
