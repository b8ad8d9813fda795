"""The loops of the role `pump` as threads: router, coordinators, indexer, dispatcher, reconciler, voice and so on."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal
from threading import Thread
from time import monotonic

from notifier import topics
from notifier.cli.supervisor.heartbeat import BEATS_EVERY, STEP_WITHIN, Attendance
from notifier.consumer_loop import Loop, Pump, pump
from notifier.domain.errors import OUTAGES, LaneStopped
from notifier.wiring.delivery import build_dispatcher, build_load_monitor, build_reconciler
from notifier.wiring.indexing import build_activity_roll_up
from notifier.wiring.system import System

WAITS_FOR_RECORDS = timedelta(milliseconds=250)
"""At most: whoever reads is woken by a record. An idle pump that asks five times as often takes a fifth of a core."""
DISPATCHES_EVERY = timedelta(milliseconds=20)
RECONCILES_EVERY = timedelta(seconds=1)
SPEAKS_EVERY = timedelta(seconds=0.5)
REBUILDS_WITHIN = 600.0
"""Seconds for a round of the reconciler: after a wipe it brings three days' bursts back into Redis, however many. And
for one of the roll-up, which for 200 million people joins a hundred thousand bitmaps when a day begins."""
LAG_EVERY = 1.0
"""Seconds between two readings of a consumer's lag."""
TURN = 0.0005
"""Seconds that a thread keeps the interpreter while others want it: a round of the dispatcher must not hold up the
router for the usual 5 ms at a time."""
STOPS_WITHIN = 1.5
"""Seconds; what a loop hasn't finished by then is done again by the next process."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """One group's reading of one stream."""

    pump: Pump
    stream: str
    lag_read_at: float = field(default=0.0)

    def __call__(self) -> int:
        try:
            done = self.pump.step(WAITS_FOR_RECORDS)
        except LaneStopped:
            # The records of a stopped lane pile up, which operators have to see.
            self._read_lag()
            raise
        self._read_lag()
        return done

    def _read_lag(self) -> None:
        if monotonic() >= self.lag_read_at + LAG_EVERY:
            self.lag_read_at = monotonic()
            self.pump.metrics.lag.labels(self.stream).set(self.pump.consumer.lag())


def run(system: System, stopping: Signal, up: Callable[[], None], beat: Callable[[], None] = lambda: None) -> None:
    """Runs all loops until it is told to stop, then gives the partitions back, so that another reads them at once.

    Beats only while every loop has stepped lately.
    """
    sys.setswitchinterval(TURN)
    attendance = Attendance()
    readings = [Reading(pump=pump(system, stream), stream=stream) for stream in topics.GROUPS]

    def loop(name: str, step: Callable[[], object], idle: timedelta, within: float = STEP_WITHIN) -> Loop:
        signed = attendance.signed(name, step, idle.total_seconds(), within)
        return Loop(name=name, step=signed, idle=idle, stopping=stopping, metrics=system.metrics)

    loops = [loop(reading.stream, reading, timedelta(0)) for reading in readings]
    loops += [
        loop("dispatcher", build_dispatcher(system), DISPATCHES_EVERY),
        loop("reconciler", build_reconciler(system), RECONCILES_EVERY, REBUILDS_WITHIN),
        loop("voice", system.live_publisher.speak, SPEAKS_EVERY),
        loop("monitor", _without_answer(build_load_monitor(system)), system.settings.monitor_every),
    ]
    if every := system.settings.roll_up_every:
        loops.append(loop("rollup", build_activity_roll_up(system).run, every, REBUILDS_WITHIN))
    threads = [Thread(target=each.run, name=each.name, daemon=True) for each in loops]
    for thread in threads:
        thread.start()
    up()
    while not stopping.wait(BEATS_EVERY / 2):
        if attendance.complete():
            beat()
    _join(threads)
    # A consumer belongs to its thread, which is over. Without this, or while the log is away, its lease ends by itself.
    over = [reading for reading, thread in zip(readings, threads, strict=False) if not thread.is_alive()]
    closing = [Thread(target=_close, args=[reading], daemon=True) for reading in over]
    for thread in closing:
        thread.start()
    _join(closing)


def _without_answer(step: Callable[[], object]) -> Callable[[], None]:
    """A level of pressure isn't a sign of more to do."""

    def stepped() -> None:
        step()

    return stepped


def _join(threads: Sequence[Thread]) -> None:
    deadline = monotonic() + STOPS_WITHIN
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))


def _close(reading: Reading) -> None:
    try:
        reading.pump.consumer.close()
    except OUTAGES:  # then its leases end by themselves
        return
