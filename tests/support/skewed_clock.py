"""A role with a wrong clock: `python -m tests.support.skewed_clock 3 pump ...` runs `notifier pump ...` 3 s ahead."""

import sys
import time
from datetime import datetime, timedelta
from runpy import run_module

from notifier.adapters.system_clock import SystemClock


def askew(by: timedelta) -> None:
    """This process's clock from now on, and its children's, as far as it forks them."""
    right, seconds = SystemClock.now, time.time

    def now(self: SystemClock) -> datetime:
        return right(self) + by

    SystemClock.now = now  # type: ignore[method-assign]  # that is what it is for
    # Whom libraries ask: Cassandra's driver stamps with it whatever we don't stamp ourselves.
    time.time = lambda: seconds() + by.total_seconds()


if __name__ == "__main__":
    askew(timedelta(seconds=float(sys.argv.pop(1))))
    run_module("notifier", run_name="__main__", alter_sys=True)
