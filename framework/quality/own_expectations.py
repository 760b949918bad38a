"""Expectations of tables from other packages (entry points ``skyband.expectations``), in addition to those of Great Expectations.

A spec names one in ``quality.tables`` like any other. It gets the same rows, and its outcome is handled in the same way.
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
    """The result of an expectation: ``observed`` (any JSON value), the number of ``unexpected`` rows, and ``examples`` of them."""

    success: bool
    observed: Any = None
    unexpected: int | None = None
    examples: Sequence[Any] = ()


class OwnExpectation(Protocol):
    """One expectation. The name of its entry point begins with ``expect_`` and is not one of Great Expectations's."""

    @property
    def arguments(self) -> Mapping[str, str]:
        """Name of an argument -> its kind, a key of ``expectations.KINDS``. All are optional."""
        ...

    def look(self, rows: pa.Table, arguments: Mapping[str, Any]) -> Found:
        """Evaluate ``rows``: the rows that the check is about, with the columns that the arguments name, at most ``frames.MOST`` values.

        An exception becomes the ``error`` of the check, which then has failed.
        """
        ...


def _none() -> Mapping[str, OwnExpectation]:
    return {}


OWN: Final = Registry[OwnExpectation]("skyband.expectations", "expectation", _none, needs=("arguments", "look"))
"""By name."""
