"""The JSON schema of a spec, generated from the models, for editors: ``skyband schema`` prints it.

A schema has to accept whatever ``validate`` accepts, or editors would mark good specs: so every value may also be text with ``${NAME}``
in it, and every other spelling of a value is in its pattern. What it does not say is left to ``validate``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Union

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from skyband.framework.base.units import Name
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.schema.parts import FRAGMENT, of_specs
from skyband.framework.spec.schema.values import for_editors

SCHEMA_PATH: Final = Path(__file__).resolve().parents[3] / "specs" / "job.schema.json"
"""Where the generated schema is kept in the repository."""

_TITLE: Final = "Skyband job"


def model_schema() -> dict[str, Any]:
    """The models' own schema: of specs without variables, in the spellings that are written, with the query types of this installation."""
    models = tuple(kind.model for kind in QUERY_TYPES.all().values())
    queries = dict[Name, Annotated[Union[models], Field(discriminator="type")]]  # type: ignore[valid-type]  # noqa: UP007
    described = FieldInfo.merge_field_infos(Job.model_fields["queries"], annotation=queries)
    whole = create_model("Job", __base__=Job, __doc__=Job.__doc__, queries=(queries, described))
    return whole.model_json_schema(by_alias=True)


def job_schema() -> dict[str, Any]:
    """The schema of a whole spec (JSON Schema 2020-12), with the query types and source formats of this installation."""
    schema = of_specs(for_editors(model_schema()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": _TITLE}


def fragment_schema() -> dict[str, Any]:
    """The schema of a file that specs include."""
    whole = job_schema()
    return {"$schema": whole["$schema"], "$defs": whole["$defs"], "$ref": FRAGMENT, "title": _TITLE}


def schema_text(fragment: bool = False) -> str:
    """The schema of a spec, or of a file that specs include, as the file holds it."""
    return json.dumps(fragment_schema() if fragment else job_schema(), indent=2, sort_keys=False) + "\n"


def is_schema(text: str) -> bool:
    """Whether ``text`` is such a schema, of this version or another."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("title") == _TITLE
