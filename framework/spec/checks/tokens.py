"""Check the section ``tokens``: columns, separators and regular expressions."""

from __future__ import annotations

from skyband.framework.spec.checks.deletions import what_deletes
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.column_types import kind_of
from skyband.framework.spec.models.tokens import Tokens
from skyband.framework.spec.models.vectors import VECTOR_TYPES
from skyband.framework.spec.parsing.document import Path

MAX_WORDS = 200
"""Maximum length of a regular expression for words."""


def check_tokens(s: Scope) -> None:
    """Report all errors of the sets of tokens."""
    for name, tokens in s.job.tokens.items():
        path: Path = ("tokens", name)
        if s.doc.bad(path):
            continue
        _check_column(s, path, tokens)
        if tokens.separator is not None and tokens.words is not None and not s.doc.bad_below(path):
            s.doc.add("SKY-E117", "'separator' and 'words' cannot be used together", s.doc.where_key((*path, "words")), "keep one of them")
        if tokens.words is not None and not s.doc.bad((*path, "words")):
            _check_words(s, (*path, "words"), tokens.words)
        if tokens.min_tokens > tokens.max_tokens and not s.doc.bad_below(path):
            at: Path = (*path, "min_tokens")
            where = s.doc.where_value(at) if at in s.doc.places else s.doc.where_value((*path, "max_tokens"))
            s.doc.add("SKY-E117", f"min_tokens is larger than max_tokens ({tokens.max_tokens:,}): no row would have a set", where)
        if tokens.short == "reject" and (deletes := what_deletes(s)) is not None and not s.doc.bad((*path, "short")):
            said = f"with {deletes[0]}, short cannot be reject: a row that deletes would need tokens, too"
            s.doc.add("SKY-E117", said, s.doc.where_key((*path, "short")), "short: skip lets short rows take no part")


def _check_column(s: Scope, path: Path, tokens: Tokens) -> None:
    at: Path = (*path, "column")
    type_ = s.types.get(tokens.column) if s.column(at, tokens.column, lists=True) else None
    if type_ is None:
        return
    kind = kind_of(type_)
    if kind not in ("text", "list"):
        hint = "derive a text from it first, such as cast(x as string)"
        s.doc.add("SKY-E126", f"tokens need a list or a text column, but '{tokens.column}' is {type_}", s.doc.where_value(at), hint)
    if type_ in VECTOR_TYPES:
        hint = "tokens are texts or whole numbers; 'vectors:' compares lists of other numbers"
        s.doc.add("SKY-E126", f"tokens need a list of tokens, but '{tokens.column}' is {type_}", s.doc.where_value(at), hint)
    for field in ("separator", "words"):
        if kind == "list" and getattr(tokens, field) is not None and not s.doc.bad((*path, field)):
            said = f"'{field}' is for texts, but '{tokens.column}' is a list, whose elements are the tokens"
            s.doc.add("SKY-E117", said, s.doc.where_key((*path, field)), "leave it out")


def _check_words(s: Scope, at: Path, words: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    where = s.doc.where_value(at)
    if len(words) > MAX_WORDS:
        s.doc.add("SKY-E114", f"a regular expression has at most {MAX_WORDS} characters", where)
        return
    nothing = pa.array([""])
    hint = "use RE2 syntax, such as '[A-Za-z0-9]+' (no look-around, no back-references)"
    try:
        # Alone first: text that is valid only inside the group below is not an expression.
        pc.match_substring_regex(nothing, words)
        empty = pc.match_substring_regex(nothing, f"^(?:{words})$")[0].as_py()
    except pa.ArrowInvalid:
        s.doc.add("SKY-E130", "not a regular expression", where, hint)
        return
    if empty:
        s.doc.add("SKY-E130", "this regular expression fits the empty text", where, "use + instead of *")
