"""Some cases of ``random_groups`` and ``random_loyalty``, what they cover, and that a difference is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tests.framework.streaming.bucket import random_groups, random_loyalty
from tests.framework.streaming.bucket.random_chains import Case as ChainCase
from tests.oracles.groups import Window
from tests.seeds import seeds


def test_random_groups_are_the_definition() -> None:
    for seed in seeds(0, 6):
        assert random_groups.differences(random_groups.random_case(seed), seed) == [], seed


def test_random_groups_have_every_option() -> None:
    found: Counter[str] = Counter()
    for seed in range(70):
        case = random_groups.random_case(seed)
        for q in case.queries:
            window = q.window or Window()
            options = {
                "having": q.having, "where": q.where, "every": q.every, "ties": q.ties, "k = 1": q.k == 1, "min": q.direction == "min",
                "below": q.below is not None and q.below < q.above, "exact": q.exact is not None, "carry": q.carry, "count": window.count,
                "time": window.micros, "session": window.session, "tumbling": window.tumbling, "threshold": q.k is None,
                "several columns": len(q.group) > 1,
            }  # fmt: skip
            found.update(name for name, has in options.items() if has)
        sections = [name for name in ("deletes:", "op:") if name in case.spec]
        found.update([case.job.on_duplicate, f"watermark {case.watermark}", f"buckets {case.plan().buckets}", *sections])
        found.update(f"aggregate {name}" for name in random_groups.AGGREGATES if f"{name}(" in case.spec)
    wanted = {
        "having", "where", "every", "ties", "k = 1", "min", "below", "exact", "carry", "count", "time", "session", "tumbling", "threshold",
        "several columns", "reject", "replace", "keep_first", "deletes:", "op:", "watermark 0", "watermark 5", "buckets 1", "buckets 3",
        *(f"aggregate {name}" for name in random_groups.AGGREGATES),
    }  # fmt: skip
    assert wanted <= set(found), wanted - set(found)


def test_another_definition_of_groups_is_a_difference() -> None:
    """The bounds and numbers of groups that the oracle is given matter."""
    differing = 0
    for seed in range(12):
        case = random_groups.random_case(seed)
        queries = [replace(q, k=q.k + 1) if q.k is not None else replace(q, above=q.above + 1) for q in case.queries]
        differing += bool(random_groups.differences(replace(case, queries=queries), seed))
    assert differing > 3


def test_random_loyalty_is_the_definition() -> None:
    for seed in seeds(0, 4):
        assert random_loyalty.differences(seed)[0] == [], seed


def test_random_loyalty_is_over_every_query_type() -> None:
    found: Counter[str] = Counter()
    for seed in range(25):
        spec = random_loyalty.yaml.safe_load(random_loyalty.random_case(seed).spec)
        for query in spec["queries"].values():
            if "loyalty" in query["type"]:
                of = query.get("of") or query.get("from")
                found.update([f"{'of' if 'of' in query else 'from'} {spec['queries'][of]['type']}" if of else "rows"])
                found.update(f"option {name}" for name in query)
    types = {
        "topk", "threshold", "skyline", "topk_pairs", "threshold_pairs", "topk_groups", "threshold_groups", "topk_loyalty",
        "threshold_loyalty",
    }  # fmt: skip
    assert {"rows", "from matches", *(f"from {t}" for t in types), *(f"of {t}" for t in types)} <= set(found)
    assert {f"option {n}" for n in ("share", "at_least", "k", "stale_after", "trace", "every", "where", "window")} <= set(found)


def test_another_window_of_loyalty_is_a_difference() -> None:
    """The reports are read with the windows of the spec."""
    case = random_loyalty.random_case(3)
    plan, other = case.plan(), ChainCase(case.spec.replace("window: {time: 30 minutes}", "window: {time: 29 minutes}"), case.rows)
    assert other.spec != case.spec
    assert random_loyalty.loyal_jobs(case)[0] == []
    assert random_loyalty.loyal_jobs(other, plan)[0] != []
