"""A bucket with similar sets: its output is a function of the rows alone, and what its changes add up to is the definition's result."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.verify.brute_force.accepted import Accepted
from skyband.framework.verify.brute_force.objects import objects
from tests.framework.streaming.bucket.test_bucket import MINUTE, assert_cuts_leave_no_trace, batches_of, drive, table_of
from tests.seeds import cases
from tests.specs import spec_text

SPEC = Template(
    spec_text(
        "cuts",
        "{id: bigint, ts: timestamp, grp: string, x: double, side: string}",
        partition_by="[grp]",
        window="$window",
        tokens={
            "words": "{column: side}",
            "pairs": "{column: side, ngrams: 2, stop_words: [c]}",
            "long": "{column: side, min_tokens: 3}",
        },
        queries={
            "twins": "{type: topk_similar_sets, tokens: words, k: 3, carry: [side]}",
            "small": "{type: topk_similar_sets, tokens: words, k: 1, window: $small, min_score: 0.4}",
            "angles": '{type: topk_similar_sets, tokens: words, similarity: cosine, k: 2, where: "a.x <> b.x", every: 7 minutes}',
            "apart": "{type: topk_similar_sets, tokens: words, similarity: hamming, k: 3, max_score: 3}",
            "sides": "{type: topk_similar_sets, tokens: words, similarity: overlap, k: 2, between: {column: side, a: a b, b: b c a}}",
            "shingles": "{type: topk_similar_sets, tokens: pairs, similarity: dice, k: 2}",
            "alike": "{type: similar_sets, tokens: words, min_score: 0.5, carry: [side]}",
            "alike_small": "{type: similar_sets, tokens: words, min_score: 0.3, window: $small}",
            "seen": "{type: matches, tokens: words, k: 2, carry: [side]}",
            "seen_small": "{type: matches, tokens: words, k: 1, window: $small, min_score: 0.4}",
            "seen_angles": '{type: matches, tokens: words, similarity: cosine, k: 9, where: "a.x <> b.x"}',
            "seen_apart": "{type: matches, tokens: words, similarity: hamming, k: 3, max_score: 3}",
            "seen_sides": '{type: matches, tokens: words, similarity: overlap, k: 2, where: "a.x < b.x", between: {column: side, a: a b, b: b c a}}',  # noqa: E501
            "seen_shingles": "{type: matches, tokens: pairs, similarity: dice, k: 2}",
            "long_apart": "{type: topk_similar_sets, tokens: long, similarity: hamming, k: 3, max_score: 3}",
            "long_alike": "{type: similar_sets, tokens: long, min_score: 0.3}",
            "seen_long": "{type: matches, tokens: long, similarity: hamming, k: 2, max_score: 9}",
            "alike_slow": "{type: similar_sets, tokens: words, similarity: hamming, max_score: 2, every: 7 minutes}",
        },
    )
)
WINDOWS = {"{count: 4}": "{count: 2}", "{time: 9 minutes}": "{time: 3 minutes}", "{count: 5, time: 6 minutes}": "{count: 3}"}
TEXTS = ("a", "a b", "b A", "b c a", "c d", "a b c d e", "e f")


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    made = {}
    path = Path(tmp_path_factory.mktemp("specs")) / "spec.yaml"
    for window, small in WINDOWS.items():
        path.write_text(SPEC.substitute(window=window, small=small))
        job, errors = validate_file(str(path), {})
        assert job is not None and not errors, [e.render() for e in errors]
        made[window] = compile_job(job)
    return made


row = st.tuples(st.integers(0, 30), st.integers(0, 40), st.sampled_from("pq"), st.sampled_from([None, 0.0, 1.0]), st.sampled_from(TEXTS))
streams = st.lists(row, min_size=1, max_size=25, unique_by=lambda r: r[1]).map(lambda rows: sorted(rows, key=lambda r: (r[0], r[1])))


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=cases(30))
@given(rows=streams, cuts=st.lists(st.integers(1, 9), max_size=6))
def test_cuts_and_restarts_leave_no_trace(plans: dict[str, Plan], window: str, rows: list[Any], cuts: list[int]) -> None:
    plan = plans[window]
    assert_cuts_leave_no_trace(plan, rows, batches_of(rows, cuts))


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=cases(30))
@given(rows=streams)
def test_changes_add_up_to_the_definitions_result(plans: dict[str, Plan], window: str, rows: list[Any]) -> None:
    plan = plans[window]
    got = drive(plan, [rows], restore=False)
    assert not got.get("rejected")
    config = HostConfig.of(plan, (), "test")
    for grp in "pq":
        of_key = sorted((r for r in rows if r[2] == grp), key=lambda r: (r[0], r[1]))
        data = objects(plan, Accepted((), table_of(config, of_key), [r[0] * MINUTE for r in of_key], {}))
        for query in plan.queries:
            changes = [c for c in got.get(f"changes:{query.name}", []) if c["grp"] == grp]
            names = [f"{p.role}_seq" for p in query.item.parts]
            for at in sorted({r[0] * MINUTE for r in of_key}):
                expected = query_type(query.type).brute_force(Question(plan, query, data, at))
                assert expected is not None
                if not query.item.lasting:
                    now = sorted((c for c in changes if micros(c["changed_at"]) == at), key=lambda c: (c["step"], c["pos"]))
                    assert [(tuple(c[n] for n in names), c["score"]) for c in now] == expected, (query.name, at)
                    assert not {"change", "cause"}.intersection(*now, names)
                    continue
                held: dict[tuple[int, ...], float] = {}
                for c in changes:
                    if micros(c["changed_at"]) > at:
                        continue
                    item = tuple(c[n] for n in names)
                    if c["change"] == "+":
                        held[item] = c["score"]
                    else:
                        assert held.pop(item) == c["score"]
                assert held == dict(expected), (query.name, at)


def micros(at: Any) -> int:
    return pa.scalar(at, pa.timestamp("us", "UTC")).cast(pa.int64()).as_py()  # type: ignore[no-any-return]
