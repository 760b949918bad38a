"""Jobs that get queries later, by an edit or by request, run by either engine: what the tests of added queries share."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from skyband.framework.base.table_names import every_table
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.tables.schemas import stream_columns
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.equality import SUMS, differences
from tests.spark.jobs import changes, sorted_rows, table, write_file
from tests.spark.kinds import KINDS, groups

BATCHES = 5
NO_ROW = ["99", "", "p", "1", "1", "a"]
"""A row that is rejected."""


class Two:
    """A job that gets some of its queries later, and one that has them all from its start, over the same files in the same runs."""

    def __init__(self, directory: Path, kind: str, engine: str = "spark") -> None:
        of, self.engine = KINDS[kind], ("--engine", engine)
        self.files = groups(of.rows(5, 240), BATCHES, seed=5)
        self.job, self.fresh = directory / "job", directory / "fresh"
        self.spec = of.write(self.fresh, 100)
        self.old = of.every_other_query().write(self.job, 100)
        self.whole = self.spec.read_text().replace(str(self.fresh), str(self.job))
        self.come = 0

    def more(self) -> None:
        """A file more for both."""
        for directory in (self.job, self.fresh):
            write_file(directory, f"{self.come}.csv", [*self.files[self.come], NO_ROW], at=20 * self.come)
        self.come += 1

    def run(self, *words: str) -> None:
        for spec in (self.old, self.spec):
            assert cli.main(["run", str(spec), "--quiet", *self.engine, *words]) == 0

    def equal(self) -> None:
        """All tables are; of ``runs``, which counts no change of the time before, all other sums."""
        rows, unequal = differences(self.job, self.fresh, same_cuts=False)
        assert unequal == ["runs"] and any(n for name, n in rows.items() if name.endswith("_changes"))
        for name in (n for n in SUMS if n != "changes"):
            assert len({sum(table(f, "runs")[name].to_pylist()) for f in (self.job, self.fresh)}) == 1, name

    def edit(self) -> None:
        self.old.write_text(self.whole)


FILES = 6


class Jobs:
    """A job that gets some of its queries by request, and one that has all of them in its spec, over the same files in the same runs."""

    def __init__(self, directory: Path, kind: str, engine: str = "spark") -> None:
        of, self.engine = KINDS[kind], ("--engine", engine)
        entries = re.split("(?m)^(?=  [a-z])", of.queries)[1:]
        # A table of queries cannot be requested.
        kept = [e for i, e in enumerate(entries) if i % 2 == 0 or "queries_from" in e]
        self.later = [e for e in entries if e not in kept]
        self.files = groups(of.rows(5, 240), FILES, seed=5)
        self.job, self.fresh = directory / "job", directory / "fresh"
        self.fresh_spec = of.write(self.fresh, 100)
        self.spec = replace(of, queries="".join(kept)).write(self.job, 100)
        self.names = [e.partition(":")[0].strip() for e in self.later]
        self.came = 0

    def more(self, both: bool = True) -> None:
        """A file more."""
        for directory in (self.job, self.fresh) if both else (self.job,):
            write_file(directory, f"{self.came}.csv", self.files[self.came], at=20 * self.came)
        self.came += 1

    def run(self, *words: str) -> None:
        for spec in (self.spec, self.fresh_spec):
            assert cli.main(["run", str(spec), "--quiet", *self.engine, *words]) == 0

    def add(self, *how: str, entries: list[str] | None = None) -> None:
        file = self.job / "more.yaml"
        file.write_text("queries:\n" + "".join(self.later if entries is None else entries))
        assert cli.main(["queries", "add", str(self.spec), str(file), *how]) == 0

    def remove(self, *names: str) -> None:
        assert cli.main(["queries", "remove", str(self.spec), *names]) == 0

    def equal(self) -> None:
        """All tables of queries are."""
        plan, rows = load_plan(str(self.spec)), 0
        assert {q.name for q in plan.queries} == {q.name for q in load_plan(str(self.fresh_spec)).queries}
        for query in plan.queries:
            columns = stream_columns(plan, query)
            mine, theirs = (changes(d, query.name, columns).to_pylist() for d in (self.job, self.fresh))
            assert mine == theirs, query.name
            rows += len(mine)
            for name in every_table(query.name)[1:]:
                if (self.fresh / "out" / name).exists() and name != f"{query.name}_changes":
                    mine, theirs = (sorted_rows(table(d, name), ["batch_id"]) for d in (self.job, self.fresh))
                    assert mine == theirs, name
        assert rows

    def verified(self) -> None:
        assert cli.main(["verify", str(self.spec), "--instants", "3"]) == 0

    def leftovers(self) -> list[str]:
        home = Layout(str(self.job / "out")).home
        parts = [name for name in ("added", "filling", "gone", "swap.json") if (home / name).exists()]
        return parts + [p.name for p in (home / "queries").glob("*.json")]
