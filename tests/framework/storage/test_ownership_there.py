"""On object storage, too, what is not proven to be the job's is left alone, and a change of another writer is noticed."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.location import location
from skyband.framework.storage.settings import store_options
from skyband.framework.streaming.job.layout import Layout, check_sink_location
from skyband.framework.tables.delta.ownership import PROPERTY, Owner
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.delta.test_ownership import FOREIGN
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing.test_sink import commit


@pytest.mark.parametrize("kind", ["objects", "table"])
def test_a_first_run_refuses_what_has_a_tables_name(directory: str, kind: str) -> None:
    if kind == "table":
        write_deltalake(f"{directory}/near", FOREIGN, storage_options=store_options(directory))
    else:
        location(f"{directory}/near/2024/a.csv").write_bytes(b"1,2")
    plan = make_plan(directory)
    before = sorted(str(p) for p in location(directory).rglob("*"))
    writer = DriverWriter(location(directory))
    spec = next(s for s in Sink(plan, writer, "g").specs.values() if s.name == "near")
    for refused in (lambda: check_sink_location(plan, Layout(directory)), lambda: writer.ensure(spec)):
        with pytest.raises(SkybandError) as e:
            refused()
        assert e.value.code == "SKY-E205" and f"{directory}/near" in e.value.message
    assert sorted(str(p) for p in location(directory).rglob("*")) == before


def test_tables_there_are_the_jobs_and_changes_of_others_are_noticed(directory: str) -> None:
    plan = make_plan(directory)
    sink = Sink(plan, DriverWriter(location(directory)), "g")
    sink.ensure_all()
    changes = random_changes(plan, seed=3, batches=3, steps=10)
    for n in range(3):
        commit(sink, changes, n)
    sink.maintain()
    check_sink_location(plan, Layout(directory))
    owner = Owner(location(directory), (plan.job, "g"))
    table = DeltaTable(f"{directory}/near_changes", storage_options=store_options(directory))
    assert table.metadata().configuration[PROPERTY] == owner.id and owner.noted["near_changes"].version == table.version()
    assert owner.stranger("near_changes", table) is None and owner.altered("near_changes", table) is None
    table.delete()
    said = owner.altered("near_changes", DeltaTable(f"{directory}/near_changes", storage_options=store_options(directory)))
    assert said is not None and f"version {owner.noted['near_changes'].version + 1} is DELETE" in said
