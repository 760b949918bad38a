"""Build small job specs for tests, so that a test shows only what matters to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_text

Section = str | Mapping[str, "Section"] | Sequence[str]
"""YAML text for one line, entries of a block mapping, or items of a block sequence."""


def spec_text(
    job: str, schema: str, *, format: str = "csv", path: str | None = "in", options: str | None = None, id: str = "[id]",
    event_time: str = "{column: ts}", partition_by: str | None = None, more: str = "", sink: str = "{path: out}", **sections: Section,
) -> str:  # fmt: skip
    """Return a spec as YAML text.

    Every argument is YAML text. ``schema`` to ``partition_by`` are fields of ``source``, and ``more`` holds further lines of it; the other
    ``sections`` stand between ``source`` and ``sink`` in the order given.
    """
    source = {
        "format": format, "path": path, "options": options, "schema": schema, "id": id, "event_time": event_time,
        "partition_by": partition_by,
    }  # fmt: skip
    lines = [f"job: {job}", "source:", *(f"  {name}: {value}" for name, value in source.items() if value is not None)]
    lines += [f"  {line}" for line in more.splitlines()]
    for name, section in {**sections, "sink": sink}.items():
        lines += _lines(name, section)
    return "\n".join(lines) + "\n"


def _lines(name: str, section: Section) -> list[str]:
    if isinstance(section, str):
        return [f"{name}: {section}"]
    if isinstance(section, Mapping):
        return [f"{name}:", *(f"  {line}" for entry, value in section.items() for line in _lines(entry, value))]
    return [f"{name}:", *(f"  - {item}" for item in section)]


def plan_of_text(text: str, environment: Mapping[str, str] | None = None) -> Plan:
    """Return the plan of a spec that must be free of errors."""
    job, errors = validate_text(text, environment or {})
    assert job is not None and not errors, [e.render() for e in errors]
    return compile_job(job)
