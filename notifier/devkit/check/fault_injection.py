"""Fault injection for a running notifier, at times chosen by a seed."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from notifier.adapters.redis.connect import connect
from notifier.devkit.check.notifier_and_engine_processes import Engines, Instance
from notifier.devkit.engines.fleet import ENGINES
from notifier.domain.delivery.slice_and_pool import POOL_TIMINGS, PUSH_STEPS, Pool

INJECTIONS_PER_KIND = 2
"""How often each kind of fault is injected."""
POOL_FAULTS: Mapping[str, Sequence[Pool]] = {
    "kill-worker": tuple(Pool),
    "kill-push": tuple(map(Pool, PUSH_STEPS)),
    "stop-worker": (Pool.P0, Pool.P1),
}
"""Pools whose workers a kind of fault may hit. P2's workers are not paused: the storm would end before their long
leases expire."""
PROCESS_TIMEOUT_SECONDS = 10.0
"""Time in which a role or Redis must be back after an earlier fault."""
PUMP_PAUSE_SECONDS = 7.0
"""Duration of a pause of the pump: longer than the leases of a log consumer and of the leading dispatcher."""
FREEZE_SECONDS = 8.0
"""Duration of a freeze of an engine: longer than the request timeouts of its clients."""
CUT_SECONDS, SLOW_SECONDS, REFUSE_SECONDS = 3.0, 5.0, 5.0
"""Duration of a cut, of a slow network, and of injected errors."""
SLOW_LATENCY_SECONDS = 0.1
"""One-way delay of a slow network, as to another continent."""
OUTAGE_SECONDS = 20.0
"""Default duration of a store outage."""
STORE_OUTAGE = "store-outage"
MAX_OUTAGE_START_SHARE = 0.1
"""Latest start of a store outage, as a share of its half of the storm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    at: float
    """Seconds from the start of the storm."""
    kind: str
    pool: Pool
    """Pool to hit. Kinds that are not in POOL_FAULTS ignore it."""
    kills_store: bool = False
    """Whether a store outage kills the process instead of freezing it."""

    def __str__(self) -> str:
        target = f" {self.pool}" if self.kind in POOL_FAULTS else ""
        mode = f" ({'killed' if self.kills_store else 'frozen'})" if self.kind == STORE_OUTAGE else ""
        return f"{self.kind}{target}{mode} at {self.at:.1f} s"


def schedule(kinds: Sequence[str], seed: int, duration: float) -> list[ScheduledFault]:
    """Return all faults in order of time.

    The first store outage freezes the store, the second kills it. Each outage starts early in its half of the storm.
    """
    rng = random.Random(f"faults {seed}")
    return sorted(
        (
            ScheduledFault(
                at=_start_time(kind, repetition, duration, rng.uniform(0.05, 1.0)),
                kind=kind,
                pool=rng.choice(POOL_FAULTS.get(kind, tuple(Pool))),
                kills_store=repetition == 1,
            )
            for kind in kinds
            for repetition in range(INJECTIONS_PER_KIND)
        ),
        key=lambda fault: fault.at,
    )


def _start_time(kind: str, repetition: int, duration: float, share: float) -> float:
    return (
        duration * (repetition + share * MAX_OUTAGE_START_SHARE) / INJECTIONS_PER_KIND
        if kind == STORE_OUTAGE
        else duration * share
    )


def proxied_engines(kinds: Collection[str]) -> set[str]:
    """Return the engines that need a proxy for these faults."""
    return {name for kind in kinds for fault, _, name in [kind.partition("-")] if fault in ("cut", "slow", "refuse")}


