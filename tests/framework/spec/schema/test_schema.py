"""The JSON schema for editors is the models' own, and agrees with the examples."""

import json

import jsonschema
import pytest
import yaml

from skyband.framework.spec.load import validate_text
from skyband.framework.spec.schema.json_schema import SCHEMA_PATH, job_schema, schema_text
from skyband.jobs.authoring.init import TEMPLATE
from tests.framework.spec.examples import OTHERS, SENSORS, other


def test_the_schema_file_is_current() -> None:
    assert SCHEMA_PATH.read_text(encoding="utf-8") == schema_text(), "run: python -m skyband.framework.spec.schema"


@pytest.mark.parametrize("text", [SENSORS, TEMPLATE.read_text(encoding="utf-8"), *map(other, OTHERS)])
def test_examples_fit_the_schema(text: str) -> None:
    jsonschema.Draft202012Validator.check_schema(job_schema())
    jsonschema.validate(yaml.safe_load(text), json.loads(schema_text()))


@pytest.mark.parametrize(
    "old, new",
    [
        ("k: 20", "k: 0"),
        ("watermark", "watermerk"),
        ("min\n", "mid\n"),
        ("time: 7 days", "time: 7"),
        ("max_score: 0.5", "max_score:"),
        ("{time: 7 days}", "{}"),
        ("{abs_difference: temp}", "{}"),
        ("{abs_difference: temp}", "{abs_difference: temp, sum: temp}"),
        ("{trigger: once}", "{max_files: 1, max_bytes: 1m}"),
    ],
)
def test_the_schema_refuses_mistakes(old: str, new: str) -> None:
    assert old in SENSORS
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(SENSORS.replace(old, new, 1)), job_schema())


def test_init_offers_no_format_that_is_refused() -> None:
    text = TEMPLATE.read_text(encoding="utf-8")
    (line,) = [x for x in text.splitlines() if x.strip().startswith("format:")]
    for name in line.split("#")[1].split("|"):
        _, errors = validate_text(text.replace("format: csv", f"format: {name.strip()}"), {})
        assert errors == []
