"""The JSON schema and the validator agree: on spellings of values, on whole specs; and every field has words to hover over."""

from __future__ import annotations

import functools
import re
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from skyband.framework.base import units
from skyband.framework.spec.load import validate_text
from skyband.framework.spec.models.scoring import Keep
from skyband.framework.spec.models.source import ColumnType
from skyband.framework.spec.parsing.assemble import read_text
from skyband.framework.spec.schema.json_schema import for_editors, fragment_schema, job_schema
from tests.framework.spec.examples import ENV, FAMILY, SENSORS
from tests.framework.spec.fuzz import mutant
from tests.seeds import cases

TYPES = {
    "duration": units.Duration,
    "size": units.Size,
    "percent": units.Percent,
    "batches": units.Batches,
    "column type": ColumnType,
    "whole number": Keep.model_fields["k"].rebuild_annotation(),
    "name": units.Name,
}
PIECES = [
    "1", "0", "10", "100", "007", "1.5", " ", "  ", "%", "hour", "HOURS", "s", "us", "min", "d", "weeks", "month", "b", "kb", "M", "g",
    "batch", "Batches", "batches", "int", "Integer", "STRING", "array", "<", ">", "string", "decimal", "(", ",", ")", "x", "_", "-",
    "", "\u0663",
]  # fmt: skip


@functools.cache
def checks(what: str) -> tuple[TypeAdapter[Any], jsonschema.Draft202012Validator]:
    adapter = TypeAdapter(TYPES[what])
    return adapter, jsonschema.Draft202012Validator(for_editors(adapter.json_schema()))


def good(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


@given(st.sampled_from(sorted(TYPES)), st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_whatever_is_good_fits_the_schema_and_other_text_does_not(what: str, text: str) -> None:
    adapter, schema = checks(what)
    fits = schema.is_valid(text)
    if good(adapter, text):
        assert fits, (what, text)
    elif what in ("duration", "size", "percent", "batches", "name"):
        assert not fits, (what, text)


@pytest.mark.parametrize("what", TYPES)
def test_a_variable_fits_everywhere(what: str) -> None:
    assert checks(what)[1].is_valid("${NAME}") and checks(what)[1].is_valid("x${NAME}")
    assert not checks(what)[1].is_valid("no such")


def test_a_spec_made_of_variables_fits() -> None:
    env = {**ENV, "K": "20", "W": "10 minutes", "D": "min", "T": "string"}
    text = SENSORS.replace("k: 20", 'k: "${K}"').replace("10 minutes", '"${W}"').replace("direction: min", 'direction: "${D}"')
    text = text.replace("{sensor: string,", '{sensor: "${T}",')
    job, errors = validate_text(text, env)
    assert job is not None and not errors
    jsonschema.validate(yaml.safe_load(text), job_schema())


def test_a_spec_of_parameters_fits() -> None:
    data = yaml.safe_load(SENSORS)
    data["parameters"] = {}
    for section in ("source", "window", "scoring", "queries", "sink", "run", "schedule", "transform"):
        assert jsonschema.Draft202012Validator(job_schema()).is_valid({**data, section: "${x}"}), section
    data["run"] = {"trigger": "${often}", "max_files": "${files}"}
    data["scoring"]["closest"]["terms"] = ["${term}", {"sum": "temp"}]
    data["queries"]["twins"] = {**data["queries"]["twins"], "carry": "${carry}", "window": "${window}"}
    data["queries"]["other"] = "${query}"
    data["source"] |= {"id": ["${id}"], "schema": "${schema}", "event_time": "${time}"}
    jsonschema.validate(data, job_schema())
    jsonschema.validate(yaml.safe_load(FAMILY.replace("[]", "[a.yaml]")), job_schema())
    jsonschema.validate(yaml.safe_load(FAMILY.replace("include: []", "")), job_schema())


def test_parts_need_nothing_and_know_their_fields() -> None:
    """A spec that includes others may lack anything; profiles and fragments too; all of them refuse what no spec has."""
    schema = jsonschema.Draft202012Validator(job_schema())
    whole = yaml.safe_load(SENSORS)
    part = {"job": "x", "include": ["parts/_a.yaml"], "source": {"path": "x"}, "queries": {"anomalies": {"k": 3}}, "run": {}}
    assert schema.is_valid(part) and not schema.is_valid({**part, "include": "a.txt"})
    alone = {key: value for key, value in part.items() if key != "include"}
    assert not schema.is_valid(alone) and schema.is_valid({**alone, "profiles": {"dev": {"sink": {"path": "x"}}}})
    for bad in ({"sauce": {}}, {"queries": {"anomalies": {"kk": 3}}}, {"window": {"time": "1 moon"}}):
        assert not schema.is_valid({**part, **bad}) and not schema.is_valid({**whole, "profiles": {"dev": bad}})
    good = {"window": {"count": 3}, "queries": {"anomalies": {"k": 3}}, "parameters": {"a": [1]}}
    assert schema.is_valid({**whole, "parameters": {"a": {}}, "profiles": {"dev": good, "prod": None}})
    assert not schema.is_valid({**whole, "profiles": {"dev": {"include": "a.yaml"}}})
    fragment = jsonschema.Draft202012Validator(fragment_schema())
    assert fragment.is_valid({**good, "profiles": {"dev": good}}) and not fragment.is_valid({"include": "a.yaml"})
    assert not fragment.is_valid({"window": {"kount": 3}})


def test_damaged_specs_that_are_good_all_the_same_fit() -> None:
    schema = jsonschema.Draft202012Validator(job_schema())
    seen = 0
    for seed in range(100):
        if seen and seed >= cases(100):
            break
        text = mutant(seed)
        job, _ = validate_text(text, ENV)
        if job is not None:
            seen += 1
            wrong = jsonschema.exceptions.best_match(schema.iter_errors(read_text("x", text, {}).data))
            assert wrong is None, (seed, wrong.message if wrong else "")
    assert seen


def fields(schema: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every field of every section, with its path."""
    if isinstance(schema, list):
        return [found for s in schema for found in fields(s, path)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("properties", {})
    named = [(f"{path}.{name}", field) for name, field in own.items()]
    return named + [found for key, s in schema.items() for found in fields(s, path if key in ("properties", "$defs") else f"{path}.{key}")]


def test_every_field_and_section_says_what_it_is() -> None:
    schema = job_schema()
    sections = schema["$defs"]
    found = fields(schema)
    assert len(found) > 100
    for path, field in found:
        said = field.get("description") or sections.get(str(field.get("$ref")).rsplit("/", 1)[-1], {}).get("description")
        assert said, f"{path} has no description"
    for name, section in sections.items():
        assert section.get("description"), name


def test_patterns_are_such_as_every_editor_reads() -> None:
    """Editors use JavaScript's expressions: no flags, no names, no possessive quantifiers, no \\Z."""

    def patterns(schema: Any) -> list[str]:
        if isinstance(schema, list):
            return [p for s in schema for p in patterns(s)]
        if not isinstance(schema, dict):
            return []
        own = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
        return own + [p for s in schema.values() for p in patterns(s)]

    found = set(patterns(job_schema()))
    assert len(found) > 5
    for pattern in found:
        re.compile(pattern)
        assert not re.search(r"\(\?|\\[ZAzpP]|[*+?}]\+", pattern.replace("[-+", "").replace("[0-9_.eE+-]", "")), pattern
