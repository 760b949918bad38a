"""Names of schemas and tables: what a spec may write, and which catalog serves it."""

from __future__ import annotations

import pytest

from skyband.framework.catalogs.model import InvalidName, Schema, same_place, schema_of, table_of
from skyband.framework.spec.load import validate_text
from tests.framework.catalogs.jobs import text_of


@pytest.mark.parametrize(
    ("text", "schema", "hive"),
    [
        ("main.rankings", Schema("main", "rankings"), False),
        ("my-Catalog.s_1", Schema("my-Catalog", "s_1"), False),
        ("Rankings", Schema("spark_catalog", "rankings"), True),
        ("SPARK_CATALOG.Rankings", Schema("spark_catalog", "rankings"), True),
    ],
)
def test_a_schema_is_of_unity_catalog_or_of_the_metastore(text: str, schema: Schema, hive: bool) -> None:
    assert schema_of(text) == schema and schema_of(text).hive is hive
    assert table_of(f"{text}.Best")[0] == schema
    assert table_of(f"{text}.Best")[1] == ("best" if hive else "Best")


ODD = (
    "a.b.c", "", ".", "a.", ".b", "a b.c", "a.b`", 'a"b.c', "a'b.c", "a%2Eb.c", "a.b/../c", "a.ä", "a.b\n", "x" * 256 + ".a", "my-schema",
    "../a.b",
)  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_other_names_of_schemas_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        schema_of(text)


@pytest.mark.parametrize("text", ["a", "a.b.c.d", "a.b.`c`", "a.b.c'", "a..c", "a.b.%63", "main.my-flows"])
def test_other_names_of_tables_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        table_of(text)


@pytest.mark.parametrize("name", ["main.rank`ings", "a.b.c", "main.50%", "my-schema"])
def test_a_spec_with_such_a_name_is_refused_at_its_place(name: str) -> None:
    text = text_of(f'"{name}"')
    job, errors = validate_text(text, {})
    line = next(i for i, said in enumerate(text.splitlines(), 1) if "catalog:" in said)
    assert job is None and [(e.code, e.where.line if e.where else 0) for e in errors] == [("SKY-E680", line)]
    assert errors[0].hint is not None and "SCHEMA" in errors[0].hint


def test_the_name_cannot_come_from_the_environment() -> None:
    _, errors = validate_text(text_of('"${CATALOG}.rankings"'), {"CATALOG": "main"})
    assert [e.code for e in errors] == ["SKY-E119"]


@pytest.mark.parametrize("name", ["SKYBAND_UNITY_TOKEN", "SKYBAND_UNITY_URL"])
def test_no_spec_may_use_the_variables_of_the_catalog(name: str) -> None:
    text = text_of().replace("path: in", f'path: "${{{name}}}"')
    _, errors = validate_text(text, {name: "secret-of-the-operator"})
    assert [e.code for e in errors] == ["SKY-E119"]
    assert "secret-of-the-operator" not in "".join(e.render() for e in errors)


def test_locations_are_compared_as_catalogs_spell_them() -> None:
    for other in ("file:/a/b c", "file:///a/b%20c", "file:///a/b%20c/", "/a/b c/"):
        assert same_place("/a/b c", other)
    assert same_place("s3a://bucket/a/b", "s3://bucket/a/b/")
    for other in ("/a/b", "file:/a/b%20c/d", "s3://a/b c", "hdfs:///a/b c"):
        assert not same_place("/a/b c", other)
    assert not same_place("s3://bucket/a", "s3://other/a")
