"""What each way says and cannot say, whatever its speed. ``tests/test_alternatives.py`` shows what can be shown."""

from __future__ import annotations

_ANEW = {
    "every change": "no: one answer a batch, and what comes and goes within one is in none",
    "order": "no: the changes it shows depend on how rows fall into batches",
    "late rows": "count from then on; the answers they belonged into stay as they are, and nothing tells",
    "pairs": "yes, if someone has seen that the k best of each older row are enough; else the window with itself, every batch",
    "skyline": "yes, by comparing all with all that no newer row beats",
}
SAYS = {
    "Skyband": {
        "every change": "yes, of every single event, with its cause",
        "order": "yes: byte for byte the same however rows come",
        "late rows": "in table rejected, with the reason, one by one",
        "restart": "goes on where it was, nothing lost or told twice",
        "pairs": "yes",
        "skyline": "yes",
    },
    "Spark SQL": _ANEW | {"restart": "goes on, as each batch writes its tables once; readers may see those of a batch one after the other"},
    "DuckDB, Polars": _ANEW | {"restart": "the window is gone: read the last hour again, or keep it in a file"},
    "Flink SQL": {
        "every change": "no: one answer a hop (ROW_NUMBER without a window tells every change, of all rows there ever were)",
        "order": "by hops, in milliseconds",
        "late rows": "count in hops that are still open; those that have ended stay as they are, and a metric counts the rows dropped",
        "restart": "goes on from a checkpoint",
        "pairs": "yes, each window joined with itself anew at every hop",
        "skyline": "yes, by a window's anti join with itself, anew at every hop",
    },
}
"""Way -> what is asked of it -> answer."""
