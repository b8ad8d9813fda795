"""The garbage collector of a process that has thousands of messages on their way: it comes seldom."""

import gc

YOUNG, MIDDLE, OLD = 20_000, 50, 100
"""New objects before a look at the young; looks before one at the older ones. As shipped, with 700, a third of the time
that a worker spent on rows for Cassandra went to looking at messages that were still on their way."""


def seldom() -> None:
    """And never again at what is there now: modules and what they hold."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
