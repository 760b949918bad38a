"""Run benchmarks: ``python -m bench [name ...]``, or ``make bench`` and ``make bench only=topk_pairs``.

A benchmark is a module of this directory with a function ``run()`` that yields or returns measurements, each a flat-ish dictionary::

    {"operator": str, "params": {...}, "cpu_ns_per_event": float, "wall_ns_per_event": float, "peers": {name: cpu_ns_per_event}}

and further fields (``ms``: parts of a time; ``says``: texts by name, in a row without figures). Each measurement becomes a line of
``build/bench/<name>.jsonl`` at once, with the processor and its instruction set as ``machine``, and a row of the printed table:
all fields, or those that the module names in ``COLUMNS``.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine, title

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "build" / "bench"


def benchmarks() -> list[str]:
    """Return the names of the modules of this directory that define ``run()``."""
    return sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_") and "\ndef run(" in p.read_text(encoding="utf-8"))


def cell(value: object) -> str:
    """Format a value for the table."""
    if isinstance(value, Mapping):
        return " ".join(f"{k}={cell(v)}" for k, v in value.items()) or "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def parts(rows: list[dict[str, Any]]) -> str:
    """Format the parts of rows, a line each: milliseconds by name (``ms``), or texts by name (``says``)."""
    lines = []
    for row in rows:
        if "ms" in row:
            lines.append(f"\nmilliseconds, {row['operator']} {cell(row['params'])}")
            lines += [f"  {name:<16}{ms:>10,.1f}" for name, ms in row["ms"].items()]
        if "says" in row:
            lines.append(f"\n{cell(row['params'])}")
            lines += [f"  {name:<16}{text}" for name, text in row["says"].items()]
    return "\n".join(lines)


def table(rows: list[dict[str, Any]], columns: Sequence[str] = ()) -> str:
    """Format rows under the names of their fields (of ``columns``, if there are any), numbers to the right."""
    rows = [row for row in rows if "says" not in row]
    names = list(columns) or list(dict.fromkeys(name for row in rows for name in row if name != "ms"))
    cells = [[cell(row[n]) if n in row else "" for n in names] for row in rows]
    right = [all(isinstance(row.get(n, 0), int | float) for row in rows) for n in names]
    width = [max(len(n), *(len(c[i]) for c in cells)) for i, n in enumerate(names)]
    lines = [names, ["-" * w for w in width], *cells]
    return "\n".join(
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, width, right, strict=True)).rstrip() for line in lines
    )


def columns(name: str) -> Sequence[str]:
    """Return the fields of a benchmark that are printed; none: all of them."""
    chosen: Sequence[str] = getattr(importlib.import_module(f"bench.{name}"), "COLUMNS", ())
    return chosen


def run(name: str) -> list[dict[str, Any]]:
    """Run one benchmark, writing each measurement to its file at once."""
    OUT.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with (OUT / f"{name}.jsonl").open("w", encoding="utf-8") as out:
        for row in importlib.import_module(f"bench.{name}").run():
            rows.append(dict(row))
            out.write(json.dumps({**row, "machine": machine()}, allow_nan=False) + "\n")
            out.flush()
    return rows


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all. Return 2 if a name is unknown."""
    known = benchmarks()
    names = [n for name in names for n in name.split(",") if n] or known
    unknown = [n for n in names if n not in known]
    if unknown:
        print(f"unknown benchmark: {', '.join(unknown)}; choose from {', '.join(known) or 'none'}", file=sys.stderr)
        return 2
    for name in names:
        start = time.perf_counter()
        rows = run(name)
        print(f"\n{name}  ({time.perf_counter() - start:.0f} s, build/bench/{name}.jsonl)", title(), sep="\n")
        if rows:
            print(table(rows, columns(name)), parts(rows), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
