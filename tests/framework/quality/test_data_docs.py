"""Data Docs are pages that load nothing, run nothing, and show values as values; and the library speaks to nobody."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.plan.nodes import Check
from skyband.framework.quality import data_docs
from skyband.framework.quality.checks import Span, evaluate
from skyband.framework.quality.data_docs import without_network
from tests.framework.quality.test_gate import Job, new

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)><a href='https://elsewhere.example/x'>y</a>"


class Page(HTMLParser):
    """The tags of a page, and what it shows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.shown += data


def rejected(job: Job, *reasons: str) -> None:
    """Rows of table ``rejected`` of a batch."""
    schema = job.sink.specs["rejected"].schema
    rows = pa.Table.from_pylist([{"reason": r, "text": r, "batch_id": 0} for r in reasons], schema)
    job.sink.writer.append("rejected", rows, "test", 0)


@pytest.mark.long
def test_pages_load_nothing_and_show_values_as_values(tmp_path: Path) -> None:
    job = Job(
        tmp_path / "out",
        new("expect_column_values_to_be_in_set", "rejected", column="reason", value_set=["late", EVIL + "2"]),
        new("expect_column_distinct_values_to_equal_set", "rejected", column="text", value_set=[EVIL + "3"]),
        new("expect_column_values_to_not_be_null", "rejected", column=EVIL),
        new(table="near_now", scope="whole"),
        Check("near", "expect_wonders", json.dumps({"x": EVIL}), "info"),
    )
    job.batch(0)
    rejected(job, EVIL, "late")
    found = list(evaluate(job.sink.plan, job.sink.writer, Span(0, 0)))
    pages = data_docs.write(tmp_path / "docs", "tests", found)
    assert sorted(p.name for p in pages) == ["index.html", "near_now.html", "rejected.html"] == sorted(os.listdir(tmp_path / "docs"))
    for path in pages:
        page = Page(path.read_text())
        assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & {tag for tag, _ in page.tags}
        named = [v for _, attrs in page.tags for n, v in attrs.items() if n in ("href", "src", "action") and v]
        assert [v for v in named if not v.startswith("#") and not re.fullmatch(r"\w+\.html", v)] == []
        assert not [n for _, attrs in page.tags for n in attrs if n.startswith("on") and "alert" in str(attrs[n])]
        policy = next(a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy")
        assert "default-src 'none'" in str(policy)
    shown = Page((tmp_path / "docs" / "rejected.html").read_text()).shown
    assert EVIL in shown and "late" in shown
    index = Page((tmp_path / "docs" / "index.html").read_text()).shown
    assert "expect_wonders" in index and EVIL in index and index.count("ok") >= 1 and "FAILED (critical)" in index


def test_whatever_a_page_would_load_is_taken_out() -> None:
    page = (
        '<html><head><link href="https://a/b.css"><SCRIPT src="//a/x.js">1</SCRIPT></head><body><a href="x.html">1</a><a href=\'//a\'>2</a>'
    )
    bare = without_network(page + "<img src=a><a href='#s'>3</a></body></html>")
    assert "//a" not in bare and "<img" not in bare and 'href="x.html"' in bare and "href='#s'" in bare and "default-src 'none'" in bare


ALONE = """
import socket, sys
def refused(*args, **kwargs):
    print("CONNECTS", args[1:], flush=True)
    raise OSError("no network")
socket.socket.connect = refused
socket.getaddrinfo = lambda *a, **k: refused(None, *a)
from pathlib import Path
from skyband.framework.quality import data_docs
from skyband.framework.quality.checks import Span, evaluate
from tests.framework.quality.test_gate import Job, new
job = Job(Path(sys.argv[1]) / "out", new(), new("expect_column_values_to_not_be_null", column="score"))
job.batch(0)
found = list(evaluate(job.sink.plan, job.sink.writer, Span(0, 0)))
data_docs.write(Path(sys.argv[1]) / "docs", "tests", found)
print([o.success for o, _ in found])
"""


@pytest.mark.long
def test_the_library_sends_nothing_and_draws_nothing(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    env = {k: v for k, v in os.environ.items() if k != "GX_ANALYTICS_ENABLED"} | {"HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    # As a file: Spark's library takes a main module without one for its own tests.
    (tmp_path / "alone.py").write_text(f"import sys\nsys.path.insert(0, {str(root)!r})\n{ALONE}")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "alone.py"), str(tmp_path)], env=env, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[True, True]", done.stdout + done.stderr
    assert "%" not in done.stderr and "it/s" not in done.stderr
    left = [p for p in (tmp_path / "tmp").rglob("*") if p.is_file()]
    assert left == []
