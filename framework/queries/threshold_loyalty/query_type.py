"""Threshold loyalty: all objects that satisfied a criterion long enough within the window."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import Path as FilePath
from typing import Literal

from pydantic import ConfigDict, Field

from skyband.framework.base.units import Percent, PositiveDuration, format_duration
from skyband.framework.queries.loyalty_rows.loyalty_type import LoyaltyRows, LoyaltyType, time_of
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

# The entry of a spec: all objects that are loyal enough.


class ThresholdLoyalty(LoyaltyRows):
    """All objects that satisfied a criterion for at least so long within the window."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["at_least"]}, {"required": ["share"]}]})

    type: Literal["threshold_loyalty"]
    at_least: PositiveDuration | None = Field(default=None, description="How much of the window's time, such as 6 hours.")
    share: Percent | None = Field(default=None, description="What share of the window's time instead, such as 80%.")

    def least(self, window: int) -> int:
        """Return for how many microseconds of a ``window`` in microseconds an object must satisfy the criterion, rounded up."""
        if self.share is None:
            return self.at_least or 0
        # A percentage has 9 decimals at most: its shortest spelling is what the spec says.
        return ceil(Fraction(repr(self.share)) * window / 100)


class ThresholdLoyaltyType(LoyaltyType):
    """See ``protocol.QueryType``."""

    name = "threshold_loyalty"
    model = ThresholdLoyalty
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    shows_k = False

    def check(self, scope: Scope, path: Path, query: ThresholdLoyalty) -> None:
        """Check as ``LoyaltyType`` does, and the bound: one, which is more than nothing and not longer than the window."""
        super().check(scope, path, query)
        doc, at, time = scope.doc, (*path, "at_least"), time_of(scope, query)
        share = (*path, "share")
        if (query.at_least is None) == (query.share is None):
            if not doc.bad(path) and not doc.bad(at) and not doc.bad(share):
                where = doc.where_key(path) if query.share is None else doc.where_key(share)
                said = "how long an object must satisfy the criterion is exactly one of 'at_least' and 'share'"
                doc.add("SKY-E111", said, where, "such as at_least: 6 hours, or share: 80%")
            return
        if query.at_least is None:
            if query.share == 0 and not doc.bad(share):
                doc.add("SKY-E114", "'share' must be more than 0%", doc.where_value(share), "such as 80%")
            return
        known = not any(scope.doc.bad_below(p) for p in (at, (*path, "window"), ("window",)))
        if known and time is not None and query.at_least > time:
            message = f"'at_least' is longer than the window ({format_duration(time)}): nothing can be in the result"
            scope.doc.add("SKY-E114", message, scope.doc.where_value(at), f"at most {format_duration(time)}")


QUERY_TYPE = ThresholdLoyaltyType()
