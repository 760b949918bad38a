"""The JSON schema of a spec, generated from the models, for editors: ``python -m skyband.framework.spec.schema`` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Union

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.models import Job
from skyband.framework.spec.units import Name

SCHEMA_PATH: Final = Path(__file__).resolve().parents[2] / "specs" / "job.schema.json"
"""Where the generated schema is kept in the repository."""


def job_schema() -> dict[str, Any]:
    """The schema of a whole spec (JSON Schema 2020-12)."""
    models = tuple(kind.model for kind in QUERY_TYPES.all().values())
    queries = dict[Name, Annotated[Union[models], Field(discriminator="type")]]  # type: ignore[valid-type]  # noqa: UP007
    described = FieldInfo.merge_field_infos(Job.model_fields["queries"], annotation=queries)
    whole = create_model("Job", __base__=Job, __doc__=Job.__doc__, queries=(queries, described))
    schema = whole.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_without_null(schema), "title": "Skyband job"}


def _without_null(schema: Any) -> Any:
    """The schema without the nulls pydantic allows in optional fields: a field without a value is left out of a spec."""
    if isinstance(schema, list):
        return [_without_null(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _without_null(s) for key, s in schema.items() if (key, s) != ("default", None)}
    values = [s for s in result.get("anyOf", []) if s != {"type": "null"}]
    if len(values) == 1:
        del result["anyOf"]
        return {**values[0], **result}
    return {**result, "anyOf": values} if values else result


def schema_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(job_schema(), indent=2, sort_keys=False) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMA_PATH).write_text(schema_text(), encoding="utf-8")
