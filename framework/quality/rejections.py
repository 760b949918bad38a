"""Report rejected rows by reason at the end of a run, and fail the run if there are too many (``quality.max_rejected``)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base import reasons
from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.base.reasons import STOPS
from skyband.framework.base.redaction import redact_values
from skyband.framework.base.units import format_duration
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import IntakeNode, Plan, RowRule
from skyband.framework.quality.unusable import Use
from skyband.framework.sources.first_rows import Unparsed
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.text.options import encoding_of, folded

if TYPE_CHECKING:
    from skyband.framework.tables.writing.sink import Sink


# Report on row rules: a rule in words, the row that stops a run, warnings, and demoted rules.

LONGEST: Final = 500
"""The most characters of a row, and of a rule, that are shown."""


def describe_rule(plan: Plan, rule: RowRule) -> str:
    """Return a rule's name and condition, with values from the environment as the spec writes them."""
    at = ("quality", "rows", plan.intake.rules.index(rule))
    written = {path[3:]: text for path, text in plan.variables if path[:3] == at}
    text = written.get(("expect",), rule.sql)
    return rule.name if written and ("expect",) not in written else f"{rule.name} ({_short(text)})"


def stopped_by_rule(plan: Plan, batch: int, rows: pa.Table, count: int) -> SkybandError:
    """Return SKY-E502 for a batch with ``count`` rows that break rules of severity ``fail``; ``rows`` are some of them."""
    first = rows.sort_by([("origin", "ascending"), ("text", "ascending")]).slice(0, 1).to_pylist()[0]
    names = first["reason"].removeprefix(STOPS).split(",")
    broken = [describe_rule(plan, r) for r in plan.intake.rules if r.name in names]
    many = f"a row of batch {batch} breaks"
    if count > 1:
        many = f"{counted(count, 'row')} of batch {batch} break rules of severity fail; one breaks"
    text = f"{many} {', '.join(broken)}, in {redact_values(str(first['origin']))}: {_short(first['text'])}"
    again = " ".join(f"--demote {name}" for name in names)
    hint = f"nothing of the batch is written. Fix the row or the rule and run again, or reject such rows: skyband run SPEC {again}"
    return SkybandError("SKY-E502", text, hint=hint)


def report_warned(plan: Plan, warned: Mapping[str, int], rows: int, lines: Lines) -> None:
    """Report by rule of severity ``warn`` how many of the run's ``rows`` break it."""
    for rule in plan.intake.rules_of("warn"):
        n = warned.get(rule.name, 0)
        if n:
            some = f"{n:,} of the {counted(rows, 'row')} of this run {agree(n, 'breaks', 'break')} {describe_rule(plan, rule)}"
            text = f"WARNING: {some}: {agree(n, 'it is', 'they are')} used"
            lines.tell("warning", "warned", text, rule=rule.name, warned=n, rows=rows)


def demoted(plan: Plan, names: Collection[str]) -> Plan:
    """Return ``plan`` with the ``fail`` rules among ``names`` as ``reject``. SkybandError SKY-E201 for an unknown rule."""
    known = [r.name for r in plan.intake.rules]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or (f"rules: {one_of(known)}" if known else "the spec has no quality.rows")
            raise SkybandError("SKY-E201", f"--demote: no row rule '{name}' in this spec", hint=hint)
    rules = tuple(replace(r, severity="reject") if r.name in names and r.severity == "fail" else r for r in plan.intake.rules)
    return replace(plan, intake=replace(plan.intake, rules=rules))


