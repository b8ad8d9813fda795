"""A child process ends when its parent does, with and without the kernel's signal."""

import os
import signal
import subprocess
import sys

from tests.repo.repository_files import ROOT

ENDS_WITHIN = 50.0
"""Seconds, on a machine that is busy with other tests."""
CHILD_PROGRAM = (
    "import time; from workers.gc_and_watchdogs import end_with_parent; {first}; end_with_parent({parent}); "
    "time.sleep(60)"
)

UNUSED_PID = 2**22 + 1
"""Above every process id that Linux assigns."""


def exit_code_of_child(parent: int, first: str = "pass") -> int:
    code = CHILD_PROGRAM.format(parent=parent, first=first)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, start_new_session=True, timeout=ENDS_WITHIN, check=False
    ).returncode


def test_child_ends_when_parent_is_gone_before_first_check() -> None:
    assert exit_code_of_child(parent=UNUSED_PID) == -signal.SIGTERM


def test_child_that_ignores_sigterm_is_killed() -> None:
    ignore_sigterm = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    assert exit_code_of_child(parent=UNUSED_PID, first=ignore_sigterm) == -signal.SIGKILL


def test_child_of_running_parent_continues() -> None:
    """The child ends by itself after three checks of its parent, however long its start takes."""
    imports = "from time import sleep; from workers.gc_and_watchdogs import PARENT_CHECK_INTERVAL, end_with_parent"
    program = imports + "; end_with_parent({}); sleep(3 * PARENT_CHECK_INTERVAL)"
    child = subprocess.run(
        [sys.executable, "-c", program.format(os.getpid())], cwd=ROOT, timeout=ENDS_WITHIN, check=False
    )
    assert child.returncode == 0
