"""Entry point of the command `notifier`; handles Ctrl-C without a traceback."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

LONG_RUNNING_COMMANDS = ("up", "demo", "top", "api", "pump", "worker")
"""Commands that run until Ctrl-C, which ends them with exit code 0."""
FINITE_OPTIONS = frozenset({"--headless", "--json", "--once"})
"""Options that make such a command end by itself. Ctrl-C then ends it with INTERRUPTED_EXIT_CODE."""
INTERRUPTED_EXIT_CODE = 130
"""Exit code of an interrupted command, as in a shell: a script must not continue as if the command had finished."""


class Stopped(SystemExit):
    """Raised on Ctrl-C. Click would turn a KeyboardInterrupt into exit code 1, which means that a check failed."""


@contextmanager
def stoppable() -> Iterator[None]:
    """End the process on Ctrl-C with one line and an exit code, without a traceback."""
    # Install the handler first: imports take up to a second on a slow machine, and Ctrl-C may come in that time. If the
    # parent process made this one ignore Ctrl-C, leave it so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, raise_stopped)
    # A parent that ignores SIGCHLD passes that on. This process could then not read the exit codes of its children.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    except Stopped:
        print("Stopped.", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the exit


def run() -> None:
    with stoppable():
        from notifier.cli import main

        main(prog_name="notifier")


def raise_stopped(*_: object) -> NoReturn:
    raise Stopped(exit_code_of(sys.argv[1:]))


def exit_code_of(arguments: list[str]) -> int:
    """Return the exit code after Ctrl-C for the given command line."""
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    runs_until_stopped = command in LONG_RUNNING_COMMANDS and FINITE_OPTIONS.isdisjoint(arguments)
    return 0 if runs_until_stopped else INTERRUPTED_EXIT_CODE


if __name__ == "__main__":
    run()
