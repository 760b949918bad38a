"""Assemble the document of one job from a spec's text, its included files, the chosen profile and its parameters.

All of that happens to YAML's nodes, before anything is read as a field of a job; each node knows the file it is from, so that
later mistakes are reported at their place.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import yaml

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, Where, did_you_mean, one_of
from skyband.framework.spec.parsing.document import MAX_DEPTH, MAX_NODES, PROFILES, TOO_MUCH, Builder, Document, Filled, TooMuch
from skyband.framework.spec.parsing.live_parts import NO_PARTS, LiveParts, texts_of, with_parts
from skyband.framework.spec.parsing.positions import SourceText
from skyband.framework.spec.parsing.recovery import MAX_BYTES, Composed, compose

_MERGE: Final = "tag:yaml.org,2002:merge"

# Replace values of a spec without editing its file, such as ``queries.best.k=20`` of ``skyband whatif --set``.
#
# The value is YAML. It takes its place among the nodes of the spec before these are read, so that the ordinary checks see it. Mistakes
# in it are reported with the setting as the name of their file.

ALLOWED: Final = ("queries", "scoring", "window", "transform", "quality.rows", "deletes", "stats", "tokens", "vectors")
"""The parts of a spec that only decide which rows are accepted and what results are made of them."""
_LATENESS: Final = ("source", "event_time")
_STR: Final = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, as YAML, and the names and numbers (from 0, in lists) that lead to its place."""

    path: tuple[str, ...]
    value: str

    @property
    def said(self) -> str:
        """Return the setting as it is written."""
        return f"{'.'.join(self.path)}={self.value}"

    @property
    def file(self) -> str:
        """Return the name of its text in messages."""
        return f"--set {self.said}"