@dataclass(slots=True, kw_only=True)
class FaultInjector:
    instance: Instance
    redis_url: Callable[[], str]
    faults: Sequence[ScheduledFault]
    engines: Engines | None = None
    """Engines that the check has started. None in the embedded profile, and if the settings name external engines."""
    outage: float = OUTAGE_SECONDS
    """Duration of a store outage in seconds."""
    before_outage: Callable[[], None] = lambda: None
    during_outage: Callable[[], None] = lambda: None
    """Called repeatedly during a store outage, with pauses of half a second."""
    injected: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Faults that could not be injected."""

    def start(self) -> threading.Thread:
        """Start the thread that injects the faults. The thread ends after the last fault."""
        thread = threading.Thread(target=self._run, name="fault-injector", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        started = time.monotonic()
        for fault in self.faults:
            time.sleep(max(0.0, started + fault.at - time.monotonic()))
            try:
                is_injected, reason = {**INJECTIONS, **ENGINE_INJECTIONS}[fault.kind](self, fault), ""
            except Exception as error:
                is_injected, reason = False, f": {error}"
            (self.injected if is_injected else self.failed).append(f"{fault}{reason}")

    def _pid(self, process_name: str) -> int | None:
        deadline = time.monotonic() + PROCESS_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            pid = self.instance.pid(process_name)
            if pid is not None and _alive(pid):
                return pid
            time.sleep(0.05)
        return None

    def worker(self, fault: ScheduledFault) -> str:
        """Return the process name of the worker to hit. The number of earlier faults selects it in the pool."""
        names = sorted(self.instance.workers(str(fault.pool))) or [str(fault.pool)]
        return names[(len(self.injected) + len(self.failed)) % len(names)]

    def kill(self, process_name: str) -> bool:
        pid = self._pid(process_name)
        if pid is None:
            return False
        os.kill(pid, signal.SIGKILL)
        return True

    def pause(self, process_name: str, seconds: float) -> bool:
        """Pause a process. After a pause longer than its leases, it must not overwrite the work of their new owners."""
        pid = self._pid(process_name)
        if pid is None:
            return False
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return True

    def kill_valkey(self) -> bool:
        """Kill Valkey, and restart it if the check has started it. Otherwise `notifier up` restarts it."""
        return (
            self.kill("valkey")
            if self.engines is None
            else self.inject_on_engines(lambda engines: engines.kill("valkey"))
        )

    def inject_on_engines(self, inject: Callable[[Engines], None]) -> bool:
        if self.engines is None:
            return False
        inject(self.engines)
        return True

    def store_outage(self, *, kills_store: bool) -> bool:
        self.before_outage()
        with self._observed():
            return self.inject_on_engines(
                lambda engines: (engines.kill if kills_store else engines.freeze)("cassandra", self.outage)
            )

    @contextmanager
    def _observed(self) -> Iterator[None]:
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.5):
                self.during_outage()

        thread = threading.Thread(target=watch, name="inbox-observer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def flush(self) -> bool:
        deadline = time.monotonic() + PROCESS_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            client = connect(self.redis_url())
            try:
                return bool(client.flushall())
            except Exception:
                time.sleep(0.1)
            finally:
                client.close()
        return False


Injection = Callable[[FaultInjector, ScheduledFault], bool]


def _pause_past_lease(injector: FaultInjector, fault: ScheduledFault) -> bool:
    return injector.pause(injector.worker(fault), POOL_TIMINGS[fault.pool].lease.total_seconds() + 1.5)


def _inject_on(engine: str, inject: Callable[[Engines, str], None], injector: FaultInjector, _: ScheduledFault) -> bool:
    return injector.inject_on_engines(lambda engines: inject(engines, engine))


INJECTIONS: Mapping[str, Injection] = {
    "kill-worker": lambda injector, fault: injector.kill(injector.worker(fault)),
    "kill-push": lambda injector, fault: injector.kill(injector.worker(fault)),
    "kill-fakes": lambda injector, _: injector.kill("fakes"),
    "kill-pump": lambda injector, _: injector.kill("pump"),
    "kill-api": lambda injector, _: injector.kill("api"),
    "kill-valkey": lambda injector, _: injector.kill_valkey(),
    "flush-valkey": lambda injector, _: injector.flush(),
    "stop-worker": _pause_past_lease,
    "stop-pump": lambda injector, _: injector.pause("pump", PUMP_PAUSE_SECONDS),
}
"""Faults for both profiles."""
ENGINE_INJECTIONS: Mapping[str, Injection] = {
    "kill-kafka": partial(_inject_on, "kafka", Engines.kill),
    "kill-cassandra": partial(_inject_on, "cassandra", Engines.kill),
    "stop-kafka": partial(_inject_on, "kafka", lambda engines, name: engines.freeze(name, FREEZE_SECONDS)),
    "stop-cassandra": partial(_inject_on, "cassandra", lambda engines, name: engines.freeze(name, FREEZE_SECONDS)),
    "refuse-cassandra": lambda injector, _: injector.engines is not None and injector.engines.refuse(REFUSE_SECONDS),
    STORE_OUTAGE: lambda injector, fault: injector.store_outage(kills_store=fault.kills_store),
    **{
        f"cut-{name}": partial(_inject_on, name, lambda engines, name: engines.cut(name, CUT_SECONDS))
        for name in ENGINES
    },
    **{
        f"slow-{name}": partial(
            _inject_on, name, lambda engines, name: engines.slow(name, SLOW_SECONDS, SLOW_LATENCY_SECONDS)
        )
        for name in ENGINES
    },
}
"""Faults for the cluster profile only."""


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
