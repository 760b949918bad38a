"""The spec's part ``quality``, field by field: rules on rows, expectations on tables, rules over runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from skyband.framework.base.units import WHOLE, Batches, Name, Percent, PositiveDuration, Text
from skyband.framework.spec.models.base import Model

RuleSeverity = Annotated[
    Literal["warn", "reject", "fail"],
    Field(description="A row that breaks it: warn, is used and counted; reject, goes to table rejected; fail, stops the run."),
]
ExpectationName = Annotated[str, Field(pattern=r"^expect_[a-z0-9_]+$")]


class RowCondition(Model):
    """A condition every row must meet (null passes)."""

    name: Name = Field(description="Name of the rule, as it appears in the rejected table.")
    expect: Text = Field(description="A Spark SQL condition.")
    severity: RuleSeverity = "reject"


class RowExpectation(BaseModel):
    """A Great Expectations expectation that every row must meet by itself; further fields are its arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    expectation: ExpectationName = Field(description="Name of an expectation about single rows.")
    name: Name | None = Field(default=None, description="Name of the rule; default: its columns and what is expected of them.")
    severity: RuleSeverity = "reject"


def rule_kind(value: Any) -> str:
    """Which of the row rules a value is meant to be."""
    return "<expectation>" if isinstance(value, RowExpectation) or (isinstance(value, dict) and "expectation" in value) else "<expect>"


Rule = Annotated[Annotated[RowCondition, Tag("<expect>")] | Annotated[RowExpectation, Tag("<expectation>")], Discriminator(rule_kind)]


class TableCheck(BaseModel):
    """A Great Expectations expectation on a table of the job; further fields are the expectation's arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    table: Name = Field(description="A table of the job: a query's name, <query>_changes, <query>_now, rejected, runs, ...")
    expectation: ExpectationName = Field(description="Name of the expectation.")
    severity: Literal["critical", "warning", "info"] = Field(default="critical", description="What a failure means.")
    scope: Literal["new", "whole"] | None = Field(
        default=None,
        description="What is looked at: new, the rows added since the last look (the default of tables that are only added to), or whole.",
    )


class RunRule(Model):
    """A rule over the batches of a run: max_delay, or min_rows and per."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["max_delay"]}, {"required": ["min_rows", "per"]}]})

    max_delay: PositiveDuration | None = Field(
        default=None, description="No batch that read rows is written later than this after the newest event time known by then."
    )
    min_rows: Annotated[int, Field(ge=1, le=2**40), WHOLE] | None = Field(
        default=None, description="At least so many rows are read per ..."
    )
    per: PositiveDuration | None = Field(default=None, description="... so much time (with min_rows), counted back from now.")
    severity: Literal["critical", "warning"] = Field(default="critical", description="What a failure means.")


class Quality(Model):
    """Data quality: rules on every row, expectations on tables."""

    rows: tuple[Rule, ...] = Field(default=(), description="What is valid: checked on every row before it is used.")
    tables: tuple[TableCheck, ...] = Field(default=(), description="Great Expectations, by their own names, on the job's tables.")
    runs: tuple[RunRule, ...] = Field(default=(), description="Rules over the batches of a run.")
    check_every: Batches | None = Field(
        default=None, description="Continuous runs: tables and runs are also checked every so many batches, e.g. 100 batches."
    )
    max_rejected: Percent = Field(
        default=1.0, description="The share of a run's rows that may be rejected; with more the run's exit code is 4. 100% allows any.",
        json_schema_extra={"default": "1%"},
    )  # fmt: skip
    max_unusable: Percent | None = Field(
        default=None, description="The share of a run's rows that a query asks for and cannot use, as the score is null or the set short; "
        "with more the run's exit code is 4. Default: less than all. 100% allows any.",
    )  # fmt: skip
