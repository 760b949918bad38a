"""Plans and registrars for tests of catalogs, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skyband.framework.catalogs.model import schema_of
from skyband.framework.catalogs.registrar import Registrar
from skyband.framework.plan.model import Plan
from tests.specs import plan_of_text, spec_text

TOKEN = "dapi-3f9c-not-for-anyone"


def text_of(catalog: str | None = "main.rankings", queries: tuple[str, ...] = ("best",), sink: str = "out", **more: str) -> str:
    """A spec with top-k queries and a catalog."""
    return spec_text(
        "flights", "{id: bigint, ts: timestamp, grp: string, x: double, price: 'decimal(12,2)', day: date, due: boolean}",
        partition_by="[grp]", window="{count: 100}", scoring={"high": '{expression: "x", direction: max}'},
        queries={name: "{type: topk, scoring: high, k: 3, carry: [price, day, due]}" for name in queries},
        sink=f"{{path: {sink}{'' if catalog is None else f', catalog: {catalog}'}}}", format="json", **more,  # type: ignore[arg-type]
    )  # fmt: skip


def plan_at(directory: Path, catalog: str | None = "main.rankings", queries: tuple[str, ...] = ("best",)) -> Plan:
    """The plan of such a spec with a sink in ``directory``."""
    (directory / "out" / "_skyband").mkdir(parents=True, exist_ok=True)
    return plan_of_text(text_of(catalog, queries, str(directory / "out")))


def no_session() -> None:
    """No test of Unity Catalog needs Spark."""
    raise AssertionError("Spark was started")


def registrar_of(plan: Plan, said: list[str], env: Mapping[str, str], patience: float = 20.0) -> Registrar:
    """The registrar of a plan, as a new run has it."""
    schema = None if plan.catalog is None else schema_of(plan.catalog)
    return Registrar(plan.sink, schema, no_session, said.append, env, patience)  # type: ignore[arg-type]
