"""A terminal of a given width, as the command line sees one; and what it showed in the end."""

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

from tests.cli.several import BETWEEN
from tests.repo.sources import ROOT

ENDS_WITHIN = 30.0
HEIGHT = 50
CONTROL = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def drawn(
    words: Sequence[str],
    *,
    width: int,
    keys: str = "",
    after: str = "",
    raw: bool = False,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """The lines that `notifier` wrote; the keys are typed once `after` was shown. Fails unless it ends well."""
    shown = _shown(["notifier", *words], width=width, keys=keys, after=after, env=env)
    return (shown if raw else plain(shown)).splitlines()


def drawn_by_each(verbs: Sequence[Sequence[str]], *, width: int) -> list[str]:
    """What each of them wrote, colours and all; of one process, which fails unless all end well."""
    words = [json.dumps(each) for each in verbs]
    shown = _shown(["tests.cli.several", *words], width=width).split(f"{BETWEEN}\n")
    assert len(shown) == len(verbs) + 1, shown
    return shown[:-1]


def plain(shown: str) -> str:
    return CONTROL.sub("", shown)


def _shown(
    module: Sequence[str],
    *,
    width: int,
    keys: str = "",
    after: str = "",
    env: Mapping[str, str] | None = None,
) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, width, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**inherited, "TERM": "xterm-256color", **(env or {})},
        start_new_session=True,
        preexec_fn=_belonging_to_it,  # noqa: PLW1509 - one system call, which takes no lock
    )
    os.close(theirs)
    try:
        shown = _read(ours, keys, after)
        assert process.wait(ENDS_WITHIN) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return shown.replace("\r\n", "\n")


def _belonging_to_it() -> None:
    """So that Ctrl-C is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(ours: int, keys: str, after: str) -> str:
    shown, deadline = b"", monotonic() + ENDS_WITHIN
    while monotonic() < deadline:
        if not select.select([ours], [], [], 0.2)[0]:
            continue
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # its last process has closed it
            break
        if not piece:
            break
        shown += piece
        if keys and after in shown.decode(errors="replace"):
            os.write(ours, keys.encode())
            keys = ""
    return shown.decode(errors="replace")
