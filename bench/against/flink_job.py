"""Flink SQL over a CSV file of payments, run by Python in its own environment: ``python flink_job.py SPEC`` (see ``flink.py``).

SPEC is JSON: a list of jobs [form, slide in seconds, input, output directory]. It prints a line after each job.
"""

from __future__ import annotations

import json
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

PAYMENTS = """
create table payments (
  id bigint, paid_at timestamp(3), market bigint, amount double, fee double, wait double, watermark for paid_at as paid_at)
with ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
FILES = "create table said (window_end timestamp(3), {columns}) with ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')"
NOTHING = "create table said ({columns}) with ('connector' = 'blackhole')"
HOPS = "table(hop(table payments, descriptor(paid_at), interval '{slide}' second(4), interval '1' hour))"
SAME = "b.window_start = a.window_start and b.window_end = a.window_end and b.market = a.market"

FORMS = {
    "topk": ("market bigint, place bigint, id bigint", """
insert into said select window_end, market, place, id from (
  select *, row_number() over (partition by window_start, window_end, market order by amount desc, id desc) as place from {hops})
where place <= 10"""),
    "topk_pairs": ("market bigint, place bigint, older bigint, newer bigint", """
insert into said select window_end, market, place, older, newer from (
  select *, row_number() over (partition by window_start, window_end, market order by score, older desc, newer desc) as place from (
    select a.window_start, a.window_end, a.market, a.id as older, b.id as newer,
           abs(a.amount - b.amount) + abs(a.wait - b.wait) as score
    from (select * from {hops}) a join (select * from {hops}) b on {same} and a.id < b.id))
where place <= 10"""),
    "skyline": ("market bigint, id bigint", """
insert into said select window_end, market, id from (select * from {hops}) a where not exists (
  select * from (select * from {hops}) b where {same} and b.amount >= a.amount and b.fee <= a.fee and b.wait <= a.wait
  and (b.amount > a.amount or b.fee < a.fee or b.wait < a.wait))"""),
    "topk_groups": ("market bigint, payer bigint", """
insert into said select window_end, market, payer from (
  select *, row_number() over (partition by window_start, window_end, market order by total desc, payer) as place from (
    select window_start, window_end, market, mod(id, 1000) as payer, sum(amount) as total
    from {hops} group by window_start, window_end, market, mod(id, 1000)))
where place <= 10"""),
    "topk, of all rows": ("market bigint, place bigint, id bigint", """
insert into said select market, place, id from (
  select *, row_number() over (partition by market order by amount desc, id desc) as place from payments) where place <= 10"""),
}  # fmt: skip
"""Form -> (columns of the answer, SQL)."""
PATIENCE = 100
"""Seconds that a job may take."""


def run(form: str, slide: int, path: str, out: str) -> None:
    """One job, to its end."""
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "2")
    env.get_config().set("table.exec.state.ttl", "1 h")
    columns, sql = FORMS[form]
    env.execute_sql(PAYMENTS.format(path=path))
    env.execute_sql((FILES if "window_end" in sql else NOTHING).format(columns=columns, out=out))
    hops = HOPS.format(slide=slide)
    job = env.execute_sql(sql.format(hops=hops, same=SAME))
    try:
        job.wait(PATIENCE * 1000)
    except Exception:
        client = job.get_job_client()
        if client is not None and not client.get_job_status().result().is_terminal_state():
            client.cancel().result()
            raise TimeoutError(f"not done after {PATIENCE} s") from None
        raise


if __name__ == "__main__":
    failed: dict[tuple[str, int], str] = {}
    for form, slide, path, out in json.loads(sys.argv[1]):
        if (form, slide) not in failed:  # more rows would take longer
            try:
                run(form, slide, path, out)
            except Exception as e:
                failed[form, slide] = str(e).replace("\n", " | ")[:500]
        print("job:", failed.get((form, slide), "done"), flush=True)
