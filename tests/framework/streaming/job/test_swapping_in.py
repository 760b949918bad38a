"""What queries that have come leave is swapped in whole, wherever that is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.sinks import SWAP_JOURNAL
from skyband.framework.streaming.bucket.bucket_states import NewStates
from skyband.framework.streaming.job import generations
from skyband.framework.streaming.job.generations import GONE, settle, staged, swap_in
from skyband.framework.streaming.job.layout import JobFile, Layout, cache_key, token_key
from skyband.framework.streaming.rows.tokens import key_of
from skyband.framework.tables.delta.ownership import Owner
from tests.framework.streaming import checkpoints
from tests.framework.streaming.bucket.test_bucket import SPEC
from tests.framework.streaming.bucket.test_bucket_loyalty import plan_of

STEPS = 11
"""Fail points of a swap of this kind."""


class Killed(BaseException):
    """As a signal would."""


@pytest.fixture(autouse=True)
def own_tables() -> Iterator[None]:
    """The tables here are no real ones: whose a directory is, is tested in tests/framework/tables/delta/test_ownership.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Owner, "stranger", lambda *_: None)
        yield


NEW = NewStates(1, '{"0":["0123456789abcdef",0],"3":["0123456789abcdef",null]}')


def job_file(new: NewStates | None) -> JobFile:
    queries = {"old": {}} if new is None else {"old": {}, "new": {}}
    return JobFile("j", "g", {"queries": queries, "states": {"old": {}, "lost": {}}}, 2, None, new_states=new)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A job with a query and its skyband; beside it a query that has come, the skyband of both, and the states."""
    made, added = Layout(str(tmp_path / "out")), Layout(str(tmp_path / "out" / "_skyband" / "added"))
    for name in ("old", "old_changes", "old_skyband", "lost_skyband", "heads"):
        checkpoints.write(made.root / name / "_delta_log" / "0.json", "before")
    for name in ("new", "new_changes", "old_skyband", "heads"):
        checkpoints.write(added.root / name / "_delta_log" / "0.json", "added")
    made.save(job_file(None))
    checkpoints.write(made.rest, "{}")
    checkpoints.write(made.checkpoint / "metadata", "before")
    added.save(job_file(NEW))
    return made


TABLES, LEAVING = ["new", "new_changes", "old_skyband"], ["old_skyband", "lost_skyband"]


def assert_swapped(layout: Layout) -> None:
    said = {p.parent.parent.name: p.read_text() for p in layout.root.glob("*/_delta_log/0.json")}
    assert said == {
        "old": "before", "old_changes": "before", "heads": "before", "new": "added", "new_changes": "added", "old_skyband": "added",
    }  # fmt: skip
    assert layout.known().new_states == NEW
    assert not any(p.exists() for p in (layout.added, layout.home / GONE, layout.home / SWAP_JOURNAL, layout.rest))
    assert (layout.checkpoint / "metadata").read_text() == "before"


def killing(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    hits = 0

    def failpoint(name: str) -> None:
        nonlocal hits
        hits += 1
        if hits == at:
            raise Killed

    monkeypatch.setattr(generations, "failpoint", failpoint)
    yield
    monkeypatch.undo()


@pytest.mark.parametrize("at", range(1, STEPS + 2))
def test_a_swap_that_is_killed_is_completed_by_whoever_comes_next(layout: Layout, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    def swap() -> None:
        swap_in(layout, TABLES, LEAVING)

    def again() -> None:
        settle(layout)

    steps: list[tuple[Callable[[], None], int]] = [(swap, at), (again, 2)]
    ended = True
    for step, kill in steps:
        for _ in killing(monkeypatch, kill):
            try:
                step()
            except Killed:
                ended = False
    assert ended == (at > STEPS), "all steps are tried, and no more"
    settle(layout)
    assert_swapped(layout)


@pytest.mark.parametrize("name", ["rmtree", "unlink"])
def test_killed_while_it_tidies_up(layout: Layout, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False, **_: object) -> None:
        if name == "rmtree" or path.name == SWAP_JOURNAL:
            raise Killed
        unlink(path, missing_ok)

    monkeypatch.setattr(*((generations.shutil, name) if name == "rmtree" else (Path, name)), killed)
    with pytest.raises(Killed):
        swap_in(layout, TABLES, LEAVING)
    monkeypatch.undo()
    assert settle(layout)
    assert_swapped(layout)


def test_something_in_the_way_of_a_table_stops_it(layout: Layout) -> None:
    checkpoints.write(layout.root / "new" / "theirs.txt", "x")
    with pytest.raises(SkybandError, match="SKY-E202"):
        swap_in(layout, TABLES, LEAVING)
    assert layout.known().new_states is None and not (layout.home / SWAP_JOURNAL).exists()


def test_a_generation_has_the_same_codes_of_tokens_before_and_after_it_is_swapped_in(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 4}", small="{count: 2}", delay=0))
    layout, job = Layout(plan.sink), job_file(None)
    assert cache_key(Layout(staged(plan, layout).sink), job) == cache_key(layout, job)
    assert cache_key(layout, job) != cache_key(layout, replace(job, generation="h"))


def test_the_key_of_token_codes_is_kept_in_the_job_file(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 4}", small="{count: 2}", delay=0))
    layout, elsewhere = Layout(plan.sink), Layout(str(tmp_path / "elsewhere"))
    made = layout.create(plan, 2, None)
    assert token_key(elsewhere, made) == token_key(layout, made) == made.token_key == layout.known().token_key
    assert layout.create(plan, 2, None).token_key != made.token_key
    # A job file of before: the key made of the path, which the next run keeps.
    former = replace(made, token_key="")
    assert token_key(layout, former) == key_of(cache_key(layout, former)) != token_key(elsewhere, former)
    kept = layout.renewed(plan, former)
    assert token_key(elsewhere, kept) == token_key(layout, former)
