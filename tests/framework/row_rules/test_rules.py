"""What rules of each severity come to: counted, rejected, or the row for which the run stops, told without secrets and not too long."""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import COUNTS, REJECTED, STOPPING, Tally
from skyband.framework.base.reasons import REASON, STOPS
from skyband.framework.base.types import arrow_type
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan
from skyband.framework.quality.rejections import LONGEST, demoted, describe_rule, report_warned, stopped_by_rule
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.framework.streaming.rows.config import WARNED, HostConfig
from skyband.framework.streaming.rows.pack import Pack
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.jobs import write_spec

RULES = """\
    - {name: sane_x, expect: "x < 1000000", severity: fail}
    - {name: known_side, expect: "side in ('a', '${SIDE}')", severity: fail}
    - {name: odd, expect: "x <> 3", severity: warn}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIDE", "hush-hush")
    made = write_spec(tmp_path)
    made.write_text(made.read_text().replace('    - {name: sane_x, expect: "x < 1000000"}\n', RULES))
    return made


@pytest.fixture
def plan(spec: Path) -> Plan:
    return load_plan(str(spec))


def test_demoted_rules_reject(plan: Plan) -> None:
    assert [r.severity for r in demoted(plan, ["sane_x"]).intake.rules] == ["reject", "fail", "warn"]
    assert demoted(plan, []) == plan and demoted(plan, ["odd"]) == plan
    with pytest.raises(SkybandError) as e:
        demoted(plan, ["sane_y"])
    assert (e.value.code, e.value.hint) == ("SKY-E201", "did you mean 'sane_x'?")


def test_an_unknown_rule_is_a_mistake_of_the_command_line(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(spec), "--demote", "sane_x", "--demote", "nown_side"]) == 2
    assert "SKY-E201 --demote: no row rule 'nown_side' in this spec\n  hint: did you mean 'known_side'?" in capsys.readouterr().err


def test_a_rule_that_stops_a_run_has_the_exit_code_of_a_failed_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> int:
        raise SkybandError("SKY-E502", "a row of batch 3 breaks x")

    monkeypatch.setattr("skyband.jobs.spec.SpecText.plan", stopped)
    assert cli.main(["run", "x.yaml"]) == 3
    assert "SKY-E502 a row of batch 3 breaks x" in capsys.readouterr().err


def stopping(*rows: tuple[str, str, str]) -> pa.Table:
    return pa.table({n: [r[i] for r in rows] for i, n in enumerate(("reason", "text", "origin"))})


def test_the_row_is_shown_with_its_rules_and_file(plan: Plan) -> None:
    rows = stopping((f"{STOPS}sane_x", '{"id":9}', "b.csv"), (f"{STOPS}sane_x,known_side", '{"id":7}', "a.csv"))
    told = stopped_by_rule(plan, 4, rows, 12)
    assert told.code == "SKY-E502"
    assert told.message == (
        "12 rows of batch 4 break rules of severity fail; one breaks sane_x (x < 1000000), known_side (side in ('a', '${SIDE}')), "
        'in a.csv: {"id":7}'
    )
    assert "nothing of the batch is written" in str(
        told.hint
    ) and "reject such rows: skyband run SPEC --demote sane_x --demote known_side" in str(told.hint)
    one = stopped_by_rule(plan, 4, rows.slice(0, 1), 1)
    assert one.message == 'a row of batch 4 breaks sane_x (x < 1000000), in b.csv: {"id":9}'


def test_neither_secrets_nor_controls_nor_more_than_fits_are_shown(plan: Plan) -> None:
    # The secret lies across the place where the text is cut.
    text = "x" * (LONGEST - 5) + "hush-hush" + "y" * 5_000
    told = stopped_by_rule(plan, 4, stopping((f"{STOPS}sane_x", text, "\x1b[2Jhush-hush.csv\n")), 1).render()
    assert "hush" not in told and "\x1b" not in told and len(told) < 3 * LONGEST
    assert describe_rule(plan, plan.intake.rules[1]) == "known_side (side in ('a', '${SIDE}'))"


def test_what_is_used_although_it_breaks_a_rule_is_told_at_the_end(plan: Plan) -> None:
    err = io.StringIO()
    report_warned(plan, Tally({"odd": 1_200}), 5_000, Lines(err))
    assert err.getvalue() == "WARNING: 1,200 of the 5,000 rows of this run break odd (x <> 3): they are used\n"
    report_warned(plan, Tally(), 5_000, quiet := Lines(io.StringIO()))
    assert quiet is not None and err.getvalue().count("\n") == 1


def packed(plan: Plan, reasons: list[str | None], warned: list[str | None]) -> dict[str, list[bytes]]:
    """What a task makes of rows of which the intake has said so."""
    n = len(reasons)
    columns = {f.name: pa.nulls(n, arrow_type(f.type)) for f in plan.intake.fields}
    columns |= {"id": pa.array(range(n)), "ts": pa.array(range(n), pa.timestamp("us", "UTC")), "__h1": pa.array(range(n))}
    columns |= {"__h2": pa.array(range(n)), ORIGIN: pa.array(["1.csv"] * n), CORRUPT: pa.nulls(n, pa.string())}
    columns |= {REASON: pa.array(reasons, pa.string()), WARNED: pa.array(warned, pa.string())}
    out = defaultdict(list)
    for block in Pack(HostConfig.of(plan, (), "test"))(iter([pa.record_batch(columns)])):
        for kind, data in zip(block["kind"].to_pylist(), block["data"].to_pylist(), strict=True):
            out[kind].append(data)
    return out


def counts_of(out: dict[str, list[bytes]]) -> Tally:
    counts = Tally()
    counts.add(out[COUNTS][0])
    return counts


def test_rows_that_are_used_are_counted_rule_by_rule(plan: Plan) -> None:
    more = replace(plan, intake=replace(plan.intake, rules=(*plan.intake.rules, replace(plan.intake.rules[2], name="even"))))
    warned = ["odd", None, "odd,even", "even", "odd"]
    counts = counts_of(packed(more, [None, None, None, "late", "filtered"], warned))
    assert counts.warned() == {"odd": 2, "even": 1}
    assert not any("odd" in name for name in counts.counters())
    assert counts_of(packed(more, [None] * 5, [None] * 5)).warned() == {}


def test_of_rows_that_stop_the_run_one_is_sent_and_all_are_counted(plan: Plan) -> None:
    out = packed(plan, [None, "null_id", f"{STOPS}sane_x", f"{STOPS}sane_x,known_side"], [None] * 4)
    assert REJECTED not in out
    (row,) = bytes_table(out[STOPPING][0]).to_pylist()
    assert (row["reason"], row["origin"], row["text"][:7]) == (f"{STOPS}sane_x", "1.csv", '{"id":2')
    assert counts_of(out)["stopping"] == 2
