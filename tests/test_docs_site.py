"""The docs as a site: every page is in the menu, the site builds strictly and loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.docs_site import PAGES, on_page_markdown
from tests.test_architecture import ROOT

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages(nav: Any) -> Iterator[str]:
    """Yield the pages of a menu, in order."""
    for part in nav:
        yield from pages(next(iter(part.values()))) if isinstance(part, dict) else [part]


def test_every_page_is_in_the_menu_once() -> None:
    assert sorted(pages(CONFIG["nav"])) == sorted(
        [*PAGES.values(), *(p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md"))]
    )


def test_links_to_the_pages_beside_the_docs_lead_to_those_of_the_site() -> None:
    text = "[a](../README.md#two-commands) [b](../../CONTRIBUTING.md) [c](../other/README.md) [d](developers.md)"
    linked = "[a](index.md#two-commands) [b](../contributing.md) [c](../other/README.md) [d](developers.md)"
    assert on_page_markdown(text, page=None, config=None, files=None) == linked


def test_its_requirements_are_pinned_and_not_part_of_an_installation() -> None:
    text = (ROOT / "docs" / "requirements.txt").read_text(encoding="utf-8")
    assert "://" not in text and re.search(r"^mkdocs-material==\S+ \\\n +--hash=sha256:", text, re.MULTILINE)
    for other in ("requirements.txt", "requirements-image.txt", "pyproject.toml"):
        assert "mkdocs" not in (ROOT / other).read_text(encoding="utf-8")


@pytest.mark.slow
def test_it_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for name in ("docs", "scripts", "mkdocs.yml", *PAGES):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, tmp_path / name)
    venv.create(tmp_path / "venv", with_pip=True)
    bin_ = tmp_path / "venv" / "bin"
    pip = [bin_ / "python", "-m", "pip", "install", "--quiet", "--require-hashes", "-r", tmp_path / "docs" / "requirements.txt"]
    for words in (pip, [bin_ / "mkdocs", "build", "--quiet", "--strict"]):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "build" / "site"
    built = {p.relative_to(site).as_posix(): p.read_text(encoding="utf-8") for p in site.rglob("*.html")}
    assert {f"{p.removesuffix('.md')}.html" for p in pages(CONFIG["nav"])} <= set(built)
    loading = re.compile(r"<(?:script|img|iframe|link rel=\"(?:stylesheet|icon|preconnect)\")[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*")
    assert [(name, m[0]) for name, text in built.items() for m in loading.finditer(text)] == []
    assert 'src="images/report.png"' in built["index.html"] and 'src="../images/window.svg"' in built["explanation/concepts.html"]
