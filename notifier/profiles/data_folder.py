"""What every profile does with its data folder and its Redis before anything runs."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname
from zlib import crc32

from notifier.adapters.redis import await_answer
from notifier.config import PREFIX, Settings, without_password
from notifier.domain.errors import CacheUnavailable, DataLocked, Unwritable
from notifier.profiles.redis_tls import checked

ANSWERS_WITHIN = 5.0
"""Seconds that a given Redis has for its first answer: one that is started beside `up` needs one or two."""


def instance(settings: Settings) -> str:
    """Several services on one machine have several folders, and one that starts again has the same."""
    folder = crc32(str(settings.data.absolute()).encode())
    return settings.instance or f"{gethostname()}-{folder:08x}"


def require_redis(url: str, within: float) -> None:
    """One that doesn't answer at the first start is mostly a wrong address; later it is an outage, and survived."""
    try:
        await_answer(checked(url), within)
    except CacheUnavailable as error:
        raise CacheUnavailable(f"{PREFIX}REDIS_URL is {without_password(url)!r}. {error.detail}") from error


def writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "not writable")
    except OSError as error:
        raise Unwritable(f"{folder}: {error.strerror}.") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The lock is the process's: whatever kills it unlocks the folder."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataLocked(f"The folder is {path.parent.parent}.") from error
        yield


@contextmanager
def remembered(path: Path, url: str) -> Iterator[None]:
    """For the commands that a person runs beside `notifier up`; it holds a password, so it is ours alone to read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(url)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
