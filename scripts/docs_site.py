"""What MkDocs does besides for ``make docs``: the README is the first page, and links into the checkout lead nowhere else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Any, *, config: Any) -> Any:
    """Adds the README as ``index.md``, with its links as seen from the directory of documents."""
    from mkdocs.structure.files import File

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=re.sub(r"\]\(docs/", "](", text)))
    return files
