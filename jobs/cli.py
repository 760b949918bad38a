"""The ``skyband`` command: one sub-command a module of this package."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback

COMMANDS = ("init", "validate", "explain", "run", "query", "verify", "demo")


def main(argv: list[str] | None = None) -> int:
    """Runs one command. Exit codes: 0 fine, 1 a check or verification failed, 2 the user's mistake, 3 the run failed, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="skyband", description="Continuous queries over sliding windows, exact per event, on Spark.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f"skyband.jobs.{name}").add_parser(subparsers)
    args = parser.parse_args(argv)
    from skyband.framework.errors import SkybandError, SpecErrors, told

    try:
        return int(args.run(args))
    except SpecErrors as e:
        print(e.render(), file=sys.stderr)
        return 2
    except SkybandError as e:
        print(e.render(), file=sys.stderr)
        return 3 if e.code.startswith(("SKY-E3", "SKY-E9")) else 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as e:
        if os.environ.get("SKYBAND_DEBUG"):
            print(told(traceback.format_exc()), file=sys.stderr)
        said = told(f"SKY-E900 a defect of Skyband itself: {type(e).__name__}: {e}")
        print(f"{said}\n  hint: set SKYBAND_DEBUG=1 for the whole story", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
