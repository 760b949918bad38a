"""Spark's own logs in a checkpoint, read without it: batches planned and done, offsets of sources, files taken."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import loads, mapping, number, whole
from skyband.framework.storage.location import Location

FORGOTTEN: Final = "file:///_skyband/forgotten/"
"""Prefix of the path in the line that records how many lines were removed (``files.log_pruning``): it names no file."""
AGAIN: Final = "start again from the source with skyband rebuild SPEC (beside the old tables) or skyband reset SPEC"
"""What helps a job that has lost what cannot be made again."""
MOST_TASKS: Final = 1_000_000
"""No job has more."""
LARGEST: Final = 64 << 20
"""Bytes of the largest entry, and of the longest line of a list of files."""
_BLOCK = 1 << 20
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_-!.~'()*,;:$&+=@")
"""Characters of a path that Java's URIs do not encode."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A source file Spark has put into a batch: its URL, when it was last modified then (ms), its number in the log of files."""

    url: str
    modified_ms: int
    number: int


def local_path(url: str) -> str | None:
    """The path of a file's URL on this machine, None for one elsewhere."""
    if url.startswith("file:///") and not {"?", "#"} & set(url):
        return _decoded(url[7:])
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return _decoded(parts.path) if parts.scheme in ("", "file") else None


def _decoded(path: str) -> str:
    """Return a path of a URL; bytes that are no UTF-8 as Python has them in names of files."""
    return os.fsdecode(unquote_to_bytes(path))


def file_url(path: str) -> str:
    """Return the URL of a file of this machine as Spark spells it: what stands for itself in Java's URIs stays as it is."""
    return "file://" + "".join(c if c in _PLAIN or _is_other(c) else quote(os.fsencode(c), safe="") for c in path)


def _is_other(c: str) -> bool:
    """Return True for a character that Java calls *other*: beyond ASCII, no control, no space. A lone surrogate stands for a byte."""
    category = unicodedata.category(c)
    return c > "\x7f" and category not in ("Cc", "Cs") and category[0] != "Z"


def source_numbers(checkpoint: Location) -> list[int]:
    """Return the numbers of the sources of which a checkpoint has a log."""
    return sorted(n for p in (checkpoint / "sources").glob("[0-9]*") if (n := number(p.name)) is not None)


def last_batch(log: Location) -> int:
    """Return the highest batch in a log of Spark's (``offsets``, ``commits``), -1 if there is none."""
    return max((n for p in log.glob("[0-9]*") if (n := number(p.name)) is not None), default=-1)


def offset(checkpoint: Location, batch: int, source: int = 0, name: str = "logOffset") -> int:
    """Return the last number of source ``source``'s log of files that ``batch`` takes; -1 if none, or if the source is no directory.

    ``name``: what the source itself calls its number, if it is another one.
    Raises SkybandError SKY-E303 if the batch's entry is there and cannot be read.
    """
    entry = checkpoint / "offsets" / str(batch)
    if batch < 0 or not entry.exists():
        return -1
    try:
        # The version, the batch's settings, then a line a source.
        lines = _text(entry).splitlines()
        mapping(lines[1])
        line = lines[2 + source]
        # "-": nothing yet. Other sources than files may spell their offsets as they like.
        said: Any = loads(line) if line.startswith("{") else {}
        return whole(said.get(name, -1))
    except (ValueError, IndexError, OSError) as e:
        raise unusable(checkpoint, f"offsets/{batch} cannot be read") from e


def offset_line(checkpoint: Location, batch: int, source: int = 0) -> str:
    """Return the text of the offset up to which ``batch`` reads source ``source``; "-" for that of no batch.

    Raises SkybandError SKY-E303 if the batch's entry is there and cannot be read.
    """
    entry = checkpoint / "offsets" / str(batch)
    if batch < 0 or not entry.exists():
        return "-"
    try:
        return _text(entry).splitlines()[2 + source]
    except (ValueError, IndexError, OSError) as e:
        raise unusable(checkpoint, f"offsets/{batch} cannot be read") from e


def position_line(last: int) -> str:
    """Return the text of the offset that reads a log of files up to number ``last``; -1: none."""
    return json.dumps({"logOffset": last}) if last >= 0 else "-"


def partitions_of(checkpoint: Location, batch: int) -> int | None:
    """Return the number of tasks of the stateful step in ``batch``; None if its entry does not say.

    Raises SkybandError SKY-E303 if the entry cannot be read.
    """
    entry = checkpoint / "offsets" / str(batch)
    if batch < 0 or not entry.exists():
        return None
    try:
        said = mapping(_text(entry).splitlines()[1]).get("conf", {}).get("spark.sql.shuffle.partitions")
        if said is not None and not 0 < int(said) <= MOST_TASKS:
            raise ValueError("no number of tasks")
        return None if said is None else int(said)
    except (ValueError, IndexError, AttributeError, TypeError, OverflowError, OSError) as e:
        raise unusable(checkpoint, f"offsets/{batch} cannot be read") from e


def watermark(checkpoint: Location) -> int:
    """Return Spark's watermark, in ms, as of the last batch planned; 0 if there is none. For a moment when no query runs."""
    entry = checkpoint / "offsets" / str(last_batch(checkpoint / "offsets"))
    try:
        return whole(mapping(_text(entry).splitlines()[1]).get("batchWatermarkMs", 0))
    except FileNotFoundError:
        return 0
    except (ValueError, IndexError, OSError) as e:
        raise unusable(checkpoint, f"offsets/{entry.name} cannot be read") from e