class CannotSet(Exception):
    """There is no such place in the spec. ``hint``: what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def setting_of(text: str) -> Setting:
    """Parse ``PATH=VALUE``. Raises SkybandError SKY-E201 for anything else, and for a part of the spec that must not be set."""
    path, equals, value = text.partition("=")
    names = tuple(name.strip() for name in path.split("."))
    if not equals or not all(names):
        raise SkybandError("SKY-E201", f"--set takes PATH=VALUE, not {text!r}", hint="such as --set queries.best.k=20")
    if "${" in value:
        raise SkybandError("SKY-E201", f"the value of --set {path.strip()} refers to a variable", hint="write the value itself")
    if not any(names[: len(part)] == part for part in (tuple(a.split(".")) for a in ALLOWED)):
        hint = f"it takes values of {one_of(ALLOWED)}"
        if names[:2] == _LATENESS:
            hint = "which rows came too late is known only of the runs; --with rejected:late puts these rows back"
        elif (near := did_you_mean(names[0], [a.partition(".")[0] for a in ALLOWED])) is not None:
            hint = near
        raise SkybandError("SKY-E201", f"{'.'.join(names)} cannot be set: it does more than change results", hint=hint)
    return Setting(names, value)


def placed(root: yaml.Node, setting: Setting, value: yaml.Node) -> yaml.Node:
    """Return ``root`` with ``value`` in its place; nodes that others refer to by alias are not changed. Raises CannotSet."""
    return _placed(root, setting.path, (), value)


def _placed(node: yaml.Node | None, path: Sequence[str], above: tuple[str, ...], value: yaml.Node) -> yaml.Node:
    if not path:
        return value
    name, rest, here = path[0], path[1:], (*above, path[0])
    if isinstance(node, yaml.SequenceNode):
        items = list(node.value)
        if not (name.isascii() and name.isdecimal() and int(name) < len(items)):
            raise CannotSet(
                f"{'.'.join(above)} is a list of {counted(len(items), 'item')}, and has no {name!r}", "items are numbered from 0"
            )
        items[int(name)] = _placed(items[int(name)], rest, here, value)
        return yaml.SequenceNode(node.tag, items, node.start_mark, node.end_mark, node.flow_style)
    if isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:null":
        raise CannotSet(f"{'.'.join(above)} is a single value, without fields", f"set all of it: --set '{'.'.join(above)}={{{name}: ...}}'")
    if not isinstance(node, yaml.MappingNode):
        node = yaml.MappingNode("tag:yaml.org,2002:map", [], value.start_mark, value.end_mark)
    pairs = list(node.value)
    at = next((n for n, (key, _) in enumerate(pairs) if isinstance(key, yaml.ScalarNode) and key.value == name), None)
    if at is None:
        # The spec may have it by way of YAML's ``<<``; a field that is written wins over it.
        key = yaml.ScalarNode(_STR, name, value.start_mark, value.end_mark, style='"')
        pairs.append((key, _placed(_merged(node, name), rest, here, value)))
    else:
        pairs[at] = (pairs[at][0], _placed(pairs[at][1], rest, here, value))
    return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark, node.flow_style)


def _merged(node: yaml.MappingNode, name: str, depth: int = 0) -> yaml.Node | None:
    """Return the field that a mapping has by ``<<``, None if it has none."""
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag == _MERGE and depth < 10:
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(source, yaml.MappingNode):
                    own = next((v for k, v in source.value if isinstance(k, yaml.ScalarNode) and k.value == name), None)
                    found = own if own is not None else _merged(source, name, depth + 1)
                    if found is not None:
                        return found
    return None


# Insert ``parameters:`` of a spec where its values say ``${name}``: as text within a text, or as a whole value.
#
# That is all a template is: a file of fields to include, with names in it that each job's own file gives values to. Nothing is computed,
# names of fields cannot be made, and parameters do not refer to each other. What is no parameter is a variable of the environment.

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
MOST_CHARACTERS: Final = 1_000_000
"""Maximum total length of all texts after insertion."""


@dataclass(slots=True)
class Filling:
    """What is put in. ``used``: the parameters that something referred to; ``unfit``: (text, parameter) that is no text to put into one."""

    values: Mapping[str, yaml.Node]
    used: set[str] = field(default_factory=set)
    unfit: list[tuple[yaml.Node, str]] = field(default_factory=list)
    _characters: int = 0
    _made: dict[int, yaml.Node] = field(default_factory=dict)

    def fill(self, node: yaml.Node) -> yaml.Node:
        """The node with the parameters in it, the one given if it names none. O(nodes + characters); raises ``TooMuch``.

        What is written once and used by alias stays one.
        """
        order = list(nodes(node))
        for at in order:
            if isinstance(at, yaml.ScalarNode):
                self._made[id(at)] = self._scalar(at)
        for at in order:
            if isinstance(at, yaml.MappingNode):
                at.value = [(key, self._made.get(id(value), value)) for key, value in at.value]
            elif isinstance(at, yaml.SequenceNode):
                at.value = [self._made.get(id(value), value) for value in at.value]
        return self._made.get(id(node), node)

    def _scalar(self, node: yaml.ScalarNode) -> yaml.Node:
        text: str = node.value
        if "${" not in text or isinstance(node, Filled):
            return node
        whole = _REFERENCE.fullmatch(text.strip())
        if whole is not None and whole.group(1) in self.values:
            self.used.add(whole.group(1))
            return self.values[whole.group(1)]
        put = 0

        def replace(m: re.Match[str]) -> str:
            nonlocal put
            value = self.values.get(m.group(1) or "")
            if value is None:
                return m.group()
            self.used.add(m.group(1))
            if not isinstance(value, yaml.ScalarNode):
                self.unfit.append((node, m.group(1)))
                return m.group()
            put += 1
            self._characters += len(value.value)
            if self._characters > MOST_CHARACTERS:
                raise TooMuch(f"with its parameters, the spec is longer than {MOST_CHARACTERS:,} characters", node)
            return str(value.value)

        made = _REFERENCE.sub(replace, text)
        return Filled(node.tag, made, node.start_mark, node.end_mark, node.style) if put else node


def names(root: yaml.Node) -> set[str]:
    """Return all names that values below ``root`` refer to. O(nodes + characters)."""
    return {m.group(1) for node in scalars(root) for m in _REFERENCE.finditer(node.value) if m.group(1)}


def scalars(root: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Yield every scalar below ``root`` once."""
    return (node for node in nodes(root) if isinstance(node, yaml.ScalarNode))


def nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Yield ``root`` and every value below it once, without recursion, since the depth is unbounded."""
    left, seen = [root], {id(root)}
    while left:
        at = left.pop()
        yield at
        inside = [] if isinstance(at, yaml.ScalarNode) else [v for _, v in at.value] if isinstance(at, yaml.MappingNode) else at.value
        for inner in inside:
            if id(inner) not in seen:
                seen.add(id(inner))
                left.append(inner)


# Merge one YAML mapping over another: mappings are merged field by field, other values of the upper one win.

Pair = tuple[yaml.Node, yaml.Node]


class Overlay:
    """Lays mappings over others. What is written once and used by alias is merged once; ``TooMuch`` if that is very often all the same."""

    def __init__(self) -> None:
        self._merged: dict[tuple[int, int], yaml.MappingNode] = {}
        self._kept: list[yaml.Node] = []  # so that no other node gets the number of one that was merged
        self._pairs = 0

    def over(self, lower: yaml.MappingNode, upper: yaml.MappingNode, depth: int = 0) -> yaml.MappingNode:
        """A mapping with the fields of both, in the lower one's order; neither is changed. O(fields of both).

        Every name and value keeps its place in its file; names of both are where the upper one has them. A field that one of them has
        twice stays so, for the reader of the whole to tell.
        """
        known = self._merged.get((id(lower), id(upper)))
        if known is not None or depth > MAX_DEPTH:
            return upper if known is None else known
        made = yaml.MappingNode(upper.tag, [], upper.start_mark, upper.end_mark, upper.flow_style)
        self._merged[id(lower), id(upper)] = made
        self._kept += (lower, upper)
        self._pairs += len(lower.value) + len(upper.value)
        if self._pairs > 2 * MAX_NODES:
            raise TooMuch(f"the fields of included files and profiles are more than {2 * MAX_NODES:,}", upper)
        above: dict[str, list[Pair]] = {}
        for key, value in upper.value:
            above.setdefault(_name(key), []).append((key, value))
        done: set[str] = set()
        for key, value in lower.value:
            name = _name(key)
            if name not in above:
                made.value.append((key, value))
            elif name not in done:
                done.add(name)
                made.value += [(k, self._both(value, v, depth + 1)) for k, v in above[name]]
        made.value += [pair for name, pairs in above.items() if name not in done for pair in pairs]
        return made

    def _both(self, lower: yaml.Node, upper: yaml.Node, depth: int) -> yaml.Node:
        mappings = isinstance(lower, yaml.MappingNode) and isinstance(upper, yaml.MappingNode)
        return self.over(lower, upper, depth) if mappings else upper  # type: ignore[arg-type]


def _name(key: yaml.Node) -> str:
    """Return the identity of a field; names that are not text, and YAML's ``<<``, are never equal."""
    return str(key.value) if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE else f"\0{id(key)}"


def taken(root: yaml.MappingNode, names: Iterable[str]) -> tuple[yaml.MappingNode, dict[str, list[Pair]]]:
    """Return (the mapping without the fields of these names, these fields)."""
    found: dict[str, list[Pair]] = {name: [] for name in names}
    rest: list[Pair] = []
    for key, value in root.value:
        found.get(_name(key), rest).append((key, value))
    return yaml.MappingNode(root.tag, rest, root.start_mark, root.end_mark, root.flow_style), found


# Read the files that a spec includes: parts of specs, below the spec's directory and of bounded size.
#
# The spec overrides their fields.

INCLUDE: Final = "include"
MOST: Final = 20
"""Maximum number of included files."""
_HINT: Final = "a spec includes .yaml files below its own directory, named by their path from there"


def included(main: Composed, listed: yaml.Node, directory: str, size: int) -> tuple[list[Composed], list[SkybandError]]:
    """Return the readable files of ``listed`` (a path or a list of paths), and the errors of the others.

    All are read in full, so that all their mistakes are reported; ``size`` is what the spec itself has of ``MAX_BYTES``.
    """
    found: list[Composed] = []
    errors: list[SkybandError] = []

    def wrong(node: yaml.Node, message: str, hint: str | None = _HINT) -> None:
        mark, end = node.start_mark, node.end_mark
        length = end.column - mark.column if end.line == mark.line else 1
        errors.append(SkybandError("SKY-E108", message, hint, main.text.where(mark.line, mark.column, length)))

    named: Sequence[yaml.Node] = listed.value if isinstance(listed, yaml.SequenceNode) else [listed]
    if len(named) > MOST:
        wrong(listed, f"a spec includes at most {MOST} files", None)
    for node in named[:MOST]:
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str" or not node.value:
            wrong(node, f"'{INCLUDE}' takes a path, or a list of paths")
            continue
        try:
            raw = _read(node.value, directory, MAX_BYTES - size)
        except ValueError as e:
            wrong(node, f"{node.value}: {e}")
            continue
        size += len(raw)
        part = _composed(os.path.normpath(os.path.join(os.path.dirname(main.text.file), node.value)), raw)
        errors += part.errors
        found.append(part)
    return found, errors


