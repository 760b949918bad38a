"""MkDocs hooks for ``make docs``: add the pages beside ``docs/`` to the site, the README as the first page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
PAGES: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""The files at the top of the checkout that are pages, and their names on the site."""
_LINK: Final = re.compile(r"\]\(((?:\.\./)*)(" + "|".join(map(re.escape, PAGES)) + r")(?=[)#])")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages, with links as they are on the site."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=_LINK.sub(lambda m: f"]({PAGES[m[2]]}", text)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Return a page of ``docs/`` with its links to the added pages, which are one directory further down on the site."""
    return _LINK.sub(lambda m: f"]({m[1].removeprefix('../')}{PAGES[m[2]]}", markdown)
