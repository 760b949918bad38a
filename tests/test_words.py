"""Retired words (scripts/retired_words.txt) do not come back: not in docs, names, docstrings, comments, messages or help texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import house

CLEAN: set[str] = {
    "framework",
    "framework/base",
    "framework/console",
    "framework/environment",
    "framework/guess",
    "framework/plan",
    "framework/preview",
    "framework/quality",
    "framework/queries",
    "framework/queries/matches",
    "framework/queries/pair_rows",
    "framework/queries/set_pairs",
    "framework/queries/similar_sets",
    "framework/queries/single_rows",
    "framework/queries/threshold",
    "framework/queries/threshold_loyalty",
    "framework/queries/topk",
    "framework/queries/topk_loyalty",
    "framework/queries/topk_pairs",
    "framework/queries/topk_similar_sets",
    "framework/rehearsal",
    "framework/report",
    "framework/row_rules",
    "framework/serve",
    "framework/settings",
    "framework/sources",
    "framework/sources/columnar",
    "framework/sources/csv",
    "framework/sources/delta",
    "framework/sources/files",
    "framework/sources/json",
    "framework/sources/kafka",
    "framework/sources/orc",
    "framework/sources/parquet",
    "framework/sources/rate",
    "framework/sources/text",
    "framework/spark_adapter",
    "framework/spec",
    "framework/spec/checks",
    "framework/spec/expressions",
    "framework/spec/models",
    "framework/spec/parsing",
    "framework/spec/schema",
    "framework/spec_tests",
    "framework/storage",
    "framework/streaming",
    "framework/streaming/bucket",
    "framework/streaming/job",
    "framework/streaming/rebuild",
    "framework/streaming/rows",
    "framework/tables",
    "framework/tables/delta",
    "framework/tables/results",
    "framework/tables/sql",
    "framework/tables/writing",
    "framework/verify",
    "framework/verify/brute_force",
    "framework/verify/reconciliation",
    "framework/verify/replay",
    "framework/why",
    "jobs",
    "jobs/authoring",
    "jobs/plugin_template",
    "jobs/plugin_template/package",
    "jobs/plugin_template/tests",
    "jobs/reading",
    "jobs/running",
    "jobs/setup",
    "operators",
    "operators/expressions",
    "operators/matches",
    "operators/pair_rows",
    "operators/pair_rows/capped",
    "operators/pair_rows/capped/kernels",
    "operators/pair_rows/kernels",
    "operators/set_index",
    "operators/set_index/kernels",
    "operators/similar_sets",
    "operators/single_rows",
    "operators/single_rows/kernels",
    "operators/threshold",
    "operators/threshold/kernels",
    "operators/topk",
    "operators/topk/kernels",
    "operators/topk_pairs",
    "operators/topk_pairs/kernels",
    "operators/topk_similar_sets",
    "operators/topk_similar_sets/kernels",
}
"""Directories without retired words. A directory is added when it is clean, and none is removed."""


def test_docs_have_no_retired_words() -> None:
    assert list(house.retired_words(house.pages())) == []


@pytest.mark.parametrize("room", sorted(CLEAN))
def test_a_clean_room_has_no_retired_words(room: str) -> None:
    files = sorted((house.ROOT / room).glob("*.py"))
    assert files, f"no such directory: {room}"
    assert list(house.retired_words(files)) == []


def test_a_retired_word_is_found_in_prose_names_and_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "name_of", lambda path: path.name)
    # In pieces, so that this file has none of them.
    page = tmp_path / f"{'to' + 'ld'}_again.py"
    page.write_text(f"def was_{'me' + 'nded'}(): ...\n# {'the' + ' engine'}\nSKYBAND_ENGINE_WAIT = 'engine.lock'\n", encoding="utf-8")
    assert [found.split(":")[1] for found in house.retired_words([page])] == ["0", "1", "2"]


def test_no_list_of_figures_is_empty_by_mistake() -> None:
    assert sum(house.rooms().values()) > 300 and house.arrows() and len(house.retired()[0]) > 10


def test_streaming_has_no_back_arrows() -> None:
    assert house.back_arrows() == {}
