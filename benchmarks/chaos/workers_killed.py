"""`workers_killed_mid_slice`: Celery workers are killed repeatedly while they hold a slice."""

import os
import signal
import time
from contextlib import ExitStack, suppress
from itertools import cycle, islice

from benchmarks.chaos.scenario_stage import Stage
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import Unavailable

NAME = "workers_killed_mid_slice"
KILLS, KILLS_QUICK = 20, 4
POOLS = tuple(Pool)
MENTIONS_PER_KILL, SECONDS_PER_KILL = 27, 9.0
TIMEOUT_SECONDS = 30.0
"""Time limit until a worker has claimed a slice. During a storm that is true most of the time."""
ARRIVAL_SECONDS = 0.2
"""Time until the requests that a suspended worker had sent are processed."""


def run(stage: Stage, *, quick: bool) -> Finding:
    kills = KILLS_QUICK if quick else KILLS
    with stage.storming(kills * MENTIONS_PER_KILL, kills * SECONDS_PER_KILL):
        caught = [_kill(stage, pool) for pool in islice(cycle(POOLS), kills)]
    wrong = [] if all(caught) else [f"only {sum(caught)} of {kills} killed workers held a slice"]
    return no_errors(NAME, [*wrong, *stage.wrong()], n=kills)


def _kill(stage: Stage, pool: Pool) -> bool:
    """Kill a worker of the pool that has claimed a slice. All are suspended first, so that none finishes its slice."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        time.sleep(stage.random.uniform(0.05, 0.3))
        with ExitStack() as stopped, suppress(ProcessLookupError):
            workers = stage.instance.workers(str(pool))
            for pid in workers.values():
                stopped.enter_context(stage.stopped(pid))
            time.sleep(ARRIVAL_SECONDS)
            for role, pid in workers.items():
                if _holding(stage, f"{role}-{pid}-"):
                    os.kill(pid, signal.SIGKILL)
                    return True
    return False


def _holding(stage: Stage, owner: str) -> bool:
    """Return whether this worker holds the claim of an unfinished slice."""
    with suppress(Unavailable):
        ledger = stage.ports.ledger
        return any(
            slice_state.claim and slice_state.claim.owner.startswith(owner) and not slice_state.final_entry
            for progress in ledger.read(ledger.unfinished_bursts()).values()
            for slice_state in progress.slice_states.values()
        )
    return False
