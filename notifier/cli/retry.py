"""Patience of long verbs: a part that is away for a while ends nothing."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import click

from notifier.domain.errors import OUTAGES

GIVES_UP_AFTER = 600.0
"""Seconds of one outage."""
WAITS = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    seconds: float = GIVES_UP_AFTER

    def __call__(self, work: Callable[[], None]) -> None:
        """Does it, again after every outage. Raises the outage that lasts longer than this."""
        began, told = time.monotonic(), False
        while True:
            try:
                return work()
            except OUTAGES as outage:
                if time.monotonic() - began > self.seconds:
                    raise
                if not told:
                    click.echo(f"Waiting: {outage}", err=True)
                told = True
                time.sleep(WAITS)
