"""References to docs in code, specs, tests and docs resolve, and none points outside of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from scripts import house
from tests.test_architecture import ROOT, tracked_files

SEMANTICS, ALGORITHMS = "docs/semantics", "docs/algorithms"
PAGES = {
    SEMANTICS: [
        *(f"explanation/semantics{part}.md" for part in ("", "-queries", "-skylines", "-groups", "-chains")),
        "reference/tables.md",
    ],
    ALGORITHMS: [
        f"explanation/{name}.md"
        for name in ("algorithms", "algorithms-pairs", "algorithms-other-types", "algorithms-groups", "algorithms-bounds", "papers")
    ],
}
"""``docs/semantics 12`` in a comment is section 12 of one of these pages below docs/."""
TOKENS = {SEMANTICS: r"\d+(?:\.\d+)*(?:-\d+)?|[A-Z][a-z]+", ALGORITHMS: r"[DE]\d+(?:\.\d+)?(?:-[DE]\d+(?:\.\d+)?)?|Theorem [A-Z]"}
"""Labels that may follow a document's name: numbers, ranges and headings, separated by commas."""

# Split, so that this file does not match.
OLD = (
    "architecture" + r",? (?:\d|sections?|page)", r"docs/(?:algorithms|semantics)" + r"\.md", "DEVELOPERS" + r"\b",
    r"\bdesign" + "/", r"shared/(?:design|papers)",
)  # fmt: skip


def texts() -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every text file that people write."""
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in (".py", ".md", ".yaml", ".toml", ".sh", "") and name != "tests/test_docs.py":
            yield name, path.read_text(encoding="utf-8")


def labels(document: str) -> set[str]:
    """Return the labels of a document: first words of headings, ``Theorem X``, and items of numbered lists such as ``E2.1``."""
    found: set[str] = set()
    inside = ""
    for line in "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES[document]).splitlines():
        if heading := re.match(r"#+ (Theorem [A-Z]|[A-Za-z0-9]+)", line):
            inside = heading[1]
            found.add(inside)
        elif (item := re.match(r"(\d+)\. ", line)) and inside.startswith("E"):
            found.add(f"{inside}.{item[1]}")
        elif row := re.match(r"\| (paper \d) \|", line):
            found.add(row[1])
    return found


def spelled_out(token: str) -> set[str]:
    """Return the labels of a reference: the ends of a range and, for numbers, all between."""
    if ends := re.fullmatch(r"(\d+)-(\d+)", token):
        return {str(i) for i in range(int(ends[1]), int(ends[2]) + 1)}
    return set(token.split("-")) if re.match(r"[DE]\d", token) else {token}


def unresolved(name: str, text: str) -> Iterator[str]:
    """Yield the broken references of a text, with their lines."""
    known = {document: labels(document) for document in TOKENS}
    joined = re.sub(r"\n[ #]*", lambda m: " " * len(m[0]), text)  # a reference may go on in the next line
    for m in re.finditer(r"docs/[\w./-]*\w", joined):
        where = f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]}"
        if m[0] not in TOKENS and not (ROOT / m[0]).exists():
            yield f"{where}: no such file"
        elif m[0] in TOKENS:
            one = f"(?:{TOKENS[m[0]]})(?![\\w(])"
            listed = re.match(rf" +({one}(?:, {one})*)", joined[m.end() :])
            for token in listed[1].split(", ") if listed else []:
                plain = token.isalpha() and token not in known[m[0]]  # a word of the sentence
                for label in () if plain else spelled_out(token):
                    if label not in known[m[0]]:
                        yield f"{where} {label}: no such heading"
    for m in re.finditer(r"\b(?:paper \d|Theorem [A-Z])\b", joined):
        if m[0] not in known[ALGORITHMS]:
            yield f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]}: not in {ALGORITHMS}"


def anchors(path: Path) -> set[str]:
    """Return the anchors of a Markdown file's headings, as viewers make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_reference_to_a_document_resolves() -> None:
    assert [line for name, text in texts() for line in unresolved(name, text)] == []


def test_references_are_checked() -> None:
    assert {"1", "12", "13", "Sharing"} <= labels(SEMANTICS)
    assert {"D0", "D6", "D7", "E0", "E4.10", "Theorem A", "Theorem C", "paper 4"} <= labels(ALGORITHMS)
    directory = "docs" + "/"
    good = f"({directory}semantics 1-6, 10). {directory}algorithms E2.1-E2.4, Theorem C, {directory}semantics Tables. See"
    assert list(unresolved("x", good)) == []
    bad = f"{directory}semantics 16\n{directory}algorithms D9, E2.9\n# {directory}semantics\n# 3-17 {directory}none.md paper 7, Theorem X"
    assert len(list(unresolved("x", bad))) == 8


def test_no_old_reference_is_left() -> None:
    old = re.compile("|".join(OLD))
    assert [f"{name}: {m[0]}" for name, text in texts() for m in old.finditer(text)] == []


def test_links_between_documents_resolve() -> None:
    for path in house.pages():
        links = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
        for link in links:
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), f"{path.name}: {link}"
            assert not anchor or anchor in anchors(target), f"{path.name}: {link}"


def test_no_page_is_long() -> None:
    """A page serves one purpose: at most 2,500 words."""
    words = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").split()) for path in (ROOT / "docs").rglob("*.md")}
    assert {page: n for page, n in words.items() if n > 2500} == {}


def test_documents_name_no_directory_outside() -> None:
    for path in sorted((ROOT / "docs").rglob("*.md")):
        assert re.findall(r"shared/|anchors|\.\./\.\./\.\.", path.read_text(encoding="utf-8")) == [], path.name
