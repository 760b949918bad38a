"""Every source format keeps the contract: those built in, that of the plugin template, and one that is not in files of Spark's."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.contract import check_format
from skyband.framework.sources.protocol import Section, SourceFormat
from skyband.framework.sources.registry import SOURCES
from skyband.jobs.plugin_template.package.source import TSV
from tests.framework.sources.lines import LINES

OPTIONS = {"kafka": {"servers": "localhost:9092", "topic": "rows"}, "lines": {"directory": "in"}}
FORMATS: dict[str, SourceFormat] = {**SOURCES.all(), "tsv": TSV, "lines": LINES}


def made(name: str) -> tuple[Section, SourceNode]:
    path = None if name in ("kafka", "rate", "lines") else "/in"
    given = OPTIONS.get(name, {})
    section = Section(name, path, given, {"id": ("id", "bigint")})
    return section, SourceNode(name, path, tuple(FORMATS[name].options(given).items()), (Field("id", "bigint", "int", "id"),))


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_keeps_the_contract(name: str) -> None:
    check_format(FORMATS[name], *made(name))


def test_a_capability_needs_its_method() -> None:
    class Broken(SourceFormat):
        counts_rows = True

        def stream(self, *_: object, **__: object) -> None:  # type: ignore[override]
            return None

    with pytest.raises(AssertionError, match="counts_rows needs count_rows"):
        check_format(Broken(), *made("csv"))


def test_a_format_that_states_nothing_has_no_capability(tmp_path: Path) -> None:
    section, source = made("csv")
    bare = SourceFormat()
    assert list(bare.check(section)) == [] and bare.watch(source, None, tmp_path) is None and bare.backlog(source, None, tmp_path) is None
    assert bare.arrow_rules() is None and bare.unparsed(source, None, "x") is None and bare.count_rows(source, "x", True) is None
