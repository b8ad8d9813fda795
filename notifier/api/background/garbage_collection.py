"""Garbage collector tuning of an API process.

A full collection that traverses 2,000 cached viewers takes 0.3 s, during which no request is answered. So cached
objects are frozen, and only rare full collections traverse them. Reference counts free almost all of them when they
leave a cache.
"""

import gc
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

YOUNG_THRESHOLD, MIDDLE_THRESHOLD = 500, 4
"""Objects per young collection, and young collections per middle collection.

So a middle collection traverses about 2,000 objects, in about 3 ms.
"""
CHECK_INTERVAL = timedelta(minutes=1)
"""Interval of the checks whether a full collection is due."""
CHECKS_PER_FULL_COLLECTION = 60
"""Checks after which a full collection runs in any case. It frees frozen objects that became cyclic garbage."""
MAX_GROWTH = 1_000_000
"""Growth of the number of frozen objects after which a full collection runs. They take about 100 MB."""


def tune_garbage_collector(sleep: Callable[[float], None] = time.sleep) -> None:
    """Freeze objects that survive a middle collection, and rarely run a full one. Call once per process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD)
    gc.callbacks.append(freeze_survivors)
    counts = Counts.now()
    threading.Thread(target=_run_full_collections, args=(sleep, counts), name="collector", daemon=True).start()


def freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] >= 1:
        gc.freeze()


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of objects at one moment."""

    frozen: int
    freed: int
    """Objects of cyclic garbage that all young and middle collections have freed."""

    @classmethod
    def now(cls) -> "Counts":
        young, middle, _ = gc.get_stats()
        return cls(gc.get_freeze_count(), int(young["collected"]) + int(middle["collected"]))


def needs_full_collection(last: Counts, now: Counts) -> bool:
    """Return whether many of the objects frozen since the last full collection may be cyclic garbage.

    A filling cache freezes objects, too. If requests leave cyclic garbage, other collections free most of it.
    But if hundreds of requests run at once, their objects are frozen before they become garbage.
    """
    growth = now.frozen - last.frozen
    return growth > MAX_GROWTH or (growth > last.frozen and now.freed - last.freed > growth)


def _run_full_collections(sleep: Callable[[float], None], last: Counts) -> None:
    checks = 0
    while True:
        sleep(CHECK_INTERVAL.total_seconds())
        checks += 1
        if checks >= CHECKS_PER_FULL_COLLECTION or needs_full_collection(last, Counts.now()):
            gc.unfreeze()
            gc.collect()
            checks, last = 0, Counts.now()
