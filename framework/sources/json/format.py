"""JSON files: an object or an array of objects a line, or, with ``multiLine``, any number of them a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from skyband.framework.sources.files.format import FileFormat
from skyband.framework.sources.options import JSON, Options
from skyband.framework.sources.protocol import Mistake, Section
from skyband.framework.sources.text.options import wrong


@dataclass(frozen=True, slots=True)
class JsonFormat(FileFormat):
    """See ``FileFormat``."""

    takes: Options = field(default_factory=lambda: JSON)
    text: bool = True

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``."""
        yield from FileFormat.check(self, section)
        yield from wrong(section)
