"""Queries that come to a bucket later: all is as if it had had them from its start."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.plan.growth import Additions, additions
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rebuild.backfill import Backfill
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.framework.streaming.bucket import test_bucket, test_bucket_loyalty, test_bucket_sets, test_bucket_skyline, test_bucket_topk
from tests.framework.streaming.bucket.test_bucket import MINUTE, table_of
from tests.seeds import cases

PAIRS = """\
scoring:
  near: {expression: "abs(a.x - b.x)", direction: min}
  high: {expression: x, direction: max}
"""
EVERY_TYPE = """\
  pairs: {type: topk_pairs, scoring: near, k: 2, carry: [x]}
  more_pairs: {type: topk_pairs, scoring: near, k: 3, where: "a.side <> b.side"}
  sky: {type: skyline, dimensions: {x: min, id: max}, where: "side <> 'b'"}
  best: {type: topk, scoring: high, k: 2}
  best_a: {type: topk, scoring: high, k: 3, where: "side = 'a b'", every: 4 minutes}
  wide: {type: topk, scoring: high, k: 4, window: {count: 6}}
  high: {type: threshold, scoring: high, above: 1}
  twins: {type: topk_similar_sets, tokens: words, k: 3, carry: [side]}
  seen: {type: matches, tokens: words, k: 2}
"""
GROUPS = """\
  sums: {type: topk_groups, group: side, score: sum(x), k: 2, carry: [last(side), first(ts), max(id)]}
  tied: {type: topk_groups, group: side, score: count(), k: 1, ties: include, carry: [mean(x), count()]}
  ends: {type: topk_groups, group: [side, grp], score: max(x) - first(x), k: 2, every: 4 minutes, window: {count: 3}, carry: [last(side)]}
  above: {type: threshold_groups, group: side, score: count(), above: 1, below: 1}
  above_slowly: {type: threshold_groups, group: side, score: count(), above: 1, every: 3 minutes, carry: [last(id)]}
"""
STATISTICS = """\
  odd: {expression: "x - usual.mean", direction: max}
stats:
  usual: {mean: x, max: x, count: id, by: [side], window: {count: 3}}
  of_key: {stddev: x, sum: id}
queries:
  odd: {type: topk, scoring: odd, k: 2, carry: [usual_max]}
  often: {type: threshold, scoring: odd, at_least: -9, where: "usual.count > of_key.sum / 9 or of_key.stddev > 1"}
"""
RANKED_SKYLINES = """\
scoring:
  high: {expression: "x + id / 4", direction: max}
queries:
  crest: {type: skyline, dimensions: {x: min, id: max}, top: 2, by: high, carry: [x]}
  crest_slowly: {type: skyline, dimensions: {x: min, id: max}, top: 1, by: high, every: 4 minutes}
  prior: {type: skyline, dimensions: {x: min, id: max, ts: max}, prefer: [x], band: 2}
"""
MIXED = test_bucket_loyalty.SPEC.replace("queries:\n", f"tokens:\n  words: {{column: side}}\n{PAIRS}queries:\n{EVERY_TYPE}").replace(
    "window: {time: 9 minutes}\n", "window: {time: 9 minutes, count: 9}\n"
)
MIXED = MIXED.replace("{time: 9 minutes, count: 9}", "{time: 9 minutes}").replace("window: {count: 6}", "window: {time: 4 minutes}")


def specs() -> dict[str, str]:
    small = {"window": "{count: 5, time: 6 minutes}", "small": "{count: 3}"}
    return {
        "pairs": test_bucket.SPEC.format(window="{count: 4}", small="{count: 2}", delay=0),
        "skylines": _skylines(small, ""),
        "deleted skylines": _skylines(small, "deletes: side = 'd'\n"),
        "ranked": test_bucket_topk.SPEC.format(window="{count: 4}", small="{count: 2}", deletes=""),
        "deletes": test_bucket_topk.SPEC.format(**small, deletes="deletes: side = 'd'"),
        "replaced": test_bucket_topk.SPEC.format(**small, deletes="  on_duplicate: replace\ndeletes: side = 'd'"),
        "groups": _of_groups(small, ""),
        "deleted groups": _of_groups(small, "deletes: side = 'd'"),
        "sets": test_bucket_sets.SPEC.substitute(small),
        "loyalty": test_bucket_loyalty.SPEC,
        "mixed": MIXED,
        "statistics": test_bucket_topk.SPEC.format(**small, deletes="deletes: side = 'd'").replace("queries:\n", STATISTICS),
        "assumed": MIXED.replace("  id: [id]\n", "  id: [id]\n  unique: assumed\n"),
    }


def _skylines(windows: dict[str, str], deletes: str) -> str:
    return test_bucket_skyline.SPEC.substitute(windows).replace("queries:\n", deletes + RANKED_SKYLINES)


def _of_groups(windows: dict[str, str], deletes: str) -> str:
    return test_bucket_topk.SPEC.format(**windows, deletes=deletes).partition("scoring:\n")[0] + f"queries:\n{GROUPS}sink: {{path: out}}\n"


def split(text: str) -> tuple[str, list[str], str]:
    """A spec's text before its queries, their lines, and what comes after them."""
    head, _, rest = text.partition("queries:\n")
    lines = rest.splitlines(keepends=True)
    queries = [x for x in lines if x.startswith("  ")]
    return head + "queries:\n", queries, "".join(lines[len(queries) :])


