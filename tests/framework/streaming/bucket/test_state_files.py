"""States of buckets in files: what a token names is read as it was saved, damage is noticed, and only our own files are removed."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.bucket.state_files import BucketFiles, StateFiles, read_state
from skyband.framework.streaming.bucket.state_names import written_once
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes

LARGE = b"l" * (1 << 14)
"""The shortest value with a file of its own."""
OTHER = b"L" * (1 << 14)
DIGEST = 16
"""The bytes of the digest with which a list begins."""
ONCE = "seen/1"
"""The name of a value that is written once: it has a file from 1 KiB on."""

NAMES = st.sampled_from(["a", "b", ONCE])
VALUES = st.sampled_from([b"", b"1", b"2", b"k" * 1023, b"k" * 1024, LARGE[:-1], LARGE, OTHER])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, VALUES),
    st.tuples(st.just("drop"), NAMES, st.just(b"")),
    st.tuples(st.sampled_from(["save", "restore", "collect"]), st.integers(0, 5), st.booleans()),
)


def bucket(states: StateFiles, number: int) -> Path:
    """The directory of a bucket."""
    return Path(str(states.of(number)))


def sealed(body: bytes) -> bytes:
    """A list as one who knows the format writes it: the digest says nothing about who that is."""
    return hashlib.blake2b(body, digest_size=DIGEST).digest() + body


def names(directory: Path) -> set[str]:
    return {p.name for p in directory.iterdir()}


def listed(directory: Path, token: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = bytes_table((directory / f"{token}.list").read_bytes()[DIGEST:]).to_pylist()
    return rows


def large_file(directory: Path, token: str, name: str) -> Path:
    (file,) = (row["file"] for row in listed(directory, token) if row["name"] == name)
    return directory / str(file)


@given(st.lists(STEPS, max_size=14))
def test_every_saved_state_is_read_as_it_was_until_it_is_collected(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    root = tmp_path_factory.mktemp("states")
    states = StateFiles(root)
    files, now = BucketFiles(bucket(states, 3)), {"core": b"c"}
    files.put("core", b"c")
    saved: dict[str, dict[str, bytes]] = {}
    for what, first, second in steps:
        if what == "put":
            files.put(first, second)
            now[first] = second
        elif what == "drop":
            files.drop(first)
            now.pop(first, None)
        elif what == "save":
            saved[files.save()] = dict(now)
        elif what == "restore" and saved:
            token = list(saved)[first % len(saved)]
            files, values = states.read(3, token)
            assert values == saved[token]
            now = values
        elif what == "collect" and saved:
            # Always the state that is held: a run never collects it.
            kept = files.save()
            saved[kept] = dict(now)
            others = list(saved)[first % len(saved)] if second else kept
            before = names(bucket(states, 3))
            removed = states.collect([{3: others}, {3: kept}])
            saved = {token: saved[token] for token in (others, kept)}
            assert removed == len(before) - len(names(bucket(states, 3)))
            large = {str(row["file"]) for t in saved for row in listed(bucket(states, 3), t) if row["file"] is not None}
            assert names(bucket(states, 3)) == {f"{t}.list" for t in saved} | large
        for token, values in saved.items():
            assert states.read(3, token)[1] == values
    shutil.rmtree(root)


def test_an_empty_state_is_a_state(tmp_path: Path) -> None:
    token = BucketFiles(tmp_path / "0").save()
    files, values = read_state(tmp_path / "0", token)
    assert values == {} and names(tmp_path / "0") == {f"{token}.list"}
    assert (files.small, files.large, files.made) == ({}, {}, {})


@pytest.mark.parametrize(
    ("name", "size", "apart"),
    [("a", (1 << 14) - 1, False), ("a", 1 << 14, True), (ONCE, 1023, False), (ONCE, 1024, True), ("stream/s/chunk/1", 1024, True)],
)
def test_large_values_have_files_of_their_own(tmp_path: Path, name: str, size: int, apart: bool) -> None:
    assert written_once(name) == (name != "a")
    files = BucketFiles(tmp_path)
    files.put(name, b"v" * size)
    token = files.save()
    assert names(tmp_path) == {f"{token}.list"} | ({f"{token}.0"} if apart else set())
    assert read_state(tmp_path, token)[1] == {name: b"v" * size}


@pytest.mark.parametrize("again", [False, True])
def test_a_large_value_that_is_put_again_keeps_its_file(tmp_path: Path, again: bool) -> None:
    files = BucketFiles(tmp_path)
    files.put("same", LARGE)
    files.put("other", LARGE)
    first = files.save()
    if again:
        files, _ = read_state(tmp_path, first)
    files.put("same", LARGE)
    files.put("other", OTHER)
    second = files.save()
    assert large_file(tmp_path, second, "same") == large_file(tmp_path, first, "same")
    assert large_file(tmp_path, second, "other").name == f"{second}.0"
    assert names(tmp_path) == {f"{first}.list", f"{first}.0", f"{first}.1", f"{second}.list", f"{second}.0"}
    third = files.save()
    assert names(tmp_path) == {f"{first}.list", f"{first}.0", f"{first}.1", f"{second}.list", f"{second}.0", f"{third}.list"}
    assert read_state(tmp_path, first)[1] == {"same": LARGE, "other": LARGE}
    assert read_state(tmp_path, third)[1] == read_state(tmp_path, second)[1] == {"same": LARGE, "other": OTHER}


def test_the_last_of_several_values_counts_before_a_save(tmp_path: Path) -> None:
    files = BucketFiles(tmp_path)
    for value in (LARGE, b"small", OTHER):
        files.put("a", value)
    files.put("b", LARGE)
    files.put("b", b"small")
    files.put("c", LARGE)
    files.drop("c")
    files.drop("never")
    token = files.save()
    assert read_state(tmp_path, token)[1] == {"a": OTHER, "b": b"small"}
    assert names(tmp_path) == {f"{token}.list", f"{token}.0"}


# Damage.


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, str]:
    """A state of a small and a large value, in a directory with neighbours that hold other values."""
    (tmp_path / "secret").write_bytes(LARGE)
    directory = tmp_path / "state" / "0"
    files = BucketFiles(directory)
    files.put("small", b"s" * 50)
    files.put("large", LARGE)
    return directory, files.save()


def refused(directory: Path, token: str, names_file: str) -> None:
    """Reading the state raises SKY-E303 that names the file and says what helps, and reads nothing else."""
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    with pytest.raises(SkybandError) as e:
        read_state(directory, token)
    assert e.value.code == "SKY-E303"
    assert f"{names_file} cannot be read" in str(e.value) and e.value.hint is not None and "skyband rebuild" in e.value.hint
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_a_missing_list_or_value(saved: tuple[Path, str]) -> None:
    directory, token = saved
    (directory / f"{token}.0").rename(directory / "aside")
    refused(directory, token, str(directory / f"{token}.0"))
    (directory / "aside").rename(directory / f"{token}.0")
    assert read_state(directory, token)[1] == {"small": b"s" * 50, "large": LARGE}
    (directory / f"{token}.list").unlink()
    refused(directory, token, str(directory / f"{token}.list"))


def test_a_list_that_ends_early(saved: tuple[Path, str]) -> None:
    """At whatever byte it was cut: what is left is never taken for a state."""
    directory, token = saved
    path = directory / f"{token}.list"
    content = path.read_bytes()
    taken: list[int] = []
    for size in range(len(content)):
        path.write_bytes(content[:size])
        try:
            # The stream's last bytes only say that it ends.
            if read_state(directory, token)[1] != {"small": b"s" * 50, "large": LARGE}:
                taken.append(size)
        except SkybandError as e:
            assert e.code == "SKY-E303"
    assert taken == []


def test_a_flipped_bit_anywhere_in_a_list(saved: tuple[Path, str]) -> None:
    directory, token = saved
    path = directory / f"{token}.list"
    content = path.read_bytes()
    taken: list[int] = []
    for i in range(len(content)):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
        try:
            if read_state(directory, token)[1] != {"small": b"s" * 50, "large": LARGE}:
                taken.append(i)
        except SkybandError as e:
            assert e.code == "SKY-E303"
    assert taken == []


@pytest.mark.parametrize("at", [0, 1, 8_191, (1 << 14) - 1])
def test_a_flipped_bit_in_a_value(saved: tuple[Path, str], at: int) -> None:
    directory, token = saved
    path = directory / f"{token}.0"
    content = path.read_bytes()
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    refused(directory, token, str(path))


@pytest.mark.parametrize("content", [b"", LARGE[:-1], LARGE + b"l", b"no table at all"])
def test_other_content(saved: tuple[Path, str], content: bytes) -> None:
    directory, token = saved
    (directory / f"{token}.0").write_bytes(content)
    refused(directory, token, str(directory / f"{token}.0"))
    (directory / f"{token}.list").write_bytes(content)
    refused(directory, token, str(directory / f"{token}.list"))


def test_a_directory_in_place_of_a_file(saved: tuple[Path, str]) -> None:
    directory, token = saved
    (directory / f"{token}.0").unlink()
    (directory / f"{token}.0").mkdir()
    refused(directory, token, str(directory / f"{token}.0"))
    (directory / f"{token}.list").unlink()
    (directory / f"{token}.list").mkdir()
    refused(directory, token, str(directory / f"{token}.list"))


def relisted(directory: Path, token: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Replace the rows of a list, with its columns."""
    path = directory / f"{token}.list"
    table = bytes_table(path.read_bytes()[DIGEST:])
    rows = table.to_pylist()
    change(rows)
    path.write_bytes(sealed(table_bytes(pa.Table.from_pylist(rows, table.schema))))


