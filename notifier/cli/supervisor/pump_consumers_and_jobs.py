"""The pump role: runs the consumer loops of all streams, and periodic steps, as threads."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal
from threading import Thread
from time import monotonic

from notifier import topics
from notifier.cli.supervisor.heartbeat import HEARTBEAT_INTERVAL_SECONDS, STEP_TIMEOUT_SECONDS, ThreadProgress
from notifier.consumer_loop import Loop, StreamProcessor, build_stream_processor
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import OUTAGES, LaneStopped, QueueUnavailable
from notifier.wiring.delivery import build_dispatcher, build_load_monitor, build_reconciler
from notifier.wiring.indexers_and_device_registry import build_activity_roll_up
from notifier.wiring.shared_parts import System

MAX_RECORD_WAIT = timedelta(milliseconds=250)
"""Longest wait of a consumer for a record. A new record ends the wait.

With a fifth of this time, an idle pump would use a fifth of a core.
"""
DISPATCH_INTERVAL = timedelta(milliseconds=20)
RECONCILE_INTERVAL = timedelta(seconds=1)
LIVE_FLUSH_INTERVAL = timedelta(seconds=0.5)
LONG_STEP_TIMEOUT_SECONDS = 600.0
"""Time limit in seconds for one step of the reconciler or the roll-up.

At its start, and after Redis lost data, the reconciler rebuilds the pull index from the bursts of three days. At the
start of a day, the roll-up merges a hundred thousand bitmaps for 200 million users.
"""
LAG_INTERVAL_SECONDS = 1.0
"""Shortest time in seconds between two measurements of a consumer's lag."""
SWITCH_INTERVAL_SECONDS = 0.0005
"""Interpreter switch interval in seconds.

With Python's default of 5 ms, a round of the dispatcher would delay the router too long.
"""
STOP_TIMEOUT_SECONDS = 1.5
"""Seconds for all loops to stop, and as many for all consumers to close. The next process repeats unfinished work."""


@dataclass(slots=True, kw_only=True)
class StreamStep:
    """Processes a batch of one stream, and measures the consumer's lag."""

    processor: StreamProcessor
    stream: str
    lag_read_at: float = field(default=0.0)
    """Monotonic time in seconds."""

    def __call__(self) -> int:
        try:
            count = self.processor.step(MAX_RECORD_WAIT)
        except LaneStopped:
            # Records of a stopped lane accumulate, and operators must see that in the metric.
            self._read_lag()
            raise
        self._read_lag()
        return count

    def _read_lag(self) -> None:
        if monotonic() >= self.lag_read_at + LAG_INTERVAL_SECONDS:
            self.lag_read_at = monotonic()
            self.processor.metrics.lag.labels(self.stream).set(self.processor.consumer.lag())


def run(
    system: System, stopping: Signal, on_ready: Callable[[], None], beat: Callable[[], None] = lambda: None
) -> None:
    """Run all loops until `stopping` is set.

    Then close the consumers, so that another process can read their partitions at once. `on_ready` is called when all
    loops have started. `beat` is called repeatedly while every loop makes progress.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    progress = ThreadProgress()
    stream_steps = [
        StreamStep(processor=build_stream_processor(system, stream), stream=stream) for stream in topics.GROUPS
    ]

    def loop(name: str, step: Callable[[], object], idle: timedelta, timeout: float = STEP_TIMEOUT_SECONDS) -> Loop:
        tracked_step = progress.tracked(name, step, idle.total_seconds(), timeout)
        return Loop(name=name, step=tracked_step, idle=idle, stop_signal=stopping, metrics=system.metrics)

    loops = [loop(stream_step.stream, stream_step, timedelta(0)) for stream_step in stream_steps]
    loops += [
        loop("dispatcher", build_dispatcher(system), DISPATCH_INTERVAL),
        loop("reconciler", build_reconciler(system), RECONCILE_INTERVAL, LONG_STEP_TIMEOUT_SECONDS),
        loop("live_publisher", system.live_publisher.flush, LIVE_FLUSH_INTERVAL),
        loop("monitor", _without_result(build_load_monitor(system)), system.settings.monitor_every),
    ]
    if interval := system.settings.roll_up_every:
        loops.append(loop("rollup", build_activity_roll_up(system).run, interval, LONG_STEP_TIMEOUT_SECONDS))
    # The first call imports Celery and checks the URLs of the brokers. The pump is not ready before.
    with suppress(QueueUnavailable):
        system.ports.queue.depth(Pool.P0)
    threads = [Thread(target=loop_.run, name=loop_.name, daemon=True) for loop_ in loops]
    for thread in threads:
        thread.start()
    on_ready()
    while not stopping.wait(HEARTBEAT_INTERVAL_SECONDS / 2):
        if progress.all_on_time():
            beat()
    _join(threads)
    # Close only consumers whose thread has ended. The leases of the other consumers expire.
    stopped = [stream_step for stream_step, thread in zip(stream_steps, threads, strict=False) if not thread.is_alive()]
    closers = [Thread(target=_close, args=[stream_step], daemon=True) for stream_step in stopped]
    for thread in closers:
        thread.start()
    _join(closers)


def _without_result(step: Callable[[], object]) -> Callable[[], None]:
    """Wrap a step whose result must not make the Loop repeat it at once, such as a backpressure level."""

    def run_step() -> None:
        step()

    return run_step


def _join(threads: Sequence[Thread]) -> None:
    deadline = monotonic() + STOP_TIMEOUT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - monotonic()))


def _close(stream_step: StreamStep) -> None:
    try:
        stream_step.processor.consumer.close()
    except OUTAGES:  # its leases expire
        return
