"""The walk along the models: pydantic's own result for what is good, every problem in one pass, hollow values for the rest."""

from typing import Any

import pytest
import yaml

from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.models.errors import (
    EMPTY,
    MISSING,
    NO_TYPE,
    UNKNOWN,
    WRONG_TYPE,
    Fault,
    Shape,
    fields_of,
    homes,
    model_of_query,
    query_type_names,
    walk,
)
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.scoring import GlobalScoring
from skyband.framework.spec.models.source import Source
from tests.framework.spec.examples import OTHERS, SENSORS, other

GOOD = [SENSORS, *map(other, OTHERS)]


def problems_of(data: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    return [(p.path, p.kind) for p in walk(data)[1]]


@pytest.mark.parametrize("text", GOOD, ids=["sensors", *OTHERS])
def test_good_data_give_the_model_that_pydantic_gives(text: str) -> None:
    data = yaml.safe_load(text)
    job, problems = walk(data)
    found = {name: model_of_query(q["type"]).model_validate(q) for name, q in data.pop("queries").items()}  # type: ignore[union-attr]
    rest = Job.model_validate({**data, "queries": {"x": {"type": "x"}}})
    assert problems == [] and job.queries == found and job == rest.model_copy(update={"queries": found})


def test_the_seam_names_every_type_of_query() -> None:
    sets, loyalty = {"topk_similar_sets", "similar_sets", "matches"}, {"topk_loyalty", "threshold_loyalty"}
    assert {"topk", "threshold", "topk_pairs", "skyline"} | sets | loyalty <= set(query_type_names())
    assert set(query_type_names()) == set(QUERY_TYPES.all())
    assert model_of_query("topk") is QUERY_TYPES.all()["topk"].model and model_of_query("topkk") is None


def test_mistakes_at_every_depth_are_found_at_once() -> None:
    data = yaml.safe_load(SENSORS)
    data["source"]["schema"]["pm25"] = {"typ": "double"}
    data["source"]["id"] = [1, "ts"]
    data["scoring"]["closest"]["terms"].append({"weight": "much", "sum": "temp", "wieght": 2})
    data["queries"]["twins"]["k"] = None
    data["queries"]["odd"] = {"type": "topk_pears", "k": "not looked at"}
    data["queries"]["none"] = {"k": 1}
    data["queries"]["bad name"] = "not looked at"
    data["queries"]["anomalies"]["where"] = None
    del data["window"]
    assert problems_of(data) == [
        (("source", "schema", "pm25", "type"), MISSING),
        (("source", "schema", "pm25", "typ"), UNKNOWN),
        (("source", "id", 0), "string_type"),
        (("window",), MISSING),
        (("scoring", "closest", "terms", 2, "weight"), "float_parsing"),
        (("scoring", "closest", "terms", 2, "wieght"), UNKNOWN),
        (("queries", "anomalies", "where"), EMPTY),
        (("queries", "twins", "k"), "int_type"),
        (("queries", "odd"), WRONG_TYPE),
        (("queries", "none"), NO_TYPE),
        (("queries", "bad name"), "string_pattern_mismatch"),
    ]
    job, _ = walk(data)
    assert list(job.queries) == ["anomalies", "anomalies_day", "twins"]
    assert job.source.id == ("", "ts") and job.source.columns["temp"] == "double"
    closest = job.scoring["closest"]
    assert isinstance(closest, GlobalScoring) and closest.terms[2].sum == "temp" and closest.terms[2].weight == 1.0
    assert job.window.count is None and job.window.time is None


def test_nothing_good_still_gives_a_job() -> None:
    values: tuple[Any, ...] = (None, 1, "x", [1], {}, {"": {"x": []}})
    for value in values:
        job, problems = walk({field: value for field in fields_of(Job)})
        assert problems and isinstance(job.source, Source) and job.queries == {}


def test_an_open_mapping_keeps_what_it_does_not_know_even_without_a_value() -> None:
    data = yaml.safe_load(SENSORS)
    data["quality"]["tables"][0]["mostly"] = None
    job, problems = walk(data)
    assert problems == [] and job.quality.tables[0].model_extra == {"column": "score", "mostly": None}


def test_fields_have_homes_where_their_place_is_fixed() -> None:
    assert [place for place, _ in homes(Job)] == [
        "the top level", "source", "source.event_time", "source.op", "quality", "quality.rows", "quality.runs", "window", "sink",
        "sink.kafka", "run", "schedule", "schedule.retries", "tests",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "field, value, hint",
    [
        ("queries_from", {"format": "csv"}, "path: File or directory of the table"),
        ("k", [], "k: How many; with queries_from"),
    ],
)
def test_a_hint_describes_the_field_at_its_place(field: str, value: Any, hint: str) -> None:
    from skyband.framework.spec.load import validate_text

    data = yaml.safe_load(other("topk"))
    data["queries"]["top"] = {"type": "topk", "scoring": "heat", "k": 3, field: value}
    _, (error,) = validate_text(yaml.safe_dump(data))
    assert (error.hint or "").startswith(hint)


def test_containers_of_any_spelling_are_taken_apart() -> None:
    from collections.abc import Mapping, Sequence
    from typing import Annotated

    from pydantic import BeforeValidator, Field

    def refused(value: Any) -> Any:
        raise ValueError(value)

    listed = Shape(Annotated[Sequence[int], Field(min_length=1), BeforeValidator(refused)])
    assert listed.items is not None and listed.items.annotation is int and listed.keys is None
    assert listed.check([1])[1] is None and listed.check([])[1] == Fault(
        "too_short", {"field_type": "Tuple", "min_length": 1, "actual_length": 0}
    )
    named = Shape(Mapping[str, int] | None)
    assert named.nullable and named.keys is not None and named.items is not None and named.hollow() is None
