"""The engines of a trial in the cluster profile: started in its folder, struck by its faults, gone with it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from notifier.config import Settings
from notifier.profiles.folder import locked, writable
from services.cassandra.node import Sync
from services.fleet import Fleet


@contextmanager
def engines(data: Path, profile: str, sync: Sync, *, fresh: bool = False) -> Iterator[Fleet | None]:
    """None for the embedded profile, and where settings name engines that somebody else runs.

    What they have stored stays in the folder, unless it is to be fresh. Raises Environment or DataLocked.
    """
    settings = Settings.read(data=data, profile=profile)
    fleet = Fleet(folder=data / "services", cache=settings.jars.expanduser())
    if profile != "cluster" or (settings.kafka.servers and not fleet.note.exists()):
        yield None
        return
    if fresh:
        _forget(data, fleet)
    try:
        fleet.up(sync, lambda engine, seconds: None)
        yield fleet
    finally:
        fleet.down()


def _forget(data: Path, fleet: Fleet) -> None:
    writable(data / "run")
    with locked(data / "run" / "lock"):
        fleet.down()
        shutil.rmtree(fleet.folder, ignore_errors=True)
