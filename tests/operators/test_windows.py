"""Windows inside windows: what fits, what bounds what, what contains all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import Misfit, Window
from skyband.operators.windows import check_window

WINDOWS = st.builds(Window, st.none() | st.integers(1, 5), st.none() | st.integers(1, 5))


@pytest.mark.parametrize(
    "window, largest, expected",
    [
        (Window(5, 7), Window(5, 7), []),
        (Window(), Window(5, None), []),
        (Window(6, None), Window(5, 7), [Misfit("count", 6, 5)]),
        (Window(6, 8), Window(5, 7), [Misfit("count", 6, 5), Misfit("time", 8, 7)]),
        (Window(3, 3), Window(None, 7), [Misfit("count", 3, None)]),
        (Window(3, 3), Window(5, None), [Misfit("time", 3, None)]),
        (Window(0, None), Window(5, None), [Misfit("count", 0, 5)]),
        (Window(None, -1), Window(5, None), [Misfit("time", -1, None)]),
    ],
)
def test_what_does_not_fit(window: Window, largest: Window, expected: list[Misfit]) -> None:
    assert window.misfits(largest) == expected


@pytest.mark.parametrize(
    "window, largest, why",
    [
        (Window(), Window(5), "q: a window needs a count or a duration"),
        (Window(0), Window(5), "q: a count window must be at least 1, not 0"),
        (Window(None, 0), Window(5), "q: a time window must be at least 1, not 0"),
        (Window(None, 3), Window(5), "q: a time window was asked for, but the state's window is not by time"),
        (Window(6), Window(5), "q: count window 6 is larger than the state's 5"),
    ],
)
def test_operators_refuse_what_does_not_fit(window: Window, largest: Window, why: str) -> None:
    with pytest.raises(ValueError) as e:
        check_window(window, largest, "q")
    assert str(e.value) == why


@given(WINDOWS, WINDOWS)
def test_a_window_is_bounded_where_it_has_no_end(window: Window, largest: Window) -> None:
    inside = window.within(largest)
    assert inside.count == (window.count or largest.count) and inside.micros == (window.micros or largest.micros)
    assert (inside.misfits(largest) == []) == (window.misfits(largest) == [])
    assert inside.within(largest) == inside


@given(st.lists(WINDOWS, min_size=1, max_size=4))
def test_the_union_contains_every_window_and_nothing_smaller_does(windows: list[Window]) -> None:
    union = Window.union(windows)
    for kind in ("count", "micros"):
        ends = [getattr(w, kind) for w in windows]
        assert getattr(union, kind) == (None if None in ends else max(ends))
    assert Window.union([union, *windows]) == union