class Specs:
    """Plans of a kind's spec with some of its queries."""

    def __init__(self, directory: Path) -> None:
        test_bucket_topk.write_tables(directory)
        self.directory = directory
        self.texts = specs()
        self.made: dict[tuple[str, tuple[int, ...]], Plan] = {}

    def queries(self, kind: str) -> int:
        return len(split(self.texts[kind])[1])

    def always(self, kind: str, chosen: list[int]) -> tuple[int, ...]:
        """The chosen queries, with those that a scoring function of the spec is not known without."""
        needed = [i for i, q in enumerate(split(self.texts[kind])[1]) if "centres.csv" in q]
        return tuple(sorted({*chosen, *needed}))

    def plan(self, kind: str, chosen: tuple[int, ...]) -> Plan:
        if (kind, chosen) not in self.made:
            head, queries, end = split(self.texts[kind].replace("column: ts}", "column: ts, watermark: 3 minutes}"))
            path = self.directory / "spec.yaml"
            path.write_text(head + "".join(queries[i] for i in chosen) + end)
            job, errors = validate_file(str(path), {})
            assert job is not None and not errors, [e.render() for e in errors]
            self.made[kind, chosen] = compile_job(job)
        return self.made[kind, chosen]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Specs:
    return Specs(Path(tmp_path_factory.mktemp("specs")))


Row = tuple[int, int, str, float | None, str]
row = st.tuples(
    st.integers(0, 30), st.integers(0, 25), st.sampled_from("pq"), st.sampled_from([None, 0.0, 1.0, 2.0, 3.0, 5.0]),
    st.sampled_from(["a", "b", "a b", "b c a", "d", "u"]),
)  # fmt: skip


