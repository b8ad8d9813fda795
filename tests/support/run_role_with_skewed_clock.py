"""Runs a role with a clock ahead: `python -m tests.support.run_role_with_skewed_clock SECONDS ROLE ...`."""

import sys
import time
from datetime import datetime, timedelta
from runpy import run_module

from notifier.adapters.clock_and_nonces import SystemClock


def skew_clock(by: timedelta) -> None:
    """Move the clock of this process forward from now on, also in children that it forks."""
    real_now, real_time = SystemClock.now, time.time

    def now(self: SystemClock) -> datetime:
        return real_now(self) + by

    SystemClock.now = now  # type: ignore[method-assign]  # patching it is the purpose
    # Libraries call this: Cassandra's driver sets the timestamps that the product does not set.
    time.time = lambda: real_time() + by.total_seconds()


if __name__ == "__main__":
    skew_clock(timedelta(seconds=float(sys.argv.pop(1))))
    run_module("notifier", run_name="__main__", alter_sys=True)
