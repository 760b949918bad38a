"""The type rules: builds typed nodes from operands, reporting every mistake instead of stopping at the first.

A builder returns None for something that cannot be typed; None operands give None without a further error. Types:
int and float mix as float; ``time - time`` is a duration (int64 microseconds), ``time +- duration`` a time; a duration where a number is
needed is its seconds. ``int`` is only ever an attribute or a literal: arithmetic on it is float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from skyband.operators.base import TOKENS
from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Span, Type, Unary
from skyband.operators.expressions.canonical import walk
from skyband.operators.expressions.errors import ExpressionError
from skyband.operators.expressions.leaves import SET_FUNCTIONS, TEXT_FUNCTIONS
from skyband.operators.expressions.vectors import VECTOR_FUNCTIONS, AttributeKind, Vector
from skyband.operators.spelling import closest

# The type rules of functions of texts and of sets of tokens.

_TEXTS: Final = "a column, or lower(...) or substring(...) of one"


class Report(Protocol):
    """Reports a mistake."""

    def __call__(self, message: str, span: Span, suggestion: str | None = None, hint: str | None = None) -> None:
        """Report ``message`` about the text at ``span``."""
        ...


def type_of_text_function(name: str, arguments: Sequence[Node], span: Span, describe: Callable[[Node], str], report: Report) -> Type | None:
    """Return the type of a function of texts, or report what is wrong with its arguments (``said``: a node's type in words)."""
    texts = arguments[:2] if name == "edit_distance" else arguments[:1]
    good = [_is_text(name, x, describe, report) for x in texts]
    good += [_is_constant(name, x, report) for x in arguments[len(texts) :]]
    if not all(good):
        return None
    if not any(isinstance(n, Attr) for x in texts for n in walk(x)):
        report(f"{name} of constants only: write its value instead", span)
        return None
    return "text" if name in ("lower", "substring") else "int"


def _is_text(name: str, x: Node, describe: Callable[[Node], str], report: Report) -> bool:
    if x.type != "text":
        report(f"{name} needs a text, this is {describe(x)}", x.span)
        return False
    if isinstance(x, Attr | Literal_) or (isinstance(x, Call) and x.fn in ("lower", "substring")):
        return True
    report(f"{name} takes {_TEXTS}", x.span, hint="derive a text in 'transform' and use its column")
    return False


def _is_constant(name: str, x: Node, report: Report) -> bool:
    whole = isinstance(x, Literal_) and x.type == "int" and isinstance(x.value, int)
    if name == "edit_distance":
        if whole and isinstance(x, Literal_) and int(x.value or 0) >= 0:
            return True
        report("the limit of edit_distance is a whole number from 0 on, not an expression", x.span)
        return False
    if not whole:
        report(f"{name} takes whole numbers as position and count, not expressions", x.span)
    return whole


def type_of_set_function(name: str, x: Node, y: Node, span: Span, describe: Callable[[Node], str], report: Report) -> Type | None:
    """Return the type of a similarity of two sets, or report what is wrong with its arguments."""
    for node in (x, y):
        if node.type != "tokens":
            what = node.name if isinstance(node, Attr) else "NAME"
            hint = f"declare the set in the section 'tokens', such as {what}: {{column: {what}}}"
            report(f"{name} needs two sets of tokens, this is {describe(node)}", node.span, hint=hint)
            return None
    assert isinstance(x, Attr) and isinstance(y, Attr)
    if x.side == y.side:
        report(f"{name} compares a set of one row with a set of another: one of a. and one of b., in a query over pairs", span)
        return None
    return "float"


MAX_DEPTH = 100
"""Levels of a tree: pickling, comparing and compiling it recurse that deep."""
MAX_SIZE = 4000
"""Nodes of a tree, counting a node once per use (``x between y and z`` uses x twice)."""
FUNCTIONS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("abs", "sqrt", "log", "exp", "floor"), (1, 1)), "pow": (2, 2), "min": (2, 99), "max": (2, 99), "where": (3, 3),
    **dict.fromkeys(("sign", "ceil", "round", "sin", "cos", "tan", "radians"), (1, 1)), "mod": (2, 2), "atan2": (2, 2),
    "haversine": (4, 4), "coalesce": (2, 99),
    "length": (1, 1), "lower": (1, 1), "substring": (2, 3), "edit_distance": (2, 3), **dict.fromkeys(SET_FUNCTIONS, (2, 2)),
    **dict.fromkeys(VECTOR_FUNCTIONS, (2, 2)),
}  # fmt: skip
"""Function -> least and greatest number of arguments."""
_MEANT: Mapping[str, str] = {
    "if": "where", "iff": "where", "iif": "where", "ifnull": "coalesce", "nvl": "coalesce", "power": "pow", "ln": "log", "ceiling": "ceil",
    "greatest": "max", "least": "min", "signum": "sign", "levenshtein": "edit_distance", "char_length": "length", "len": "length",
    "lcase": "lower", "substr": "substring", "fmod": "mod", "pmod": "mod",
}  # fmt: skip
"""A function of SQL by another name -> the function of the language."""
_HINTS: Mapping[str, str] = {"round": "for two decimals write round(x * 100) / 100"}
"""What to write for a function with another number of arguments."""
AGGREGATIONS: frozenset[str] = frozenset({
    "sum", "count", "avg", "mean", "median", "mode", "stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp",
    "distinct", "min_by", "max_by", "any_value", "first", "last", "first_value", "last_value", "collect_list", "collect_set", "array_agg",
    "string_agg", "listagg", "count_if", "bool_and", "bool_or", "every", "some", "percentile", "percentile_approx", "quantile",
    "approx_count_distinct", "corr", "covar_pop", "covar_samp", "row_number", "rank", "dense_rank", "percent_rank", "ntile", "lag", "lead",
})  # fmt: skip
"""Functions of SQL over many rows, in lower case: an expression sees the rows that it scores and no others."""

