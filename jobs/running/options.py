"""What a command that streams rows was asked for, as its arguments are parsed once: no stage of a run sees the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from skyband.jobs.arguments import parse_instant
from skyband.jobs.spec import SpecText

if TYPE_CHECKING:
    from skyband.framework.console.lines import Lines
    from skyband.framework.plan.finish import FinishAt
    from skyband.framework.plan.model import EngineName, Plan
    from skyband.jobs.outcome import Outcome

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def finish_of(args: argparse.Namespace) -> FinishAt | None:
    """Return how far the arguments declare the input complete. Raises SkybandError SKY-E201 for what is no instant."""
    if args.finish_at is None:
        return "newest" if args.finish else None
    if args.finish_at == "end":
        return "end"
    return (parse_instant(args.finish_at, "--finish-at") - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run. ``text``: the spec, ``plan``: its plan, if it is known. The run reports to ``lines`` and ``outcome``.

    ``finish``: how far the input is then declared complete, None: it is not. ``engine``: that of the command line, None: that of the
    spec. ``demote``: row rules of severity ``fail`` to treat as ``reject``.
    """

    text: SpecText
    lines: Lines
    outcome: Outcome
    plan: Plan | None = None
    engine: EngineName | None = None
    demote: tuple[str, ...] = ()
    finish: FinishAt | None = None
    once: bool = False
    continuous: bool = False
    rebuild_results: bool = False
    quiet: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace) -> RunOptions:
        """Return the options of parsed arguments of ``run``, ``submit`` or ``rebuild``. Reads the spec's text."""
        return cls(
            getattr(args, "text", None) or SpecText(args.spec, engine=args.engine), args.lines, args.recorded, getattr(args, "plan", None),
            args.engine, tuple(args.demote), finish_of(args), args.once, args.continuous, args.rebuild_results, args.quiet,
        )  # fmt: skip

    def runs_once(self, plan: Plan) -> bool:
        """Return whether the command ends when it has read the present input."""
        return self.once or self.finish is not None or (plan.trigger_micros is None and not self.continuous)

    def engine_of(self, plan: Plan) -> EngineName:
        """Return the engine that runs the job: that of the command, else that of the spec."""
        return self.engine or plan.engine

    def require_engine(self, plan: Plan) -> None:
        """Raise SkybandError SKY-E137 if the engine of the run cannot run the job."""
        from skyband.framework.plan.engine import require_local_engine

        if self.engine_of(plan) == "local":
            require_local_engine(plan)
