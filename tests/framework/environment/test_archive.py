"""An environment is packed once, and anew when it, Skyband's code or its kernels change; what executors do not need stays here."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tarfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.environment import archive
from skyband.framework.environment.archive import Environment, left_out, needed, own_files, own_fingerprint
from skyband.framework.streaming.spark.cluster import jvm_directory
from skyband.jobs.cli import main
from skyband.operators import jit, kernel_cache
from tests.spark.jobs import write_spec

REQUIRES = [
    "numpy", 'duckdb ; extra == "sql"', 'pages>=1; extra == "report"', 'skyband[sql]; extra == "report"', 'obstore; extra == "s3"',
    'pytest; python_version > "3" and extra == "dev"', 'venv-pack; extra == "cluster"',
]  # fmt: skip


class _Made:
    """A virtual environment with a Skyband and some distributions, and the cache directory of its user."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prefix, self.cache = directory / "venv", directory / "cache"
        self.packages = self.prefix / "lib" / "python3.11" / "site-packages"
        self.packages.mkdir(parents=True)
        (self.prefix / "pyvenv.cfg").write_text(f"home = {directory}/base/bin\n")
        (self.prefix / "bin").mkdir()
        (self.prefix / "bin" / "python").symlink_to(sys.executable)
        (self.prefix / "bin" / "tool").write_text("")
        self.code = directory / "checkout" / "skyband"
        for file in ("__init__.py", "framework/a.py", "operators/__pycache__/k.pyc", "jobs/cli.py"):
            (self.code / file).parent.mkdir(parents=True, exist_ok=True)
            (self.code / file).write_text(file)
        self.cache.mkdir(mode=0o700)
        self.kernels = self.cache / "kernels" / "versions"
        self.kernels.mkdir(mode=0o700, parents=True)
        (self.kernels / "k.kernel").write_text("")
        (self.kernels / "unused.kernel").write_text("")
        os.utime(self.kernels / "unused.kernel", (0, 0))
        (self.kernels / "compiling-1").write_text("")
        self.said: list[str] = []
        monkeypatch.setattr(archive, "cache_directory", lambda: self.cache)
        monkeypatch.setattr(jit, "HAVE_NUMBA", True)
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(self.cache))
        monkeypatch.setattr(kernel_cache, "versions", lambda: "versions")
        monkeypatch.setattr(Environment, "here", lambda: Environment.of(self.prefix, distributions(path=[str(self.packages)])))
        spec = type("spec", (), {"origin": str(self.code / "__init__.py")})
        monkeypatch.setattr(archive, "find_spec", lambda name: spec)

    def install(self, name: str, *files: str, requires: tuple[str, ...] = (), version: str = "1", url: str | None = None) -> None:
        info = self.packages / f"{name}-1.dist-info"
        info.mkdir(exist_ok=True)
        lines = [f"Requires-Dist: {r}\n" for r in requires]
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{''.join(lines)}")
        if url is not None:
            (info / "direct_url.json").write_text(url)
        for file in files:
            (self.packages / file).parent.mkdir(parents=True, exist_ok=True)
            (self.packages / file).write_text(file)
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in [*files, f"{info.name}/METADATA", f"{info.name}/RECORD"]))

    def pack(self) -> dict[str, Path]:
        """Kind -> archive."""
        found = {}
        for part in archive.packed(self.said.append).split(","):
            url, _, directory = part.partition("#")
            found[directory] = Path(url.removeprefix("file://"))
        return found


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Made:
    it = _Made(tmp_path, monkeypatch)
    it.install("numpy", "numpy/__init__.py", "numpy/__pycache__/x.pyc")
    it.install("duckdb", "duckdb.py")
    it.install("pages", "pages/a.py", requires=("templates", "numpy"))
    it.install("templates", "templates.py")
    it.install("pyspark", "pyspark/worker.py", "pyspark/jars/spark.jar")
    editable = json.dumps({"url": "file:///checkout", "dir_info": {"editable": True}})
    it.install("skyband", "__editable___finder.py", requires=tuple(REQUIRES), url=editable)
    return it


def names(path: Path) -> set[str]:
    with tarfile.open(path) as opened:
        return set(opened.getnames())


def test_what_executors_need_is_packed_and_nothing_else(made: _Made) -> None:
    found = made.pack()
    inside = "lib/python3.11/site-packages"
    assert {n.removeprefix(f"{inside}/") for n in names(found["environment"]) if ".dist-info" not in n and not n.startswith("bin/")} == {
        "numpy/__init__.py", "pyspark/worker.py", "skyband.pth", "pyvenv.cfg",
    }  # fmt: skip
    assert {"bin/python", f"{inside}/skyband-1.dist-info/METADATA"} <= names(found["environment"]) and "bin/tool" not in names(
        found["environment"]
    )
    assert names(found["skyband-code"]) == {"skyband/__init__.py", "skyband/framework/a.py", "skyband/operators/compiled/versions/k.kernel"}
    with tarfile.open(found["environment"]) as opened:
        assert opened.getmember("bin/python").issym()
        line = opened.extractfile(f"{inside}/skyband.pth")
        assert line is not None
        led = os.path.normpath(f"environment/{inside}/{line.read().decode().strip()}")
    assert led == "skyband-code"
    assert [s for s in made.said if s.startswith("packing ")] and all("MB" in s for s in made.said)


