"""Which processes `notifier up` runs: one per role, and several of the API and of some pools."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from notifier.api.port import SHARED_EVENLY
from notifier.cli.commands.roles import numbered
from notifier.config import Settings, variable
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import BadSetting

API = "api"
ROLES: Mapping[str, tuple[str, ...]] = {
    API: (API,),
    "pump": ("pump",),
    **{str(pool): ("worker", str(pool)) for pool in Pool},
}
"""The words of `notifier` that run the first process of each role."""

MOST_BY_DEFAULT = 4
"""API processes. Beyond it more readers wait for the same files or engines; nobody has measured more."""
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def processes(*, api: int, pools: Mapping[Pool, int]) -> Mapping[str, Sequence[str]]:
    """Return the words of `notifier` by process name: `api-2` is the second one of the API, beside `api`."""
    counts = {API: api, **{str(pool): count for pool, count in pools.items()}}
    more = [(role, number) for role, count in counts.items() for number in range(2, count + 1)]
    return {**ROLES, **{numbered(role, n): (*ROLES[role], "--number", str(n)) for role, n in more}}


def is_awaited(process: str) -> bool:
    """Return whether `up` is ready only once this process is: the first API process can answer alone."""
    return not process.startswith(f"{API}-")


def api_processes(settings: Settings) -> int:
    """Return how many API processes `up` starts. Raises BadSetting."""
    if settings.api_workers is None:
        return default_api_processes(cores()) if SHARED_EVENLY else 1
    if settings.api_workers > 1 and not SHARED_EVENLY:
        name = variable("api_workers")
        raise BadSetting(f"{name} is {settings.api_workers}; several processes share a port on Linux alone.")
    return settings.api_workers


def default_api_processes(cores: int) -> int:
    """Half of the cores, because the pump, the workers and the store need the others: one process where there are two.

    Measured on two cores (decision 57): two processes answer three times as many readers, but rows of P0 take longer
    under that load.
    """
    return max(1, min(MOST_BY_DEFAULT, cores // 2))


def cores(cpu_quota: Path = CPU_QUOTA) -> int:
    """Return how many processors this process may use, by its affinity and by the quota of its container."""
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = cpu_quota.read_text().split()
        return max(1, min(count, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup of version 2, or "max": no quota
        return count
