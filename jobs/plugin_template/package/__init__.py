"""Parts for Skyband, found by the entry points of ``pyproject.toml``: each module is one, and none needs the others."""
