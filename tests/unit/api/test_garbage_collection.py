"""Garbage collector tuning of an API process, tested in subprocesses because it is permanent."""

import subprocess
import sys

CACHED = """
import gc
from threading import Event
from notifier.api.background.garbage_collection import tune_garbage_collector

tune_garbage_collector(lambda seconds: Event().wait())
full = gc.get_stats()[2]["collections"]
before = gc.get_freeze_count()
cached = [[number] for number in range(200_000)]
print(gc.get_freeze_count() - before > 190_000, gc.get_stats()[2]["collections"] - full)
"""

CYCLIC = """
import gc, weakref
from threading import Event
from notifier.api.background.garbage_collection import CHECK_INTERVAL, CHECKS_PER_FULL_COLLECTION
from notifier.api.background.garbage_collection import tune_garbage_collector

hour, collected, slept = Event(), Event(), []

def sleep(seconds):
    slept.append(seconds)
    hour.wait()
    if len(slept) > CHECKS_PER_FULL_COLLECTION:
        collected.set()
        Event().wait()

class Cycle:
    def __init__(self):
        self.me = self

tune_garbage_collector(sleep)
cycle = Cycle()
reference = weakref.ref(cycle)
kept = [[number] for number in range(10_000)]
del cycle
gc.collect()
before = reference() is not None
hour.set()
assert collected.wait(60)
print(before, reference() is None, {*slept} == {CHECK_INTERVAL.total_seconds()})
"""

GROWN = """
import gc
from threading import Event
from notifier.api.background.garbage_collection import tune_garbage_collector

minute, checked, slept = Event(), Event(), []

def sleep(seconds):
    slept.append(seconds)
    if len(slept) > 1:
        checked.set()
        Event().wait()
    minute.wait()

tune_garbage_collector(sleep)
collections = gc.get_stats()[2]["collections"]
kept = [[number] for number in range(3 * gc.get_freeze_count())]
for _ in range(%d * gc.get_freeze_count()):
    cycle = []
    cycle.append(cycle)
minute.set()
assert checked.wait(60)
print(gc.get_stats()[2]["collections"] - collections)
"""


def printed(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True).stdout


def test_cached_objects_are_never_scanned() -> None:
    assert printed(CACHED) == "True 0\n"


def test_cycles_among_cached_objects_are_collected_hourly() -> None:
    assert printed(CYCLIC) == "True True True\n"


def test_full_collection_runs_early_after_much_cyclic_garbage() -> None:
    assert printed(GROWN % 2) == "1\n"


def test_filling_cache_causes_no_full_collection() -> None:
    assert printed(GROWN % 0) == "0\n"