def planned_at(checkpoint: Location, batch: int) -> int:
    """Return the clock at which Spark planned ``batch``, in ms: it stays the same when the batch is repeated.

    Raises SkybandError SKY-E303 if the batch's entry cannot be read.
    """
    try:
        return whole(mapping(_text(checkpoint / "offsets" / str(batch)).splitlines()[1])["batchTimestampMs"])
    except (ValueError, KeyError, IndexError, OSError) as e:
        raise unusable(checkpoint, f"offsets/{batch} cannot be read") from e


def next_watermark(checkpoint: Location) -> int:
    """Return Spark's watermark, in ms, of the batch after the last one done; 0 if there is none yet. Beside a run a lower bound."""
    entry = checkpoint / "commits" / str(last_batch(checkpoint / "commits"))
    try:
        return whole(mapping(_text(entry).splitlines()[1]).get("nextBatchWatermarkMs", 0))
    except FileNotFoundError:
        return 0
    except (ValueError, IndexError, OSError) as e:
        raise unusable(checkpoint, f"commits/{entry.name} cannot be read") from e


def _text(entry: Location) -> str:
    """Return the text of an entry of a log. Raises FileNotFoundError; ValueError for one that Spark cannot have written."""
    if entry.stat().st_size > LARGEST:
        raise ValueError("no entry is so large")
    return entry.read_text()


def unusable(checkpoint: Location, what: str) -> SkybandError:
    """SKY-E303: the checkpoint has lost a part; ``what`` names it."""
    hint = f"restore {checkpoint} and the tables from one backup, or {AGAIN}"
    return SkybandError("SKY-E303", f"the checkpoint {checkpoint} is damaged: {what}", hint=hint)


def files_log_damage(log: Location, upto: int) -> str | None:
    """Return what a log of files lacks of the numbers to ``upto``, in words; None if it is complete. O(entries)."""
    plain, compact = set(), -1
    for entry in log.glob("[0-9]*") if log.is_dir() else ():
        name, _, kind = entry.name.partition(".")
        n = number(name)
        if n is not None and kind == "compact" and n <= upto:
            compact = max(compact, n)
        elif n is not None and not kind:
            plain.add(n)
    # The first that is not there, however many there would have to be.
    lacking = next((n for n in range(compact + 1, upto + 1) if n not in plain), None)
    return None if lacking is None else f"sources/{log.name}/{lacking} is gone"


def taken(log: Location, after: int = -1) -> list[Taken]:
    """Return the files of a log of files with numbers above ``after``, in its order, each once. O(entries above ``after``).

    Raises SkybandError SKY-E303 if an entry cannot be read.
    """
    entries: dict[int, Location] = {}
    for path in log.glob("[0-9]*") if log.is_dir() else ():
        name, _, kind = path.name.partition(".")
        n = number(name)
        if n is not None and kind in ("", "compact") and n > after:
            entries[2 * n + (kind == "compact")] = path
    found: dict[str, Taken] = {}
    for _, path in sorted(entries.items()):
        try:
            lines = list(_entries(path, after))
        except (ValueError, KeyError, MemoryError, OSError) as e:
            raise unusable(log.parent.parent, f"sources/{log.name}/{path.name} cannot be read") from e
        for line in reversed(lines):
            found.setdefault(line.url, line)
    return list(found.values())


def forget_plan(checkpoint: Location, planned: int | None, upto: int, source: int = 0) -> None:
    """Take back a batch of which nothing has been written: its files are found again. ``upto``: the last number that stays
    in the log of ``source``. ``planned``: the batch, None if only its files have been noted yet.

    Raises SkybandError SKY-E303 if the log of files has been merged since: then nothing can be taken back.
    """
    log = checkpoint / "sources" / str(source)
    above = [p for p in log.glob("[0-9]*") if (n := number(p.name.partition(".")[0])) is not None and n > upto]
    if any(p.name.endswith(".compact") for p in above):
        raise unusable(
            checkpoint, "a batch that has not run cannot be taken back" if planned is None else f"batch {planned} cannot be taken back"
        )
    # The plan first: without it numbers above are only files found, and found again.
    plans = [] if planned is None else [checkpoint / "offsets" / str(planned)]
    for path in [*plans, *sorted(above, key=lambda p: -int(p.name))]:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.unlink()


def _entries(path: Location, after: int) -> Iterator[Taken]:
    """The entries of one file of the log above ``after``, newest first: a compacted one has all before it too, oldest first."""
    for line in _lines_backwards(path):
        if not line.startswith(b"{"):
            continue
        said = mapping(line)
        batch = whole(said.get("batchId", 0))
        if batch <= after:
            return
        path_there = said["path"]
        if not isinstance(path_there, str):
            raise ValueError("a path is no text")
        if not path_there.startswith(FORGOTTEN):
            yield Taken(path_there, whole(said.get("timestamp", 0)), batch)


def _lines_backwards(path: Location) -> Iterator[bytes]:
    """The lines of a file from its end, a block read at a time."""
    with path.open("rb") as f:
        at, rest = f.seek(0, 2), b""
        while at:
            size = min(_BLOCK, at)
            at = f.seek(at - size)
            rest, *lines = (f.read(size) + rest).split(b"\n")
            if len(rest) > LARGEST:
                raise ValueError("no line is so long")
            yield from reversed(lines)
        yield rest
