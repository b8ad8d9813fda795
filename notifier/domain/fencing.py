"""Fencing tokens: order the writes of successive owners without relying on clocks."""

from typing import NewType

FencingToken = NewType("FencingToken", int)

FIRST_TOKEN = 1 << 61
"""Lowest fencing token. It is higher than any time in microseconds.

Rows that were written without a token have a time as their write timestamp. So a write with any token wins over them.
"""


def fencing_token(epoch: int) -> FencingToken:
    """Return the fencing token of a writer's epoch. Later writers have higher epochs.

    A deposed writer that stalled and resumes has a lower epoch, so its late write loses. This loses no change: the new
    writer reads the same input again.
    """
    return FencingToken(FIRST_TOKEN + epoch)
