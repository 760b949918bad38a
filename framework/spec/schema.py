"""The JSON schema of a spec, generated from the models, for editors: ``python -m skyband.framework.spec.schema`` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from skyband.framework.spec.models import Job

SCHEMA_PATH: Final = Path(__file__).resolve().parents[2] / "specs" / "job.schema.json"
"""Where the generated schema is kept in the repository."""


def job_schema() -> dict[str, Any]:
    """The schema of a whole spec (JSON Schema 2020-12)."""
    schema = Job.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Skyband job"}


def schema_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(job_schema(), indent=2, sort_keys=False) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMA_PATH).write_text(schema_text(), encoding="utf-8")
