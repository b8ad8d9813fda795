"""Run the command line in a terminal of a given width."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from time import monotonic

from tests.cli.command_batch import SEPARATOR
from tests.repo.repository_files import ROOT

ENDS_WITHIN = 50.0
"""Seconds, on a machine that is busy with other tests."""
HEIGHT = 50
CONTROL = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def run_in_terminal(
    arguments: Sequence[str],
    *,
    width: int,
    keys: str = "",
    after: str = "",
    raw: bool = False,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the lines that `notifier` wrote. The keys are typed once `after` was shown. Fails on an error exit."""
    shown = _run(["notifier", *arguments], width=width, keys=keys, after=after, env=env)
    return (shown if raw else without_colors(shown)).splitlines()


def run_all_in_terminal(commands: Sequence[Sequence[str]], *, width: int) -> list[str]:
    """Return the output of each command, including colors. All run in one process, which fails unless all succeed."""
    arguments = [json.dumps(command) for command in commands]
    shown = _run(["tests.cli.command_batch", *arguments], width=width).split(f"{SEPARATOR}\n")
    assert len(shown) == len(commands) + 1, shown
    return shown[:-1]


def without_colors(shown: str) -> str:
    return CONTROL.sub("", shown)


def _run(
    module: Sequence[str],
    *,
    width: int,
    keys: str = "",
    after: str = "",
    env: Mapping[str, str] | None = None,
) -> str:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, width, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**inherited, "TERM": "xterm-256color", **(env or {})},
        start_new_session=True,
        preexec_fn=_set_controlling_terminal,  # noqa: PLW1509 - one system call, which takes no lock
    )
    os.close(slave)
    try:
        shown = _read(master, keys, after)
        assert process.wait(ENDS_WITHIN) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return shown.replace("\r\n", "\n")


def _set_controlling_terminal() -> None:
    """Make Ctrl-C a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(master: int, keys: str, after: str) -> str:
    shown, deadline = b"", monotonic() + ENDS_WITHIN
    while monotonic() < deadline:
        if not select.select([master], [], [], 0.2)[0]:
            continue
        try:
            chunk = os.read(master, 65_536)
        except OSError:  # the last process has closed the terminal
            break
        if not chunk:
            break
        shown += chunk
        if keys and after in shown.decode(errors="replace"):
            os.write(master, keys.encode())
            keys = ""
    return shown.decode(errors="replace")
