"""A YAML spec as plain data, with a table of positions.

Only the safe composer reads the text: no tag ever becomes an object. Data is built here from the composed nodes, so that duplicate keys,
alias bombs and YAML traps are seen, and so that every value's and key's place in the file is known (``Document.places``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from skyband.framework.base.errors import SkybandError, Where, did_you_mean
from skyband.framework.base.redaction import conceal
from skyband.framework.base.units import written_float
from skyband.framework.spec.parsing.limits import MAX_MISTAKES, Work
from skyband.framework.spec.parsing.positions import LIVE, Key, Place, SourceText, is_secret

# Replace ``${NAME}`` in string values from the environment, after parsing, so that no value changes the structure of a spec.
#
# Every value that is put in is concealed from then on: no message, log or table shows it (``redaction``).

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]{0,200})\}|\$\{")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

ALLOWED: Final = "SKYBAND_VARIABLES"
"""Environment variable with the comma-separated names that specs may use; unset, they may use all but ``OPERATORS``."""
OPERATORS: Final = (
    "SKYBAND_CONF", "SKYBAND_SERVE_TOKEN", "SKYBAND_NOTIFY_COMMAND", "SKYBAND_NOTIFY_WEBHOOK", "SKYBAND_OPENLINEAGE_URL",
    "SKYBAND_CHANNELS", "SKYBAND_UNITY_URL", "SKYBAND_UNITY_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
)  # fmt: skip
"""Variables that no spec may use: Spark's settings, the token of ``serve``, where failures and alerts are sent, and credentials."""
OPERATOR_PREFIXES: Final = ("OPENLINEAGE_", "OTEL_")
"""No spec may use variables with these beginnings: the standard variables of clients, which may hold addresses and keys."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A reference that cannot be resolved, at ``start`` <= offset < ``end`` of the value."""

    code: str
    message: str
    hint: str | None
    start: int
    end: int


def resolve(text: str, env: Mapping[str, str]) -> tuple[str, set[str], list[Problem]]:
    """``text`` with every ``${NAME}`` replaced (``$${`` gives a literal ``${``), the names used, and what could not be resolved.

    Values are put in as they are: a ``${`` inside a value is not resolved again. O(len(text) + len of the values).
    """
    allowed = {n.strip() for n in env[ALLOWED].split(",")} if ALLOWED in env else None
    used: set[str] = set()
    problems: list[Problem] = []

    def replace(m: re.Match[str]) -> str:
        if m.group() == "$${":
            return "${"
        name = m.group(1)
        if name is None:
            problems.append(Problem("SKY-E107", "'${' without '}'", "write ${NAME}, or $${ for a literal ${", m.start(), m.end()))
            return m.group()
        if not _NAME.fullmatch(name):
            hint = "use ${NAME} without defaults or expressions, or $${ for a literal ${"
            problems.append(Problem("SKY-E107", f"{m.group()!r} is not a variable reference", hint, m.start(), m.end()))
            return m.group()
        if name in OPERATORS or name.startswith(OPERATOR_PREFIXES) or name in _of_channels(env):
            said = f"a spec may not use the environment variable {name}"
            problems.append(Problem("SKY-E119", said, "the variable is reserved for the person who runs the job", m.start(), m.end()))
            return m.group()
        if allowed is not None and name not in allowed:
            hint = f"to allow it, add it to the environment variable {ALLOWED}"
            problems.append(Problem("SKY-E119", f"a spec may not use the environment variable {name}", hint, m.start(), m.end()))
            return m.group()
        if name not in env:
            near = did_you_mean(name, [n for n in env if len(n) > 2])
            hint = f"set it, for instance: export {name}=..." + (f" ({near})" if near else "")
            problems.append(Problem("SKY-E106", f"environment variable {name} is not set", hint, m.start(), m.end()))
            return m.group()
        used.add(name)
        conceal(name, env[name])
        return env[name]

    return _REFERENCE.sub(replace, text), used, problems


