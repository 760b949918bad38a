"""The demo's whole year against brute force from the definition, in pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from deltalake import DeltaTable

HOUR = pd.Timedelta(hours=1)
WINDOWS = {"parted": (10, pd.Timedelta(days=7)), "parted_today": (3, pd.Timedelta(days=1))}


def all_pairs(landing: Path) -> pd.DataFrame:
    """Every pair of flights on one route less than an hour apart that have a time in the air: score, seqs and times of both."""
    flights = pd.concat([pd.read_csv(p) for p in sorted(landing.iterdir())], ignore_index=True)
    flights = flights[flights.departed.notna()]
    flights["departed"] = pd.to_datetime(flights.departed).dt.tz_convert("UTC")
    flights = flights.sort_values(["departed", "date", "carrier", "flight", "origin"], kind="stable", ignore_index=True)
    flights["seq"] = np.arange(len(flights))
    parts = []
    for _, route in flights[flights.air_time.notna()].groupby(["origin", "dest"]):
        at, air, seq = route.departed.dt.tz_convert(None).to_numpy(), route.air_time.to_numpy(), route.seq.to_numpy()
        for apart in range(1, len(route)):
            near = at[apart:] - at[:-apart] < HOUR.to_timedelta64()
            if not near.any():
                break
            i = np.nonzero(near)[0]
            parts.append(pd.DataFrame({
                "score": np.abs(air[i] - air[i + apart]), "older_seq": seq[i], "newer_seq": seq[i + apart],
                "older_time": at[i], "newer_time": at[i + apart],
            }))  # fmt: skip
    pairs = pd.concat(parts, ignore_index=True)
    for name in ("older_time", "newer_time"):
        pairs[name] = pd.to_datetime(pairs[name], utc=True)
    return pairs.sort_values(["score", "older_seq", "newer_seq"], ascending=False, ignore_index=True)


def result(pairs: pd.DataFrame, k: int, window: pd.Timedelta, at: pd.Timestamp) -> list[tuple[float, int, int]]:
    """The top k as of ``at``, by definition: both flights departed by then, the older one within the window."""
    alive = pairs[(pairs.newer_time <= at) & (pairs.older_time + window > at)].head(k)
    return list(alive[["score", "older_seq", "newer_seq"]].itertuples(index=False, name=None))


@pytest.mark.slow
@pytest.mark.spark
def test_a_year_of_flights_is_right_at_any_instant(tmp_path: Path) -> None:
    done = subprocess.run([Path(sys.executable).parent / "skyband", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    home = tmp_path / "build" / "demo"
    pairs = all_pairs(home / "landing")
    rng = np.random.default_rng(0)
    first, last = pairs.older_time.min(), pd.to_datetime("2014-01-01T05:26:00Z")
    for query, (k, window) in WINDOWS.items():
        held = DeltaTable(str(home / "tables" / "flights" / query)).to_pandas()
        for at in [last, *rng.choice(pairs.newer_time, 200), *(first + (last - first) * rng.random(200))]:
            rows = held[(held.valid_from <= at) & (held.valid_to.isna() | (at < held.valid_to))]
            rows = rows.sort_values(["score", "older_seq", "newer_seq"], ascending=False)
            got = list(rows[["score", "older_seq", "newer_seq"]].itertuples(index=False, name=None))
            assert got == result(pairs, k, window, at), (query, at)
        now = DeltaTable(str(home / "tables" / "flights" / f"{query}_now")).to_pandas().sort_values("rank")
        assert list(now[["score", "older_seq", "newer_seq"]].itertuples(index=False, name=None)) == result(pairs, k, window, last)
        # A pair that is in the year's top k was in every window's top k when it came.
        best = held.drop_duplicates(["older_seq", "newer_seq"]).sort_values(["score", "older_seq", "newer_seq"], ascending=False).head(k)
        assert list(best[["older_seq", "newer_seq"]].itertuples(index=False, name=None)) == list(
            pairs[["older_seq", "newer_seq"]].head(k).itertuples(index=False, name=None)
        )
    rejected = DeltaTable(str(home / "tables" / "flights" / "rejected")).to_pandas()
    assert len(rejected) == 8_255 and rejected.event_time.isna().all()
