"""Names, arguments and counts of the processes that `notifier up` runs."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from notifier.api.port import BALANCES_CONNECTIONS
from notifier.cli.commands.roles import process_name_of
from notifier.config import Settings, variable
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import BadSetting

API = "api"
ROLES: Mapping[str, tuple[str, ...]] = {
    API: (API,),
    "pump": ("pump",),
    **{str(pool): ("worker", str(pool)) for pool in Pool},
}
"""Arguments of `notifier` that run the first process of each role. The fakes are not included."""

MAX_DEFAULT_API_PROCESSES = 4
"""Maximum number of API processes by default. More have not been measured."""
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""File of cgroup version 2 with the CPU quota of the container."""


def process_arguments(*, api: int, pools: Mapping[Pool, int]) -> Mapping[str, Sequence[str]]:
    """Return the arguments of `notifier` by process name. `api-2` is the second API process, after `api`."""
    counts = {API: api, **{str(pool): count for pool, count in pools.items()}}
    additional = [(role, number) for role, count in counts.items() for number in range(2, count + 1)]
    return {**ROLES, **{process_name_of(role, n): (*ROLES[role], "--number", str(n)) for role, n in additional}}


def is_awaited(process_name: str) -> bool:
    """Return whether `up` is ready only once this process is ready. True except for additional API processes."""
    return not process_name.startswith(f"{API}-")


def api_processes(settings: Settings) -> int:
    if settings.api_workers is None:
        return default_api_processes(available_cores()) if BALANCES_CONNECTIONS else 1
    if settings.api_workers > 1 and not BALANCES_CONNECTIONS:
        name = variable("api_workers")
        raise BadSetting(f"{name} is {settings.api_workers}; only on Linux can several processes share a port.")
    return settings.api_workers


def default_api_processes(cores: int) -> int:
    """Return half of the cores, within limits: the pump, the workers and the store need the other cores.

    Measured on two cores, before inboxes were cached: two processes answered three times as many readers as one, but
    rows of P0 took longer under that load (decision 57).
    """
    return max(1, min(MAX_DEFAULT_API_PROCESSES, cores // 2))


def available_cores(cpu_quota: Path = CPU_QUOTA) -> int:
    """Return the number of processors that the affinity of this process and the quota of its container allow."""
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = cpu_quota.read_text().split()
        return max(1, min(count, int(quota) // int(period)))
    except (OSError, ValueError):  # cgroup version 2 is missing, or the quota is "max"
        return count
