"""Fencing tokens: order the writes of successive leaders without relying on clocks."""

from typing import NewType

FencingToken = NewType("FencingToken", int)

FIRST_TOKEN = 1 << 61
"""Higher than any time in microseconds, which is the write timestamp of rows loaded without a fencing token."""


def fencing_token(epoch: int) -> FencingToken:
    """Return the fencing token of a writer's epoch. Later writers have higher epochs.

    A deposed writer that stalled and resumes has a lower epoch, so its late write loses.
    Its successor reads the same log records again.
    """
    return FencingToken(FIRST_TOKEN + epoch)
