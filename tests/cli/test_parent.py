"""A child ends when its parent does, where the kernel tells of it and where it doesn't."""

import os
import signal
import subprocess
import sys

from tests.repo.sources import ROOT

ENDS_WITHIN = 50.0
"""Seconds, on a machine that is busy with other tests."""
WAITS = "import time; from workers.watchdog import end_with; {first}; end_with({parent}); time.sleep(60)"

NOBODY = 2**22 + 1
"""Above every process id that Linux gives."""


def ended(parent: int, first: str = "pass") -> int:
    code = WAITS.format(parent=parent, first=first)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, start_new_session=True, timeout=ENDS_WITHIN, check=False
    ).returncode


def test_a_child_whose_parent_was_gone_before_it_looked_ends() -> None:
    assert ended(parent=NOBODY) == -signal.SIGTERM


def test_a_child_that_will_not_listen_is_ended_all_the_same() -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    assert ended(parent=NOBODY, first=deaf) == -signal.SIGKILL


def test_child_of_living_parent_goes_on() -> None:
    """It ends by itself after three looks at its parent, however long its start takes."""
    imports = "from time import sleep; from workers.watchdog import PARENT_EVERY, end_with"
    lives = imports + "; end_with({}); sleep(3 * PARENT_EVERY)"
    child = subprocess.run(
        [sys.executable, "-c", lives.format(os.getpid())], cwd=ROOT, timeout=ENDS_WITHIN, check=False
    )
    assert child.returncode == 0
