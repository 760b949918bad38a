"""Report errors of reading tables as an edited spec, if the spec differs from that of the last run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.layout import Layout, changed_since
from skyband.framework.tables.delta.expected_columns import OtherColumns


@contextmanager
def tables_of(plan: Plan) -> Iterator[None]:
    """Raise SKY-E150 for an unclear failure to read the tables of ``plan``'s sink inside the block, if the spec was edited.

    The tables then have other columns than the spec, and each library reports this in its own way.
    """
    try:
        yield
    except (SpecErrors, OSError, MemoryError):
        raise
    except Exception as e:
        if isinstance(e, SkybandError) and e.code != "SKY-E900" and not isinstance(e, OtherColumns):
            raise
        differences = _differences(plan)
        if not differences:
            raise
        more = f" (and {counted(len(differences) - 1, 'more difference')})" if len(differences) > 1 else ""
        hint = "ask with the spec of the last run; or run this one first: skyband plan SPEC says what that takes"
        raise SkybandError("SKY-E150", f"the tables are those of another spec: {differences[0]}{more}", hint=hint) from e


def _differences(plan: Plan) -> list[str]:
    try:
        return changed_since(plan, Layout(plan.sink))
    except SkybandError:
        return []