ELSEWHERE = (
    "../../secret", "{tmp}/secret", "..", ".", "", "/", "secret", "0000000000000000.x", "0000000000000000.0/../../secret", "x/../{file}",
    "{file}\n", "{file}.", "./{file}", "{file}\0", "0000000000000000.0000000000", "000000000000000G.0", "000000000000000.0",
)  # fmt: skip


@pytest.mark.parametrize("named", ELSEWHERE)
def test_a_list_that_names_a_file_elsewhere(saved: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """Refused by the name, before anything but the list is opened, even where the file there has the right content."""
    directory, token = saved
    file = named.replace("{tmp}", str(tmp_path)).replace("{file}", f"{token}.0")

    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["name"] == "large")["file"] = file

    relisted(directory, token, change)
    opened: list[str] = []
    read_bytes = Path.read_bytes

    def noted(path: Path) -> bytes:
        opened.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    with pytest.raises(SkybandError, match="names a file that is none of ours") as e:
        read_state(directory, token)
    assert e.value.code == "SKY-E303" and opened == [f"{token}.list"]
    with pytest.raises(SkybandError) as e:
        StateFiles(directory.parent).collect([{0: token}])
    assert e.value.code == "SKY-E303" and (directory / f"{token}.0").exists()


@pytest.mark.parametrize(
    "row",
    [
        {"name": None, "file": None, "digest": None, "value": b"x"},
        {"name": "more", "file": None, "digest": None, "value": None},
        {"name": "small", "file": None, "digest": None, "value": b"another"},
        {"name": "more", "file": "{file}", "digest": None, "value": None},
        {"name": None, "file": "{file}", "digest": "{digest}", "value": None},
    ],
    ids=["no name", "no value", "a name twice", "no digest", "a file without a name"],
)
def test_a_list_that_skyband_has_not_written(saved: tuple[Path, str], row: dict[str, Any]) -> None:
    directory, token = saved
    (large,) = (r for r in listed(directory, token) if r["name"] == "large")
    filled = {k: large["file"] if v == "{file}" else large["digest"] if v == "{digest}" else v for k, v in row.items()}
    relisted(directory, token, lambda rows: rows.append(filled))
    with pytest.raises(SkybandError) as e:
        read_state(directory, token)
    assert e.value.code == "SKY-E303"


