"""A role with a wrong clock: `python -m notifier.testing.askew 3 pump ...` runs `notifier pump ...` 3 s ahead."""

import sys
from datetime import datetime, timedelta

from notifier.adapters.system_clock import SystemClock
from notifier.cli import main


def askew(by: timedelta) -> None:
    """This process's clock from now on, and its children's, as far as it forks them."""
    right = SystemClock.now

    def now(self: SystemClock) -> datetime:
        return right(self) + by

    SystemClock.now = now  # type: ignore[method-assign]


if __name__ == "__main__":
    askew(timedelta(seconds=float(sys.argv[1])))
    main(sys.argv[2:], prog_name="notifier")
