"""Garbage collector tuning of an API process, tested in subprocesses because it is permanent."""

import subprocess
import sys

import pytest

from notifier.api.background.garbage_collection import Counts, needs_full_collection

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
for _ in range(2 * gc.get_freeze_count()):
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
    assert printed(GROWN) == "1\n"


LAST = Counts(frozen=300_000, freed=1_000)


@pytest.mark.parametrize(
    ("frozen", "freed", "expected"),
    [
        pytest.param(900_000, 2_000, False, id="caches fill"),
        pytest.param(900_000, 602_000, True, id="garbage of single requests"),
        pytest.param(900_000, 600_000, False, id="less garbage than growth"),
        pytest.param(590_000, 900_000, False, id="garbage, but little growth"),
        pytest.param(1_300_001, 1_000, True, id="garbage of many requests at once"),
        pytest.param(1_300_000, 1_000, False, id="growth at the limit"),
    ],
)
def test_growth_or_garbage_needs_a_full_collection(frozen: int, freed: int, expected: bool) -> None:
    assert needs_full_collection(LAST, Counts(frozen=frozen, freed=freed)) is expected