def _short(text: str) -> str:
    # Redact before cutting: a part of a secret is not recognised.
    shown = redact_values(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."


LOUD: Final = 0.01
"""The share of a run's rows above which a reason is reported."""
TOO_MANY: Final = 4
"""Exit code of a run that rejected more than ``quality.max_rejected`` allows."""
_BYTES: Final = re.compile(r"\\x[89A-F][0-9A-F]")
"""A byte that is invalid in the encoding, as table ``rejected`` shows it."""
_SAMPLED: Final = 1_000
"""The most rows of a reason that are read to explain it."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """What a run has read: batches ``first`` to ``last``, the rows read or decided in them, and how many queries could use."""

    first: int
    last: int
    rows: int
    rejected: int
    use: Use = field(default_factory=Use)

    def too_many(self, percent: float) -> bool:
        """Return True if more than ``percent`` of the rows were rejected; 100 allows any number."""
        return percent < 100 and 100 * self.rejected > percent * self.rows


def report(plan: Plan, sink: Sink, run: RunRows | None, header: Sequence[str] | None, lines: Lines) -> int:
    """Report every reason for which more than 1 % of the run's rows were rejected; return the exit code, 0 or ``TOO_MANY``.

    Reads the reasons of the run's rows in table ``rejected``, and for each reported reason the texts of one batch.
    """
    if run is None or not run.rejected:
        return 0
    mine = (pc.field("batch_id") >= run.first) & (pc.field("batch_id") <= run.last)
    found = sink.writer.read("rejected", ["reason", "batch_id"], mine)
    counts = Counter({x["values"]: x["counts"] for x in pc.value_counts(found["reason"]).to_pylist()})
    for reason, n in counts.most_common():
        if n > LOUD * run.rows:
            batch = pc.min(found.filter(pc.equal(found["reason"], reason))["batch_id"]).as_py()
            chosen = (pc.field("batch_id") == batch) & (pc.field("reason") == reason)
            texts = sink.writer.read("rejected", ["text"], chosen)["text"].slice(0, _SAMPLED).to_pylist()
            _tell(lines, reason, n, run.rows, explained(plan, header, reason, texts))
    total = sum(counts.values())
    if 100 * total <= plan.max_rejected * run.rows or plan.max_rejected >= 100:
        return 0
    text = _share(total, run.rows)
    hint = "all results are written, and the rows are in table `rejected`; quality: {max_rejected: 100%} allows any share"
    lines.errors([SkybandError("SKY-E501", f"{text}; quality.max_rejected allows {plan.max_rejected:g} %", hint=hint)])
    return TOO_MANY


def _tell(lines: Lines, reason: str, count: int, rows: int, why: str) -> None:
    text = f"WARNING: {_share(count, rows)}, reason {reason}: {why}"
    lines.tell("warning", "rejected", text, reason=reason, rejected=count, rows=rows)


def _share(part: int, whole: int) -> str:
    return f"{part:,} of the {counted(whole, 'row')} of this run ({_percent(part, whole)}) {agree(part, 'was', 'were')} rejected"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole if whole else 100.0
    return f"{share:.1f} %" if share < 99.95 or part >= whole else "99.9 %"


def explained(plan: Plan, header: Sequence[str] | None, reason: str, texts: Sequence[str]) -> str:
    """Return an explanation of a reason, with a hint. ``texts``: of some rows rejected for it."""
    node = plan.intake
    if reason == reasons.PARSE:
        return _parse(plan, header, texts)
    if reason.startswith(reasons.RULE):
        names = reason.removeprefix(reasons.RULE).split(",")
        rules = [describe_rule(plan, r) for r in node.rules if r.name in names]
        return f"they break {', '.join(rules or names)}"
    if reason.startswith((reasons.EMPTY_SET, reasons.LARGE_SET)):
        few, name = reason.startswith(reasons.EMPTY_SET), reason.partition(":")[2]
        more = f"; with tokens.{name}.short: skip queries ignore them instead" if few else ""
        return f"they have too {'few' if few else 'many'} tokens; see tokens.{name}{more}"
    if reason.startswith(reasons.BAD_VECTOR):
        column = reason.removeprefix(reasons.BAD_VECTOR)
        size = next((f"{v.dimension:,} " for v in node.vectors if v.column == column), "")
        return f"{column} is no vector of {size}finite numbers; see vectors.{column}"
    if reason.startswith(reasons.NO_MATCH):
        name = reason.removeprefix(reasons.NO_MATCH)
        return f"no row of the table has their key; lookups.{name}.missing: null accepts them without its columns"
    if reason.startswith(reasons.NULL_OBJECT):
        return f"{reason.removeprefix(reasons.NULL_OBJECT)}, which names the object that the row reports on, is null"
    if reason.startswith(reasons.NO_UPDATE):
        return f"{reason.removeprefix(reasons.NO_UPDATE)} is neither on nor off (true or false, 1 or 0), such as {_first(texts)}"
    if reason.startswith(reasons.YEAR_RANGE):
        said = f"{reason.removeprefix(reasons.YEAR_RANGE)} is not in the years 1 to 9999, such as {_first(texts)}"
        return f"{said}; check its unit, such as days or milliseconds in a number"
    return _in_words(node, reason, texts)


def _parse(plan: Plan, header: Sequence[str] | None, texts: Sequence[str]) -> str:
    if 2 * sum("\ufffd" in t or _BYTES.search(t) is not None for t in texts) > len(texts):
        encoding = encoding_of(folded(plan.source.options))
        hint = f"set source.options.encoding ({'windows-1252' if encoding == 'utf-8' else 'another one'}?)"
        return f"their bytes are not valid {encoding.upper()}, such as {_first(texts)}; {hint}"
    found = [u for t in texts if (u := source_format(plan.source.format).unparsed(plan.source, header, t)) is not None]
    if not found:
        return f"they do not parse, such as {_first(texts)}"
    (kind, n), *_ = Counter(u.kind for u in found).most_common(1)
    one: Unparsed = next(u for u in found if u.kind == kind)
    others = f" ({len(texts) - n:,} of {counted(len(texts), 'sampled row')} have other problems)" if n < len(texts) else ""
    return f"{one.said}{': ' + one.hint if one.hint else ''}{others}"


def _first(texts: Sequence[str]) -> str:
    return repr(texts[0][:100]) if texts else "(none)"


def _in_words(node: IntakeNode, reason: str, texts: Sequence[str]) -> str:
    match reason:
        case reasons.LATE:
            return "they arrived after the watermark had passed their time; raise source.event_time.watermark to accept them"
        case reasons.DUPLICATE_ID:
            return f"a row in the window has the same {', '.join(node.id)} (source.id); see source.on_duplicate"
        case reasons.NULL_ID:
            return f"one of {', '.join(node.id)} (source.id) is null"
        case reasons.NULL_TIME:
            return f"{node.event_time} (source.event_time) is null"
        case reasons.NULL_KEY:
            return f"one of {', '.join(node.partition_by)} (source.partition_by) is null"
        case reasons.TIME_RANGE:
            unit = "check its unit, such as milliseconds instead of seconds"
            return f"{node.event_time} is before 1970 or after 9999, such as {_first(texts)}; {unit}"
        case reasons.TOO_FAR_AHEAD:
            most = "" if node.ahead_micros is None else f"more than {format_duration(node.ahead_micros)} "
            hint = "check its unit and time zone, and the clock of what writes it; source.event_time.max_ahead allows more"
            return f"{node.event_time} is {most}ahead of the clock, such as {_first(texts)}; {hint}"
        case reasons.INT_RANGE:
            return f"a column that a query reads is -9223372036854775808, which stands for null internally, such as {_first(texts)}"
        case reasons.NO_TARGET:
            return "they delete an id that no row in the window has"
        case reasons.BAD_OP:
            column = node.operations.column if node.operations is not None else "the column of source.op"
            return f"{column} is null, or a value that source.op does not list, such as {_first(texts)}"
        case reasons.BAD_FILE:
            return f"files that cannot be read, such as {_first(texts)}"
    return "see table `rejected`"
