"""Stamps: which of two writers of the same thing comes later, whatever their clocks say."""

from typing import NewType

Stamp = NewType("Stamp", int)

FIRST = 1 << 61
"""Later than any moment in microseconds, which is what stands on whatever was loaded without a stamp."""


def stamp(epoch: int) -> Stamp:
    """Of a writer who began its epoch after all others of lower epochs.

    A process that sleeps through its end as a writer and writes on awaking has the lower epoch: its write is lost, and
    what it read from the log is read again by whoever took over.
    """
    return Stamp(FIRST + epoch)
