"""Fencing tokens: order the writes of successive owners without relying on clocks."""

from typing import NewType

FencingToken = NewType("FencingToken", int)

FIRST_TOKEN = 1 << 61
"""Lowest fencing token. It is higher than any time in microseconds.

Rows that were written without a token have a time as their write timestamp. So a write with any token wins over them.
"""


def fencing_token(epoch: int) -> FencingToken:
    """Return the fencing token of a writer's epoch.

    A deposed writer has a lower epoch than the new writer, so its late write loses. No change is lost: the new writer
    reads the same input again.
    """
    return FencingToken(FIRST_TOKEN + epoch)
