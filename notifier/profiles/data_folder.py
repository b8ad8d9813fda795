"""What every profile does with its data folder and its Redis before anything runs."""

import fcntl
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from zlib import crc32

from notifier.adapters.redis import await_answer
from notifier.config import PREFIX, Settings, without_password
from notifier.config.field import split
from notifier.domain.errors import BadSetting, CacheUnavailable, DataLocked, Unwritable

# One address of a Redis with TLS for whoever reads it: the client's library and Celery's guess differently.

LOOKS = {"required": "required", "CERT_REQUIRED": "required", "none": "none", "CERT_NONE": "none"}
"""How an address says whether the server's certificate is looked at, in the words of either library."""


def checked(url: str) -> str:
    """The address with everything said that one of them would guess. Raises BadSetting, without the address: it may
    hold a password."""
    parts = split(url)
    try:
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError:
        # Not as its cause, for that has the wrong port, which is a piece of the password.
        raise BadSetting("A Redis URL has no port where one should be; in a password / is written %2F.") from None
    return url if parts.scheme != "rediss" else urlunsplit(parts._replace(query=_said(parts.query)))


def _said(query: str) -> str:
    """Celery's library looks at no certificate unless it is told to."""
    said = dict(parse_qsl(query, keep_blank_values=True))
    looks = said.get("ssl_cert_reqs", "required")
    if looks not in LOOKS:
        raise BadSetting(f"A Redis URL has ssl_cert_reqs={looks}; it must be required or none.")
    if ca := said.get("ssl_ca_certs"):
        try:
            ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"The certificate of Redis's authority, {ca}, can't be read: {error}") from error
    return urlencode({**said, "ssl_cert_reqs": LOOKS[looks]}, safe="/")


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