def _read(path: str, directory: str, room: int) -> bytes:
    """Return the content of an included file. Raises ValueError with the reason if it cannot be read; never blocks on a pipe."""
    if "${" in path or "\0" in path:
        raise ValueError("the name of an included file is written out, without variables and parameters")
    if os.path.isabs(path) or "://" in path or not path.endswith((".yaml", ".yml")):
        raise ValueError("it cannot be included")
    whole, base = os.path.realpath(os.path.join(directory, path)), os.path.realpath(directory)
    if os.path.commonpath([whole, base]) != base:
        raise ValueError("it does not lie below the directory of the spec")
    try:
        handle = os.open(whole, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ValueError("it is not a regular file")
            raw = file.read(room + 1)
    except OSError as e:
        raise ValueError((e.strerror or "it cannot be read").lower()) from None
    if len(raw) > room:
        raise ValueError(f"with it, the spec is larger than {MAX_BYTES // 1024} KB")
    return raw


def _composed(file: str, raw: bytes) -> Composed:
    """Return the nodes of an included file, which may not include others."""
    try:
        part = compose(file, raw.decode("utf-8"))
    except UnicodeDecodeError:
        text = SourceText(file, "")
        return Composed(text, errors=[SkybandError("SKY-E108", "the file is not UTF-8 text", "save it as UTF-8", text.where(0, 0))])
    root = part.root
    if part.readable and not isinstance(root, yaml.MappingNode):
        said = "the file has no fields of a spec, such as 'window: {time: 7 days}'"
        part.errors.append(SkybandError("SKY-E108", said, None, part.text.where(0, 0)))
    if isinstance(root, yaml.MappingNode):
        for key, _ in root.value:
            if isinstance(key, yaml.ScalarNode) and key.value == INCLUDE:
                where = part.text.where(key.start_mark.line, key.start_mark.column, len(INCLUDE))
                part.errors.append(SkybandError("SKY-E108", "an included file cannot include others", "list all files in the spec", where))
    return part


PROFILE: Final = "SKYBAND_PROFILE"
"""The environment variable that names the profile; ``--profile`` sets it."""
PARAMETERS: Final = "parameters"
RESOLVED: Final = (INCLUDE, PROFILES, PARAMETERS)
_NAMED: Final = "use letters, digits and _, not a digit first"
"""Fields of a spec that are resolved first, so that a job has none of them."""


def read_text(file: str, text: str, env: Mapping[str, str], settings: Sequence[Setting] = (), live: LiveParts = NO_PARTS) -> Document:
    """Return the document of ``text``. Errors are collected in it, never raised. ``file`` is the name in messages; ``live``: see there.

    Fragments are looked for below the directory of ``file``; ``env`` has the profile's name and the values of ``${NAME}``. ``settings``
    replace values of the whole.
    """
    main = compose(file, text)
    return _Assembly(main, env, settings, live).document(len(text.encode("utf-8", "replace")))


class _Assembly:
    """Assembles the parts of one spec. Use it once."""

    def __init__(self, main: Composed, env: Mapping[str, str], settings: Sequence[Setting], live: LiveParts) -> None:
        self.main = main
        self.live = live
        self.env = env
        self.settings = settings
        self.parts = [main]
        self.overlay = Overlay()
        self.builder = Builder({main.text.file: main.text}, main.text, env)
        self.doc = self.builder.doc

    def document(self, size: int) -> Document:
        main, doc = self.main, self.doc
        root = main.root
        if isinstance(root, yaml.MappingNode):
            try:
                root = self._resolved(root, size)
                for setting in self.settings:
                    root = self._set(root, setting)
            except TooMuch as e:
                doc.add("SKY-E103", e.why, self.builder.where(e.node), TOO_MUCH)
                doc.poisoned.add(())
        if not all(part.readable for part in self.parts):
            doc.poisoned.add(())
        if main.readable and not doc.bad(()):
            self.builder.build(root)
        doc.errors[:0] = [e for part in self.parts for e in part.errors]
        for part in self.parts:
            bad = (p for p, q in doc.places.items() if part.repaired and q.text is part.text and q.line in part.repaired and "$(" in q.raw)
            doc.poisoned.update(bad, ((name,) for name in part.lost))
        doc.included = tuple(part.text for part in self.parts[1:])
        return doc

    def _resolved(self, root: yaml.MappingNode, size: int) -> yaml.MappingNode:
        """Return the root of the job; if it cannot be determined, poison the document, which suppresses follow-up errors."""
        self.builder.mask(root)
        root, own = taken(root, RESOLVED)
        for name in RESOLVED:
            self._once(name, own[name])
        if own[INCLUDE]:
            self.builder.parameters = frozenset()
            root = self._with_fragments(root, own, size)
        self._mask_parameters()
        rest, found = taken(root, (PROFILES, PARAMETERS)) if own[INCLUDE] else (root, own)
        if found[PROFILES] or self.env.get(PROFILE):
            rest, found[PARAMETERS] = self._with_profile(rest, found)
        if found[PARAMETERS]:
            self._fill(rest, found[PARAMETERS][0], {name for _, value in found[PROFILES] for name in names(value)})
        rest, parts = with_parts(rest, self.live)
        self.builder.texts |= texts_of(parts)
        self.parts += parts
        if any(part.errors for part in parts):
            self.doc.poisoned.add(())
        assert isinstance(self.main.root, yaml.MappingNode)
        rest.start_mark, rest.end_mark = self.main.root.start_mark, self.main.root.end_mark
        return rest

    def _set(self, root: yaml.Node, setting: Setting) -> yaml.Node:
        """Return ``root`` with the value of a setting."""
        made = compose(setting.file, setting.value)
        self.builder.texts[setting.file] = made.text
        self.doc.errors += made.errors
        value = made.root
        if value is None:
            if not made.errors:
                self.doc.add("SKY-E201", f"--set {setting.said} has no value", None, "write PATH=VALUE, such as queries.best.k=20")
            return root
        try:
            return placed(root, setting, value)
        except CannotSet as e:
            self.doc.add("SKY-E201", f"--set {setting.said}: {e}", None, e.hint)
            return root

    def _mask_parameters(self) -> None:
        """Mask the parameters of all parts and profiles that a secret refers to."""
        roots = [part.root for part in self.parts if isinstance(part.root, yaml.MappingNode)]
        secret = {name for root in roots for node in self.builder.secrets(root) for name in names(node)}
        profiles = [_values(named) for root in roots for _, named in taken(root, (PROFILES,))[1][PROFILES]]
        for part in [*roots, *(p for some in profiles for _, p in some if isinstance(p, yaml.MappingNode))]:
            for _, parameters in taken(part, (PARAMETERS,))[1][PARAMETERS]:
                for key, value in _values(parameters):
                    if isinstance(key, yaml.ScalarNode) and key.value in secret:
                        for node in scalars(value):
                            self.builder.hide(node)

    def _once(self, name: str, pairs: list[Pair]) -> None:
        for key, _ in pairs[1:]:
            line = pairs[0][0].start_mark.line + 1
            said = f"the field {name!r} appears twice, first in line {line}"
            self.doc.add("SKY-E102", said, self.builder.where(key), "rename or remove one of them")

    def _with_fragments(self, root: yaml.MappingNode, own: Mapping[str, list[Pair]], size: int) -> yaml.MappingNode:
        """Merge the included files, each over the previous ones, and the spec over all of them."""
        text = self.main.text
        found, errors = included(self.main, own[INCLUDE][0][1], os.path.dirname(text.file) or ".", size)
        self.doc.errors += errors
        if errors:
            self.doc.poisoned.add(())
        self.parts += found
        whole = yaml.MappingNode(root.tag, [], root.start_mark, root.end_mark)
        for part in found:
            self.builder.texts[part.text.file] = part.text
            if isinstance(part.root, yaml.MappingNode):
                self.builder.mask(part.root)
                whole = self.overlay.over(whole, part.root)
        upper = yaml.MappingNode(root.tag, [*root.value, *own[PROFILES][:1], *own[PARAMETERS][:1]], root.start_mark, root.end_mark)
        return self.overlay.over(whole, upper)

    def _with_profile(self, root: yaml.MappingNode, found: dict[str, list[Pair]]) -> tuple[yaml.MappingNode, list[Pair]]:
        """Return (the root merged with the chosen profile, the resulting parameters)."""
        doc, chosen = self.doc, self.env.get(PROFILE)
        named = found[PROFILES][0][1] if found[PROFILES] else None
        profiles = self._fields(named, PROFILES) if named is not None else {}
        for name, (key, value) in profiles.items():
            if not NAME.fullmatch(name):
                doc.add(
                    "SKY-E116",
                    f"'{name}' cannot be used as a name",
                    self.builder.where(key),
                    "use letters, digits and _, not a digit first",
                )
            if isinstance(value, yaml.MappingNode):
                for inner, _ in (pair for pairs in taken(value, (INCLUDE, PROFILES))[1].values() for pair in pairs):
                    hint = "only the spec itself may have includes and profiles"
                    doc.add("SKY-E110", f"unknown field '{inner.value}' in profiles.{name}", self.builder.where(inner), hint)
            elif not _is_empty(value):
                doc.add("SKY-E112", f"'{name}' needs fields of a spec, such as {{window: {{time: 1 day}}}}", self.builder.where(value))
        if not chosen:
            return root, found[PARAMETERS]
        if chosen not in profiles:
            where = Where(self.main.text.file, 1, 1) if not found[PROFILES] else self.builder.where(found[PROFILES][0][0])
            known = f"profiles: {one_of(list(profiles))}" if profiles else f"the spec has no profiles; --profile and {PROFILE} choose one"
            doc.add("SKY-E109", f"no profile {chosen!r}", where, did_you_mean(chosen, profiles) or known)
            doc.poisoned.add(())
            return root, found[PARAMETERS]
        value = profiles[chosen][1]
        if not isinstance(value, yaml.MappingNode):
            return root, found[PARAMETERS]
        lower = yaml.MappingNode(root.tag, [*root.value, *found[PARAMETERS][:1]], root.start_mark, root.end_mark)
        upper, _ = taken(value, (INCLUDE, PROFILES))
        whole, own = taken(self.overlay.over(lower, upper), (PARAMETERS,))
        return whole, own[PARAMETERS]

    def _fields(self, node: yaml.Node, name: str) -> dict[str, Pair]:
        """Return the fields of a mapping by name, and report repeated ones."""
        if not isinstance(node, yaml.MappingNode):
            self.doc.add("SKY-E112", f"'{name}' needs fields, such as {{name: value}}", self.builder.where(node))
            return {}
        found: dict[str, Pair] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.doc.add("SKY-E112", "a field name must be plain text", self.builder.where(key))
            elif key.value in found:
                self.doc.add("SKY-E102", f"the field {key.value!r} appears twice", self.builder.where(key), "remove one of them")
            else:
                found[key.value] = key, value
        return found

    def _fill(self, root: yaml.MappingNode, pair: Pair, elsewhere: set[str]) -> None:
        """Insert the parameters. Report those of the spec's own file that nothing uses, here or ``elsewhere``."""
        doc, where = self.doc, self.builder.where
        if not isinstance(pair[1], yaml.MappingNode):
            doc.poisoned.add(())
        parameters = self._fields(pair[1], PARAMETERS)
        self.builder.parameters = frozenset(parameters)
        for name, (key, value) in parameters.items():
            if not NAME.fullmatch(name):
                doc.add("SKY-E116", f"'{name}' cannot be used as a name", where(key), _NAMED)
            elif _is_empty(value):
                doc.add("SKY-E112", f"'{name}' has no value", where(key), "give it one, or leave the field out")
                doc.poisoned.add(())
        filling = Filling({name: value for name, (_, value) in parameters.items()})
        filling.fill(root)
        for node, name in filling.unfit:
            said = f"the parameter {name!r} is a list or has fields, so it cannot be inserted into a text"
            doc.add("SKY-E109", said, where(node), f'use it as a whole value: "${{{name}}}"')
            doc.poisoned.add(())
        idle = set(parameters) - filling.used - elsewhere
        unknown = names(root) - set(parameters) if idle else set()
        for name, (key, _) in parameters.items():
            if name in idle and NAME.fullmatch(name) and key.start_mark.name == self.main.text.file:
                hint = did_you_mean(name, unknown) or f'remove it, or use it: "${{{name}}}"'
                doc.add("SKY-E109", f"the parameter {name!r} is not used in the spec", where(key), hint)


def _values(node: yaml.Node) -> list[Pair]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
