"""``skyband test --record``: what tests give becomes what they expect."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import Validated, validate_text
from skyband.framework.spec.models.examples import SpecTest
from skyband.framework.spec.models.job import Job
from skyband.framework.spec_tests.expected import columns_of, compared, row_text
from skyband.framework.spec_tests.loading import environment
from skyband.framework.spec_tests.recorded import CannotEdit, Edits
from skyband.framework.spec_tests.tables import Tables, looked_at, recorded_tables
from skyband.framework.storage import durable


@dataclass(frozen=True, slots=True)
class Outcome:
    """The names of the tests ``recorded``; ``refused``: why the file was left alone, and ``text`` what would have to be put into it."""

    recorded: tuple[str, ...]
    refused: str | None = None
    text: str = ""


def record(path: str, found: Validated, plan: Plan, played: Sequence[tuple[int, SpecTest, Tables]]) -> Outcome:
    """Writes, of (number, test, its tables), what is not as expected into the spec at ``path``; nothing else of its text changes.

    SkybandError SKY-E203 if the file cannot be written.
    """
    assert found.job is not None
    text = Path(path).read_bytes().decode("utf-8")
    assert found.document is not None
    # What stands in files that it includes is not in this text.
    edits = Edits(text, {at: place for at, place in found.document.places.items() if place.text is found.source})
    names, told = [], []
    refused: str | None = None
    for i, test, tables in played:
        rows = {name: _rows(plan, name, test, tables) for name in _wanted(plan, test, tables)}
        if not rows:
            continue
        names.append(test.name)
        told += [f"{test.name}:", *(line for n, r in rows.items() for line in (f"  {n}:", *(f"    - {x}" for x in r)))]
        try:
            if test.expect:
                for name, lines in rows.items():
                    edits.expect(i, name, lines)
            else:
                edits.first(i, rows)
        except CannotEdit as e:
            refused = str(e)
    if not names:
        return Outcome(())
    made = edits.made()
    if refused is None:
        refused = _wrong(path, made, found.job, plan, played)
    if refused is not None:
        return Outcome((), refused, "\n".join(told))
    try:
        # The file itself, not a link to it; with the rights that it has.
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode
        durable.replace(target, made)
        target.chmod(mode)
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be written: {e.strerror}") from e
    return Outcome(tuple(names))


def _wanted(plan: Plan, test: SpecTest, tables: Tables) -> list[str]:
    """The tables of which other rows are to be expected."""
    return [d.table for d in compared(plan, test, tables)] if test.expect else recorded_tables(plan, tables)


def _rows(plan: Plan, name: str, test: SpecTest, tables: Tables) -> list[str]:
    looked = looked_at(plan, name)
    columns = columns_of(looked, test.expect.get(name, ()))
    return [row_text(row, columns) for row in looked.rows(tables)]


def _wrong(path: str, made: str, job: Job, plan: Plan, played: Sequence[tuple[int, SpecTest, Tables]]) -> str | None:
    """Why ``made`` is not the spec with these expectations and nothing else changed; None if it is."""
    again, errors = validate_text(made, environment(), path)
    if again is None:
        return f"it would not be a good spec any more ({errors[0].message})"
    before, after = (j.model_dump(exclude={"tests"}) for j in (job, again))
    kept = [t.model_dump(exclude={"expect"}) for t in job.tests] == [t.model_dump(exclude={"expect"}) for t in again.tests]
    if before != after or not kept:
        return "other parts of it would change"
    return "the rows would not be read as they are" if any(compared(plan, again.tests[i], tables) for i, _, tables in played) else None
