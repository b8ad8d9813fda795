"""Entry point of the command `notifier`; handles Ctrl-C without a traceback."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

LONG_RUNNING = ("up", "demo", "top", "api", "pump", "worker")
"""Commands that run until Ctrl-C. They then exit with 0."""
INTERRUPTED = 130
"""Exit code of any other command after Ctrl-C, as in a shell: a script must not continue as if it had finished."""


class Stopped(SystemExit):
    """Raised on Ctrl-C. Click would convert a KeyboardInterrupt to exit code 1, which means a failed check."""


@contextmanager
def stoppable() -> Iterator[None]:
    """End the process on Ctrl-C with one line and an exit code, without a traceback."""
    # Install the handler first: imports take up to a second on a slow machine, and Ctrl-C may come in that time.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else the parent process ignores Ctrl-C
        signal.signal(signal.SIGINT, stopped)
    # The parent may ignore SIGCHLD, which is inherited. Then waiting for a child would yield no exit code.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    except Stopped:
        print("Stopped.", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process is about to exit


def run() -> None:
    with stoppable():
        from notifier.cli import main

        main(prog_name="notifier")


def stopped(*_: object) -> NoReturn:
    raise Stopped(exit_code_of(sys.argv[1:]))


def exit_code_of(arguments: list[str]) -> int:
    """Return the exit code after Ctrl-C for the given command line."""
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    checks = {"--headless", "--json"} & set(arguments)
    return 0 if command in LONG_RUNNING and not checks else INTERRUPTED


if __name__ == "__main__":
    run()
