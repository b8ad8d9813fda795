"""Faults for a running notifier: processes killed or stopped and Redis emptied, at moments that a seed chose."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from notifier.adapters.redis.client import connect
from notifier.domain.slice import TERMS, Pool
from notifier.testing.instance import Instance

TIMES = 2
"""Each kind strikes so often."""
ROWS_POOLS = (Pool.P0, Pool.P1, Pool.P2)
STOPPED_POOLS = (Pool.P0, Pool.P1)
"""P2's claims are so long that a storm would be over."""
FOUND_WITHIN = 10.0
"""Seconds in which a role that is just being started again must be back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    at: float
    """Seconds from the storm's beginning."""
    kind: str
    pool: Pool

    def __str__(self) -> str:
        target = f" {self.pool}" if self.kind.endswith("worker") else ""
        return f"{self.kind}{target} at {self.at:.1f} s"


def schedule(kinds: Sequence[str], seed: int, lasting: float) -> list[Fault]:
    chance = random.Random(f"faults {seed}")
    return sorted(
        (
            Fault(
                at=lasting * chance.uniform(0.05, 1.0),
                kind=kind,
                pool=chance.choice(STOPPED_POOLS if kind == "stop-worker" else ROWS_POOLS),
            )
            for kind in kinds
            for _ in range(TIMES)
        ),
        key=lambda fault: fault.at,
    )


@dataclass(slots=True, kw_only=True)
class Saboteur:
    instance: Instance
    redis_url: Callable[[], str]
    faults: Sequence[Fault]
    again: Callable[[str], None] | None = None
    """Kills an engine by its name and starts it again: what its operators would do."""
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def start(self) -> threading.Thread:
        """The thread ends when every fault has struck and every stopped process goes on."""
        thread = threading.Thread(target=self._run, name="saboteur", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        began = time.monotonic()
        for fault in self.faults:
            time.sleep(max(0.0, began + fault.at - time.monotonic()))
            struck = STRIKES[fault.kind](self, fault)
            (self.done if struck else self.failed).append(str(fault))

    def _pid(self, role: str) -> int | None:
        deadline = time.monotonic() + FOUND_WITHIN
        while time.monotonic() < deadline:
            pid = self.instance.pid(role)
            if pid is not None and _alive(pid):
                return pid
            time.sleep(0.05)
        return None

    def kill(self, role: str) -> bool:
        pid = self._pid(role)
        if pid is None:
            return False
        os.kill(pid, signal.SIGKILL)
        return True

    def strike(self, engine: str) -> bool:
        """One that `up` looks after is only killed."""
        if self.again is None:
            return self.kill(engine)
        self.again(engine)
        return True

    def stop_worker(self, fault: Fault) -> bool:
        """Sleeps for longer than its claim; then it wakes as a zombie, and must not spoil what others did meanwhile."""
        pid = self._pid(str(fault.pool))
        if pid is None:
            return False
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(TERMS[fault.pool].claim.total_seconds() + 1.5)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return True

    def flush(self) -> bool:
        deadline = time.monotonic() + FOUND_WITHIN
        while time.monotonic() < deadline:
            client = connect(self.redis_url())
            try:
                return bool(client.flushall())
            except Exception:
                time.sleep(0.1)
            finally:
                client.close()
        return False


STRIKES: Mapping[str, Callable[[Saboteur, Fault], bool]] = {
    "kill-worker": lambda saboteur, fault: saboteur.kill(str(fault.pool)),
    "kill-pump": lambda saboteur, _: saboteur.kill("pump"),
    "kill-api": lambda saboteur, _: saboteur.kill("api"),
    "kill-valkey": lambda saboteur, _: saboteur.strike("valkey"),
    "kill-kafka": lambda saboteur, _: saboteur.strike("kafka"),
    "kill-cassandra": lambda saboteur, _: saboteur.strike("cassandra"),
    "flush-valkey": lambda saboteur, _: saboteur.flush(),
    "stop-worker": lambda saboteur, fault: saboteur.stop_worker(fault),
}


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
