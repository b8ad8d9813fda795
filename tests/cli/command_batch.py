"""Run several commands in one process; each argument is a JSON list of words."""

import json
import sys

from notifier.cli import main

SEPARATOR = "\f"
"""Printed on its own line after each command."""


def run_all(commands: list[str]) -> None:
    """Stop with the exit code of the first command that fails."""
    for command in commands:
        code = main.main(json.loads(command), prog_name="notifier", standalone_mode=False)
        if code:
            sys.exit(code)
        print(SEPARATOR, flush=True)


if __name__ == "__main__":
    run_all(sys.argv[1:])
