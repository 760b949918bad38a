"""Templates insert values and do nothing else: no attribute, no index, no format, no code, and bounded lengths."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.alerts.template import MOST_TEXT, MOST_VALUE, mistakes, render, value_text

NAMES = ("item", "score", "time")
PIECES = st.sampled_from(
    ["{", "}", "{{", "}}", "{item}", "{score}", "{item.x}", "{0}", "{item[0]}", "{item!r}", "{item:>99}", "{}", "a", "é", "\n"]
)


class Trap:
    """A value whose attributes must not be read, and that must not be formatted."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __format__(self, spec: str) -> str:
        raise AssertionError(spec)

    def __str__(self) -> str:
        return "trap"


@given(st.lists(PIECES, max_size=30).map("".join))
def test_only_plain_names_are_replaced(text: str) -> None:
    found = mistakes(text, NAMES)
    assert all(0 <= m.start < m.end <= len(text) and m.hint for m in found)
    shown = render(text, {"item": Trap(), "score": "{item}", "time": "{{"})
    assert len(shown) <= MOST_TEXT
    if not found:
        # By definition: doubled braces first, as no name contains any.
        plain = text.replace("{{", "\0").replace("}}", "\1") if "{item}" not in text and "{score}" not in text else None
        if plain is not None:
            assert shown == plain.replace("\0", "{").replace("\1", "}")


@given(
    st.text(max_size=600),
    st.dictionaries(st.sampled_from(NAMES), st.one_of(st.text(), st.floats(), st.none(), st.binary(), st.lists(st.text()))),
)
def test_any_text_gives_a_short_message(text: str, values: dict[str, Any]) -> None:
    assert len(render(text, values)) <= MOST_TEXT
    assert all(len(value_text(v)) <= MOST_VALUE and not any(ord(c) < 32 for c in value_text(v)) for v in values.values())


def test_long_values_are_cut() -> None:
    assert len(render("{item}" * 80, {"item": "x" * 10_000_000})) == MOST_TEXT
    assert value_text("x" * 201) == "x" * 197 + "..." and value_text("x" * 200) == "x" * 200
    assert len(value_text(Decimal("1e999999"))) <= MOST_VALUE and len(value_text([["x" * 300] * 300] * 300)) <= MOST_VALUE


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "-"),
        (1.5, "1.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1606064.0, "1606064"),
        (float("inf"), "inf"),
        (Decimal("1.50"), "1.50"),
        (True, "True"),
        (datetime(2024, 1, 2, 3, 4, 5, 60, UTC), "2024-01-02T03:04:05.000060Z"),
        (datetime(2024, 1, 2), "2024-01-02T00:00:00Z"),
        (["a", None], "a, -"),
        ("a\nb\u202ec\x1b[1m", "a b c [1m"),
    ],
)
def test_values_as_text(value: Any, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    "text, marked",
    [
        ("{items}", ["{items}"]),
        ("{}", ["{}"]),
        ("{item.__class__}", ["{item.__class__}"]),
        ("{item[0]}", ["{item[0]}"]),
        ("{item!r}", ["{item!r}"]),
        ("{item:>9}", ["{item:>9}"]),
        ("a { b", ["{"]),
        ("a } b", ["}"]),
        ("{{{item}}}", []),
        ("{{item}}", []),
        ("{item} {score}", []),
        ("{0} }", ["{0}", "}"]),
    ],
)
def test_mistakes_and_their_places(text: str, marked: list[str]) -> None:
    assert [text[m.start : m.end] for m in mistakes(text, NAMES)] == marked
