"""Assemble the document of one job from a spec's text, its included files, the chosen profile and its parameters.

All of that happens to YAML's nodes, before anything is read as a field of a job; each node knows the file it is from, so that
later mistakes are reported at their place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from skyband.framework.base.errors import Where, did_you_mean, one_of
from skyband.framework.spec.parsing.document import PROFILES, TOO_MUCH, Builder, Document, TooMuch
from skyband.framework.spec.parsing.includes import INCLUDE, included
from skyband.framework.spec.parsing.live_parts import NO_PARTS, LiveParts, texts_of, with_parts
from skyband.framework.spec.parsing.overlay import Overlay, Pair, taken
from skyband.framework.spec.parsing.parameters import NAME, Filling, names, scalars
from skyband.framework.spec.parsing.recovery import Composed, compose
from skyband.framework.spec.parsing.settings import CannotSet, Setting, placed

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