def test_of_the_kernels_that_came_with_skyband_those_that_runs_use_are_packed(made: _Made, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = made.code / "operators" / "compiled"
    monkeypatch.setattr(archive, "BUNDLED", bundled)
    monkeypatch.setattr(kernel_cache, "BUNDLED", bundled)
    (bundled / "versions").mkdir(parents=True)
    (bundled / "others").mkdir()
    for name in ("versions/lately.kernel", "versions/before.kernel", "versions/never.kernel", "others/lately.kernel"):
        (bundled / name).write_text(name)
    for name in ("lately", "before", "no_longer_there"):
        (made.kernels / f"used-{name}").write_text("")
    os.utime(made.kernels / "used-before", (0, 0))
    kernels = {n for n in names(made.pack()["skyband-code"]) if "/compiled/" in n}
    assert kernels == {f"skyband/operators/compiled/versions/{name}.kernel" for name in ("k", "lately")}


def test_what_was_packed_is_used_again_until_something_changes(made: _Made) -> None:
    first = made.pack()
    states = {p: p.stat().st_ino for p in first.values()}
    told = len(made.said)
    assert made.pack() == first and {p: p.stat().st_ino for p in first.values()} == states and len(made.said) == told

    (made.code / "framework" / "a.py").write_text("changed")
    code = made.pack()
    assert code["environment"] == first["environment"] and code["skyband-code"] != first["skyband-code"]
    (made.kernels / "k2.kernel").write_text("")
    kernel = made.pack()
    assert kernel["environment"] == first["environment"] and kernel["skyband-code"] not in (code["skyband-code"], first["skyband-code"])
    (made.code / "jobs" / "cli.py").write_text("no executor's business")
    assert made.pack() == kernel

    made.install("numpy", "numpy/__init__.py", version="2")
    version = made.pack()
    assert version["environment"] != first["environment"] and version["skyband-code"] == kernel["skyband-code"]
    made.install("more", "more.py")
    assert made.pack()["environment"] not in (first["environment"], version["environment"])
    assert all(p.exists() for p in first.values()) and not (made.cache / "environments" / "partial").exists()


def test_old_archives_go_unless_a_run_holds_them(made: _Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_held", [])
    paths = []
    for n in range(archive.KEPT + 2):
        (made.code / "framework" / "a.py").write_text(str(n))
        paths.append(made.pack()["skyband-code"])
        os.utime(paths[-1], (n, n))
    assert all(p.exists() for p in paths)
    # All runs but that with the first archive end.
    archive._held[:] = [f for f in archive._held if f.name == str(paths[0])]
    (made.code / "framework" / "a.py").write_text("last")
    last = made.pack()["skyband-code"]
    assert [p for p in paths if p.exists()] == [paths[0], *paths[-archive.KEPT + 1 :]] and last.exists()
    with open(paths[0], "rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_a_killed_process_left_goes(made: _Made) -> None:
    partial = made.cache / "environments" / "partial"
    partial.mkdir(parents=True)
    (partial / "tmp1").write_text("half")
    made.pack()
    assert not partial.exists() and sorted(p.suffix for p in (made.cache / "environments").iterdir()) == ["", ".gz", ".gz"]


def dist(name: str, *requires: str) -> Distribution:
    class Made(Distribution):
        def read_text(self, filename: str) -> str | None:
            lines = "".join(f"Requires-Dist: {r}\n" for r in requires)
            return f"Name: {name}\nVersion: 1\n{lines}" if filename == "METADATA" else None

        def locate_file(self, path: object) -> Path:
            return Path(str(path))

    return Made()


def test_only_what_the_driver_alone_needs_is_left_out() -> None:
    def of(*more: Distribution) -> set[str]:
        there = [dist(n) for n in ("numpy", "duckdb", "templates", "obstore", "pytest", "pip", "uv", "venv-pack")]
        all_ = [dist("skyband", *REQUIRES), dist("pages", "templates", "numpy"), *there, *more]
        return set(left_out({archive.normal(d.name): d for d in all_}))

    assert of() == {"duckdb", "pages", "templates", "pytest", "pip", "uv", "venv-pack"}
    # A plugin's own needs count, by whichever way.
    assert of(dist("Plugin", "Pages[x] (>=1)")) == {"duckdb", "pytest", "pip", "uv", "venv-pack"}
    assert of(dist("plugin", "skyband[sql]")) == {"pages", "templates", "pytest", "pip", "uv", "venv-pack"}
    assert left_out({"pip": dist("pip"), "duckdb": dist("duckdb")}) == {"pip"}


@pytest.mark.parametrize(
    "target, is_needed",
    [
        ("bin/python3.11", True), ("bin/ruff", False), ("pyvenv.cfg", True), ("share/man/x", False), ("lib/p/site-packages/a/b.so", True),
        ("lib/p/site-packages/pyspark/jars/x.jar", False), ("lib/p/site-packages/a/__pycache__/b.pyc", False), ("lib64", True),
    ],
)  # fmt: skip
def test_files_by_their_path(target: str, is_needed: bool) -> None:
    assert needed(target) is is_needed


def test_the_code_that_is_compared_is_all_packed() -> None:
    """What ``executors.versions`` compares is in the archive, under the same names."""
    own = {target: source for source, target in own_files()}
    root = Path(archive.__file__).resolve().parents[2]
    for part in ("framework", "operators"):
        for file in (root / part).rglob("*.py"):
            assert own[f"skyband/{file.relative_to(root).as_posix()}"].samefile(file)
    assert own_fingerprint(own_files()) == own_fingerprint(own_files())


def test_editable_installs_of_others_are_refused(made: _Made) -> None:
    made.install("plugin", "plugin.py", url='{"url": "file:///x", "dir_info": {"editable": true}}')
    with pytest.raises(SkybandError, match="plugin is an editable install") as e:
        made.pack()
    assert e.value.code == "SKY-E615"
    made.install("plugin", "plugin.py", url='{"url": "file:///x.whl", "archive_info": {}}')
    made.pack()
    # Of an old kind, which only venv-pack sees.
    (made.packages / "old.pth").write_text("/somewhere/else\n")
    made.install("another", "another.py")
    with pytest.raises(SkybandError, match="editable packages") as e:
        made.pack()
    assert e.value.code == "SKY-E615" and "\n" not in e.value.message


def test_environments_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(SkybandError, match="no virtual environment") as e:
        Environment.here()
    assert e.value.code == "SKY-E615"
    (tmp_path / "conda-meta").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(SkybandError, match="conda environment") as e:
        Environment.here()
    assert e.value.code == "SKY-E615"


def test_an_unwritable_directory_is_reported(made: _Made, monkeypatch: pytest.MonkeyPatch) -> None:
    (made.cache / "environments").write_text("in the way")
    with pytest.raises(SkybandError, match="cannot be packed into") as e:
        made.pack()
    assert e.value.code == "SKY-E203"


def test_without_venv_pack_the_hint_says_what_to_install(made: _Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "venv_pack", None)
    with pytest.raises(SkybandError, match="venv_pack") as e:
        made.pack()
    assert e.value.code == "SKY-E200" and e.value.hint == "pip install 'skyband[cluster]'"


def test_the_jvm_runs_where_the_executors_path_leads_to_this_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for _ in range(2):
        assert jvm_directory("./environment/bin/python", scratch) == scratch
        assert os.path.samefile(scratch / "environment" / "bin", Path(sys.prefix) / "bin")
    for python in ("python3", "/usr/bin/python3", sys.executable, "../there/bin/python"):
        assert jvm_directory(python, scratch) is None
    # One that is here, too, is left to be found from here.
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "python").touch()
    assert jvm_directory("here/python", scratch) is None
    assert [p.name for p in scratch.iterdir()] == ["environment"]


@pytest.mark.parametrize(
    "words, said",
    [
        (["--master", "local[2]"], "local[2] is this machine, no cluster to submit to"),
        ([], "local[*] is this machine"),
        (["--master", "spark://127.0.0.1:9", "--conf", "spark.pyspark.python=/x"], "submit sets spark.pyspark.python itself"),
    ],
)
def test_what_submit_refuses(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SKYBAND_MASTER", "SKYBAND_CONF"):
        monkeypatch.delenv(name, raising=False)
    assert main(["submit", str(write_spec(tmp_path)), *words]) == 2
    told = capsys.readouterr().err
    assert "SKY-E611" in told and said in told and "skyband run" in told


def test_a_silent_master_and_a_bad_spec_are_reported_before_packing(
    made: _Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", str(tmp_path / "none.yaml"), "--master", "spark://127.0.0.1:9"]) == 2
    assert "SKY-E100" in capsys.readouterr().err
    assert main(["submit", str(write_spec(tmp_path)), "--master", "spark://127.0.0.1:9"]) == 3
    assert "SKY-E614" in capsys.readouterr().err
    assert not (made.cache / "environments").exists()
