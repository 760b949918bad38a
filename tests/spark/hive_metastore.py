"""A process whose Spark has a Hive metastore of its own (Derby): runs a job with a catalog, and prints what the metastore says.

The session's catalog is fixed when Spark starts, so this cannot be done in the process of other tests. ``test_catalogs.py`` starts it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from skyband.framework.spark_adapter.session_catalog import kept_table
from skyband.framework.streaming.spark.session import get_session
from skyband.framework.tables.schemas import tables
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.catalog_jobs import flows, write_spec


def main(directory: Path) -> None:
    """Print one JSON object per step."""
    os.environ["SKYBAND_CONF"] = (
        "spark.sql.catalogImplementation=hive\n"
        f"spark.hadoop.javax.jdo.option.ConnectionURL=jdbc:derby:;databaseName={directory}/metastore;create=true\n"
        f"spark.sql.warehouse.dir={directory}/warehouse"
    )
    os.environ["SKYBAND_CONFIG"] = ""
    out = directory / "out"
    flows(directory / "flows", range(30))
    spec = write_spec(directory, "path: flows", "rankings", ["best", "worst"])
    code = cli.main(["run", str(spec), "--quiet"])
    spark = get_session("test")

    def entries() -> list[str]:
        return sorted(row.tableName for row in spark.sql("show tables in rankings").collect())

    wanted = sorted(t.name for t in tables(load_plan(str(spec))))
    described = {row.col_name: (row.data_type, row.comment) for row in spark.sql("describe table extended rankings.best_now").collect()}
    kept = kept_table(spark, "rankings", "best_now")
    assert kept is not None
    say(
        "first run", code=code, entries=entries() == wanted, rank=described["rank"], kind=described["Type"][0],
        comment=described["Comment"][0],
        rows=spark.sql("select id from rankings.best_now order by rank").toPandas()["id"].tolist(), properties=dict(kept.properties),
        job=json.loads((out / "_skyband" / "owner.json").read_text())["id"],
    )  # fmt: skip

    write_spec(directory, "path: flows", "rankings", ["best"])
    code = cli.main(["rebuild", str(spec), "--quiet", "--finish"])
    wanted = sorted(t.name for t in tables(load_plan(str(spec))))
    say("removed query", code=code, entries=entries() == wanted)

    # Someone else has the name of a table that is new.
    DeltaTable.create(str(directory / "theirs"), DeltaTable(str(directory / "flows")).schema())
    spark.sql(f"create table rankings.other_now using delta location '{directory}/theirs'")
    write_spec(directory, "path: flows", "rankings", ["best", "other"])
    theirs = cli.main(["rebuild", str(spec), "--quiet", "--finish"]), kept_table(spark, "rankings", "other_now")
    assert theirs[1] is not None
    say("taken name", code=theirs[0], location=theirs[1].location, registered="other" in entries())

    # A source by its name in the metastore, in a job of its own.
    spark.sql("create database if not exists prod")
    spark.sql(f"create table prod.flows using delta location '{directory}/flows'")
    (directory / "named").mkdir()
    named = write_spec(directory / "named", "table: prod.flows", None, ["best"])
    code = cli.main(["run", str(named), "--quiet", "--finish"])
    rows = DeltaTable(str(directory / "named/out/best_now")).to_pandas()["id"].tolist()
    say("named source", code=code, path=load_plan(str(named)).source.path, rows=rows)

    kept_files = sorted(p.name for p in (directory / "theirs").iterdir())
    write_spec(directory, "path: flows", "rankings", ["best"])
    code = cli.main(["reset", str(spec), "--yes"])
    say("reset", code=code, entries=entries(), theirs=sorted(p.name for p in (directory / "theirs").iterdir()) == kept_files)
    shutil.rmtree(out, ignore_errors=True)
    spark.stop()


def say(step: str, **found: Any) -> None:
    """Print what was found after a step."""
    print("FOUND " + json.dumps({"step": step, **found}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
