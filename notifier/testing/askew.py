"""A role with a wrong clock: `python -m notifier.testing.askew 3 pump ...` runs `notifier pump ...` 3 s ahead."""

import sys
from datetime import datetime, timedelta
from runpy import run_module

from notifier.adapters.system_clock import SystemClock


def askew(by: timedelta) -> None:
    """This process's clock from now on, and its children's, as far as it forks them."""
    right = SystemClock.now

    def now(self: SystemClock) -> datetime:
        return right(self) + by

    SystemClock.now = now  # type: ignore[method-assign]  # that is what it is for


if __name__ == "__main__":
    askew(timedelta(seconds=float(sys.argv.pop(1))))
    run_module("notifier", run_name="__main__", alter_sys=True)
