"""``skyband why`` over every query type: what it says of an item at an instant is what the table of results has."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from skyband.framework.verify.brute_force.query_rows import Reports, Results
from skyband.framework.verify.replay.replay import stream_of
from skyband.framework.verify.stored import Stored, key_of
from skyband.framework.why.history import SHOWN, Answers, definition, in_order, of_stay, stays
from skyband.framework.why.item import item_of
from tests.framework.verify import small
from tests.spark.kinds import KINDS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"keyed"}))
def test_verdicts_are_those_of_the_tables(tmp_path: Path, name: str) -> None:
    rows = KINDS[name].rows(3, 300 if name == "loyalty" else 150)
    plan = small.make(KINDS[name].write(tmp_path / "job", 100), rows)
    stored = Stored(plan)
    source = small._rows(plan, rows).select([f.name for f in plan.intake.fields])
    rng = random.Random(name)
    for query in plan.queries:
        stream = stream_of(stored, query)
        answers = Answers(plan, query, source, stored.table("rejected"), stored.until)
        results = Results(stored, query) if query.item.lasting else Reports(stream)
        inside = outside = 0
        for i in rng.sample(range(stream.rows.num_rows), min(25, stream.rows.num_rows)):
            of, key = stream.keys[i], key_of(plan, query, stream.keys[i])
            asked = None if not query.asked else next(a for a in query.asked if not query.members or a.name == of[0])
            near = [stream.at[j] for j in rng.choices(range(stream.rows.num_rows), k=2)]
            for at in (stream.at[i], *near):
                if query.every_micros:
                    at -= at % query.every_micros
                if at > answers.until[key]:
                    continue
                verdict = answers.verdict(key, list(stream.items[i]), at, asked)
                found = results.at(of, at)
                place = [item for item, _ in found].index(stream.items[i]) if stream.items[i] in [item for item, _ in found] else None
                assert verdict.inside == (place is not None), (verdict, query.name)
                inside, outside = inside + verdict.inside, outside + (not verdict.inside)
                if place is not None:
                    assert verdict.said.startswith(f"in the result, at rank {place + 1} of {len(found)}")
                elif "of the result rank before it" in verdict.said:
                    assert len(verdict.beside) == min(SHOWN, len(found))
        assert inside > 5, query.name
        assert outside or not query.item.lasting or query.name in ("limits", "low", "over"), query.name


@pytest.mark.parametrize("name", ["pairs", "loyalty", "sets"])
def test_the_whole_story_is_told_of_any_item(tmp_path: Path, name: str) -> None:
    rows = KINDS[name].rows(4, 300 if name == "loyalty" else 100)
    plan = small.make(KINDS[name].write(tmp_path / "job", 100), rows)
    stored = Stored(plan)
    source = small._rows(plan, rows).select([f.name for f in plan.intake.fields])
    for query in plan.queries:
        stream = stream_of(stored, query)
        if not stream.rows.num_rows:
            continue
        columns = plan.intake.id if query.item.parts[0].is_row else query.item.parts[0].columns
        prefix = query.item.parts[0].prefix
        row = stream.rows.slice(0, 1).to_pylist()[0]
        item = item_of(plan, query, [",".join(str(row[prefix + c]) for c in columns)])
        lines = list(in_order(m for s in stays(plan, stream, item) for m in of_stay(stream, s)))
        assert any("entered" in line or "reported" in line for line in lines)
        if query.item.lasting and not query.item.varies:
            assert sum("entered at rank" in line for line in lines) == sum("best rank" in line for line in lines)
        told = list(in_order(definition(Answers(plan, query, source, stored.table("rejected"), stored.until), item, None, None)))
        assert told and all(line.strip() for line in told)
