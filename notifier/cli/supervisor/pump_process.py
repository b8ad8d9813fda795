"""Role `pump`: runs router, coordinators, indexers, dispatcher, reconciler and others as threads."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal
from threading import Thread
from time import monotonic

from notifier import topics
from notifier.cli.supervisor.heartbeat import HEARTBEAT_INTERVAL, STEP_WITHIN, ThreadProgress
from notifier.consumer_loop import Loop, Pump, pump
from notifier.domain.errors import OUTAGES, LaneStopped
from notifier.wiring.delivery import build_dispatcher, build_load_monitor, build_reconciler
from notifier.wiring.indexing import build_activity_roll_up
from notifier.wiring.system import System

WAITS_FOR_RECORDS = timedelta(milliseconds=250)
"""Longest wait of a consumer, which a new record ends early.

Polling five times as often, an idle pump uses a fifth of a core.
"""
DISPATCHES_EVERY = timedelta(milliseconds=20)
RECONCILES_EVERY = timedelta(seconds=1)
REPORTS_EVERY = timedelta(seconds=0.5)
REBUILDS_WITHIN = 600.0
"""Time limit in seconds for a round of the reconciler and of the roll-up.

After a flush the reconciler restores the bursts of three days in Redis. The roll-up merges a hundred thousand bitmaps
at the start of a day, for 200 million users.
"""
LAG_EVERY = 1.0
"""Seconds between two measurements of a consumer's lag."""
TURN = 0.0005
"""Interpreter switch interval in seconds.

With Python's default of 5 ms, a round of the dispatcher would delay the router too long.
"""
STOPS_WITHIN = 1.5
"""Seconds that a loop has to stop. The next process repeats what was not finished."""


@dataclass(slots=True, kw_only=True)
class StreamLoop:
    """A loop in which one consumer group reads one stream."""

    pump: Pump
    stream: str
    lag_read_at: float = field(default=0.0)

    def __call__(self) -> int:
        try:
            done = self.pump.step(WAITS_FOR_RECORDS)
        except LaneStopped:
            # Records of a stopped lane accumulate, and operators must see that in the metric.
            self._read_lag()
            raise
        self._read_lag()
        return done

    def _read_lag(self) -> None:
        if monotonic() >= self.lag_read_at + LAG_EVERY:
            self.lag_read_at = monotonic()
            self.pump.metrics.lag.labels(self.stream).set(self.pump.consumer.lag())


def run(
    system: System, stopping: Signal, on_ready: Callable[[], None], beat: Callable[[], None] = lambda: None
) -> None:
    """Run all loops until `stopping` is set, then close the consumers.

    Another process can then read their partitions at once. `up` is called when all loops have started. `beat` is called
    only while every loop makes progress.
    """
    sys.setswitchinterval(TURN)
    attendance = ThreadProgress()
    readings = [StreamLoop(pump=pump(system, stream), stream=stream) for stream in topics.GROUPS]

    def loop(name: str, step: Callable[[], object], idle: timedelta, within: float = STEP_WITHIN) -> Loop:
        signed = attendance.reporting(name, step, idle.total_seconds(), within)
        return Loop(name=name, step=signed, idle=idle, stop_signal=stopping, metrics=system.metrics)

    loops = [loop(reading.stream, reading, timedelta(0)) for reading in readings]
    loops += [
        loop("dispatcher", build_dispatcher(system), DISPATCHES_EVERY),
        loop("reconciler", build_reconciler(system), RECONCILES_EVERY, REBUILDS_WITHIN),
        loop("voice", system.live_publisher.flush, REPORTS_EVERY),
        loop("monitor", _without_answer(build_load_monitor(system)), system.settings.monitor_every),
    ]
    if every := system.settings.roll_up_every:
        loops.append(loop("rollup", build_activity_roll_up(system).run, every, REBUILDS_WITHIN))
    threads = [Thread(target=loop_.run, name=loop_.name, daemon=True) for loop_ in loops]
    for thread in threads:
        thread.start()
    on_ready()
    while not stopping.wait(HEARTBEAT_INTERVAL / 2):
        if attendance.is_complete():
            beat()
    _join(threads)
    # A consumer may be closed once its thread has ended. If that fails, for example in an outage, its lease expires.
    over = [reading for reading, thread in zip(readings, threads, strict=False) if not thread.is_alive()]
    closing = [Thread(target=_close, args=[reading], daemon=True) for reading in over]
    for thread in closing:
        thread.start()
    _join(closing)


def _without_answer(step: Callable[[], object]) -> Callable[[], None]:
    """Return the step without its result: a backpressure level does not mean that more work is waiting."""

    def stepped() -> None:
        step()

    return stepped


def _join(threads: Sequence[Thread]) -> None:
    deadline = monotonic() + STOPS_WITHIN
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))


def _close(reading: StreamLoop) -> None:
    try:
        reading.pump.consumer.close()
    except OUTAGES:  # its leases expire
        return