def _of_channels(env: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the variables that the operator's file of channels uses. Raises SkybandError SKY-E660 if it cannot be read."""
    if not env.get("SKYBAND_CHANNELS"):
        return frozenset()
    from skyband.framework.alerts.channel_file import reserved

    return reserved(env)


Path: TypeAlias = tuple[str | int, ...]

PROFILES: Final = "profiles"
MAX_NODES: Final = 20_000
MAX_DEPTH: Final = 40
TOO_MUCH: Final = "write the values out, without so many or such deep aliases"

_INT: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[-+]?([0-9][0-9_]*)?\.?[0-9_]*([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAG: Final = "tag:yaml.org,2002:"
_FORMER: Final = {"on": "match"}
"""Former names of fields of a look-up, which are still read. YAML 1.1 reads ``on`` as a truth value; it needs no quotes here."""


class Poisoned(set[Path]):
    """Paths of values that are known to be wrong or missing; ``above`` holds them and their parents. Grows only."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        super().__init__()
        self.above: set[Path] = set()
        self.update(paths)

    def add(self, path: Path) -> None:
        """Add a path. O(depth)."""
        super().add(path)
        self.above.update(path[:n] for n in range(len(path) + 1))

    def update(self, *paths: Iterable[Path]) -> None:
        """Add several paths."""
        for some in paths:
            for path in list(some):
                self.add(path)


@dataclass(slots=True)
class Document:
    """A spec as ``data`` (plain dicts, lists and scalars), ``places`` (position by path) and the ``errors`` found so far.

    ``poisoned`` holds paths whose value is known to be wrong or missing: later checks keep quiet about them.
    """

    source: SourceText
    data: dict[str, Any]
    places: dict[Path, Place]
    errors: list[SkybandError]
    poisoned: Poisoned = field(default_factory=Poisoned)
    work: Work = field(default_factory=Work)
    """The remaining budget of SQL and expressions."""
    warnings: list[SkybandError] = field(default_factory=list)
    """What is valid and may surprise."""
    included: tuple[SourceText, ...] = ()
    """The texts of the included files."""

    def place(self, path: Path) -> Place | None:
        """Return the place of ``path``, or of its nearest parent in the file. O(depth)."""
        for n in range(len(path), -1, -1):
            found = self.places.get(path[:n])
            if found is not None:
                return found
        return None

    def where_value(self, path: Path) -> Where:
        """Return the position of the value at ``path``, or of the key of its nearest parent if it is missing."""
        place = self.place(path)
        if place is None:
            return self.source.where(0, 0)
        if path in self.places or place.key is None:
            return place.where
        return place.key.where

    def where_key(self, path: Path) -> Where:
        """Return the position of the key at ``path`` (of the value, for items of lists)."""
        place = self.place(path)
        if place is None:
            return self.source.where(0, 0)
        return place.key.where if place.key is not None else place.where

    def where_inside(self, path: Path, start: int, end: int) -> Where:
        """Return the position of characters ``start`` to ``end`` of the scalar at ``path``, or of the scalar if unknown."""
        place = self.places.get(path)
        if place is None or place.variables or place.filled:
            return self.where_value(path)
        inside = place.text.inside(place, start, end)
        return place.text.where(*inside) if inside is not None else self.where_value(path)

    def shown(self, path: Path) -> str:
        """Return the value in quotes as the file spells it, for a message; ``***`` for a secret."""
        place = self.places.get(path)
        if place is None or place.secret:
            return "***"
        raw = place.value if place.filled and not place.variables else place.raw
        return f"'{raw if len(raw) <= 60 else raw[:57] + '...'}'"

    def variables(self) -> dict[Path, str]:
        """Return the values with environment variables: path -> text in the spec. O(values)."""
        return {path: place.value for path, place in self.places.items() if place.variables}

    def bad(self, path: Path) -> bool:
        """Return True if the value at ``path`` or above it is known to be wrong."""
        return bool(self.poisoned) and any(path[:n] in self.poisoned for n in range(len(path) + 1))

    def bad_below(self, path: Path) -> bool:
        """Return True if the value at ``path``, above it or below it is known to be wrong."""
        return path in self.poisoned.above or self.bad(path)

    def too_much(self, path: Path) -> bool:
        """Return True if the text at ``path`` exhausted the budget of SQL and expressions, and report it."""
        if self.work.gone:
            hint = "derive columns where the data is written, or make two jobs of it"
            self.add("SKY-E103", "with this, the SQL and the expressions of the spec are too much altogether", self.where_value(path), hint)
        return self.work.gone

    def add(self, code: str, message: str, where: Where | None, hint: str | None = None) -> None:
        """Add an error."""
        self.errors.append(SkybandError(code, message, hint, where))

    def warn(self, code: str, message: str, where: Where, hint: str | None = None) -> None:
        """Add a warning."""
        self.warnings.append(SkybandError(code, message, hint, where))


class Filled(yaml.ScalarNode):
    """A text with inserted parameters, so that its value differs from its spelling in the file."""


class TooMuch(Exception):
    """The spec expands beyond the limits, at ``node``."""

    def __init__(self, why: str, node: yaml.Node) -> None:
        super().__init__(why)
        self.why = why
        self.node = node


class Builder:
    """Builds data and places from composed nodes, whose marks name their text. Use it once."""

    def __init__(self, texts: dict[str, SourceText], source: SourceText, env: Mapping[str, str]) -> None:
        self.texts = texts
        self.source = source
        self.env = env
        self.doc = Document(source, {}, {}, [])
        self.count = 0
        self.active: set[int] = set()
        self.parameters: frozenset[str] | None = None
        """Names of the spec's parameters."""

    def build(self, root: yaml.Node | None) -> Document:
        """Return the document of ``root``. Errors are collected in it, never raised."""
        doc = self.doc
        if root is None or not isinstance(root, yaml.MappingNode):
            what = "the file is empty" if root is None else "a spec is a mapping of fields, like 'job: name'"
            doc.add("SKY-E105", what, self.source.where(0, 0) if root is None else self.where(root), "skyband init writes a first spec")
            doc.poisoned.add(())
            return doc
        self.mask(root)
        try:
            doc.data = self._mapping(root, (), None)
        except TooMuch as e:
            doc.add("SKY-E103", e.why, self.where(e.node), TOO_MUCH)
            doc.poisoned.add(())
        return doc

    def mask(self, root: yaml.Node) -> None:
        """Mask every secret below ``root`` before any error is reported, since an error may be on the same line."""
        for node in self.secrets(root):
            self.hide(node)

    def hide(self, node: yaml.ScalarNode) -> None:
        """Mask this value in the text of its file."""
        self._text(node).mask(self._place(node, None, True))

    def secrets(self, root: yaml.Node) -> Iterator[yaml.ScalarNode]:
        """The values of a spec's mapping that are secrets by their names. Fields of a profile are those of a spec. O(nodes)."""
        seen: set[int] = set()
        left: list[tuple[yaml.Node, Path]] = [(root, ())]
        while left:
            node, path = left.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.ScalarNode):
                if is_secret(path):
                    yield node
            elif isinstance(node, yaml.MappingNode):
                inside = () if len(path) == 2 and path[0] == PROFILES else path[:3]
                left += [(v, (*inside, k.value)) for k, v in node.value if isinstance(k, yaml.ScalarNode)]
            else:
                left += [(v, (*path[:3], n)) for n, v in enumerate(node.value)]

    def _text(self, node: yaml.Node) -> SourceText:
        return self.texts[node.start_mark.name]

    def where(self, node: yaml.Node) -> Where:
        """Return the position of a node for a message."""
        start, end = node.start_mark, node.end_mark
        length = end.column - start.column if end.line == start.line else 1
        return self._text(node).where(start.line, start.column, length)

    def _value(self, node: yaml.Node, path: Path, key: Key | None) -> Any:
        self.count += 1
        if self.count > MAX_NODES:
            raise TooMuch(f"the file expands to more than {MAX_NODES:,} values", node)
        if len(path) > MAX_DEPTH:
            raise TooMuch(f"more than {MAX_DEPTH} levels deep", node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path, key)
        if id(node) in self.active:
            raise TooMuch("an alias that contains itself", node)
        self.active.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path, key)
            self._note(node, path, key)
            return [self._value(child, (*path, i), None) for i, child in enumerate(node.value)]
        finally:
            self.active.discard(id(node))

    def _note(self, node: yaml.Node, path: Path, key: Key | None, variables: bool = False) -> Place:
        place = self._place(node, key, isinstance(node, yaml.ScalarNode) and is_secret(path), variables)
        if place.secret:
            place.text.mask(place)
        self.doc.places[path] = place
        return place

    def _place(self, node: yaml.Node, key: Key | None, secret: bool, variables: bool = False) -> Place:
        start, end = node.start_mark, node.end_mark
        scalar = isinstance(node, yaml.ScalarNode)
        text = self._text(node)
        return Place(
            text=text, line=start.line, col=start.column, end_line=end.line, end_col=end.column, key=key,
            raw=text.between(start.line, start.column, end.line, end.column) if scalar else "",
            style=(node.style or "") if isinstance(node, yaml.ScalarNode) else "",
            value=node.value if scalar else "", secret=secret, variables=variables,
            filled=isinstance(node, Filled),
        )  # fmt: skip

    def _scalar(self, node: yaml.ScalarNode, path: Path, key: Key | None) -> Any:
        tag = node.tag.removeprefix(_TAG)
        text: str = node.value
        used: set[str] = set()
        value: Any = text
        if node.style is None and tag == "bool":
            value = text.lower() in {"true", "yes", "on"}
        elif node.style is None and tag == "null":
            value = None
        elif node.style is None and tag == "int" and _INT.fullmatch(text) and len(text) < 300:
            value = int(text.replace("_", ""))
        elif node.style is None and tag == "float" and _FLOAT.fullmatch(text):
            plain = text.replace("_", "").replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf")
            value = written_float(plain.replace(".nan", "nan").replace(".NaN", "nan").replace(".NAN", "nan"))
        elif tag not in {"str", "int", "float", "timestamp", "bool", "null", "value", "merge"}:
            self.doc.add("SKY-E101", f"the tag {node.tag.replace(_TAG, '!!')} is not allowed in a spec", self.where(node), "remove the tag")
            self.doc.poisoned.add(path)
        if isinstance(value, str) and "$" in value:
            value, used, problems = resolve(text, self.env)
            place = self._note(node, path, key, variables=bool(used or problems))
            for p in problems[:MAX_MISTAKES]:
                inside = None if place.filled else place.text.inside(place, p.start, p.end)
                where = place.text.where(*inside) if inside else self.where(node)
                self.doc.add(p.code, p.message, where, self._hint(p, text, place.filled))
                self.doc.poisoned.add(path)
            return value
        self._note(node, path, key)
        return value

    def _hint(self, problem: Problem, text: str, filled: bool) -> str | None:
        """Return the hint for an unset variable, which in a spec with parameters probably means one of them."""
        if problem.code != "SKY-E106" or self.parameters is None:
            return problem.hint
        name = text[problem.start + 2 : problem.end - 1]
        if name in self.parameters:
            return "parameters do not refer to each other"
        if filled:
            return f"this text, or a parameter in it, says ${{{name}}}: set the variable"
        return did_you_mean(name, self.parameters) or f"give the parameter a value (parameters: {{{name}: ...}}), or set the variable"

    def _mapping(self, node: yaml.MappingNode, path: Path, key: Key | None) -> dict[str, Any]:
        self._note(node, path, key)
        result: dict[str, Any] = {}
        first: dict[str, Where] = {}
        merged: list[yaml.Node] = []
        for k, v in node.value:
            if not isinstance(k, yaml.ScalarNode):
                self.doc.add("SKY-E112", "a field name must be plain text", self.where(k))
                continue
            if k.tag == _TAG + "merge":
                merged.append(v)
                continue
            name: str = k.value
            if _of_lookup(path):
                name = _FORMER.get(name, name)
            child = (*path, name)
            if k.style is None and k.tag in {_TAG + "bool", _TAG + "null"} and name == k.value:
                means = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}.get(
                    name.lower(), "null"
                )
                self.doc.add("SKY-E104", f"YAML reads the name {name!r} as {means}", self.where(k), f'quote it: "{name}"')
            if name in result:
                what = "two queries" if path == ("queries",) else "two scoring functions" if path == ("scoring",) else "the field"
                named = f"{what} named {name!r}" if what != "the field" else f"the field {name!r} appears twice"
                here, before = self.where(k), first[name]
                at = f"in line {before.line}" if before.file == here.file else f"in {before.file}:{before.line}"
                at = "is a live query of the job" if before.file.startswith(LIVE) else at
                self.doc.add("SKY-E102", f"{named}, the first {at}", here, "rename or remove one of them")
                # The second one is still read, so that its own mistakes are found.
                child = (*path, f"{name[:40]}__again_{k.start_mark.line + 1}")
                if path not in {("queries",), ("scoring",)}:
                    continue
            where = self.where(k)
            first.setdefault(name, where)
            result[str(child[-1])] = self._value(v, child, Key(self._text(k), where.line - 1, where.col - 1, where.length))
        for other in merged:
            self._merge(other, result, path)
        return result

    def _merge(self, node: yaml.Node, into: dict[str, Any], path: Path) -> None:
        """Apply YAML's ``<<``: add the missing fields of another mapping."""
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                self.doc.add("SKY-E112", "<< takes a mapping or a list of mappings", self.where(source))
                continue
            if id(source) in self.active:
                raise TooMuch("an alias that contains itself", source)
            places, self.doc.places = self.doc.places, {}
            try:
                other = self._value(source, path, None)
            finally:
                added, self.doc.places = self.doc.places, places
            new = {name: value for name, value in other.items() if name not in into}
            into.update(new)
            places.update({p: q for p, q in added.items() if len(p) > len(path) and p[len(path)] in new})


def _of_lookup(path: Path) -> bool:
    """Return True if the fields at ``path`` are those of a look-up, some of which had other names (``_FORMER``)."""
    return len(path) == 2 and path[0] == "lookups"
