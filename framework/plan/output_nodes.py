"""The parts of a plan about what becomes of results: checks of tables, rules over runs, Kafka topics, alerts."""

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
    """Topics for changes: (query, topic). ``options`` are brokers and login (``kafka_client``): never print their values."""

    topics: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class AlertNode:
    """Messages to ``channel`` about changes of the results of ``queries``, or about values that pass ``above`` or ``below``.

    ``when``: any of ``enter``, ``leave`` and ``value``. ``message``: a template; None: the default one of each query. ``batch``: the most
    messages of a request. ``every_micros``: the least time between two requests. ``at_most``: messages a minute. ``history``: whether the
    first run of the job also sends changes from before its start.
    """

    name: str
    channel: str
    queries: tuple[str, ...]
    when: tuple[str, ...]
    above: float | None
    below: float | None
    message: str | None
    batch: int
    every_micros: int
    at_most: int
    history: bool = False
