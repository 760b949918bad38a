"""A table of queries is a file near the spec; no other file is opened, waited for, or read through messages."""

from __future__ import annotations

import os
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.queries.single_rows import cells
from skyband.framework.queries.single_rows.cells import read_cells
from skyband.framework.queries.single_rows.model import QueriesFrom
from skyband.framework.spec.load import validate_file
from tests.framework.spec.schema.test_query_lists import BY_WEIGHTS, spec_of

GOOD = "name,weight_x\na,1\n"


def found(directory: Path, table: str, env: dict[str, str] | None = None, format_: str = "csv") -> list[str]:
    directory.mkdir(exist_ok=True)
    (directory / "spec.yaml").write_text(spec_of(BY_WEIGHTS.replace("format: csv, path: table.csv", f"format: {format_}, path: '{table}'")))
    _, errors = validate_file(str(directory / "spec.yaml"), env or {})
    assert all(e.code in ("SKY-E145", "SKY-E144") for e in errors), errors
    return [e.render().split("\n")[0] + str(e.hint) for e in errors]


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/zero", "/dev/stdin", "../other/table.csv", "file:///etc/passwd", "s3://b/t", "/"])
@pytest.mark.parametrize("format_", ["csv", "parquet", "delta"])
def test_nothing_outside_the_directory_is_opened(tmp_path: Path, path: str, format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "table.csv").write_text(GOOD)
    monkeypatch.setattr(cells, "why_not", None)
    (only,) = found(tmp_path / "spec", path, format_=format_)
    assert "a table of queries must be below the directory of the spec" in only and "root:" not in only


def test_a_link_that_leads_out_is_refused_and_a_root_allows_it(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "table.csv").write_text(GOOD)
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "table.csv").symlink_to(tmp_path / "other" / "table.csv")
    assert len(found(tmp_path / "spec", "table.csv")) == 1
    roots = {cells.ROOTS: f"relative{os.pathsep}{tmp_path / 'other'}"}
    assert found(tmp_path / "spec", "table.csv", roots) == []
    assert found(tmp_path / "spec", str(tmp_path / "other" / "table.csv"), roots) == []
    assert len(found(tmp_path / "spec", str(tmp_path / "otherwise.csv"), roots)) == 1


def test_a_pipe_and_a_device_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "part.parquet")
    assert "it is not a regular file" in found(tmp_path, "pipe.csv")[0]
    assert "it is not a regular file" in found(tmp_path, "/dev/zero", {cells.ROOTS: "/dev"})[0]
    assert "no regular files" in found(tmp_path, "folder", format_="parquet")[0]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "huge.csv", "wb") as f:
        f.truncate(65 << 20)
    assert "larger than 64 MB" in found(tmp_path, "huge.csv")[0]


@pytest.mark.parametrize("format_", ["csv", "parquet", "delta"])
@pytest.mark.parametrize(
    "content",
    [
        "hunter2:x:0:0\n",
        "hunter2\n",
        "a,hunter2,hunter2 x:\n",
        "hunter2,hunter2\nb,c\n",
        "-----BEGIN hunter2,x\nhunter2,y\n",
        '"hunter2"x,\n',
    ],
)
def test_what_is_no_table_of_queries_is_not_shown(tmp_path: Path, content: str, format_: str) -> None:
    (tmp_path / "secret").write_text(content)
    (only,) = found(tmp_path, "secret", format_=format_)
    assert "hunter2" not in only


def test_a_delta_log_that_names_files_elsewhere_is_refused(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / "real"), pa.table({"name": ["a"], "weight_x": [1.0]}))
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"name": ["a"], "weight_x": [1.0]}))
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    (mine,) = (tmp_path / "t").glob("*.parquet")
    (other,) = (tmp_path / "real").glob("*.parquet")
    log.write_text(log.read_text().replace(f'"path":"{mine.name}"', f'"path":"file://{other}"'))
    with pytest.raises(SkybandError) as refused:
        read_cells(QueriesFrom(format="delta", path=str(tmp_path / "t")))
    assert refused.value.code == "SKY-E145"
