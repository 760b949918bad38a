"""DuckDB in a loop: every batch goes into tables in memory, SQL computes the answer again, and it replaces the answer in a Delta table.

The loop reuses what it can. Pairs: an older row leaves with all its pairs, so the k best of each older row suffice, and only new rows are
joined with the window. Skyline: a row that a newer row dominates never comes back.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
from deltalake import write_deltalake

from bench.against.payments import HOUR, K

TABLES = """
create table recent (id bigint, paid_at bigint, market bigint, amount double, fee double, wait double);
create table pairs (market bigint, older bigint, newer bigint, score double, paid_at bigint);
"""
FRESH = "create or replace temp table fresh as select * replace (epoch_us(paid_at) as paid_at) from read_parquet($path)"
TOPK = f"""
select market, row_number() over (partition by market order by amount desc, id desc) as rank, id from recent qualify rank <= {K}
"""
NEW_PAIRS = f"""
create or replace temp table fresh_pairs as
select market, older, best.newer as newer, best.score as score, paid_at from (
    select a.market as market, a.id as older, a.paid_at as paid_at,
           unnest(min({{score: abs(a.amount - b.amount) + abs(a.wait - b.wait), newer_last: -b.id, newer: b.id}}, {K})) as best
    from fresh b join recent a on a.market = b.market and a.id < b.id
    group by a.market, a.id, a.paid_at)
"""
BEST_PAIRS = f"""
create or replace table pairs as select * from (from pairs where paid_at > $low union all from fresh_pairs)
qualify row_number() over (partition by older order by score, newer desc) <= {K}
"""
TOPK_PAIRS = f"""
select market, row_number() over (partition by market order by score, older desc, newer desc) as rank, older, newer
from pairs qualify rank <= {K}
"""
BEATEN = """b.market = a.market and b.amount >= a.amount and b.fee <= a.fee and b.wait <= a.wait
and (b.amount > a.amount or b.fee < a.fee or b.wait < a.wait)"""
FORGET_BEATEN = f"delete from recent a where exists (from recent b where b.id > a.id and {BEATEN})"
SKYLINE = f"select market, id from recent a where not exists (from recent b where {BEATEN})"


class Duck:
    """One query after every batch; the answer's table is ``out``."""

    def __init__(self, query: str, out: Path) -> None:
        self.query, self.out = query, out
        self.db = duckdb.connect()
        self.db.execute(TABLES)

    def batch(self, path: Path) -> None:
        """Takes a file; when it returns the answer can be read."""
        db = self.db
        db.execute(FRESH, {"path": str(path)})
        db.execute("insert into recent from fresh")
        newest = db.execute("select max(paid_at) from fresh").fetchone()
        low = {"low": newest[0] - HOUR}
        db.execute("delete from recent where paid_at <= $low", low)
        if self.query == "topk_pairs":
            db.execute(NEW_PAIRS)
            db.execute(BEST_PAIRS, low)
        elif self.query == "skyline":
            db.execute(FORGET_BEATEN)
        sql = {"topk": TOPK, "topk_pairs": TOPK_PAIRS, "skyline": SKYLINE}[self.query]
        write_deltalake(self.out, db.sql(sql).to_arrow_table(), mode="overwrite")
