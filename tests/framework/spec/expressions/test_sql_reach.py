"""SQL of a spec that would open a file, load a class or ask the session is refused before Spark sees it."""

from __future__ import annotations

import pytest

from skyband.framework.spec.expressions.sql import REFUSED, check_sql, functions

TYPES: dict[str, str | None] = {"o": "string", "b": "string", "i": "int"}


@pytest.mark.parametrize(
    "sql",
    [
        "from_xml(o, 'a int', map('rowValidationXSDPath', '/etc/passwd')).a = 1",
        "from_xml(o, 'a int').a = 1",
        "schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd')) = ''",
        "xpath_string(o, 'a') = ''",
        "from_protobuf(o, 'm', '/etc/passwd').a = 1",
        "from_avro(o, '{}', map('avroSchemaUrl', 'file:///etc/passwd')).a = 1",
        "from_json(o, 'a int', map('rowValidationXSDPath', '/etc/passwd')).a = 1",
        "from_json(o, 'a int', map('MODE', 'FAILFAST')).a = 1",
        "from_json(o, 'a int', map(o, b)).a = 1",
        "from_json(o, 'a int', map_from_arrays(array('mode'), array('FAILFAST'))).a = 1",
        "from_json(o, 'a int', options => map('mode', 'FAILFAST')).a = 1",
        """from_json(o, '{"type":"udt","class":"java.lang.Object"}') is null""",
        "from_json(o, concat('{', b)) is null",
        "`from_json`(o, 'a int', map('nowhere', '1')).a = 1",
        "to_csv(struct(i), map('path', '/x')) = ''",
        "reflect('java.lang.Runtime', 'getRuntime') = ''",
        "read_files('/etc/passwd') = ''",
        "ai_query('x', 'y') = ''",
        "http_request('GET', 'x') = ''",
    ],
)
def test_sql_that_reaches_out_is_refused(sql: str) -> None:
    result = check_sql(sql, TYPES)
    assert "SKY-E133" in [p.code for p in result.problems], result


@pytest.mark.parametrize("name", ["user", "current_user", "session_user", "current_catalog", "current_timezone()", "input_file_name()"])
def test_sql_that_asks_the_session_is_refused(name: str) -> None:
    assert {"SKY-E134"} <= {p.code for p in check_sql(f"{name} = 'x'", TYPES).problems}


def test_options_and_schemas_that_are_spelled_out_are_taken() -> None:
    for sql in (
        "from_json(o, 'a int, b array<string>', map('timestampFormat', 'yyyy', 'allowComments', 'true')).a",
        "from_csv(o, 'a int', map('SEP', ';')).a",
        "from_json(o, schema_of_json('{}')).a",
        "to_json(struct(i, o))",
    ):
        assert [p for p in check_sql(sql, TYPES).problems if p.code != "SKY-E132"] == [], sql


def test_what_is_refused_is_on_sparks_list() -> None:
    assert set(REFUSED) <= functions()["scalar"]
