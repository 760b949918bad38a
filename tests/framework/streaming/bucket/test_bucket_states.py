"""Column `state` of `runs`: the states of buckets come back as they were written, and other texts are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import RUNS
from skyband.framework.streaming.bucket.bucket_states import NO_STATES, BucketState, last_states, message, parsed, states_of, text_of
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from tests.specs import plan_of_text, spec_text

TOKEN, OTHER = "0123456789abcdef", "fedcba9876543210"
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
STATES = st.dictionaries(
    st.integers(-100_000, 100_000),
    st.builds(BucketState, st.text("0123456789abcdef", min_size=16, max_size=16), st.none() | INT64),
    max_size=6,
)


@given(STATES)
def test_states_come_back_as_they_were(states: dict[int, BucketState]) -> None:
    text = text_of(states)
    assert parsed(text) == parsed(text.encode()) == states
    assert states_of({"batch_id": 4, "state": text}) == states
    assert all(isinstance(state, BucketState) for state in parsed(text).values())
    # The same states have the same text, in whichever order buckets ran.
    assert text_of(dict(reversed(states.items()))) == text


def test_the_text_is_compact_and_in_the_order_of_buckets() -> None:
    states = {10: BucketState(TOKEN, None), 2: BucketState(OTHER, 1_600_000_000_001)}
    assert text_of(states) == f'{{"2":["{OTHER}",1600000000001],"10":["{TOKEN}",null]}}'
    # Shards come before buckets, the last first, under names that no bucket has.
    shards = {-1: BucketState(TOKEN, None), 0: BucketState(OTHER, None), -11: BucketState(OTHER, 3)}
    assert text_of(shards) == f'{{"shard-10":["{OTHER}",3],"shard-0":["{TOKEN}",null],"0":["{OTHER}",null]}}'
    assert text_of(NO_STATES) == "{}"
    assert message(7, BucketState(TOKEN, -1)) == f'{{"7":["{TOKEN}",-1]}}'.encode()
    assert parsed(message(7, BucketState(TOKEN, -1))) == {7: BucketState(TOKEN, -1)}


def test_no_text_says_that_spark_keeps_the_state() -> None:
    assert states_of({"batch_id": 0, "state": None}) is None
    # A table of before the column was there.
    assert states_of({"batch_id": 0}) is None
    assert states_of({"batch_id": 0, "state": "{}"}) == {}


HOSTILE = {
    "empty": "",
    "blank": " ",
    "cut": f'{{"0":["{TOKEN}",1]',
    "more": f'{{"0":["{TOKEN}",1]}} x',
    "a list": f'["0","{TOKEN}"]',
    "null": "null",
    "a number": "1",
    "a text": '"0"',
    "a negative bucket": f'{{"-1":["{TOKEN}",1]}}',
    "a bucket with a sign": f'{{"+1":["{TOKEN}",1]}}',
    "a bucket with a point": f'{{"1.0":["{TOKEN}",1]}}',
    "a bucket without a name": f'{{"":["{TOKEN}",1]}}',
    "a bucket of other digits": f'{{"١":["{TOKEN}",1]}}',
    "a superscript": f'{{"²":["{TOKEN}",1]}}',
    "a long bucket": f'{{"{"1" * 19}":["{TOKEN}",1]}}',
    "a negative shard": f'{{"shard--1":["{TOKEN}",1]}}',
    "a shard without a number": f'{{"shard-":["{TOKEN}",1]}}',
    "a shard of a shard": f'{{"shard-shard-0":["{TOKEN}",1]}}',
    "a shard with a leading zero": f'{{"shard-01":["{TOKEN}",1]}}',
    "a shard of other digits": f'{{"shard-١":["{TOKEN}",1]}}',
    "a long shard": f'{{"shard-{"1" * 19}":["{TOKEN}",1]}}',
    "a path of a shard": f'{{"shard-/../0":["{TOKEN}",1]}}',
    "a bucket before a shard": f'{{"0":["{TOKEN}",1],"shard-0":["{TOKEN}",1]}}',
    "a path": f'{{"../../x":["{TOKEN}",1]}}',
    "a token alone": f'{{"0":"{TOKEN}"}}',
    "two characters": '{"0":"ab"}',
    "one part": f'{{"0":["{TOKEN}"]}}',
    "three parts": f'{{"0":["{TOKEN}",1,2]}}',
    "an object": f'{{"0":{{"token":"{TOKEN}","wakes":1}}}}',
    "a null token": '{"0":[null,1]}',
    "a number as token": '{"0":[1234567890123456,1]}',
    "a list as token": f'{{"0":[["{TOKEN}"],1]}}',
    "true": f'{{"0":["{TOKEN}",true]}}',
    "a fraction": f'{{"0":["{TOKEN}",1.5]}}',
    "a whole fraction": f'{{"0":["{TOKEN}",1.0]}}',
    "not a number": f'{{"0":["{TOKEN}",NaN]}}',
    "infinity": f'{{"0":["{TOKEN}",Infinity]}}',
    "a wake-up as text": f'{{"0":["{TOKEN}","1"]}}',
    "too large": f'{{"0":["{TOKEN}",{1 << 63}]}}',
    "too small": f'{{"0":["{TOKEN}",{-(1 << 63) - 1}]}}',
    "of many digits": f'{{"0":["{TOKEN}",{"9" * 5_000}]}}',
    "deep": f'{{"0":{"[" * 100_000}',
    "only the last is wrong": f'{{"0":["{TOKEN}",1],"1":["{TOKEN}"]}}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_other_texts_are_refused(text: str) -> None:
    for spelled in (text, text.encode()):
        with pytest.raises(ValueError):
            parsed(spelled)
    with pytest.raises(SkybandError, match="table runs has states of batch 12 that Skyband has not written") as e:
        states_of({"batch_id": 12, "state": text})
    assert e.value.code == "SKY-E304" and e.value.hint is not None and "restore the whole sink from one backup" in e.value.hint
    assert len(str(e.value)) < 600 and TOKEN * 2 not in str(e.value)


@pytest.mark.parametrize(
    "text", [f'{{"0":["{TOKEN}",1],"0":["{OTHER}",1]}}', f'{{"1":["{TOKEN}",1],"01":["{OTHER}",1]}}'], ids=["same", "zero"]
)
def test_a_bucket_that_has_two_states_is_refused(text: str) -> None:
    """Neither is known to be the bucket's."""
    with pytest.raises(SkybandError) as e:
        states_of({"batch_id": 1, "state": text})
    assert e.value.code == "SKY-E304"


