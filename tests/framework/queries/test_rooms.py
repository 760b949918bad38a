"""Query types keep to their rooms: nothing outside names one, and a module of another package's brings one of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.load import validate_text
from skyband.jobs.plugin_template.package.query_type import FREQUENT
from skyband.operators.contract import check_operator

ROOT = Path(__file__).resolve().parents[3]


def test_no_type_is_named_outside_its_rooms() -> None:
    names = sorted(QUERY_TYPES.all(), key=len, reverse=True)
    named = re.compile(r"(?<![\w])(" + "|".join(names) + r")(?![\w])")
    rooms = {ROOT / floor / name for floor in ("framework/queries", "operators") for name in names}
    rooms.add(ROOT / "jobs" / "plugin_template" / "tests")  # the spec of a plugin's own tests
    found = []
    for path in (p for part in ("framework", "jobs", "operators", "skyband") for p in sorted((ROOT / part).rglob("*.py"))):
        if rooms.isdisjoint(path.parents):
            lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            found += [f"{path.relative_to(ROOT)}:{n}: {line.strip()}" for n, line in lines if named.search(line)]
    assert found == []


def test_a_room_names_no_other_type() -> None:
    names = set(QUERY_TYPES.all())
    for name in names:
        others = re.compile(r"skyband\.(framework\.queries|operators)\.(" + "|".join(names - {name}) + r")\b")
        for room in (ROOT / "framework" / "queries" / name, ROOT / "operators" / name):
            for path in sorted(room.rglob("*.py")):
                assert not others.search(path.read_text(encoding="utf-8")), path


@pytest.mark.long
@pytest.mark.parametrize("name", [FREQUENT.name, *(pytest.param(n, marks=pytest.mark.slow) for n in QUERY_TYPES.all())])
def test_the_operators_of_a_types_example_keep_the_contract(name: str) -> None:
    """All operators are in every run of the tests by tests/operators/test_contract.py."""
    kind = QUERY_TYPES.get(name)
    if kind is None:
        with QUERY_TYPES.added(FREQUENT.name, FREQUENT):
            job, errors = validate_text(FREQUENT.example, {})
            assert errors == [] and job is not None
            plan = compile_job(job)
    else:
        job, errors = validate_text(kind.example, {})
        assert errors == [] and job is not None
        plan = compile_job(job)
    for node in plan.operators:
        assert sum(check_operator(node.operator, seed) for seed in range(3)) > 0, node.name
