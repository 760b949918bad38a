"""The gallery of plans that a bundle of kernels is compiled from, and the command that makes and removes the bundle."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import yaml

from skyband.framework.base.errors import SkybandError
from skyband.framework.environment import bundle, gallery
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.operators.baselines import Baseline
from skyband.operators.jit import HAVE_NUMBA

needs_numba = pytest.mark.skipif(not HAVE_NUMBA, reason="without Numba nothing is compiled")
NONE_LIKE_IT = Baseline("no-such-processor", frozenset({"warp"}))


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle with a kernel of an earlier build, beside a file that is none."""
    directory = tmp_path / "compiled"
    monkeypatch.setattr(bundle, "BUNDLED", directory)
    (directory / "versions").mkdir(parents=True)
    (directory / "versions" / "old.kernel").write_text("")
    return directory


def test_the_gallery_has_all_its_plans_and_every_query_type() -> None:
    types, names = set(), set()
    for path in gallery.specs():
        documents = [spec for spec in yaml.safe_load_all(path.read_text(encoding="utf-8")) if spec]
        found = [variant for variant in gallery.variants(path)]
        plain = {variant.name for variant in found if variant.name.endswith(" plain")}
        assert len(plain) == len(documents), path
        for variant in found:
            types |= {query.type for query in variant.plan.every_query}
            assert variant.name.endswith(f" {variant.variation}")
            names.add(variant.variation)
    assert types == set(QUERY_TYPES.all()) and names == set(gallery.VARIATIONS)


def test_the_gallery_is_rehearsed_without_leaving_queries_out() -> None:
    (path,) = [path for path in gallery.specs() if path.stem == "gallery"]
    for spec in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        (plain,) = [v for v in gallery.variants(path) if v.name.endswith(" plain") and v.plan.job == spec["job"]]
        assert {query.name for query in plain.plan.every_query} == set(spec["queries"])


@pytest.mark.long
def test_made_up_rows_delete_correct_and_leave_windows() -> None:
    (path,) = [path for path in gallery.specs() if path.parts[-2] == "threshold"]
    tables = {v.name: gallery.rehearse(v.plan) for v in gallery.variants(path) if v.name.endswith((" feed", " deleted"))}
    assert len(tables) == 2
    for found in tables.values():
        changes = found["high_changes"].to_pydict()
        assert {"arrival", "expiry"} < set(changes["cause"]) and {"+", "-"} == set(changes["change"])
        assert set(changes["cause"]) & {"deletion", "delete", "correction", "update"}, set(changes["cause"])


def test_without_a_baseline_there_is_no_bundle(bundled: Path) -> None:
    said: list[str] = []
    bundle.build([], [], said.append)
    assert len(said) == 1 and said[0].startswith("no kernels are compiled") and not bundled.exists()


@needs_numba
def test_a_failed_rehearsal_leaves_no_bundle(bundled: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(SkybandError, match="compiling kernels for no-such-processor ended with exit code 1") as e:
        bundle.build([NONE_LIKE_IT], [tmp_path / "missing.yaml"], said.append)
    assert e.value.code == "SKY-E900" and said == [] and not bundled.exists()


def test_only_kernels_are_removed(bundled: Path) -> None:
    (bundled / "versions" / "notes.txt").write_text("")
    assert bundle.main(["--remove"]) == 0
    assert [path.name for path in bundled.rglob("*")] == ["versions", "notes.txt"]


def _die() -> None:
    os._exit(9)


def test_a_process_that_is_killed_ends_the_rehearsals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "read_texts", _die)
    monkeypatch.setattr(gallery, "variants", lambda _: iter(()))
    with pytest.raises(SkybandError, match="a process that compiled kernels was killed") as e:
        bundle._rehearse([Path("spec.yaml")], 1)
    assert e.value.code == "SKY-E900"


def test_linear_scores_take_columns_as_their_operators_do(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: set[tuple[int, bool]] = set()

    def scored(x: tuple[np.ndarray, ...], w: np.ndarray, out: np.ndarray) -> int:
        kinds.add((len(x), x[0].flags.writeable))
        return 0

    monkeypatch.setattr("skyband.operators.single_rows.scores.HAVE_NUMBA", True)
    monkeypatch.setattr("skyband.operators.single_rows.kernels.linear.linear", scored)
    gallery.score_columns()
    assert kinds == {(count, writeable) for count in range(1, 9) for writeable in (False, True)}


@needs_numba
def test_kernels_are_compiled_into_the_cache_once_for_each_state_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed: list[tuple[list[Path], int]] = []
    spec, said = tmp_path / "spec.yaml", []
    spec.write_text("job: a")
    monkeypatch.setattr(bundle, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(bundle, "kernels_directory", lambda: tmp_path / "kernels")
    monkeypatch.setattr(bundle, "_rehearse", lambda specs, processes: rehearsed.append((specs, processes)))
    for _ in range(2):
        bundle.warm([spec], said.append, 3)
    assert rehearsed == [([spec], 3)] and said[1:] == ["0 kernels compiled in 0 s"]
    spec.write_text("job: b")
    bundle.warm([spec], said.append, 3)
    assert len(rehearsed) == 2
    monkeypatch.setattr(bundle, "versions", lambda: "of another Numba")
    bundle.warm([spec], said.append, 3)
    assert len(rehearsed) == 3 and len(list((tmp_path / bundle.WARMED).iterdir())) == 1
    monkeypatch.setattr(bundle, "HAVE_NUMBA", False)
    spec.write_text("job: c")
    bundle.warm([spec], said.append, 3)
    assert len(rehearsed) == 3


@needs_numba
def test_rehearsals_that_fail_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(bundle, "kernels_directory", lambda: tmp_path / "kernels")
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            bundle.warm([tmp_path / "missing.yaml"], lambda _: None)