@pytest.mark.parametrize(
    "token", ["", "..", "../../x", "/etc/passwd", TOKEN.upper(), TOKEN + "0", TOKEN[1:], TOKEN + "\n", "x" * 16, "\0" * 16]
)
def test_a_token_that_skyband_has_not_written_leads_nowhere(tmp_path: Path, token: str) -> None:
    """Whether the text or the file is refused: nothing is read but a bucket's own directory."""
    from skyband.framework.streaming.bucket.state_files import StateFiles

    text = text_of({0: BucketState(token, 1)})
    with pytest.raises(SkybandError) as e:
        states = states_of({"batch_id": 1, "state": text})
        assert states is not None
        StateFiles(tmp_path).read(0, states[0].token)
    assert e.value.code in ("SKY-E303", "SKY-E304")


SPEC = spec_text(
    "states",
    "{id: bigint, ts: timestamp, x: double}",
    path="/nowhere/in",
    event_time="{column: ts, watermark: 5 minutes}",
    sink="{path: {sink}}",
    window="{count: 6}",
    scoring={"x": "{expression: x, direction: max}"},
    queries={"best": "{type: topk, scoring: x, k: 3}"},
)


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    plan = plan_of_text(SPEC.replace("{sink}", str(tmp_path / "out")))
    made = Sink(plan, writer_for(plan.sink), "g")
    made.ensure_all()
    return made


def ran(sink: Sink, batch: int, state: str | None) -> None:
    """One more row of ``runs``."""
    row: dict[str, Any] = {"batch_id": batch, "batch_time": datetime(2024, 1, 1, tzinfo=UTC), "state": state}
    row |= dict.fromkeys(("unusable", "warned", "counters"), "{}") | {"drift": "[]"}
    sink.commit(batch, {RUNS: sink.runs_row(row)})


def test_the_last_states_are_those_of_the_last_batch(tmp_path: Path, sink: Sink) -> None:
    root = tmp_path / "out"
    assert last_states(root) == {}
    first, second = {0: BucketState(TOKEN, 5)}, {0: BucketState(OTHER, None), 3: BucketState(TOKEN, 9)}
    ran(sink, 0, None)
    assert last_states(root) == {}
    ran(sink, 9, text_of(first))
    assert last_states(root) == first
    # Not that with the greatest text, nor the one that a file names first.
    ran(sink, 10, text_of(second))
    assert last_states(root) == second
    ran(sink, 11, "{}")
    assert last_states(root) == {}


def test_the_last_states_must_be_readable_and_those_before_need_not(tmp_path: Path, sink: Sink) -> None:
    ran(sink, 0, "damaged")
    with pytest.raises(SkybandError, match="of batch 0 ") as e:
        last_states(tmp_path / "out")
    assert e.value.code == "SKY-E304"
    ran(sink, 1, text_of({2: BucketState(TOKEN, 1)}))
    assert last_states(tmp_path / "out") == {2: BucketState(TOKEN, 1)}


def test_without_the_table_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(SkybandError) as e:
        last_states(tmp_path / "nowhere")
    assert e.value.code == "SKY-E400"