class Driven:
    """A bucket fed batch by batch, its state written and read back each time: what it told, by kind, and the state."""

    def __init__(self, plan: Plan) -> None:
        self.state: dict[str, bytes] = {}
        self.told: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.skybands: dict[str, list[dict[str, Any]]] = {}
        self.late: Counter[str] = Counter()
        self.newest = self.watermark = 0
        self.use(plan)

    def use(self, plan: Plan) -> None:
        self.plan, self.config = plan, HostConfig.of(plan, (), "test")

    def run(self, rows: list[Row]) -> None:
        """One batch; without rows the last, which takes all that waits."""
        bucket = Bucket.restore(self.config, 0, self.state.get)
        if not rows:
            self.watermark = self.newest // 1000 + 1
        self.hear(bucket.run([table_bytes(table_of(self.config, rows))] if rows else [], self.watermark))
        self.newest = max([self.newest, *(r[0] * MINUTE for r in rows)])
        self.watermark = max(self.watermark, self.newest // 1000 - self.plan.intake.delay_micros // 1000, 0)
        values, dropped = bucket.save()
        self.state |= values
        for name in dropped:
            del self.state[name]

    def hear(self, blocks: list[tuple[str, bytes]]) -> None:
        for kind, data in blocks:
            if kind.startswith(("changes:", "trajectory:")):
                self.told[kind] += bytes_table(data).to_pylist()
            elif kind.startswith("skyband:"):
                self.skybands[kind] = sorted(bytes_table(data).to_pylist(), key=repr)
            elif kind == "rejected":
                table = bytes_table(data)
                self.late.update(t["text"] for t in table.to_pylist() if t["reason"] == "late")

    def sorted(self) -> dict[str, list[Any]]:
        """What was told of each query, in the order of its steps."""
        keys = ("query", "grp", "step", "pos", "valid_from")
        return {k: sorted(v, key=lambda r: [r[n] for n in keys if n in r] + [repr(r)]) for k, v in self.told.items()}


def found_in(old: Plan, new: Plan) -> Additions:
    found = additions(concealed(fingerprint(old), old, "s"), new, "s")
    assert found is not None
    return found


def filled(of: Driven, new: Plan, rows: list[Row], cuts: random.Random, left_out: dict[str, int] | None = None) -> Additions:
    """The queries that ``new`` has besides come to the bucket, from all ``rows`` that it has seen."""
    found = found_in(of.plan, new)
    of.use(new)
    fill = Backfill(of.config, found.states, found.queries, 0, dict(of.state), of.late if left_out is None else left_out)
    rows = sorted(rows, key=lambda r: r[0])
    while rows:
        n = cuts.randint(1, 9)
        of.hear(fill.take(table_of(of.config, rows[:n])))
        rows = rows[n:]
    blocks, of.state = fill.end()
    of.hear(blocks)
    for name in found.gone:
        of.skybands.pop(f"skyband:{name}:0", None)
    return found


QUICK = ("pairs", "skylines")
"""Those whose operators are compiled quickly."""


@pytest.mark.parametrize("kind", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in specs()])
@settings(max_examples=cases(20), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(rows=st.lists(row, min_size=1, max_size=40), seed=st.randoms(use_true_random=False))
def test_queries_that_come_later_are_as_if_they_had_been_there(made: Specs, kind: str, rows: list[Row], seed: random.Random) -> None:
    every = tuple(range(made.queries(kind)))
    old = made.always(kind, seed.sample(every, seed.randint(1, len(every) - 1)))
    # In part in order of time, in part late.
    rows = sorted(rows, key=lambda r: r[0] + seed.random() * 6)
    batches = test_bucket.batches_of(rows, [seed.randint(1, 9) for _ in range(6)])
    cut = seed.randint(1, len(batches))
    assume(old != every)
    whole, later = Driven(made.plan(kind, every)), Driven(made.plan(kind, old))
    for number, batch in enumerate([*batches, [], []]):
        if number == cut:
            filled(later, made.plan(kind, every), [r for b in batches[:cut] for r in b], seed)
        whole.run(batch)
        later.run(batch)
    assert later.sorted() == whole.sorted()
    assert later.skybands == whole.skybands and later.late == whole.late
    assert_same_state(later.state, whole.state)


def assert_same_state(later: dict[str, bytes], whole: dict[str, bytes]) -> None:
    """All but the cuts of the rows kept, and numbers that are given in order of sight."""
    assert {n.partition("/")[0] for n in later} == {n.partition("/")[0] for n in whole}
    for name in ("keys", "pending", "key_rows", "deleted"):
        assert later.get(name) == whole.get(name), name


def test_what_can_be_made_alone_is_told_from_the_plans(made: Specs) -> None:
    names = [x.split(":")[0].strip() for x in split(MIXED)[1]]
    every = tuple(range(len(names)))

    def without(*left_out: str) -> Additions:
        return found_in(made.plan("mixed", tuple(i for i in every if names[i] not in left_out)), made.plan("mixed", every))

    # The text 'a b' is new with it, and the state of sky keeps codes of texts.
    assert without("best_a") == Additions(("best_a",), ("sky", "best_a"), ("sky",), ())
    assert without("seen") == Additions(("seen",), ("seen",), (), ())
    shared = without("wide")
    assert shared.queries == ("wide",) and shared.again == ("best",) and shared.states == ("best",)
    first = without("best")
    assert first.gone == ("wide",) and first.states == ("best",) and first.again == ("wide",)
    plan, old = made.plan("mixed", every), made.plan("mixed", every[:-1])
    assert additions(concealed(fingerprint(plan), plan, "s"), plan, "s") is None
    assert additions(concealed(fingerprint(plan), plan, "s"), old, "s") is None, "one has gone"


def test_rows_that_are_not_those_of_before_are_refused(made: Specs) -> None:
    old, new = made.plan("pairs", (0,)), made.plan("pairs", (0, 1))
    rows: list[Row] = [(t, t, "pq"[t % 2], float(t % 4), "uv"[t % 2]) for t in range(20)]
    for wrong in (rows[:7] + rows[8:], [*rows, (5, 99, "p", 1.0, "u")], [*rows[:-6], (14, 77, "p", 1.0, "u"), *rows[-5:]]):
        of = Driven(old)
        of.run(rows[:12])
        of.run(rows[12:])
        before = dict(of.state)
        with pytest.raises(SkybandError, match="SKY-E581"):
            filled(of, new, wrong, random.Random(1))
        assert of.state == before
