"""Operators side by side: each part answers as it does alone, however the stream is cut and whoever retains what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from skyband.operators.base import NULL, Column, Operator, State, Window
from skyband.operators.expressions import parse
from skyband.operators.side_by_side import SideBySide, SideBySideLogic
from skyband.operators.single_rows.scores import Linear
from skyband.operators.skyline.operator import Dimension, Skyline, SkylineQuery
from skyband.operators.threshold.many import ManyThreshold
from skyband.operators.threshold.one_function import Threshold, ThresholdQuery
from skyband.operators.topk.one_function import TopK, TopKDeletes, TopKQuery
from tests.operators.test_topk_single import SHAPES, random_window
from tests.operators.topk_host import Stream, cuts_of, drive, joined, pick, random_stream, rows_of
from tests.seeds import seeds

SCHEMA: Any = {"x0": "float", "x1": "float", "x2": "float"}


def part(rng: np.random.Generator, kind: str, i: int) -> Any:
    window, every = random_window(rng), int(rng.integers(1, 60)) if rng.random() < 0.5 else None
    linear = Linear((("x0", float(rng.choice([1.0, -1.0, 0.5]))), ("x1", float(rng.choice([1.0, 2.0])))))
    scoring = linear if rng.random() < 0.6 else parse("x0 * x2 - x1", SCHEMA, ("",))
    direction: Any = rng.choice(["min", "max"])
    where = parse("x0 >= x2", SCHEMA, ("",)) if rng.random() < 0.3 else None
    if kind.startswith("threshold"):
        query = ThresholdQuery(f"q{i}", window, above=float(rng.integers(-2, 3)), every_micros=every)
        return Threshold(scoring, direction, where, (query,), window, deletes=kind.endswith("deletes"))
    k = int(rng.integers(1, 6))
    if kind == "skyline":
        dims = (Dimension(Column("x0", "float"), direction), Dimension(Column("x1", "float"), "min"))
        return Skyline(dims, (SkylineQuery(f"q{i}", window, every),), window, int(rng.integers(1, 3)), where=where)
    op = TopKDeletes if kind.endswith("deletes") else TopK
    return op(scoring, direction, where, (TopKQuery(f"q{i}", k, window, every),), k + 1, window)


def with_constant(stream: Stream, value: float) -> Stream:
    """The stream as a part sees it that has the parameter x2."""
    return replace(stream, x=np.concatenate([stream.x[:, :2], np.full((len(stream), 1), value)], axis=1))


@pytest.mark.parametrize("kind", ["topk", "topk deletes", "threshold", "threshold deletes", "skyline"])
@pytest.mark.parametrize("given", [False, True])
def test_parts_answer_as_alone(kind: str, given: bool) -> None:
    for seed in seeds(0, 12):
        rng = np.random.default_rng(seed)
        parts = tuple(part(rng, kind, i) for i in range(int(rng.integers(1, 8))))
        values = rng.choice([0.0, 1.0, 2.0], len(parts)).tolist()
        bank = SideBySide(parts, tuple((("x2", v),) for v in values) if given else ())
        stream = random_stream(rng, int(rng.integers(1, 90)), int(rng.integers(1, 4)), 3, str(rng.choice(SHAPES)), kind.endswith("deletes"))
        end = int(stream.time[-1]) + int(rng.choice([1, 5, 200]))
        want = []
        for i, (p, v) in enumerate(zip(parts, values, strict=True)):
            rows, _ = drive(p, with_constant(stream, v) if given else stream, [], end, False)
            want += [(i, *r[1:]) for r in rows]
        seen = replace(stream, x=stream.x[:, :2]) if given else stream
        whole, logic = drive(bank, seen, [], end, False)
        assert repr(whole) == repr(want)
        assert repr(drive(bank, seen, cuts_of(stream, rng, 0.3), end, False)[0]) == repr(want)
        assert repr(drive(bank, seen, cuts_of(stream, rng, 1.0), end, True)[0]) == repr(want)
        assert repr(drive(bank, seen, cuts_of(stream, rng, 0.1), end, True)[0]) == repr(want)
        for i, (p, v) in enumerate(zip(parts, values, strict=True)):
            alone = drive(p, with_constant(stream, v) if given else stream, [], end, False)[1]
            mine, his = logic.snapshot(0, 1, p.window, i), alone.snapshot(0, 1, p.window)
            assert repr((mine.items.tolist(), mine.score.tolist())) == repr((his.items.tolist(), his.score.tolist()))


def test_a_row_only_another_part_retains_comes_back_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown by both at 0, deleted at 5; by 18 the quick one has reported that and forgotten it, the slow one waits until 100."""

    def query(name: str, every: int, window: Window) -> Threshold:
        asked = ThresholdQuery(name, window, above=0.0, every_micros=every)
        return Threshold(Linear((("x0", 1.0),)), "max", None, (asked,), window, deletes=True)

    bank = SideBySide((query("quick", 4, Window(None, 11)), query("slow", 100, Window(None, 90))))
    stream = Stream(
        np.array([0, 5, 17, 18], np.int64), np.zeros(4, np.int64), np.array([0, -1, 1, 2]), np.array([NULL, 0, NULL, NULL]),
        np.array([[1.0], [0.0], [2.0], [3.0]]), True,
    )  # fmt: skip
    want, _ = drive(bank, stream, [], 300, False)
    for cuts in ([1], [2], [3], [1, 2, 3]):
        assert drive(bank, stream, cuts, 300, True)[0] == want
    logic = bank.build(None)
    logic.advance(stream.block(0, 3), 18)
    assert logic.retained()[1].tolist() == [0, 1]
    monkeypatch.setattr(SideBySideLogic, "_mine", lambda self, state: None)  # what the parts would make of each other's rows
    assert drive(bank, stream, [3], 300, True)[0] != want


