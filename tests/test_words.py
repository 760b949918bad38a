"""Retired words (scripts/retired_words.txt) do not come back: not in docs, names, docstrings, comments, messages or help texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import house


def test_docs_have_no_retired_words() -> None:
    assert list(house.retired_words(house.pages())) == []


@pytest.mark.parametrize("room", sorted(house.rooms()))
def test_a_room_has_no_retired_words(room: str) -> None:
    files = sorted((house.ROOT / room).glob("*.py"))
    assert files, f"no such directory: {room}"
    assert list(house.retired_words(files)) == []


def test_a_retired_word_is_found_in_prose_names_and_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "name_of", lambda path: path.name)
    # In pieces, so that this file has none of them.
    page = tmp_path / f"{'to' + 'ld'}_again.py"
    page.write_text(f"def was_{'me' + 'nded'}(): ...\n# {'par' + 'cels'}\nDROP = 'drop.json'\n", encoding="utf-8")
    assert [found.split(":")[1] for found in house.retired_words([page])] == ["0", "1", "2"]


def test_no_list_of_figures_is_empty_by_mistake() -> None:
    assert sum(house.rooms().values()) > 300 and house.arrows() and len(house.retired()[0]) > 10


def test_streaming_has_no_back_arrows() -> None:
    assert house.back_arrows() == {}
