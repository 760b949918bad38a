"""``skyband init``: write a first spec, with comments, that validates."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

DEFAULT_PATH: Final = "job.yaml"

TEMPLATE: Final = """\
# A Skyband job: one source, any number of queries over its sliding window, one folder of Delta tables.
#   skyband validate job.yaml    what is wrong with this file
#   skyband explain job.yaml     which state it keeps, and how much
#   skyband run job.yaml         run it
# "${NAME}" is read from the environment; quote it.
job: sensor-pairs

source:
  format: csv                  # csv | json | parquet | orc | delta
  path: "./landing/sensors/"   # a folder; new files are picked up
  options: {header: true}      # given to Spark's reader as they are
  schema:                      # column: type (string, int, bigint, double, float, boolean, timestamp, date, decimal(p,s))
    sensor: string
    ts: timestamp
    temp: double
    humidity: double
    # pm25: {type: double, from: PM2.5}    # a column with another name in the source
  id: [sensor, ts]             # what identifies a row
  event_time: {column: ts, watermark: 10 minutes}   # how long to wait for rows that come out of order
  # partition_by: [building]   # each value is a stream of its own

transform:                     # Spark SQL, in order
  - derive: {hours: "unix_micros(ts) / 3.6e9"}
  - where: "temp is not null"

quality:
  rows:                        # a row that fails is in the table `rejected`, with the rule's name
    - {name: plausible_temp, expect: "temp between -60 and 60"}

window: {time: 7 days}         # the largest window a query may use: {count: 1000}, {time: 7 days} or both

scoring:
  shock:                       # close in time, far apart in temperature; a is the older row of a pair, b the newer
    expression: (b.hours - a.hours) / abs(a.temp - b.temp)
    direction: min             # which scores come first

queries:                       # each gives the tables <name>, <name>_changes and <name>_now
  shocks: {type: topk_pairs, scoring: shock, k: 20, where: "a.sensor = b.sensor", carry: [temp]}
  shocks_day: {type: topk_pairs, scoring: shock, k: 5, where: "a.sensor = b.sensor", window: {time: 1 day}}

sink: {path: "./tables/sensor_pairs"}
run: {trigger: once}           # or {trigger: 10 seconds}
# schedule: {cron: "0 * * * *"}   # for Airflow
"""


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("init", help="write a first spec", description=__doc__)
    parser.add_argument("path", nargs="?", default=DEFAULT_PATH, help=f"file to write (default: {DEFAULT_PATH})")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the spec; a file that is there already is never touched (SkybandError SKY-E202)."""
    from skyband.framework.errors import SkybandError

    path = Path(args.path)
    if path.is_dir():
        path = path / DEFAULT_PATH
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.replace("job.yaml", path.name))
    except FileExistsError:
        raise SkybandError("SKY-E202", f"{path} is there already", "name another file: skyband init other.yaml") from None
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be written: {(e.strerror or str(e)).lower()}") from None
    print(f"wrote {path}; now: skyband validate {path}")
    return 0
