"""The report: its numbers are the tables', it is bounded, and nothing that stands in ids becomes markup, script or steers anything."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.report import page
from skyband.framework.report.page import CELL, Figure, QueryFigures, Section, text
from skyband.framework.tables.sql.statements import Statements
from skyband.jobs.cli import main
from skyband.jobs.reading import report as command
from tests.framework.tables.results.test_reader import job
from tests.framework.tables.results.test_reports import Job
from tests.framework.tables.results.test_trajectories import plan_at, rows_of, write
from tests.framework.tables.sql.test_readers import hostile

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
OWNED = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><svg onload=document.title='owned'>"


@pytest.fixture(autouse=True)
def in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables' tests have plans whose operators are none, which no one can explain."""
    monkeypatch.setattr(page, "explain", lambda plan: f"source\n  {plan.job}")


def figures(plan: Plan, number: int = 0) -> dict[str, Figure]:
    return {f.title: f for f in QueryFigures(plan, plan.queries[number], Statements(plan)).section().figures}


def charts(document: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', document, re.DOTALL)
    read: dict[str, Any] = json.loads(found)
    return read


def test_the_numbers_are_the_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "STRETCHES", 1000)
    monkeypatch.setattr(page, "STAYS", 1000)
    plan, _ = job(tmp_path, ())
    ask = Statements(plan).ask
    found = figures(plan)
    assert list(found) == ["Now", "Ranks over time", "Stays in the result", "Score of the 5th"]
    now = ask('select * from near_now order by "rank"')
    head = found["Now"].head
    assert set(head) == set(now.column_names) and head[:3] == ("rank", "score", "older_id")
    assert (
        head[3] == "newer_id" and head.index("older_time") > head.index("newer_id") and head.index("older_seq") > head.index("newer_time")
    )
    assert [r[0] for r in found["Now"].rows] == [str(n) for n in now["rank"].to_pylist()]
    ranks = ask("select * from near_ranks").to_pylist()
    drawn = found["Ranks over time"].chart["data"]["values"]  # type: ignore[index]
    begun = sorted((v["from"], v["rank"]) for v in drawn if not v["end"])
    assert begun == sorted((r["valid_from"].timestamp() * 1000, r["rank"]) for r in ranks)
    stays = ask("select * from near_history").to_pylist()
    assert len(found["Stays in the result"].rows) == len(stays)
    fifth = [r for r in ranks if r["rank"] == 5]
    assert sorted(r[2] for r in found["Score of the 5th"].rows) == sorted(text(r["score"]) for r in fifth)


def test_an_item_is_called_by_its_id_and_what_is_carried(tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ())
    figures_of = QueryFigures(plan, replace(plan.queries[0], carry=("side", "x")), Statements(plan))
    row = {"older_id": 1, "newer_id": 2, "older_side": "left", "newer_side": None, "older_x": 3.5, "newer_x": 4.5}
    assert figures_of._label(row) == "1 (left) & 2"


def test_of_keys_the_one_with_the_most_stays_is_drawn(tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ("grp",))
    counts = Statements(plan).ask("select grp, count(*) as n from near group by grp order by n desc, grp").to_pylist()
    stays = figures(plan)["Stays in the result"]
    assert len(stays.rows) == counts[0]["n"] and f"grp {counts[0]['grp']}" in stays.said


def test_what_moves_and_what_is_told_once_have_what_makes_sense(tmp_path: Path) -> None:
    plan = plan_at(tmp_path / "moves")
    write(plan, rows_of(1, 90), [10, 40], {0, 1})
    assert list(figures(plan)) == ["Now", "Stays in the result"]
    told = Job(tmp_path, False).plan
    assert list(figures(told)) == ["The newest"] and figures(told)["The newest"].rows
    assert charts(page.report(told, NOW))


def test_it_is_bounded_and_says_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = job(tmp_path, ())
    for name in ("NOW", "STRETCHES", "STAYS", "STEPS"):
        monkeypatch.setattr(page, name, 3)
    monkeypatch.setattr(page, "QUERIES", 1)
    for f in figures(plan).values():
        assert len(f.rows) <= 3 and (f.left_out.startswith("Shown are 3 of") or len(f.rows) < 3)
    document = page.report(plan, NOW)
    assert "the first 1 of 2 queries" in document and len(document) < 1_100_000
    assert len(text("x" * 10**6)) == CELL


