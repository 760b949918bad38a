"""Text of an expression -> tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from skyband.operators.expressions.ast import Span
from skyband.operators.expressions.errors import ExpressionError

TokenKind: TypeAlias = Literal["number", "text", "name", "quoted", "word", "op", "end"]

KEYWORDS = frozenset({"and", "or", "not", "is", "null", "in", "between", "true", "false"})
"""Reserved in any case; an attribute of such a name is written in backquotes."""
CASE_WORDS = frozenset({"when", "then", "else", "end"})
"""Words of ``case``. They are not reserved: an attribute may have such a name, and ``case`` itself, without backquotes."""

_PATTERN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[^\W\d]\w*)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<text>'(?:[^']|'')*')
      | (?P<op><>|!=|==|<=|>=|[-+*/()<>=.,])
    """,
    re.VERBOSE,
)
_HINTS = {
    "%": "write mod(x, y) for remainders",
    "^": "write pow(x, y) for powers",
    '"': "texts are written in single quotes: 'text'",
    "&": "write and",
    "|": "write or",
    "!": "write not",
    ";": "an expression has no ;",
    "$": "environment variables are written ${NAME} and resolved before the expression is read",
}


@dataclass(frozen=True, slots=True)
class Token:
    """``value`` is what it stands for: a keyword in lower case, a text without its quotes, a number as written."""

    kind: TokenKind
    value: str
    span: Span


def tokenize(text: str, report: Callable[[ExpressionError], None]) -> list[Token]:
    """Return all tokens, closed by one of kind ``end``. Bad characters are reported and passed over. O(length)."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            if text[at] in "'`":
                what = "text" if text[at] == "'" else "name in backquotes"
                report(ExpressionError(f"this {what} is never closed", Span(at, len(text))))
                break
            hint = _HINTS.get(text[at])
            report(ExpressionError(f"unexpected character {text[at]!r}" + (f": {hint}" if hint else ""), Span(at, at + 1)))
            at += 1
            continue
        span, word = Span(at, match.end()), match.group()
        at = match.end()
        if match.lastgroup == "number":
            tokens.append(Token("number", word, span))
        elif match.lastgroup == "name":
            lower = word.lower()
            tokens.append(Token("word", lower, span) if lower in KEYWORDS else Token("name", word, span))
        elif match.lastgroup == "quoted":
            tokens.append(Token("quoted", word[1:-1].replace("``", "`"), span))
        elif match.lastgroup == "text":
            tokens.append(Token("text", word[1:-1].replace("''", "'"), span))
        elif match.lastgroup == "op":
            tokens.append(Token("op", {"!=": "<>", "==": "="}.get(word, word), span))
    tokens.append(Token("end", "", Span(len(text), len(text))))
    return tokens
