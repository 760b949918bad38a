"""The format ``rate``: generated rows for load tests. The n-th row is a function of n and the options, so it can be generated again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.protocol import Mistake, Section, SourceFormat
from skyband.framework.sources.rate.rows import instant, taken
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULTS: Final[Mapping[str, str]] = {"rows": "10000", "keys": "100", "seed": "0", "start": "2020-01-01T00:00:00Z"}
"""Options and their defaults; ``per_second`` defaults to ``rows``."""
META: Final[Mapping[str, tuple[str, ...]]] = {"$n": ("bigint",), "$time": ("timestamp",), "$key": ("int", "bigint", "string")}
"""Generated columns that ``from`` may name -> their allowed types."""
TYPES: Final = ("double", "float", "int", "bigint", "boolean", "string")
"""Types of other columns, whose values are drawn by their names."""
_NUMBERS: Final = {"rows": 100_000_000, "per_second": 1_000_000, "keys": 1_000_000_000, "seed": 2**31 - 1}
"""Option -> its largest value."""


@dataclass(frozen=True, slots=True)
class RateFormat(SourceFormat):
    """Generates ``rows`` rows per batch, whatever the clock says: there is no backlog."""

    jars: tuple[str, ...] = ()

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``."""
        if section.path is not None:
            yield Mistake("SKY-E119", "rows that are made up have no path", ("path",), of_name=True)
        names = [*DEFAULTS, "per_second"]
        for name, value in section.options.items():
            at = ("options", name)
            if name not in names:
                hint = did_you_mean(name, names) or f"options of rate: {one_of(names, 40)}"
                yield Mistake("SKY-E119", f"format rate does not take the option '{name[:64]}'", at, hint, of_name=True)
            elif name == "start" and instant(value) is None:
                yield Mistake("SKY-E114", "'start' takes an instant from 1970 to 2100, in UTC", at, "such as 2020-01-01T00:00:00Z")
            elif name in _NUMBERS and not (re.fullmatch(r"\d{1,10}", value) and int(name != "seed") <= int(value) <= _NUMBERS[name]):
                yield Mistake("SKY-E114", f"'{name}' takes a whole number from {int(name != 'seed')} to {_NUMBERS[name]:,}", at)
        for column, (source_name, type_) in section.columns.items():
            if source_name.startswith("$") and source_name not in META:
                hint = did_you_mean(source_name, META) or one_of(list(META))
                yield Mistake("SKY-E114", f"'{source_name}' is nothing that is made up", ("schema", column, "from"), hint)
            elif type_ not in (allowed := META.get(source_name, TYPES)):
                yield Mistake("SKY-E114", f"{source_name} cannot be made up as {type_}", ("schema", column), f"allowed: {one_of(allowed)}")

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """See ``SourceFormat.options``."""
        given = {**DEFAULTS, **options}
        return {"per_second": str(min(int(given["rows"]), _NUMBERS["per_second"])), **given}

    def stream(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        caps: WatermarkCaps | None = None,
    ) -> DataFrame:
        """See ``SourceFormat.stream``."""
        from skyband.framework.sources.rate import spark_reader

        return spark_reader.stream(spark, source)

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Location) -> DataFrame:
        """See ``SourceFormat.again``."""
        from skyband.framework.sources.rate import spark_reader

        return spark_reader.first(spark, source, taken(checkpoint))

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        """See ``SourceFormat.failure``."""
        return None