def test_nothing_of_the_data_is_markup(tmp_path: Path) -> None:
    plan = hostile(tmp_path)
    document = page.report(plan, NOW)
    bare = re.sub(r"<script>.*?</script>", "", document, flags=re.DOTALL)
    assert "<img" not in bare and "&lt;/script&gt;&lt;img" in bare and "onerror=alert" in html.unescape(bare)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", document.replace("\r", ""))
    assert document.count("</script>") == 3 and "http" not in re.search(r'Policy" content="(.*?)"', document)[1]  # type: ignore[index]
    (raw,) = re.findall(r'id="charts">(.*?)</script>', document, re.DOTALL)
    assert not set("<>&") & set(raw)
    assert charts(document)


def test_numbers_that_json_lacks_and_lines_of_a_library(tmp_path: Path) -> None:
    assert (
        page._json({"a": [float("nan"), float("inf"), 1.5], "b": "</script>"}) == '{"a": [null, null, 1.5], "b": "\\u003c/script\\u003e"}'
    )
    assert page._closed('x="</script><!--"') == 'x="<\\/script><\\!--"'


def test_the_command_writes_the_file_whole_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sink").mkdir()
    plan, _ = job(tmp_path / "sink", ())
    monkeypatch.setattr(command, "load_plan", lambda spec: plan)
    out = tmp_path / "report.html"
    assert main(["report", "spec.yaml", "--out", str(out)]) == 0
    assert f"wrote {out}" in capsys.readouterr().out and out.read_text().startswith("<!doctype html>")
    assert main(["report", "spec.yaml", "--out", str(tmp_path / "nowhere" / "report.html")]) == 2
    assert "SKY-E203" in capsys.readouterr().err


CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt-get install chromium)")


def opened(file: Path, *options: str) -> tuple[str, list[str]]:
    """(the page's document after its scripts have run, what stands on its console)."""
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={file.parent}/profile",
            "--virtual-time-budget=20000", "--enable-logging=stderr", *options, "--dump-dom", file.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "HOME": str(file.parent)},
    )  # fmt: skip
    return re.sub(r"<script>.*?</script>", "", done.stdout, flags=re.DOTALL), [
        line for line in done.stderr.splitlines() if "CONSOLE" in line
    ]


@browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_every_chart_and_has_nothing_to_say(tmp_path: Path, scheme: str) -> None:
    plan = hostile(tmp_path)
    file = tmp_path / "report.html"
    file.write_text(page.report(plan, NOW), encoding="utf-8")
    document, console = opened(file, f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
    assert console == []
    places = document.count("data-chart=")
    assert places >= 4 and document.count("data-drawn=") == places and document.count("<svg") == places
    colour = {"light": "#0b62a8", "dark": "#6cb6f5"}[scheme]
    assert f'fill="{colour}"' in document or f'stroke="{colour}"' in document
    assert document.count('role="graphics-document"') == places and 'aria-label="Ranks over time of near.' in document
    for name in ("=1+1", "Ω 中文", "a,b;c|d"):
        assert name in html.unescape(document)


@browser
def test_no_script_in_an_id_runs(tmp_path: Path) -> None:
    rows = ((OWNED, "javascript:document.title='owned'"),)
    chart = {"mark": "text", "data": {"values": [{"t": OWNED}]}, "encoding": {"text": {"field": "t"}}}
    section = Section(OWNED, OWNED, [Figure(OWNED, OWNED, (OWNED, OWNED), rows, chart, OWNED, OWNED)])
    file = tmp_path / "report.html"
    file.write_text(page.html(OWNED, OWNED, [section]), encoding="utf-8")
    document, console = opened(file)
    assert console == [] and document.count("data-drawn=") == 1
    assert "<title>&lt;/script&gt;" in document and "<img" not in document


@browser
def test_the_policy_stops_what_would_get_past_the_escaping(tmp_path: Path) -> None:
    """So that the tests above would see it, and as a second wall."""
    file = tmp_path / "report.html"
    text = page.html("t", "s", [Section("a", "b")])
    file.write_text(text.replace("<main", OWNED.removeprefix("</script>") + "<main", 1), encoding="utf-8")
    document, console = opened(file)
    assert "<title>t</title>" in document and "Content Security Policy" in "".join(console)


def test_a_report_replaces_a_report_and_nothing_else(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file that the spec includes, a table of queries, anything of the user's stays as it is."""
    plan, _ = job(tmp_path, ())
    out = tmp_path_factory.mktemp("pages") / "page.html"
    out.write_text("queries: {}\n")
    with pytest.raises(SkybandError) as e:
        command.write(plan, out)
    assert e.value.code == "SKY-E202" and out.read_text() == "queries: {}\n"
    out.write_text("")
    for _ in range(2):
        assert page.is_report(command.write(plan, out).read_bytes())
