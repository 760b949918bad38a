"""``skyband serve`` by PostgreSQL's own JDBC driver: metadata, prepared statements, kinds of values, rows in parts, a time-out.

The driver comes by Ivy, as Spark's packages do; where it cannot be had the tests say so and are skipped. Python talks to it by Py4J.
"""

from __future__ import annotations

import glob
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from skyband.framework.base.java import find_java_home
from skyband.framework.serve.protocol.values import FUNCTIONS
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.sql.views import views
from tests.framework.serve.support import TOKEN, Served

pytestmark = pytest.mark.slow

VERSION = "42.7.8"
JARS = Path(pyspark.__file__).parent / "jars"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory, home = tmp_path_factory.mktemp("jdbc"), find_java_home()
    if home is None:
        pytest.skip("there is no Java")
    command = [f"{home}/bin/java", "-cp", f"{JARS}/*", "org.apache.ivy.Main", "-dependency", "org.postgresql", "postgresql", VERSION]
    done = subprocess.run(
        [*command, "-confs", "default", "-retrieve", f"{directory}/[artifact].[ext]"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if not (directory / "postgresql.jar").exists():
        pytest.skip(f"PostgreSQL's JDBC driver cannot be fetched: {(done.stdout + done.stderr)[-200:]}")
    return directory / "postgresql.jar"


@pytest.fixture(scope="module")
def connection(driver: Path, server: Served) -> Iterator[Any]:
    (py4j,) = glob.glob(f"{JARS}/py4j-*.jar")
    home = find_java_home()
    gateway = JavaGateway.launch_gateway(
        classpath=str(driver), jarpath=py4j, java_path=f"{home}/bin/java", die_on_exit=True, javaopts=["-Duser.timezone=UTC"]
    )
    try:
        properties = gateway.jvm.java.util.Properties()
        properties.setProperty("user", "skyband")
        properties.setProperty("password", TOKEN)
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/skyband"
        yield gateway.jvm.org.postgresql.Driver().connect(url, properties), gateway
    finally:
        gateway.shutdown()


def rows(found: Any) -> list[dict[str, str | None]]:
    """Return all rows of a ResultSet, as text."""
    about, made = found.getMetaData(), []
    while found.next():
        made.append({about.getColumnName(i): found.getString(i) for i in range(1, about.getColumnCount() + 1)})
    return made


def test_metadata_has_tables_views_and_columns(connection: Any, server: Served) -> None:
    about, gateway = connection[0].getMetaData(), connection[1]
    assert {r["TABLE_SCHEM"] for r in rows(about.getSchemas())} >= {"cuts"}
    assert [r["TABLE_CAT"] for r in rows(about.getCatalogs())] == ["skyband"]
    kinds = gateway.new_array(gateway.jvm.java.lang.String, 2)
    kinds[0], kinds[1] = "TABLE", "VIEW"
    found = {(r["TABLE_NAME"], r["TABLE_TYPE"]) for r in rows(about.getTables(None, "cuts", "%", kinds))}
    assert found == {(t.name, "TABLE") for t in tables(server.plan)} | {(v.name, "VIEW") for v in views(server.plan)}
    columns = rows(about.getColumns(None, "cuts", "two_now", "%"))
    assert [(c["COLUMN_NAME"], c["TYPE_NAME"]) for c in columns] == [
        ("grp", "text"), ("rank", "int4"), ("side", "text"), ("loyalty_seconds", "float8"), ("slope", "int4"), ("as_of", "timestamptz"),
    ] and columns[1]["REMARKS"] == "place in the result, from 1"  # fmt: skip
    empty = [about.getPrimaryKeys, about.getImportedKeys, about.getExportedKeys]
    assert [rows(f(None, "cuts", "two_now")) for f in empty] == [[], [], []]
    assert rows(about.getIndexInfo(None, "cuts", "two_now", False, True)) == []
    named = rows(about.getFunctions(None, None, "%"))
    assert {r["FUNCTION_NAME"] for r in named} == set(FUNCTIONS) and {r["FUNCTION_SCHEM"] for r in named} == {"pg_catalog"}
    assert len(rows(about.getTypeInfo())) > 20 and rows(about.getTablePrivileges(None, "cuts", "two_now"))
    assert about.getDatabaseProductName() == "PostgreSQL" and about.getSQLKeywords() is None


def test_prepared_statements_in_text_and_then_in_binary(connection: Any, server: Served) -> None:
    """The driver goes over to server-side statements and the binary format after some executions."""
    statement = connection[0].prepareStatement(
        "select grp, side, rank, as_of from two_now where grp = ? and rank >= ? and as_of > ? order by rank"
    )
    wanted = server.ask("select side, rank from two_now where grp = 'p' order by rank")
    for _ in range(8):
        statement.setString(1, "p")
        statement.setInt(2, 1)
        statement.setTimestamp(3, connection[1].jvm.java.sql.Timestamp(0))
        found = statement.executeQuery()
        got = []
        while found.next():
            got.append((found.getString("side"), found.getInt("rank")))
        assert got == wanted and wanted


KINDS = {
    "7::tinyint": ("int2", "7"), "8::smallint": ("int2", "8"), "9": ("int4", "9"), "10::bigint": ("int8", "10"),
    "1.5::float": ("float4", "1.5"), "'nan'::double": ("float8", "NaN"), "'-inf'::double": ("float8", "-Infinity"),
    "1e300::double": ("float8", "1.0E300"), "12.345::decimal(10, 3)": ("numeric", "12.345"),
    "-0.0001::decimal(8, 4)": ("numeric", "-0.0001"), "10000.5::decimal(10, 1)": ("numeric", "10000.5"),
    "sum(9000000000000000000)": ("numeric", "9000000000000000000"), "true": ("bool", "true"), "date '2024-02-29'": ("date", "2024-02-29"),
    "time '10:11:12'": ("time", "10:11:12"), "null": ("text", "null"),
    "timestamp '1999-12-31 23:59:59.999999'": ("timestamp", "1999-12-31 23:59:59.999999"),
    "timestamptz '2024-02-29 01:02:03+00'": ("timestamptz", "2024-02-29 01:02:03.0"), "'ä€'": ("text", "ä€"),
    "[1, null]": ("_int4", "[1, null]"), "{'a': 'x', 'b': [1.5]}": ("json", '{"a": "x", "b": ["1.5"]}'), "'x'::enum('x')": ("text", "x"),
}  # fmt: skip


def test_values_of_all_kinds_in_both_formats(connection: Any) -> None:
    statement = connection[0].prepareStatement(f"select {', '.join(f'{sql} as c{i}' for i, sql in enumerate(KINDS))}")
    for n in range(8):
        found = statement.executeQuery()
        assert found.next()
        about = found.getMetaData()
        for i, (sql, wanted) in enumerate(KINDS.items(), 1):
            value = found.getObject(i)
            # The driver writes an array that it got in binary with quotes around numbers: its elements are what counts.
            value = list(value.getArray()) if about.getColumnTypeName(i).startswith("_") else value
            text = str(value) if not hasattr(value, "toString") else value.toString()
            assert (about.getColumnTypeName(i), text.replace("True", "true").replace("None", "null")) == wanted or _same(text, wanted[1]), (
                n,
                sql,
                text,
            )


def _same(text: str, wanted: str) -> bool:
    """Return whether two texts of a number are one number: Python shows what Java has in its own way."""
    try:
        return float(text) == float(wanted) or (text.lower() == "nan" == wanted.lower())
    except ValueError:
        return False


def test_rows_in_parts_time_outs_and_refusals(connection: Any) -> None:
    java = connection[0]
    java.setAutoCommit(False)
    statement = java.createStatement()
    statement.setFetchSize(7)
    assert len(rows(statement.executeQuery("select * from range(50)"))) == 50
    java.commit()
    java.setAutoCommit(True)
    statement = java.createStatement()
    statement.setQueryTimeout(1)
    with pytest.raises(Py4JJavaError) as e:
        statement.executeQuery("select count(*) from range(1000000000000) t(x) where hash(x) = 1")
    assert e.value.java_exception.getSQLState() == "57014"
    with pytest.raises(Py4JJavaError) as e:
        java.createStatement().execute("create table made (a int)")
    assert e.value.java_exception.getSQLState() == "25006"
    assert java.isValid(60) and java.getSchema() == "cuts"
