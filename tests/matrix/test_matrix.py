"""Whole jobs with every pair of options that go together, and random ones, hold what the definition says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.matrix.case import FACTORS, Case, random_case, read, shrunk
from tests.matrix.covering import pairs_of
from tests.matrix.definition import definition
from tests.matrix.drivers import _in_memory, compare
from tests.matrix.trials import STORED, TABLE, another, cases_of, check, combined, covering
from tests.seeds import cases, seeds
from tests.specs import plan_of_text


def test_every_pair_of_options_is_in_a_job() -> None:
    """Few jobs have all pairs: as many as the two factors with the most options have pairs, and some."""
    tried = {pair for options in combined() for pair in pairs_of(options)}
    assert tried == covering().possible
    assert len(tried) > 1800 and len(covering().excluded) < len(tried) / 20
    assert len(combined()) < 1.5 * len(FACTORS["type"]) * len(FACTORS["source"])


@pytest.mark.parametrize("source", FACTORS["source"])
def test_jobs_with_every_pair_of_options_are_as_defined(source: str) -> None:
    made = list(cases_of(source))
    for case in made[: cases(len(made))]:
        check(case)


@pytest.mark.parametrize("part", range(4))
def test_random_jobs_are_as_defined(part: int) -> None:
    for seed in seeds(1000 * part, 1000 * part + 30):
        check(another(seed))


@pytest.mark.parametrize("path", sorted(STORED.glob("*.json")), ids=lambda path: path.stem)
def test_stored_jobs_are_as_defined(path: Any) -> None:
    check(read(path))


def test_jobs_have_changes_of_every_kind() -> None:
    """What is compared is much: every type changes often, for every cause, and rows are rejected for every reason."""
    changes, causes, rejected, filtered = Counter[str](), Counter[str](), Counter[str](), 0
    for number, options in enumerate(combined()):
        case = random_case(options, number)
        expected = definition(case)
        rejected.update(expected.rejected)
        filtered += expected.filtered
        for query in case.queries:
            rows = expected.changes[query.name]
            changes[query.type] += len(rows)
            causes.update(f"{query.type} {row[5]}" for row in rows)
    assert min(changes[t] for t in FACTORS["type"]) > 25, changes
    assert min(rejected[r] for r in ("duplicate_id", "no_target", "late", "null_id", "null_key", "bad_op", "rule:small_x")) > 5, rejected
    assert rejected["null_object:side"] > 5 and filtered > 5
    for cause in ("arrival", "promoted", "expiry", "delete", "displaced", "boundary"):
        assert {t for t in FACTORS["type"] if causes[f"{t} {cause}"]} >= {"topk", "skyline", "topk_pairs", "topk_groups"}, cause
    assert causes["topk_loyalty crossing"] > 20


ALTERED: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "a change is lost": lambda rows: rows.pop(),
    "a change is there twice": lambda rows: rows.append(rows[0]),
    "a cause differs": lambda rows: rows[0].update(cause="promoted" if rows[0]["cause"] != "promoted" else "arrival"),
    "a score differs": lambda rows: rows[0].update(score=rows[0]["score"] + 1),
    "an item differs": lambda rows: rows[0].update(seq=rows[0]["seq"] + 1),
    "a position differs": lambda rows: rows[-1].update(pos=rows[-1]["pos"] + 1),
}


@pytest.mark.parametrize("altered", ALTERED)
def test_what_is_altered_is_seen(altered: str) -> None:
    case = _of_type("topk")
    plan = plan_of_text(case.spec("d"))
    tables = dict(_in_memory(case, plan))
    expected = definition(case)
    assert compare(case, tables, expected) == []
    rows = tables["main_changes"].to_pylist()
    ALTERED[altered](rows)
    tables["main_changes"] = pa.Table.from_pylist(rows, tables["main_changes"].schema)
    assert [d for d in compare(case, tables, expected) if d.startswith("main_changes")]


def _of_type(kind: str) -> Case:
    made = (another(seed) for seed in range(1000))
    return next(c for c in made if c.options["type"] == kind and len(c.rows) > 20 and len(definition(c).changes["main"]) > 10)


def test_a_case_that_differs_is_made_small_and_can_be_stored(tmp_path: Any) -> None:
    case = _of_type("topk_pairs")
    small = shrunk(case, lambda made: any(r["x"] == 3.0 for r in made.rows) and any(q.name == "main" for q in made.queries))
    assert len(small.rows) == 1 and [q.name for q in small.queries] == ["main"]
    (tmp_path / "case.json").write_text(small.text(), encoding="utf-8")
    assert read(tmp_path / "case.json") == small
    check(small)
    with pytest.raises(AssertionError, match=r"python -m tests\.matrix case"):
        check(replace(small, window={"count": 0}), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_the_table_of_pairs_names_all_options() -> None:
    """`python -m tests.matrix table` writes it after a run of all jobs; here only that no factor has come since."""
    text = TABLE.read_text(encoding="utf-8")
    assert all(f"| {f} |" in text for f in FACTORS), "python -m tests.matrix table"
    assert "never tried: 0." in text
