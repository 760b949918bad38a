"""Checks that a source format keeps the contract of ``SourceFormat``: for the tests of formats, those of plugins too."""

from __future__ import annotations

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.protocol import Mistake, Section, SourceFormat


def check_format(format_: SourceFormat, section: Section, source: SourceNode) -> None:
    """Raise AssertionError if ``format_`` breaks the contract. ``section`` has no mistake; ``source`` is the plan's node of it.

    Opens no file and starts no Spark.
    """
    assert isinstance(format_, SourceFormat), "a format subclasses SourceFormat"
    assert _defines(format_, "stream"), "a format defines stream"
    assert list(format_.check(section)) == [], "check finds a mistake in a section that has none"
    unknown = Section(section.format, section.path, {**section.options, "no_such_option": "x"}, section.columns)
    assert all(isinstance(m, Mistake) and m.field for m in format_.check(unknown)), "a mistake names its field"
    options = format_.options(section.options)
    assert set(section.options) <= set(options), "options keeps what the spec gives"
    assert dict(format_.options(options)) == dict(options), "options adds its defaults once"
    assert set(format_.jars) <= set(format_.packages(source)), "packages include jars"
    _check_capabilities(format_, source)


def _check_capabilities(format_: SourceFormat, source: SourceNode) -> None:
    """Raise AssertionError if a capability is stated without the method that it needs."""
    rules = format_.arrow_rules()
    if rules is not None:
        reader = format_.arrow_reader(source, "/", False, source.fields, tuple(str(f.source_name) for f in source.fields))
        assert callable(reader.tables), "a format with arrow_rules has an arrow_reader"
    if rules is None and format_.local_rules() is not None:
        assert _defines(format_, "added_files"), "local_rules without arrow_rules needs added_files"
    needed = {"counts_rows": "count_rows", "preview_options": "first_rows"}
    for capability, method in needed.items():
        assert getattr(format_, capability) in (False, None) or _defines(format_, method), f"{capability} needs {method}"
    if format_.duckdb_options is not None:
        assert _defines(format_, "duckdb_call") or _defines(format_, "dataset"), "duckdb_options needs duckdb_call or dataset"
    assert not (format_.of_files and format_.of_table), "a source is a directory of files or a table, not both"
    assert format_.failure("an error about something else", None, source.path) is None, "failure leaves other errors alone"
    assert all(isinstance(line, str) for line in format_.explain(source)), "explain returns lines of text"


def _defines(format_: SourceFormat, method: str) -> bool:
    return getattr(type(format_), method) is not getattr(SourceFormat, method)
