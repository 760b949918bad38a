"""The section ``quality`` of a spec: rules on rows, expectations on tables, rules over runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from skyband.framework.base.units import WHOLE, Batches, Name, Percent, PositiveDuration, Text
from skyband.framework.spec.models.base import Model

RuleSeverity = Annotated[
    Literal["warn", "reject", "fail"],
    Field(
        description="For a row that breaks the rule: warn counts and processes it, reject moves it to table rejected, fail stops the run."
    ),
]
ExpectationName = Annotated[str, Field(pattern=r"^expect_[a-z0-9_]+$")]


class RowCondition(Model):
    """A condition that every row must meet (null passes)."""

    name: Name = Field(description="Name of the rule, as it appears in table rejected.")
    expect: Text = Field(description="A Spark SQL condition.")
    severity: RuleSeverity = "reject"


class RowExpectation(BaseModel):
    """A Great Expectations expectation that every single row must meet; other fields are its arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    expectation: ExpectationName = Field(description="Name of an expectation about single rows.")
    name: Name | None = Field(default=None, description="Name of the rule. Default: made from its columns and the expectation.")
    severity: RuleSeverity = "reject"


def rule_kind(value: Any) -> str:
    """Return the tag of the row rule that a value is meant to be."""
    return "<expectation>" if isinstance(value, RowExpectation) or (isinstance(value, dict) and "expectation" in value) else "<expect>"


Rule = Annotated[Annotated[RowCondition, Tag("<expect>")] | Annotated[RowExpectation, Tag("<expectation>")], Discriminator(rule_kind)]


class TableCheck(BaseModel):
    """A Great Expectations expectation on a table of the job; other fields are its arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    table: Name = Field(description="A table of the job: a query's name, <query>_changes, <query>_now, rejected, runs, ...")
    expectation: ExpectationName = Field(description="Name of the expectation.")
    severity: Literal["critical", "warning", "info"] = Field(default="critical", description="Severity of a failure.")
    scope: Literal["new", "whole"] | None = Field(
        default=None,
        description="Rows to check: new (added since the last check; the default for append-only tables) or whole.",
    )


class RunRule(Model):
    """A rule over the batches of a run: max_delay, or min_rows and per."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["max_delay"]}, {"required": ["min_rows", "per"]}]})

    max_delay: PositiveDuration | None = Field(
        default=None, description="Maximum delay between the newest event time and the commit of a batch that read rows."
    )
    min_rows: Annotated[int, Field(ge=1, le=2**40), WHOLE] | None = Field(
        default=None, description="Minimum number of rows to read per ..."
    )
    per: PositiveDuration | None = Field(default=None, description="... this time (with min_rows), counted back from now.")
    severity: Literal["critical", "warning"] = Field(default="critical", description="Severity of a failure.")


class Quality(Model):
    """Data quality: rules on every row, expectations on tables."""

    rows: tuple[Rule, ...] = Field(default=(), description="Rules that every row is checked against before it is processed.")
    tables: tuple[TableCheck, ...] = Field(default=(), description="Great Expectations on the job's tables, by their original names.")
    runs: tuple[RunRule, ...] = Field(default=(), description="Rules over the batches of a run.")
    check_every: Batches | None = Field(
        default=None, description="In continuous runs, also check tables and runs at this interval, e.g. 100 batches."
    )
    max_rejected: Percent = Field(
        default=1.0, description="Maximum share of rejected rows of a run; above it the exit code is 4. 100% allows any.",
        json_schema_extra={"default": "1%"},
    )  # fmt: skip
    max_unusable: Percent | None = Field(
        default=None, description="Maximum share of a run's rows that a query selects but cannot use, because the score is null or the set "
        "short; above it the exit code is 4. Default: any share below 100%. 100% allows any.",
    )  # fmt: skip
