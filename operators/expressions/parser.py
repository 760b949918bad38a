"""Text -> typed tree: a Pratt parser over the tokens, with the type rules applied as nodes are built.

Precedence, loosest first: or, and, not, comparison (= <> < <= > >= is in between; they do not chain), + -, * /, unary minus.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final, Literal

from skyband.operators.expressions.ast import EPOCH, Node, Span, Written
from skyband.operators.expressions.errors import ExpressionError, ExpressionErrors
from skyband.operators.expressions.tokens import CASE_WORDS, Token, tokenize
from skyband.operators.expressions.typed import AGGREGATIONS, COMPARISONS, MAX_DEPTH, Builder
from skyband.operators.expressions.vectors import AttributeKind
from skyband.operators.spelling import closest

UNITS: Mapping[str, int] = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000,
    "week": 604_800_000_000,
}  # fmt: skip
"""Unit of a duration literal (singular; plurals too) -> microseconds."""

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN = range(1, 8)
_MAX_TEXT = 40_000
_MAX_NESTING = 2 * MAX_DEPTH + 10  # a level of a tree in canonical spelling takes two of the parser: operand and parentheses


_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}(?P<clock>[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII)


def instant_micros(text: str, with_clock: bool) -> int | None:
    """Microseconds since 1970 (UTC) of an instant as text; None if it is none. O(length)."""
    m = _INSTANT.fullmatch(text)
    if m is None or (m["clock"] is not None and not with_clock):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return (at - EPOCH) // timedelta(microseconds=1)


_DIGITS: Final = 60
"""Characters of a number of which all digits count."""


def _fraction(text: str) -> float:
    """Return the number that ``text`` writes, with all of its digits if they are more than those of the float64."""
    number = float(text)
    if len(text) > _DIGITS or "e" in text.lower() or Fraction(text) == Fraction(repr(number)):
        return number
    return Written(text)


class _Stop(Exception):
    """The rest of the text makes no sense after the error just reported."""


class _Parser:
    def __init__(self, text: str, tokens: list[Token], build: Builder):
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.cases = 0
        self.build = build

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def has(self, *values: str) -> bool:
        return self.next.kind in ("op", "word") and self.next.value in values

    def expect(self, value: str, where: str) -> Token:
        if not self.has(value):
            self.fail(f"expected {value} {where}")
        return self.take()

    def fail(self, message: str, token: Token | None = None) -> None:
        token = token or self.next
        found = "the expression ends" if token.kind == "end" else f"found {token.value!r}"
        self.build.error(f"{message}, but {found}", token.span)
        raise _Stop

    # ------------------------------------------------------------------

    def parse_all(self) -> Node | None:
        node = self.expression(0)
        if self.next.kind != "end":
            if self.has(")"):
                self.build.error("this ) closes nothing", self.next.span)
                raise _Stop
            self.fail("expected an operator")
        return node

    def expression(self, binding: int) -> Node | None:
        self.depth += 1
        if self.depth > _MAX_NESTING:
            self.too_deep()
        start = self.next.span.start
        node = self.prefix()
        compared = False
        while True:
            token = self.next
            if token.kind not in ("op", "word"):
                break
            if token.value in ("or", "and"):
                power = _OR if token.value == "or" else _AND
            elif token.value in COMPARISONS or token.value in ("is", "in", "between", "not"):
                power = _COMPARE
            elif token.value in ("+", "-"):
                power = _SUM
            elif token.value in ("*", "/"):
                power = _PRODUCT
            else:
                break
            if power <= binding:
                break
            if power == _COMPARE:
                if compared:
                    self.build.error("comparisons do not chain: join them with and, or use between", token.span)
                    raise _Stop
                node, compared = self.comparison(node, start), True
                continue
            compared = False
            self.take()
            right = self.expression(power)
            node = self.build.binary(token.value, node, right, self.span(start))
        self.depth -= 1
        return node

    def too_deep(self) -> None:
        self.build.error(f"the expression is nested too deeply (more than {MAX_DEPTH} levels)", self.next.span)
        raise _Stop

    def span(self, start: int) -> Span:
        return Span(start, self.tokens[self.at - 1].span.end)

    def comparison(self, left: Node | None, start: int) -> Node | None:
        token = self.take()
        if token.value == "is":
            negated = self.negation()
            self.expect("null", "after is")
            return self.build.is_null(left, negated, self.span(start))
        negated = token.value == "not"
        if negated:
            if not self.has("in", "between"):
                self.fail("expected in or between after not")
            token = self.take()
        if token.value == "between":
            low = self.expression(_COMPARE)
            self.expect("and", "between the two bounds")
            high = self.expression(_COMPARE)
            return self.build.between(left, low, high, negated, self.span(start))
        if token.value == "in":
            self.expect("(", "after in")
            options = [self.expression(_COMPARE)]
            while self.has(","):
                self.take()
                options.append(self.expression(_COMPARE))
            self.expect(")", "after the last constant")
            return self.build.isin(left, options, negated, self.span(start))
        right = self.expression(_COMPARE)
        return self.build.binary(token.value, left, right, self.span(start))

    def negation(self) -> bool:
        if self.has("not"):
            self.take()
            return True
        return False

    def prefix(self) -> Node | None:
        token = self.take()
        start = token.span.start
        if token.kind == "number":
            return self.number(token)
        if token.kind == "text":
            return self.build.literal(token.value, "text", token.span)
        if token.kind == "name" and self.next.kind == "text" and token.value.lower() in ("timestamp", "date"):
            return self.instant(token)
        if token.kind == "name" and token.value.lower() == "case" and self.begins_case():
            return self.case(start)
        if token.kind == "name" and self.is_case_word(token) and token.value not in self.build.schema and not self.has("."):
            self.fail("expected a value", token)
        if token.kind in ("name", "quoted"):
            return self.name(token)
        if token.kind == "word" and token.value in ("true", "false"):
            return self.build.literal(token.value == "true", "bool", token.span)
        if token.kind == "word" and token.value == "null":
            return self.build.literal(None, "null", token.span)
        if token.kind == "word" and token.value == "not":
            operand = self.expression(_NOT)
            return self.build.unary("not", operand, self.span(start))
        if token.kind == "op" and token.value == "-":
            if self.next.kind == "number":  # so that the smallest literals are possible and -1 is one constant
                number = self.number(self.take())
                return self.build.unary("-", number, self.span(start))
            operand = self.expression(_SIGN)
            return self.build.unary("-", operand, self.span(start))
        if token.kind == "op" and token.value == "(":
            node = self.expression(0)
            self.expect(")", "to close the (")
            return node
        self.fail("expected a value", token)
        return None  # pragma: no cover - fail always raises

    def begins_case(self) -> bool:
        """Return True if ``case`` is not an attribute: a value or ``when`` follows, as after no attribute."""
        return self.next.kind in ("name", "quoted", "number", "text") or self.has("(", "true", "false", "null")

    def is_case_word(self, token: Token, *words: str) -> bool:
        """Return True if ``token`` is one of the ``words`` (default: any) of a ``case`` that is not closed yet."""
        return self.cases > 0 and token.kind == "name" and token.value.lower() in (words or CASE_WORDS)

    def case_word(self, word: str) -> bool:
        """Take ``word`` if it is next."""
        found = self.is_case_word(self.next, word)
        if found:
            self.take()
        return found

    def case(self, start: int) -> Node | None:
        """``case when condition then x ... [else y] end``, or ``case value when x then ...``."""
        self.cases += 1
        simple = not self.is_case_word(self.next, "when")
        subject = self.expression(0) if simple else None
        whens: list[tuple[Node | None, Node | None]] = []
        while self.case_word("when"):
            at = self.next.span.start
            condition = self.expression(0)
            if simple:
                condition = self.build.binary("=", subject, condition, self.span(at))
            if not self.case_word("then"):
                self.fail("expected then after what follows when")
            whens.append((condition, self.expression(0)))
        if not whens:
            self.fail("expected when after case")
        otherwise = self.expression(0) if self.case_word("else") else self.build.literal(None, "null", self.span(start))
        if not self.case_word("end"):
            self.fail("expected end to close case")
        self.cases -= 1
        return self.build.case(whens, otherwise, self.span(start))

    def number(self, token: Token) -> Node | None:
        whole = token.value.isdigit()
        if self.next.kind == "name" and not self.is_case_word(self.next):
            return self.duration(token)
        if not whole:
            return self.build.literal(_fraction(token.value), "float", token.span)
        if len(token.value) > 40:
            self.build.error("this whole number does not fit into 64 bits", token.span)
            return None
        return self.build.literal(int(token.value), "int", token.span)

    def duration(self, token: Token) -> Node | None:
        unit = self.take()
        span = Span(token.span.start, unit.span.end)
        word = unit.value.lower()
        word = word[:-1] if word.endswith("s") else word
        if word not in UNITS:
            known = [*UNITS, *(u + "s" for u in UNITS)]
            message = f"{unit.value} after a number is no unit of time ({', '.join(u + 's' for u in UNITS)})"
            self.build.error(message, unit.span, closest(unit.value, known))
            return None
        if len(token.value) > 40 or "e" in token.value.lower():
            self.build.error("write a duration as a plain number and a unit", span)
            return None
        micros = Fraction(token.value) * UNITS[word]
        if micros.denominator != 1 or micros > 10**17:
            self.build.error(
                "a duration must be a whole number of microseconds" if micros.denominator != 1 else "this duration is too long", span
            )
            return None
        return self.build.literal(int(micros), "duration", span)

    def instant(self, word: Token) -> Node | None:
        """``timestamp '2015-01-01 12:00'`` or ``date '2015-01-01'``: UTC unless it says otherwise."""
        text = self.take()
        span = Span(word.span.start, text.span.end)
        micros = instant_micros(text.value, with_clock=word.value.lower() == "timestamp")
        if micros is None:
            form = "2015-01-31 12:00:00" if word.value.lower() == "timestamp" else "2015-01-31"
            self.build.error(f"{text.value!r} is no {word.value.lower()}: it is written as '{form}'", text.span)
            return None
        return self.build.literal(micros, "time", span)

    def name(self, token: Token) -> Node | None:
        start = token.span.start
        if token.kind == "name" and self.has("("):
            self.take()
            if token.value.lower() in AGGREGATIONS:
                self.aggregation(token)
                return None
            args: list[Node | None] = []
            if not self.has(")"):
                args.append(self.expression(0))
                while self.has(","):
                    self.take()
                    args.append(self.expression(0))
            self.expect(")", f"to close {token.value}(")
            return self.build.call(token.value, args, self.span(start), token.span)
        if self.has("."):
            name = self.after_dot(token)
            if token.value in self.build.sides and self.has("."):
                name = f"{name}.{self.after_dot(self.tokens[self.at - 1])}"
            return self.build.attribute(token.value, name, self.span(start))
        return self.build.attribute(None, token.value, token.span)

    def after_dot(self, token: Token) -> str:
        """Take the dot after ``token`` and the name that must follow: a keyword can only be a name there, and keeps its case."""
        self.take()
        attribute = self.take()
        if attribute.kind not in ("name", "quoted", "word"):
            self.fail(f"expected an attribute after {token.value}.", attribute)
        return self.original(attribute)

    def aggregation(self, token: Token) -> None:
        """``sum(...)`` and its like, up to the closing parenthesis: ``count(*)`` and ``count(distinct x)`` are in no grammar here."""
        self.build.aggregation(token.value, token.span)
        open_ = 1
        while open_ and self.next.kind != "end":
            value = self.take().value
            open_ += (value == "(") - (value == ")")
        if self.next.kind == "name":  # "over (...)", "filter (...)"
            raise _Stop

    def original(self, token: Token) -> str:
        return self.text[token.span.start : token.span.end] if token.kind == "word" else token.value


def parse(
    text: str,
    schema: Mapping[str, AttributeKind],
    sides: Sequence[str] = ("a", "b"),
    want: Literal["score", "predicate"] | None = None,
) -> Node:
    """Parse and type ``text`` over objects with the attributes of ``schema`` (name -> kind).

    ``sides`` is ``("a", "b")`` for expressions over two objects (attributes ``a.x``, ``b.x``), ``("",)`` over one (``x``).
    ``want`` demands a number or a condition. Raises ``ExpressionErrors`` with every mistake found. O(length of the text).
    """
    errors: list[ExpressionError] = []
    return parsed(text, _Parser, Builder(schema, sides, errors.append), errors, want)


def parsed(
    text: str,
    parser: Callable[[str, list[Token], Builder], _Parser],
    build: Builder,
    errors: list[ExpressionError],
    want: Literal["score", "predicate"] | None,
) -> Node:
    """Return the tree that ``parser`` builds with ``build``, which reports to ``errors``. Raises ``ExpressionErrors`` as ``parse`` does."""
    if len(text) > _MAX_TEXT:
        raise ExpressionErrors(text, [ExpressionError(f"the expression is longer than {_MAX_TEXT} characters", Span(0, len(text)))])
    tokens = tokenize(text, errors.append)
    node: Node | None = None
    if len(tokens) == 1 and not errors:
        build.error("the expression is empty", Span(0, len(text)))
    elif not errors:  # after a bad character the rest would be reported for the wrong reason
        try:
            node = parser(text, tokens, build).parse_all()
        except _Stop:
            node = None
        except RecursionError:  # called from deep inside another program
            build.error("the expression is nested too deeply", Span(0, len(text)))
    if node is not None and want is not None:
        (build.score if want == "score" else build.predicate)(node)
    if errors or node is None:
        raise ExpressionErrors(text, errors)
    return node
