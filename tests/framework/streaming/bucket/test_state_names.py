"""The names of states come back as numbers, and no other name is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.streaming.bucket.state_names import state_name, state_number, written_once

NUMBERS = st.integers(-(10**18), 10**18 - 1)


@given(NUMBERS)
def test_a_name_comes_back_as_its_number(number: int) -> None:
    assert state_number(state_name(number)) == number


@given(NUMBERS, NUMBERS)
def test_no_two_have_the_same_name(one: int, other: int) -> None:
    assert (state_name(one) == state_name(other)) == (one == other)


def test_buckets_are_named_by_their_number_and_shards_apart_from_them() -> None:
    assert [state_name(n) for n in (0, 7, 10, -1, -2, -11)] == ["0", "7", "10", "shard-0", "shard-1", "shard-10"]


HOSTILE = [
    "", " ", "-1", "+1", "1 ", "1.0", "1e3", "0x1", "1_000", "²", "١", "1111111111111111111", "shard-", "shard--1", "shard-+1",
    "shard- 1", "shard-1 ", "shard-1.0", "shard-²", "shard-١", "shard-1111111111111111111", "shard-shard-1", "Shard-1", "shard_1",
    "shard1", "1shard-", " shard-1", ".", "..", "../0", "shard-../0", "shard-/0", "0/..", "/0", "~", "0\n", "shard-1\n", "0\0",
    "shard-\0",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_other_names_are_none(name: str) -> None:
    assert state_number(name) is None


@given(st.one_of(st.text(max_size=12), st.text("shard-0123456789./ ", max_size=12)))
def test_a_name_that_is_a_number_leads_to_a_directory_of_that_name_alone(name: str) -> None:
    """Leading zeros apart, which ``bucket_states.parsed`` refuses."""
    number = state_number(name)
    if number is not None:
        assert state_name(number) in (name, name.removeprefix("shard-").lstrip("0") or "0", f"shard-{-1 - number}")
        assert not set("/.\\ ") & set(name)


@pytest.mark.parametrize(
    ("name", "once"),
    [
        ("chunk/3", True), ("seen/0", True), ("journal/12", True), ("stream/a/chunk/3", True), ("stream/chunk/core", False),
        ("core", False), ("keys", False), ("chunks", False), ("stream/a/keys", False), ("operator/chunk/1", False),
    ],
)  # fmt: skip
def test_values_that_are_written_once(name: str, once: bool) -> None:
    assert written_once(name) == once
