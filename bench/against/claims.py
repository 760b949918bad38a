"""What each system can and cannot report, at any speed. ``tests/test_alternatives.py`` tests what can be tested."""

from __future__ import annotations

_BATCHES = {
    "every change": "no: one answer per batch; what comes and goes within a batch is missed",
    "order": "no: the changes depend on how rows fall into batches",
    "late rows": "count from then on; earlier answers stay wrong, without a message",
    "pairs": "yes, if you know that the k best pairs of each older row suffice; else the window joined with itself, every batch",
    "skyline": "yes, by comparing all rows with all rows that no newer one dominates",
}
SAYS = {
    "Skyband": {
        "every change": "yes, of every event, with its cause",
        "order": "yes: byte for byte the same however rows arrive",
        "late rows": "each in table rejected, with the reason",
        "restart": "continues; nothing is lost or written twice",
        "pairs": "yes",
        "skyline": "yes",
    },
    "Spark SQL": _BATCHES | {"restart": "continues; each batch writes its tables once, and readers may see them one after the other"},
    "DuckDB, Polars": _BATCHES | {"restart": "the window is lost: read the last hour again, or keep it in a file"},
    "Flink SQL": {
        "every change": "no: one answer per hop (ROW_NUMBER without a window reports every change, over all rows ever)",
        "order": "by hops, in milliseconds",
        "late rows": "count in hops that are still open; a metric counts the others, which are dropped",
        "restart": "continues from a checkpoint",
        "pairs": "yes, each window joined with itself again at every hop",
        "skyline": "yes, by an anti join of the window with itself, again at every hop",
    },
}
"""System -> topic -> answer."""
