"""``skyband test --record``: write the actual rows of tests into the spec as the expected ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import Validated, validate_text
from skyband.framework.spec.models.job import Job, SpecTest
from skyband.framework.spec_tests.loading import environment
from skyband.framework.spec_tests.spec_edits import CannotEdit, Edits
from skyband.framework.spec_tests.tables import Tables, columns_of, compare_tables, recorded_tables, row_text, tested_table
from skyband.framework.storage import durable


@dataclass(frozen=True, slots=True)
class RecordingResult:
    """The names of the tests ``recorded``. ``refused``: why the file was not changed; ``text``: what to insert by hand."""

    recorded: tuple[str, ...]
    refused: str | None = None
    text: str = ""


def record(path: str, found: Validated, plan: Plan, played: Sequence[tuple[int, SpecTest, Tables]]) -> RecordingResult:
    """Write unexpected rows of ``played``, (number, test, its tables), into the spec at ``path``; other text stays.

    Raises SkybandError SKY-E203 if the file cannot be written.
    """
    assert found.job is not None
    text = Path(path).read_bytes().decode("utf-8")
    assert found.document is not None
    # Tests in included files are not part of this text.
    edits = Edits(text, {at: place for at, place in found.document.places.items() if place.text is found.source})
    names, report = [], []
    refused: str | None = None
    for i, test, tables in played:
        rows = {name: _rows(plan, name, test, tables) for name in _tables_to_record(plan, test, tables)}
        if not rows:
            continue
        names.append(test.name)
        report += [f"{test.name}:", *(line for n, r in rows.items() for line in (f"  {n}:", *(f"    - {x}" for x in r)))]
        try:
            if test.expect:
                for name, lines in rows.items():
                    edits.expect(i, name, lines)
            else:
                edits.first(i, rows)
        except CannotEdit as e:
            refused = str(e)
    if not names:
        return RecordingResult(())
    made = edits.made()
    if refused is None:
        refused = _wrong(path, made, found.job, plan, played)
    if refused is not None:
        return RecordingResult((), refused, "\n".join(report))
    try:
        # Write the file itself, not a link to it, and keep its mode.
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode
        durable.replace(target, made)
        target.chmod(mode)
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be written: {e.strerror}") from e
    return RecordingResult(tuple(names))


def _tables_to_record(plan: Plan, test: SpecTest, tables: Tables) -> list[str]:
    """Return the tables whose expected rows change."""
    return [d.table for d in compare_tables(plan, test, tables)] if test.expect else recorded_tables(plan, tables)


def _rows(plan: Plan, name: str, test: SpecTest, tables: Tables) -> list[str]:
    table = tested_table(plan, name)
    columns = columns_of(table, test.expect.get(name, ()))
    return [row_text(row, columns) for row in table.rows(tables)]


def _wrong(path: str, made: str, job: Job, plan: Plan, played: Sequence[tuple[int, SpecTest, Tables]]) -> str | None:
    """Return why ``made`` is not the spec with exactly these expectations changed, or None if it is."""
    again, errors = validate_text(made, environment(), path)
    if again is None:
        return f"the spec would be invalid ({errors[0].message})"
    before, after = (j.model_dump(exclude={"tests"}) for j in (job, again))
    kept = [t.model_dump(exclude={"expect"}) for t in job.tests] == [t.model_dump(exclude={"expect"}) for t in again.tests]
    if before != after or not kept:
        return "other parts of it would change"
    return (
        "the rows would be read with other values" if any(compare_tables(plan, again.tests[i], tables) for i, _, tables in played) else None
    )
