"""Fencing tokens: order the writes of successive leaders without relying on clocks."""

from typing import NewType

FencingToken = NewType("FencingToken", int)

FIRST_TOKEN = 1 << 61
"""First fencing token. Every token wins over imported rows.

Those have no token: their write timestamp is a time in microseconds, which is lower than this number.
"""


def fencing_token(epoch: int) -> FencingToken:
    """Return the fencing token of a writer's epoch. Later writers have higher epochs.

    A deposed writer that stalled and resumes has a lower epoch, so its late write loses. No change is lost with it: its
    successor reads the same log records again.
    """
    return FencingToken(FIRST_TOKEN + epoch)
