"""The parts of a plan about what becomes of results: checks of tables, rules over runs, Kafka topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    """A Great Expectations expectation on one of the job's tables; ``arguments`` is canonical JSON.

    ``scope``: whether it looks at the whole table, or at the rows that batches have added since the last look.
    """

    table: str
    expectation: str
    arguments: str
    severity: Literal["critical", "warning", "info"]
    scope: Literal["new", "whole"] = "whole"


@dataclass(frozen=True, slots=True)
class RunRule:
    """A rule over a run's batches: ``max_delay_micros``, or at least ``min_rows`` rows in the last ``per_micros``."""

    severity: Literal["critical", "warning"]
    max_delay_micros: int | None = None
    min_rows: int | None = None
    per_micros: int | None = None


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """Topics for changes: (query, topic). ``options`` are brokers and login (``kafka_client``): never print their values; ``shown``:
    whether the topics' names may be shown: nothing of them came from the environment."""

    topics: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...] = field(repr=False)
    shown: bool = True
