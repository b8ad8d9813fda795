"""Waits for changes that an engine makes in its own time."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
