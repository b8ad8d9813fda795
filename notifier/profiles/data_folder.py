"""The data folder and the Redis URL of both profiles: checks, lock and Kafka name."""

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
from notifier.config import VARIABLE_PREFIX, Settings, without_password
from notifier.config.field import split_url
from notifier.domain.errors import BadSetting, CacheUnavailable, DataLocked, Unwritable

# TLS options of a Redis URL. They are always made explicit, because the Redis client and Celery differ in defaults.

CERTIFICATE_MODES = {"required": "required", "CERT_REQUIRED": "required", "none": "none", "CERT_NONE": "none"}
"""Modes of certificate verification: each library's spelling, and the spelling that both accept."""


def checked_redis_url(url: str) -> str:
    """Return the URL with explicit TLS options. Raises BadSetting.

    The error does not contain the URL, which may hold a password.
    """
    parts = split_url(url)
    try:
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError:
        # Drop the cause: it contains the invalid port, which is part of the password.
        raise BadSetting("A Redis URL has an invalid port; write / in a password as %2F.") from None
    return url if parts.scheme != "rediss" else urlunsplit(parts._replace(query=_with_tls_options(parts.query)))


def _with_tls_options(query: str) -> str:
    """Set `ssl_cert_reqs` explicitly, because Celery's library does not verify certificates by default."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    verification = options.get("ssl_cert_reqs", "required")
    if verification not in CERTIFICATE_MODES:
        raise BadSetting(f"A Redis URL has ssl_cert_reqs={verification}; it must be required or none.")
    if ca := options.get("ssl_ca_certs"):
        try:
            ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"The CA certificate of Redis, {ca}, can't be read: {error}") from error
    return urlencode({**options, "ssl_cert_reqs": CERTIFICATE_MODES[verification]}, safe="/")


REDIS_STARTUP_TIMEOUT = 5.0
"""Seconds that `up` waits for a configured Redis. A Redis that starts at the same time needs one or two seconds."""


def instance_name(settings: Settings) -> str:
    """Return the name of this process's readers in Kafka. The default is made of host name and data folder.

    It must survive restarts, because Kafka gives a reader with the same name its former partitions.
    """
    folder = crc32(str(settings.data.absolute()).encode())
    return settings.instance or f"{gethostname()}-{folder:08x}"


def require_redis(url: str, timeout: float) -> None:
    """Wait up to `timeout` seconds for Redis to answer. Raises CacheUnavailable.

    Call it at startup only: a Redis that does not answer then mostly has a wrong address. Later it has an outage, which
    roles tolerate.
    """
    try:
        await_answer(checked_redis_url(url), timeout)
    except CacheUnavailable as error:
        raise CacheUnavailable(f"{VARIABLE_PREFIX}REDIS_URL is {without_password(url)!r}. {error.detail}") from error


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
    """Hold an exclusive lock on the file. The kernel releases it if the process dies. Raises DataLocked."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataLocked(f"The folder is {path.parent.parent}.") from error
        yield


@contextmanager
def remembered_redis_url(path: Path, url: str) -> Iterator[None]:
    """Store the Redis URL in a file until the block ends, for CLI commands that run beside `notifier up`.

    The file has mode 0600, because the URL may contain a password.
    """
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(url)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
