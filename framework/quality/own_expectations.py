"""Expectations of tables that other packages bring (entry points ``skyband.expectations``), beside those of Great Expectations.

A spec names one in ``quality.tables`` like any other; what it looks at, and what becomes of what it finds, is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from skyband.framework.base.plugins import Registry

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found: ``observed`` (anything JSON can spell), how many rows are ``unexpected``, and ``examples`` of them."""

    success: bool
    observed: Any = None
    unexpected: int | None = None
    examples: Sequence[Any] = ()


class OwnExpectation(Protocol):
    """One expectation. Its entry point's name begins with ``expect_``, and is none of Great Expectations'."""

    @property
    def arguments(self) -> Mapping[str, str]:
        """Name of an argument -> what it is, a key of ``expectations.KINDS``. None has to be given."""
        ...

    def look(self, rows: pa.Table, arguments: Mapping[str, Any]) -> Found:
        """Looks at the columns that the arguments name, of the rows that the check is about: all at once, at most ``frames.MOST`` values.

        What it raises is the check's ``error``, and the check has failed.
        """
        ...


def _none() -> Mapping[str, OwnExpectation]:
    return {}


OWN: Final = Registry[OwnExpectation]("skyband.expectations", "expectation", _none, needs=("arguments", "look"))
"""By name."""
