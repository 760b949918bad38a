"""A window that is written as its length or its number of rows alone gets the hint that shows the field."""

from __future__ import annotations

import pytest

from skyband.framework.spec.load import validate_text
from tests.specs import spec_text


def hints(of_job: str, of_query: str = "") -> list[str | None]:
    query = "{type: topk, scoring: s, k: 2" + (f", window: {of_query}" if of_query else "") + "}"
    text = spec_text(
        "w", "{id: bigint, ts: timestamp, x: double}", event_time="{column: ts}", window=of_job, scoring={"s": "{expression: x}"},
        queries={"best": query},
    )  # fmt: skip
    job, errors = validate_text(text, {})
    assert job is None and [e.code for e in errors] == ["SKY-E112"], [e.render() for e in errors]
    return [e.hint for e in errors]


@pytest.mark.parametrize(
    ("written", "hint"),
    [("10 minutes", "write window: {time: 10 minutes}"), ("500", "write window: {count: 500}"), ('"2 h"', "write window: {time: 2 h}")],
)
def test_a_length_or_a_number_is_a_window(written: str, hint: str) -> None:
    assert hints(written) == hints("{time: 7 days, count: 1000}", written) == [hint]


@pytest.mark.parametrize("written", ["soon", "true", "[10 minutes]", "-5", "0", "1.5"])
def test_other_values_get_no_such_hint(written: str) -> None:
    (hint,) = hints(written)
    assert hint is not None and "write window" not in hint
