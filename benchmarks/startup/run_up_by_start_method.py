"""Runs a `notifier up` with a given way to start its roles.

`python -m benchmarks.startup.run_up_by_start_method WAY DATA READY_FILE`. `multiprocessing` runs this file again in
each role, so its top imports nothing that `notifier` doesn't import.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic


@contextmanager
def no_forks(profile: str, logs: Path) -> Iterator[None]:
    """Start an interpreter for each role."""
    yield None


def main(way: str, data: str, ready_file: str) -> None:
    started_at = monotonic()
    from notifier.cli.commands.up import run_service
    from notifier.cli.options import settings_for
    from notifier.cli.supervisor.forkserver_client import OpenForks, fork_server
    from notifier.cli.supervisor.heartbeat import HeartbeatLimits

    forks: OpenForks = fork_server
    if way == "multiprocessing":
        from benchmarks.startup.multiprocessing_forks import multiprocessing_forks

        forks = multiprocessing_forks
    elif way == "interpreters":
        forks = no_forks
    settings = replace(settings_for(Path(data), port=0), data=Path(data).absolute())
    run_service(
        settings,
        ready_file=Path(ready_file),
        heartbeat_limits=HeartbeatLimits(),
        started_at=started_at,
        open_forks=forks,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
