"""Writes the JSON schema of a spec to the file that is the argument, or to ``specs/job.schema.json``."""

from __future__ import annotations

import sys
from pathlib import Path

from skyband.framework.spec.schema.json_schema import SCHEMA_PATH, schema_text

if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMA_PATH).write_text(schema_text(), encoding="utf-8")