def test_rows_of_others_change_nothing_after_a_restore() -> None:
    for seed in seeds(0, 40):
        rng = np.random.default_rng(seed)
        bank = SideBySide(tuple(part(rng, "threshold deletes", i) for i in range(3)))
        stream = random_stream(rng, 80, 2, 3, "few", True)
        end = int(stream.time[-1]) + 50
        want = drive(bank, stream, [], end, False)[0]
        edges = [0, *cuts_of(stream, rng, 0.4), len(stream)]
        logic, out, kept = bank.build(None), [], stream.block(0, 0)
        for lo, hi in zip(edges[:-1], edges[1:], strict=True):  # noqa: RUF007
            out += rows_of(logic.advance(stream.block(lo, hi), int(stream.time[hi]) if hi < len(stream) else end))
            kept = joined(kept, stream.block(lo, hi))
            need = set(zip(*(a.tolist() for a in logic.retained()), strict=True))
            pairs = list(zip(kept.key.tolist(), kept.seq.tolist(), strict=True))
            logic = bank.build(State(logic.checkpoint(), pick(kept, np.array([p in need or rng.random() < 0.5 for p in pairs], bool))))
        assert sorted(out, key=lambda r: (r[0], r[1], r[3], r[4])) == want


def test_what_a_bank_is() -> None:
    def one(name: str, window: Window, node: str = "x0 * x2") -> TopK:
        return TopK(parse(node, SCHEMA, ("",)), "max", None, (TopKQuery(name, 1, window),), 1, window)

    bank = SideBySide((one("a", Window(5)), one("b", Window(9, 3), "x1 - x2")), ((("x2", 1.0),), (("x2", 2.0),)))
    assert isinstance(bank, Operator)
    assert (bank.query_types, bank.keeps, bank.roles) == (frozenset({"topk"}), "retained", ("",))
    assert bank.columns == (Column("x0", "float"), Column("x1", "float"))
    assert bank.window == Window(9, None)
    assert SideBySide((one("a", Window(5, 8)), one("b", Window(9, 3)))).window == Window(9, 8)
    stream = random_stream(np.random.default_rng(0), 40, 2, 2, "few", False, 0.3)
    logic = drive(bank, stream, [], int(stream.time[-1]) + 1, False)[1]
    counters = logic.counters()
    assert counters["rows"] == 80 and counters["unusable:0"] == int(np.isnan(stream.x[:, 0]).sum())
    assert counters["unusable:1"] == int(np.isnan(stream.x[:, 1]).sum())
    assert len(logic.skyband()) == 0
    arrays = logic.checkpoint()
    many = SideBySide(tuple(one(f"q{i}", Window(5)) for i in range(50)), ((("x2", 1.0),),) * 50)
    assert len(drive(many, stream, [], int(stream.time[-1]) + 1, False)[1].checkpoint()) == len(arrays)


def test_bad_banks() -> None:
    window = Window(5)
    linear = Linear((("x0", 1.0),))

    def topk(*names: str) -> TopK:
        return TopK(linear, "max", None, tuple(TopKQuery(n, 1, window) for n in names), 1, window)

    threshold = Threshold(linear, "max", None, (ThresholdQuery("t", window, above=0.0),), window)
    many = ManyThreshold(("m", "n"), ("x0",), np.ones((2, 1)), window, above=np.zeros(2))
    kept = TopKDeletes(linear, "max", None, (TopKQuery("d", 1, window),), 1, window)
    with pytest.raises(ValueError, match="at least one part"):
        SideBySide(())
    for bad in (topk("a", "b"), many):
        with pytest.raises(ValueError, match="part 0 has 2 queries"):
            SideBySide((bad,))
    with pytest.raises(ValueError, match="query_types"):
        SideBySide((topk("a"), threshold))
    with pytest.raises(ValueError, match="keeps"):
        SideBySide((topk("a"), kept))
    with pytest.raises(ValueError, match="one name"):
        SideBySide((topk("a"), topk("a")))
    with pytest.raises(ValueError, match="1 lists of parameters for 2"):
        SideBySide((topk("a"), topk("b")), ((),))