@pytest.mark.parametrize("change", ["missing", "more", "renamed", "type", "order"])
def test_a_list_with_other_columns(saved: tuple[Path, str], change: str) -> None:
    directory, token = saved
    path = directory / f"{token}.list"
    table = bytes_table(path.read_bytes()[DIGEST:])
    other = {
        "missing": lambda: table.drop_columns(["digest"]),
        "more": lambda: table.append_column("z", table["name"]),
        "renamed": lambda: table.rename_columns(["name", "file", "digest", "bytes"]),
        "type": lambda: table.set_column(3, "value", table["value"].cast(pa.binary())),
        "order": lambda: table.select(["file", "name", "digest", "value"]),
    }[change]()
    path.write_bytes(sealed(table_bytes(other)))
    with pytest.raises(SkybandError, match="it has other columns") as e:
        read_state(directory, token)
    assert e.value.code == "SKY-E303"


@pytest.mark.parametrize("token", ["", "..", "../0/{token}", "{token}.list", "{upper}", "{token}\n", "{short}", "/{token}", "{tmp}/list"])
def test_a_token_that_is_none(saved: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    directory, right = saved
    shutil.copy(directory / f"{right}.list", tmp_path / "list.list")
    spelled = {"{tmp}": str(tmp_path), "{token}": right, "{upper}": "A" * 16, "{short}": right[1:]}
    wrong = token
    for name, text in spelled.items():
        wrong = wrong.replace(name, text)

    def never(path: Path) -> bytes:
        pytest.fail(f"{path} was read")

    monkeypatch.setattr(Path, "read_bytes", never)
    with pytest.raises(SkybandError) as e:
        read_state(directory, wrong)
    assert e.value.code == "SKY-E303"


# Collecting.


def a_state(directory: Path, values: Sequence[tuple[str, bytes]], files: BucketFiles | None = None) -> tuple[str, BucketFiles]:
    files = files or BucketFiles(directory)
    for name, value in values:
        files.put(name, value)
    return files.save(), files


def test_collect_keeps_what_kept_states_name(tmp_path: Path) -> None:
    states = StateFiles(tmp_path)
    first, files = a_state(bucket(states, 0), [("a", LARGE), ("b", OTHER)])
    second, files = a_state(bucket(states, 0), [("b", LARGE)], files)
    third, files = a_state(bucket(states, 0), [("a", OTHER)], files)
    other, _ = a_state(bucket(states, 12), [("a", LARGE)])
    # A batch of a process that was killed: a value whose list was never written.
    (bucket(states, 0) / "00000000000000aa.7").write_bytes(LARGE)
    assert states.bytes() == sum(p.stat().st_size for p in tmp_path.glob("*/*"))
    assert states.collect([{0: second, 12: other}, {0: third}]) == 3
    kept = {f"{second}.list", f"{third}.list", f"{first}.0", f"{second}.0", f"{third}.0"}
    assert names(bucket(states, 0)) == kept
    assert names(bucket(states, 12)) == {f"{other}.list", f"{other}.0"}
    assert states.collect([{0: second, 12: other}, {0: third}]) == 0
    assert states.read(0, second)[1] == {"a": LARGE, "b": LARGE}
    assert states.read(0, third)[1] == {"a": OTHER, "b": LARGE}
    # Of a bucket that no state names nothing stays; where no state is named at all, nothing is known.
    assert states.collect([{}]) == 0 and states.collect([{0: third}]) == 4
    assert names(bucket(states, 12)) == set()
    assert names(bucket(states, 0)) == {f"{third}.list", f"{third}.0", f"{second}.0"}
    assert states.bytes() == sum(p.stat().st_size for p in tmp_path.glob("*/*"))


def test_collect_leaves_all_that_is_not_ours(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0000000000000001.0").write_bytes(b"theirs")
    states = StateFiles(tmp_path / "state")
    old, files = a_state(bucket(states, 0), [("a", LARGE)])
    token, _ = a_state(bucket(states, 0), [("a", OTHER)], files)
    directory = bucket(states, 0)
    strange = [
        "notes.txt", "0000000000000001.list.bak", f".{old}.list.0a0a0a0a0a0", "000000000000000.0", "000000000000000G.0",
        "0000000000000001.x", "0000000000000001.0000000000", "0000000000000001.0 ",
    ]  # fmt: skip
    for name in strange:
        (directory / name).write_bytes(b"theirs")
    (directory / "deep").mkdir()
    (directory / "deep" / "0000000000000001.0").write_bytes(b"theirs")
    (tmp_path / "state" / "0000000000000001.0").write_bytes(b"theirs")
    (tmp_path / "state" / "notes").mkdir()
    (tmp_path / "state" / "notes" / "0000000000000001.0").write_bytes(b"theirs")
    assert states.collect([{0: token}]) == 2
    assert names(directory) == {f"{token}.list", f"{token}.0", "deep", *strange}
    assert (directory / "deep" / "0000000000000001.0").read_bytes() == b"theirs"
    assert names(tmp_path / "state") == {"0", "0000000000000001.0", "notes"} and names(tmp_path / "state" / "notes") == {
        "0000000000000001.0"
    }
    assert (outside / "0000000000000001.0").read_bytes() == b"theirs"


def test_collect_leaves_links_and_directories_with_names_of_ours(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0000000000000001.0").write_bytes(b"theirs")
    states = StateFiles(tmp_path / "state")
    token, _ = a_state(bucket(states, 0), [("a", LARGE)])
    directory = bucket(states, 0)
    (directory / "0000000000000002.0").symlink_to(outside / "0000000000000001.0")
    (directory / "0000000000000003.0").mkdir()
    (directory / "0000000000000004.list").symlink_to(outside)
    assert states.collect([{0: token}]) == 0
    assert names(directory) == {f"{token}.list", f"{token}.0", "0000000000000002.0", "0000000000000003.0", "0000000000000004.list"}
    assert names(outside) == {"0000000000000001.0"} and (outside / "0000000000000001.0").read_bytes() == b"theirs"


def test_collect_follows_no_link_to_a_directory_elsewhere(tmp_path: Path) -> None:
    """Somebody has put a link in place of a bucket's directory: files of ours and of others behind it stay."""
    token, _ = a_state(tmp_path / "elsewhere", [("a", LARGE)])
    (tmp_path / "elsewhere" / "0000000000000001.0").write_bytes(b"theirs")
    states = StateFiles(tmp_path / "state")
    states.root.mkdir()
    os.symlink(tmp_path / "elsewhere", bucket(states, 0))
    assert states.collect([{0: token}]) == 0
    assert names(tmp_path / "elsewhere") == {f"{token}.list", f"{token}.0", "0000000000000001.0"}


def test_collect_removes_nothing_if_a_list_to_keep_cannot_be_read(tmp_path: Path) -> None:
    states = StateFiles(tmp_path)
    first, files = a_state(bucket(states, 0), [("a", LARGE)])
    second, _ = a_state(bucket(states, 0), [("a", OTHER)], files)
    (bucket(states, 0) / f"{second}.list").write_bytes(b"damaged")
    with pytest.raises(SkybandError) as e:
        states.collect([{0: second}])
    assert e.value.code == "SKY-E303"
    assert names(bucket(states, 0)) == {f"{first}.list", f"{first}.0", f"{second}.list", f"{second}.0"}


def test_collect_with_nothing_to_keep_or_no_directory_removes_nothing(tmp_path: Path) -> None:
    states = StateFiles(tmp_path / "state")
    assert states.collect([]) == 0 and states.bytes() == 0
    token, _ = a_state(bucket(states, 0), [("a", LARGE)])
    assert states.collect([]) == 0 and states.collect([{}]) == 0
    assert names(bucket(states, 0)) == {f"{token}.list", f"{token}.0"}


def test_collect_removes_what_a_killed_process_has_not_finished(tmp_path: Path) -> None:
    states = StateFiles(tmp_path / "state")
    kept = BucketFiles(bucket(states, 0))
    kept.put("core", b"c")
    token = kept.save()
    unfinished, strange = bucket(states, 0) / f".{token}.list.0123456789ab", bucket(states, 0) / ".notes.list.0123456789ab"
    for path in (unfinished, strange):
        path.write_bytes(b"x")
    assert states.collect([{0: token}]) == 1
    assert names(bucket(states, 0)) == {f"{token}.list", strange.name} and states.read(0, token)[1] == {"core": b"c"}
