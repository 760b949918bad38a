"""Objects as files, against a real server: what ``Path`` promises of files holds of objects, as far as Skyband uses it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location, is_object, location, missing_files, remove_tree
from skyband.framework.storage.settings import scheme_of, spark_conf, store_options

FILES = {"a.json": b"1", "b.txt": b"22", "sub/c.json": b"333", "sub/deep/d.json": b"4444", "other/e.json": b"5"}


def filled(root: Path) -> Path:
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        durable.replace(root / name, data) if "/" not in name else (root / name).write_bytes(data)
    return root


def seen(root: Path) -> dict[str, object]:
    """All that can be seen of a directory by the methods that Skyband uses."""

    def names(found: object) -> list[str]:
        return sorted(p.relative_to(root).as_posix() for p in found)  # type: ignore[attr-defined]

    said: dict[str, object] = {p: names(root.glob(p)) for p in ("*", "*.json", "[!s]*/*.json", "*/*/*.json", "sub/*", "none/*")}
    said["files below"] = names(p for p in root.rglob("*") if p.is_file())
    said["json below"] = names(root.rglob("*.json"))
    for name in (*FILES, "sub", "sub/deep", "none", "sub/none", "a"):
        path = root / name
        said[name] = path.exists(), path.is_file(), path.is_dir(), path.is_file() and (path.stat().st_size, path.read_bytes(), path.name)
    return said


def test_a_directory_of_objects_looks_as_the_same_directory_of_files(directory: str, tmp_path: Path) -> None:
    objects, files = filled(location(directory)), filled(location(tmp_path))
    assert seen(objects) == seen(files)
    for root in (objects, files):
        (root / "a.json").unlink()
        with pytest.raises(FileNotFoundError):
            (root / "a.json").unlink()
        with pytest.raises(FileNotFoundError):
            (root / "a.json").read_text()
        (root / "a.json").unlink(missing_ok=True)
        remove_tree(root / "sub")
        durable.replace(root / "b.txt", "other")
    assert seen(objects) == seen(files)
    assert missing_files(objects, [*FILES]) == missing_files(files, [*FILES]) == ["a.json", "sub/c.json", "sub/deep/d.json"]
    assert not (objects / "sub").exists() and (objects / "b.txt").read_text() == "other"


def test_a_file_that_is_written_is_there_when_it_is_closed_and_not_if_writing_failed(directory: str) -> None:
    path = location(directory) / "x.bin"
    with path.open("wb") as f:
        f.write(b"ab")
        assert not path.exists()
        f.write(b"c")
    with path.open("rb") as f:
        assert f.seek(0, 2) == 3 and f.seek(1) == 1 and f.read() == b"bc"
    with pytest.raises(ZeroDivisionError), path.open("wb") as f:
        f.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"abc"


def test_an_object_is_no_file_of_this_machine(directory: str) -> None:
    path = location(directory) / "a" / "b"
    assert str(path) == f"{directory}/a/b" and is_object(path) and path.resolve() == path
    assert [str(p) for p in path.parents] == [f"{directory}/a", directory, "s3://bucket/"[:-1]]
    assert pickle.loads(pickle.dumps(path)) == path and str(path.with_name("c")) == f"{directory}/a/c"
    assert not isinstance(path, os.PathLike) and not hasattr(Location, "__fspath__")
    with pytest.raises(TypeError):
        os.stat(path)  # type: ignore[arg-type]


def test_what_a_store_refuses_is_told_in_one_line(directory: str) -> None:
    with pytest.raises(SkybandError) as e:
        location("s3://no-such-bucket/x").write_bytes(b"1")
    assert e.value.code == "SKY-E630" and "no-such-bucket/x" in e.value.message and "\n" not in e.value.message


@pytest.mark.parametrize("path", ["hdfs://host/x", "http://host/x", "s3a://bucket/x"])
def test_other_file_systems_are_refused(path: str) -> None:
    with pytest.raises(SkybandError) as e:
        location(path)
    assert e.value.code == "SKY-E203"


def test_who_runs_a_job_says_how_storage_is_reached() -> None:
    assert scheme_of("/x") is None and scheme_of("file:///x") is None and store_options("/x") is None
    assert store_options("s3://b/x", {}) == {} and store_options("gs://b/x", {}) == {}
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "eu-west-1", "AWS_SECRET_ACCESS_KEY": "s"}
    assert store_options("s3://b/x", env) == {"aws_endpoint": "http://127.0.0.1:9", "allow_http": "true"}
    conf = spark_conf(env)
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9" and conf["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"
    assert "s" not in conf.values()
    # Spark's settings count before the environment, and no plain HTTP is taken up that nobody has written.
    given = {**env, "SKYBAND_CONF": "spark.hadoop.fs.s3a.endpoint=https://other\nspark.hadoop.fs.s3a.secret.key=t"}
    assert store_options("s3://b/x", given) == {"aws_endpoint": "https://other", "aws_secret_access_key": "t"}
