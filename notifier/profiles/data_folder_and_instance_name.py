"""Data folder of both profiles: write check, lock, and the instance name."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname
from zlib import crc32

from notifier.config import Settings
from notifier.domain.errors import DataLocked, Unwritable


def instance_name(settings: Settings) -> str:
    """Return the name of this process's readers in Kafka.

    The name must survive restarts, because Kafka gives a reader with the same name its former partitions.
    """
    folder_hash = crc32(str(settings.data.absolute()).encode())
    return settings.instance or f"{gethostname()}-{folder_hash:08x}"


def require_writable(folder: Path) -> None:
    """Create the folder if it is missing. Raises Unwritable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "not writable")
    except OSError as error:
        raise Unwritable(f"{folder}: {error.strerror}.") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock `run/lock` of a data folder. The kernel releases the lock if the process dies. Raises DataLocked."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataLocked(f"The folder is {path.parent.parent}.") from error
        yield
