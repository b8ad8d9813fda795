"""The command `notifier`, also as `python -m notifier`: Ctrl-C ends it without a traceback, however early it comes."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

LASTING = ("up", "demo", "top", "api", "pump", "worker")
"""Verbs that run until Ctrl-C: it is how they end, and no failure."""
CUT_OFF = 130
"""Of every other verb, as a shell says it: whoever goes on after a 0 would go on without what this one was to do."""


class Stopped(SystemExit):
    """Not a KeyboardInterrupt: click makes that one a 1, which is a check that failed."""


@contextmanager
def stoppable() -> Iterator[None]:
    """End the process on Ctrl-C with one line and an exit code, without a traceback."""
    # First of all: importing what a verb needs takes a second on a slow machine, and people change their minds in it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started it wants none heard
        signal.signal(signal.SIGINT, stopped)
    # Whoever started it may have asked for no word of his own children's ends, which is inherited: then nobody could
    # wait for a child here, nor tell why it ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    except Stopped:
        print("Stopped.", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all that is left is to end


def run() -> None:
    with stoppable():
        from notifier.cli import main

        main(prog_name="notifier")


def stopped(*_: object) -> NoReturn:
    raise Stopped(code_of(sys.argv[1:]))


def code_of(words: list[str]) -> int:
    """Of what was cut off by Ctrl-C."""
    verb = next((word for word in words if not word.startswith("-")), "")
    checks = {"--headless", "--json"} & set(words)
    return 0 if verb in LASTING and not checks else CUT_OFF


if __name__ == "__main__":
    run()
