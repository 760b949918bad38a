"""MkDocs hook for ``make docs``: add the README as the first page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Any, *, config: Any) -> Any:
    """Add the README as ``index.md``, with links relative to docs/."""
    from mkdocs.structure.files import File

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=re.sub(r"\]\(docs/", "](", text)))
    return files
