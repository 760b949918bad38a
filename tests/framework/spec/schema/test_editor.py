"""What an editor with yaml-language-server shows of a spec that ``init`` has written, and of the examples: by the real server.

``make editor-test`` installs it; elsewhere these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skyband.framework.spec.schema.json_schema import schema_text
from skyband.jobs.authoring.init import MODELINE, SCHEMA
from skyband.jobs.cli import main
from tests.framework.spec.schema.language_server import Editor, command, editor

ROOT = Path(__file__).resolve().parents[4]
SERVER = command()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SERVER is None, reason="needs yaml-language-server (make editor-test installs it below build/)"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Editor]:
    assert SERVER is not None
    with editor(SERVER) as running:
        yield running


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("new") / "job.yaml"
    assert main(["init", str(path)]) == 0
    return path


def changed(path: Path, old: str, new: str) -> str:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    return text.replace(old, new)


def test_good_specs_are_not_marked(server: Editor, spec: Path) -> None:
    for path in (spec, *sorted((ROOT / "specs").glob("*.yaml"))):
        assert server.opened(path) == [], path


def test_the_schema_is_the_one_beside_the_spec(server: Editor, tmp_path: Path) -> None:
    lonely = tmp_path / "job.yaml"
    assert main(["init", str(lonely)]) == 0
    (tmp_path / SCHEMA).unlink()
    assert any(SCHEMA in said for said in server.opened(lonely))


def test_a_typo_is_marked_where_it_stands(server: Editor, spec: Path) -> None:
    (line,) = [n for n, text in enumerate(spec.read_text().splitlines(), 1) if "shocks_day:" in text]
    said = server.opened(spec, changed(spec, "k: 5,", "kk: 5,"))
    assert any(s.startswith(f"{line}:") and "kk is not allowed" in s for s in said), said
    said = server.opened(spec, changed(spec, "10 minutes}", "10 minuets}"))
    assert any("write a number and a unit" in s for s in said), said
    said = server.opened(spec, changed(spec, "humidity: double", "humidity: dubble"))
    assert any("Valid values" in s and '"double"' in s for s in said), said
    said = server.opened(spec, changed(spec, "k: 20", "k: twenty"))
    assert any("a whole number" in s for s in said), said


def test_values_from_the_environment_are_not_marked(server: Editor, spec: Path) -> None:
    assert server.opened(spec, changed(spec, "k: 20", 'k: "${K}"').replace("10 minutes", '"${WAIT}"')) == []


def test_completion_inside_a_query(server: Editor, spec: Path) -> None:
    offered = server.completions(spec, changed(spec, "sink:", "  third:\n    type: topk_pairs\n    ^\nsink:"))
    assert offered["k"] == "How many pairs." and "scoring" in offered and "dimensions" not in offered
    offered = server.completions(spec, changed(spec, "sink:", "  third:\n    type: ^\nsink:"))
    assert {"topk_pairs", "skyline", "matches"} <= set(offered)
    assert "no other row beats" in offered["skyline"]


def test_completion_of_types_and_durations(server: Editor, spec: Path) -> None:
    offered = server.completions(spec, changed(spec, "    humidity: double", "    humidity: ^"))
    assert {"double", "array<string>", "decimal(10,2)"} <= set(offered)
    assert "10 minutes" in server.completions(spec, changed(spec, "run: {trigger: once}", "run:\n  keep: ^\n#"))


def test_hover_says_what_a_field_is(server: Editor, spec: Path) -> None:
    assert "How long to wait for rows that arrive out of order" in server.hover(spec, changed(spec, "watermark", "water^mark"))
    assert "k best pairs of rows" in server.hover(spec, changed(spec, "shocks: {type: topk_pairs", "shocks: {ty^pe: topk_pairs"))
    assert "Sets of tokens" not in server.hover(spec, changed(spec, "direction", "direc^tion"))


def test_parts_of_specs_are_helped_with_too(server: Editor, spec: Path) -> None:
    """A spec that includes files needs none of the fields; a profile has those of a spec; an included file has a schema of its own."""
    including = f"{MODELINE}job: x\ninclude: parts/_a.yaml\nqueries:\n  shocks: {{k: 3}}\n"
    assert server.opened(spec, including) == []
    assert any("kk is not allowed" in s for s in server.opened(spec, including.replace("k:", "kk:")))
    whole = spec.read_text(encoding="utf-8")
    profile = f"{whole}profiles:\n  dev:\n    window: {{time: 1 day}}\n    queries: {{shocks: {{k: 3}}}}\nparameters: {{a: [1]}}\n"
    assert server.opened(spec, profile) == []
    assert any("tyme is not allowed" in s for s in server.opened(spec, profile.replace("{time: 1 day}", "{tyme: 1 day}")))
    assert "watermark" in server.completions(spec, f"{whole}profiles:\n  dev:\n    source:\n      event_time:\n        ^\n")
    assert "SKYBAND" in server.hover(spec, profile.replace("profiles", "pro^files"))
    fragment = spec.parent / "_part.yaml"
    (spec.parent / "fragment.json").write_text(schema_text(fragment=True), encoding="utf-8")
    text = "# yaml-language-server: $schema=fragment.json\nwindow: {time: 1 day}\nprofiles: {dev: {}}\n"
    assert server.opened(fragment, text) == []
    assert any("windw is not allowed" in s for s in server.opened(fragment, text.replace("window", "windw")))
