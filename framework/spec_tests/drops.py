"""The rows of a test as the source would give them: drops, with restarts between."""

from __future__ import annotations

from typing import Any, NamedTuple

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rows import in_spark
from skyband.framework.spec.models.examples import RESTART, SpecTest
from skyband.framework.spec.parsing.cells import cell


class Drop(NamedTuple):
    """Rows by column; ``restart``: the job is started anew before they are taken."""

    rows: list[dict[str, Any]]
    restart: bool = False


def drops(plan: Plan, test: SpecTest) -> list[Drop]:
    """The drops of ``test``, with values as ``rehearsal.rows`` has them. SkybandError SKY-E530 for one that its column cannot hold."""
    fields = {f.name: f for f in plan.source.fields}
    made = [Drop([])]
    for given in test.rows:
        if isinstance(given, str):
            made.append(Drop([], given == RESTART))
            continue
        row = {}
        for name, value in given.items():
            try:
                row[name] = in_spark(cell(value, fields[name].kind), fields[name].type)
            except (ValueError, ArithmeticError) as e:
                raise SkybandError("SKY-E530", f"test {test.name!r}: column {name} {e}") from e
        made[-1].rows.append(row)
    return made