NUMBERS: frozenset[Type] = frozenset({"float", "int", "duration", "null"})
COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_INT_LIMIT = 2**63 - 1
_WORDS: Mapping[Type, str] = {
    "float": "a number", "int": "a number", "text": "a text", "bool": "a condition",
    "time": "a time", "duration": "a duration", "null": "null", "units": "a number",
    "tokens": "a set of tokens", "characters": "a text", "vector": "a vector",
}  # fmt: skip


class Builder:
    """Typed nodes over the attributes of ``schema``; ``report`` gets the errors."""

    def __init__(self, schema: Mapping[str, AttributeKind], sides: Sequence[str], report: Callable[[ExpressionError], None]):
        self.schema = schema
        self.sides = tuple(sides)
        self._report = report
        self._measures: dict[int, tuple[int, int, Node]] = {}
        self._too_large = False

    def error(self, message: str, span: Span, suggestion: str | None = None, hint: str | None = None) -> None:
        """Report one mistake."""
        self._report(ExpressionError(message, span, suggestion, hint))

    def aggregation(self, fn: str, span: Span) -> None:
        """Report a function of SQL over many rows."""
        of = "the one row that it scores" if self.sides == ("",) else "the two rows of a pair"
        hint = "query types whose names end in _groups take aggregates, in 'score' and 'having'; of results: skyband sql SPEC"
        self.error(f"{fn} aggregates over many rows, and aggregation is not offered here: an expression sees {of}", span, hint=hint)

    def _keep(self, node: Node, *children: Node) -> Node | None:
        """Bound depth and size, so that later passes may recurse freely."""
        depth, size = 1, 1
        for child in children:
            d, s, _ = self._measures.get(id(child), (1, 1, child))
            depth, size = max(depth, d + 1), size + s
        if depth > MAX_DEPTH or size > MAX_SIZE:
            if not self._too_large:
                what = (
                    f"nested too deeply (more than {MAX_DEPTH} levels)" if depth > MAX_DEPTH else f"too large (more than {MAX_SIZE} parts)"
                )
                self.error(f"the expression is {what}", node.span)
            self._too_large = True
            return None
        self._measures[id(node)] = (depth, size, node)  # the node is kept so that its id stays its own
        return node

    # ------------------------------------------------------------------ leaves

    def literal(self, value: int | float | str | bool | None, type_: Type, span: Span) -> Node | None:
        """Return a constant; ``type_`` tells int from duration."""
        if type_ in ("int", "duration") and isinstance(value, int) and abs(value) > _INT_LIMIT:
            self.error("this whole number does not fit into 64 bits", span)
            return None
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            self.error("this number is too large for a 64-bit float", span)
            return None
        return self._keep(Literal_(value=value, type=type_, span=span))

    def attribute(self, side: str | None, name: str, span: Span) -> Node | None:
        """``side.name``, or a bare name if ``side`` is None. The name ``x.y`` in the schema is another one for the attribute ``x_y``."""
        pairs = self.sides != ("",)
        if side is not None and side not in self.sides and any(n.startswith(f"{side}.") for n in self.schema):
            side, name = None, f"{side}.{name}"
        known = name in self.schema or TOKENS + name in self.schema
        if pairs and side is None:
            if known:
                self.error(f"say which object's {name} is meant", span, " or ".join(f"{s}.{name}" for s in self.sides))
            else:
                self._unknown(self.sides[0] + ".", name, span)
            return None
        if side is not None and side not in self.sides:
            if not pairs:
                self.error(
                    f"there is only one object here: attributes are written without {side}.",
                    span,
                    name if known else closest(name, self.schema),
                )
            else:
                self.error(f"unknown object {side}", span, " or ".join(f"{s}.{name}" for s in self.sides) if known else None)
            return None
        if not known:
            self._unknown(f"{side}." if side else "", name, span)
            return None
        name = name.replace(".", "_")
        kind = self.schema.get(name, "tokens")
        if kind == "list":
            if TOKENS + name in self.schema:
                return self._keep(Attr(side=side or "", name=name, type="tokens", span=span))
            hint = f"declare equally many numbers by vectors: {{{name}: 384}}, or a set by tokens: {{NAME: {{column: {name}}}}}"
            self.error(f"{name} is a list: only sets of tokens and vectors are made of lists", span, hint=hint)
            return None
        if isinstance(kind, Vector):
            return self._keep(Attr(side=side or "", name=name, type="vector", dimension=kind.dimension, span=span))
        return self._keep(Attr(side=side or "", name=name, type=kind, span=span))

    def _unknown(self, prefix: str, name: str, span: Span) -> None:
        near = closest(name, [n.removeprefix(TOKENS) for n in self.schema])
        self.error(f"unknown attribute {name}", span, None if near is None else prefix + near)

    # ------------------------------------------------------------------ operators

    def unary(self, op: str, x: Node | None, span: Span) -> Node | None:
        """``-x`` or ``not x``. The sign of a literal becomes part of it."""
        if x is None:
            return None
        if op == "not":
            return self._keep(Unary(op="not", x=x, type="bool", span=span), x) if self._condition(x, "not") else None
        if isinstance(x, Literal_) and isinstance(x.value, int | float) and x.type in ("int", "float", "duration"):
            return self.literal(-x.value, x.type, span)
        if not self._number(x, "-"):
            return None
        return self._keep(Unary(op="-", x=x, type="duration" if x.type == "duration" else "float", span=span), x)

    def binary(self, op: str, x: Node | None, y: Node | None, span: Span) -> Node | None:
        """Arithmetic, comparison, ``and``, ``or``."""
        if x is None or y is None:
            return None
        if op in ("and", "or"):
            good = [self._condition(x, op), self._condition(y, op)]
            return self._keep(Binary(op=op, x=x, y=y, type="bool", span=span), x, y) if all(good) else None
        if op in COMPARISONS:
            return self._keep(Binary(op=op, x=x, y=y, type="bool", span=span), x, y) if self._comparable(op, x, y, span) else None
        type_ = self._arithmetic(op, x, y, span)
        return None if type_ is None else self._keep(Binary(op=op, x=x, y=y, type=type_, span=span), x, y)

    def _arithmetic(self, op: str, x: Node, y: Node, span: Span) -> Type | None:
        kinds = (x.type, y.type)
        if "time" in kinds:
            if kinds == ("time", "time") and op == "-":
                return "duration"
            if (kinds == ("time", "duration") and op in "+-") or (kinds == ("duration", "time") and op == "+"):
                return "time"
            if kinds == ("time", "time"):
                self.error(f"two times cannot be combined with {op}; their difference is written x - y", span)
            else:
                other = y if x.type == "time" else x
                self.error(
                    f"a time and {_WORDS[other.type]} cannot be combined with {op}; a time takes + or - a duration such as 5 minutes", span
                )
            return None
        good = [self._number(x, op), self._number(y, op)]
        if not all(good):
            return None
        return "duration" if kinds == ("duration", "duration") and op in "+-" else "float"

    def _comparable(self, op: str, x: Node, y: Node, span: Span) -> bool:
        if "null" in (x.type, y.type):
            self.error(f"a comparison with null is never true; write is {'not ' if op == '<>' else ''}null", span)
            return False
        if x.type in NUMBERS and y.type in NUMBERS:
            return True
        if x.type != y.type:
            hint = "; an instant is written timestamp '2015-01-31 12:00:00'" if {x.type, y.type} == {"time", "text"} else ""
            self.error(f"{_WORDS[x.type]} and {_WORDS[y.type]} cannot be compared{hint}", span)
            return False
        if not all([self._no_set(x), self._no_vector(x, op)]):
            return False
        if x.type in ("text", "bool") and op not in ("=", "<>"):
            self.error(f"{'texts' if x.type == 'text' else 'conditions'} can only be compared with = and <>, not with {op}", span)
            return False
        return True

    def between(self, x: Node | None, low: Node | None, high: Node | None, negated: bool, span: Span) -> Node | None:
        """``x [not] between low and high``: both bounds belong to it."""
        node = self.binary("and", self.binary(">=", x, low, span), self.binary("<=", x, high, span), span)
        return self.unary("not", node, span) if negated else node

    def is_null(self, x: Node | None, negated: bool, span: Span) -> Node | None:
        """``x is [not] null``."""
        return None if x is None or not self._no_set(x) else self._keep(IsNull(x=x, negated=negated, type="bool", span=span), x)

    def isin(self, x: Node | None, options: Sequence[Node | None], negated: bool, span: Span) -> Node | None:
        """``x [not] in (literal, ...)``."""
        literals: list[Literal_] = []
        for option in options:
            if option is not None and not isinstance(option, Literal_):
                self.error("in (...) takes constants only", option.span)
            elif option is not None and (x is None or self._comparable("=", x, option, option.span)):
                literals.append(option)
        if x is None or len(literals) < len(options):
            return None
        return self._keep(In(x=x, options=tuple(literals), negated=negated, type="bool", span=span), x, *literals)

    def call(self, fn: str, args: Sequence[Node | None], span: Span, name_span: Span) -> Node | None:
        """Return a function of ``FUNCTIONS``, any case."""
        name = fn.lower()
        if name not in FUNCTIONS:
            meant = _MEANT.get(name) or closest(fn, FUNCTIONS)
            self.error(f"unknown function {fn} (known: {', '.join(FUNCTIONS)}, case)", name_span, meant)
            return None
        least, most = FUNCTIONS[name]
        if name in ("min", "max") and len(args) == 1:
            self.aggregation(f"{fn} of one argument", name_span)
            return None
        if not least <= len(args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.error(f"{name} takes {wanted} argument{'' if wanted == '1' else 's'}, not {len(args)}", span, hint=_HINTS.get(name))
            return None
        if any(a is None for a in args):
            return None
        nodes = tuple(self._set(a) if name in SET_FUNCTIONS else a for a in args if a is not None)
        if name == "coalesce":
            return self._coalesce(nodes, span)
        type_ = self._call_type(name, nodes, span)
        return None if type_ is None else self._keep(Call(fn=name, args=nodes, type=type_, span=span), *nodes)

    def _call_type(self, name: str, nodes: tuple[Node, ...], span: Span) -> Type | None:
        kinds = {n.type for n in nodes}
        if name == "where":
            return self._branches(nodes[1], nodes[2], span, "where(...)") if self._condition(nodes[0], "where") else None
        if name in VECTOR_FUNCTIONS and (name not in SET_FUNCTIONS or "vector" in kinds):
            return "float" if self._vectors(name, nodes, span) else None
        if name in TEXT_FUNCTIONS:
            return type_of_text_function(name, nodes, span, lambda n: _WORDS[n.type], self.error)
        if name in SET_FUNCTIONS:
            return type_of_set_function(name, nodes[0], nodes[1], span, lambda n: _WORDS[n.type], self.error)
        if name in ("min", "max") and kinds == {"time"}:
            return "time"
        if not all([self._number(n, name) for n in nodes]):  # a list: every argument is to be reported
            return None
        return "duration" if name in ("abs", "min", "max") and kinds == {"duration"} else "float"

    def _vectors(self, name: str, nodes: tuple[Node, ...], span: Span) -> bool:
        good = True
        for n in nodes:
            if not isinstance(n, Attr) or n.type != "vector":
                self.error(f"{name} needs a vector, this is {_WORDS[n.type]}", n.span)
                good = False
        dimensions = [n.dimension for n in nodes if isinstance(n, Attr)]
        if good and len(set(dimensions)) > 1:
            self.error(f"{name} needs vectors of one dimension, these have {dimensions[0]} and {dimensions[1]}", span)
            good = False
        return good

    def case(self, whens: Sequence[tuple[Node | None, Node | None]], otherwise: Node | None, span: Span) -> Node | None:
        """``case when condition then x ... else otherwise end``: nested ``where``."""
        conditions = [condition is not None and self._condition(condition, "case") for condition, _ in whens]
        found = otherwise if all(conditions) else None
        for condition, x in reversed(whens):
            found = self._choice(condition, x, found, span, "case")
        return found

    def _coalesce(self, nodes: tuple[Node, ...], span: Span) -> Node | None:
        """Return the first argument that is not null: nested ``where``."""
        found: Node | None = nodes[-1]
        for x in reversed(nodes[:-1]):
            found = self._choice(self.is_null(x, True, span), x, found, span, "coalesce(...)")
        return found

    def _choice(self, condition: Node | None, x: Node | None, y: Node | None, span: Span, whose: str) -> Node | None:
        """``where(condition, x, y)``; two nulls stay null, which has no type yet."""
        if condition is None or x is None or y is None or (x.type == "null" and y.type == "null"):
            return None if condition is None or x is None else y
        type_ = self._branches(x, y, span, whose)
        node = (condition, x, y)
        return None if type_ is None else self._keep(Call(fn="where", args=node, type=type_, span=span), *node)

    def _branches(self, x: Node, y: Node, span: Span, whose: str) -> Type | None:
        kinds = {x.type, y.type}
        if not all([self._no_set(x), self._no_set(y)]):
            return None
        if "vector" in kinds:
            self.error(f"{whose} cannot give a vector", span)
            return None
        if len(kinds) == 1 and x.type not in ("int", "null"):
            return x.type
        if kinds <= {"float", "int", "null"} or kinds <= {"float", "int", "duration"}:
            return "float"
        if len(kinds) == 2 and "null" in kinds:
            return y.type if x.type == "null" else x.type
        self.error(f"{whose} cannot give {_WORDS[x.type]} in one case and {_WORDS[y.type]} in the other", span)
        return None

    # ------------------------------------------------------------------ what operands must be

    def _number(self, x: Node, whose: str) -> bool:
        if x.type not in NUMBERS:
            hint = "; subtract two times first" if x.type == "time" else ""
            self.error(f"{whose} needs a number, this is {_WORDS[x.type]}{hint}", x.span)
            return False
        return True

    def _no_vector(self, x: Node, op: str) -> bool:
        if x.type == "vector":
            *most, last = VECTOR_FUNCTIONS
            self.error(f"vectors cannot be compared with {op}; compare their {', '.join(most)} or {last}", x.span)
            return False
        return True

    def _no_set(self, x: Node) -> bool:
        if x.type == "tokens":
            self.error(f"a set of tokens stands in {', '.join(SET_FUNCTIONS)} only", x.span, hint="compare two sets: jaccard(a.x, b.x) = 1")
            return False
        return True

    def _set(self, x: Node) -> Node:
        """Return the set of tokens that is called like the column ``x``, if there is one."""
        is_set = isinstance(x, Attr) and x.type != "tokens" and TOKENS + x.name in self.schema
        return replace(x, type="tokens") if is_set else x

    def _condition(self, x: Node, whose: str) -> bool:
        if x.type != "bool":
            self.error(f"{whose} needs a condition (true or false), this is {_WORDS[x.type]}", x.span)
            return False
        return True

    def score(self, x: Node) -> None:
        """Report unless ``x`` can be a score."""
        if x.type not in ("float", "int", "duration"):
            self.error(f"a score must be a number, this is {_WORDS[x.type]}", x.span)

    def predicate(self, x: Node) -> None:
        """Report unless ``x`` can be a predicate."""
        if x.type != "bool":
            self.error(f"a condition (true or false) is needed, this is {_WORDS[x.type]}", x.span)
