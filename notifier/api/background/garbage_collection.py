"""Python's cyclic collector in an API process: it never walks through what is cached.

A full collection of 2,000 cached viewers takes 0.3 s, in which nobody is answered. Almost nothing here is cyclic: what
is cached is freed when it leaves its cache.
"""

import gc
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

YOUNG, MIDDLE = 500, 4
"""Objects in a young collection, and young ones in a middle collection: 2,000 objects take about 3 ms."""
LOOKS_EVERY = timedelta(minutes=1)
FULL_AFTER = 60
"""Looks. For what became cyclic garbage after it was set aside; earlier where twice as much was set aside as after the
last time."""


def keep_pauses_short(sleep: Callable[[float], None] = time.sleep) -> None:
    """Set aside whatever survives a middle collection, and collect everything now and then. For one call a process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE)
    gc.callbacks.append(set_survivors_aside)
    threading.Thread(target=_collect_all, args=(sleep,), name="collector", daemon=True).start()


def set_survivors_aside(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] >= 1:
        gc.freeze()


def _collect_all(sleep: Callable[[float], None]) -> None:
    looks, kept = 0, gc.get_freeze_count()
    while True:
        sleep(LOOKS_EVERY.total_seconds())
        looks += 1
        if looks >= FULL_AFTER or gc.get_freeze_count() > 2 * kept:
            gc.unfreeze()
            gc.collect()
            looks, kept = 0, gc.get_freeze_count()
