"""Waits for what an engine does in its own time."""

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
