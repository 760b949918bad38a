"""The frozen parts of a plan: sources, look-ups, tokens, statistics, and what becomes of results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from skyband.operators.base import TOKENS, Kind, Window


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


# Nodes of a plan about several sources that are read as one stream.


@dataclass(frozen=True, slots=True)
class SourceClock:
    """How the source ``name`` moves the common watermark.

    ``delay_micros``: how long to wait for its rows that are out of order. ``idle_micros``: how far, in event time, it may hold the other
    sources back; None: for ever.
    """

    name: str
    delay_micros: int
    idle_micros: int | None

    @property
    def delay_ms(self) -> int:
        """Return the delay in whole milliseconds, rounded up."""
        return -(-self.delay_micros // 1000)


# The nodes of look-ups in a plan: how rows of the source are joined with a static table.


@dataclass(frozen=True, slots=True)
class LookupNode:
    """The join of the source's rows with the table ``name``.

    ``on``: (column of the row, column of the table); ``take``: (new column of the row, column of the table). ``valid``: the columns of the
    table from which and up to which its rows are valid at the row's event time; None: always. ``missing``: what becomes of a row without a
    match.
    """

    name: str
    on: tuple[tuple[str, str], ...]
    take: tuple[tuple[str, str], ...]
    valid: tuple[str, str] | None = None
    missing: Literal["null", "reject"] = "null"

    @property
    def taken(self) -> tuple[str, ...]:
        """Return the columns that rows take."""
        return tuple(new for new, _ in self.take)


# Statistics in a plan: what each accepted row gets of the rows before it, as further columns of type double.

STATISTIC_TYPE: Final = "double"


@dataclass(frozen=True, slots=True)
class StatisticsNode:
    """The statistics called ``name``: ``functions``, each of a column, over the rows before a row that are in ``window`` when it arrives.

    Only rows of the same key and with the same values in the columns ``by`` count. All but counts are null before ``at_least`` values that
    are not null.
    """

    name: str
    functions: tuple[tuple[str, str], ...]
    by: tuple[str, ...]
    window: Window
    at_least: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that hold the statistics, in the order of ``functions``."""
        return tuple(f"{self.name}_{function}" for function, _ in self.functions)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns of rows that they are made of, each once."""
        return tuple(dict.fromkeys([*self.by, *(column for _, column in self.functions)]))


def statistic_columns(nodes: Iterable[StatisticsNode]) -> tuple[str, ...]:
    """Return the columns of all statistics, in order."""
    return tuple(c for node in nodes for c in node.columns)


def statistic_kinds(nodes: Iterable[StatisticsNode]) -> dict[str, Kind]:
    """Return what expressions may read: each column, and each statistic as ``name.function``."""
    found: dict[str, Kind] = {}
    for node in nodes:
        for (function, _), column in zip(node.functions, node.columns, strict=True):
            found |= {column: "float", f"{node.name}.{function}": "float"}
    return found


# The part of a plan about sets of tokens.


@dataclass(frozen=True, slots=True)
class TokenNode:
    """Sets of tokens called ``name``: of each row the distinct tokens of ``column``, as codes.

    A list's elements; a text split at ``separator``, or what ``words`` (RE2) finds in it, lower-cased first if ``lower``. ``stop_words`` do
    not count; ``ngrams`` neighbours together are one token. A row with more than ``most`` is rejected; one with fewer than ``least`` has an
    empty set, or is rejected too (``short``).

    ``normalize`` and ``short`` are None in a job of a former version (``plan.former``), which knew neither: text stays as it is, short rows
    are rejected. ``given`` names those of ``words``, ``normalize`` and ``short`` that the spec sets.
    """

    name: str
    column: str
    separator: str | None
    words: str | None
    lower: bool
    stop_words: tuple[str, ...]
    ngrams: int
    least: int
    most: int
    normalize: Literal["nfc", "none"] | None = "nfc"
    short: Literal["skip", "reject"] | None = "skip"
    given: tuple[str, ...] = ()

    @property
    def composes(self) -> bool:
        """Return True if text is converted to Unicode's composed form (NFC) first."""
        return self.normalize == "nfc"

    @property
    def skips_short(self) -> bool:
        """Return True if a row with fewer than ``least`` tokens is accepted, with an empty set."""
        return self.short == "skip"

    @property
    def codes(self) -> str:
        """Return the name of the column with the codes."""
        return TOKENS + self.name
