"""Service keys, their scopes and file; the installation's secret and main key."""

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Annotated

import msgspec

from notifier.config import MIN_SECRET_BYTES, Settings
from notifier.domain.errors import BadSetting, Forbidden, Unwritable

# Scopes and callers.


class Scope(StrEnum):
    """Permissions of a service key."""

    EVENTS = "events"
    """Send and preview mentions, report deleted and edited tweets, and query the status of events."""
    FOLLOWS = "follows"
    """Report follows, unfollows, approvals, blocks and unblocks."""
    ACCOUNTS = "accounts"
    """Report account changes: flags (verified, VIP, deleted), protection and erasure."""
    ACTIVITY = "activity"
    """Report that a user was active elsewhere on the platform."""
    OPERATE = "operate"
    """Read the system overview."""
    METRICS = "read-metrics"
    """Read `/metrics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated service."""

    key_id: str
    name: str
    """Completes "The key …" in error messages."""
    scopes: frozenset[Scope]

    def require(self, *accepted: Scope) -> None:
        """Require at least one of the scopes. Raises Forbidden."""
        if self.scopes.isdisjoint(accepted):
            names = " or ".join(accepted)
            raise Forbidden(f"The key {self.name} lacks the scope {names}; it has {', '.join(sorted(self.scopes))}.")


MAIN_KEY_CALLER = Caller(key_id="secret.json", name="of secret.json", scopes=frozenset(Scope))
"""The service that uses the main service key."""


# Keys and their file.

KEY_PREFIX = "nsk_"
"""Prefix that lets secret scanners find leaked keys. A token without it is neither hashed nor looked up."""
KEY_BYTES = 32
"""Random bytes of a key."""
SERVICE_NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
HASH_BYTES = 32
ID_LENGTH = 8
"""Characters of the hash that form the key's id. Among 1,000 keys two have the same id with a probability of 0.01 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKey:
    """A service key as the key file stores it: without its text, which only the service has."""

    name: Annotated[str, msgspec.Meta(pattern=SERVICE_NAME_PATTERN)]
    """Name of the service. During a key rotation the service has two keys with this name."""
    scopes: tuple[Scope, ...]
    hash: Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{2 * HASH_BYTES}}}$")]
    made_at: datetime

    @property
    def id(self) -> str:
        return self.hash[:ID_LENGTH]

    @property
    def caller(self) -> Caller:
        return Caller(key_id=self.id, name=self.name, scopes=frozenset(self.scopes))


def new_key(name: str, scopes: Collection[Scope], pepper: bytes, now: datetime) -> tuple[str, ServiceKey]:
    """Generate a key. Return its text, which is shown once and never stored, and the record to store."""
    text = KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)
    return text, ServiceKey(name=name, scopes=tuple(sorted(scopes)), hash=key_hash(text, pepper), made_at=now)


def key_hash(text: str, pepper: bytes) -> str:
    """Return the keyed hash of a key's text.

    - Fast, because requests wait for it. A slow hash protects guessable passwords, but adds nothing to 256 random bits.
    - Keyed: an attacker who can write the key file but lacks the secret cannot create a valid key.
    - Safe to look up directly: without the secret the hash is unpredictable, so comparison times reveal nothing.
    """
    return blake2b(text.encode(errors="replace"), key=pepper, digest_size=HASH_BYTES).hexdigest()


def callers_by_hash(keys: Sequence[ServiceKey]) -> Mapping[str, Caller]:
    return {key.hash: key.caller for key in keys}


def is_valid_service_name(text: str) -> bool:
    return re.fullmatch(SERVICE_NAME_PATTERN, text) is not None


# The secret and the main service key. Logs and errors must not show them.

SECRETS_FILE = "secret.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationKeys:
    secret: str = field(repr=False)
    """Signs user tokens, unless an issuer does. Keys for other purposes are derived from the secret."""
    service_key: str = field(repr=False)
    """The main service key, which has every scope."""

    def __post_init__(self) -> None:
        if len(self.secret.encode()) < MIN_SECRET_BYTES or not self.service_key:
            raise BadSetting(f"The secret has fewer than {MIN_SECRET_BYTES} bytes, or the service key is missing.")

    def derive(self, purpose: str) -> bytes:
        """Derive a key for one purpose. What is signed or encrypted for one purpose is invalid for any other."""
        return _derive_key(self.secret, purpose)


def installation_keys(settings: Settings) -> InstallationKeys:
    """Return the secret in the settings and a service key derived from it, or else the keys of the data folder.

    Raises BadSetting.
    """
    if settings.secret:
        return InstallationKeys(secret=settings.secret, service_key=_derive_key(settings.secret, "service").hex())
    return load_or_create_keys(settings.data)


def demo_token(keys: InstallationKeys) -> str:
    """Return the token for the buttons of the demo page. Every visitor of the page gets this token."""
    return keys.derive("the demo's buttons").hex()[:32]


def load_or_create_keys(folder: Path) -> InstallationKeys:
    """Load the keys, or create them if the folder has none. Processes that do so at the same time get the same keys.

    Raises BadSetting.
    """
    path = folder / SECRETS_FILE
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create(path)
    try:
        return msgspec.json.decode(path.read_bytes(), type=InstallationKeys)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Not chained: the decoder's message could quote the file.
        raise BadSetting(f"{path} can't be read; restore it from a backup.") from None


def _create(path: Path) -> None:
    keys = InstallationKeys(secret=secrets.token_urlsafe(48), service_key=secrets.token_urlsafe(32))
    temporary_file = path.with_name(f".{SECRETS_FILE}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(keys)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        # A hard link is atomic: it never overwrites the file of a faster process and never exposes half a file.
        os.link(temporary_file, path)
    except FileExistsError:
        pass
    finally:
        temporary_file.unlink()


def _derive_key(secret: str, purpose: str) -> bytes:
    return blake2b(purpose.encode(), key=blake2b(secret.encode()).digest(), digest_size=32).digest()


# The key file.

LOGGER = logging.getLogger("notifier.api")

SERVICE_KEYS_FILE = "service_keys.json"
CHECK_SECONDS = 1.0
"""A request checks the file if the last check was at least this many seconds ago. So changes take effect that soon."""

FileFingerprint = tuple[int, int, int]
"""Inode, size and modification time in nanoseconds."""


class _StoredKeys(msgspec.Struct):
    keys: list[ServiceKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKeyFile:
    """The file with the service keys. `pepper` is the secret with which they are hashed."""

    path: Path
    pepper: bytes = field(repr=False)

    @classmethod
    def of(cls, settings: Settings, keys: InstallationKeys) -> "ServiceKeyFile":
        path = Path(settings.service_keys) if settings.service_keys else settings.data / SERVICE_KEYS_FILE
        return cls(path=path, pepper=keys.derive("service keys"))

    def read(self) -> Sequence[ServiceKey]:
        """Return the keys of the file; empty if there is no file. Raises BadSetting."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_StoredKeys).keys
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadSetting(f"The service keys in {self.path} can't be read: {error}.") from error

    @contextmanager
    def edit(self) -> Iterator[list[ServiceKey]]:
        """Lock the file, yield the list of its keys for editing, and save the list afterwards.

        Concurrent changes wait for each other. Raises BadSetting or Unwritable.
        """
        with self._locked():
            keys = list(self.read())
            yield keys
            self._write(keys)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self.path.with_name(f".{self.path.name}.lock").open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise Unwritable(f"{self.path}: {error.strerror}.") from error

    def _write(self, keys: list[ServiceKey]) -> None:
        """Replace the file atomically: readers see the old or the new content, even after a crash."""
        temporary_file = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(temporary_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(_StoredKeys(keys))) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary_file.replace(self.path)


@dataclass(slots=True)
class ServiceKeyCache:
    """Finds the caller of a service key, and reloads the key file after a change."""

    key_file: ServiceKeyFile
    now: Callable[[], float] = monotonic
    callers: Mapping[str, Caller] = field(init=False)
    """Callers by the hash of their key."""
    fingerprint: FileFingerprint | None = field(init=False)
    checked_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Load the keys. Raises BadSetting for an unreadable file: otherwise the API would accept the main key only."""
        self.fingerprint, self.checked_at = self._fingerprint(), self.now()
        self.callers = callers_by_hash(self.key_file.read())

    def caller(self, text: str) -> Caller | None:
        """Return the caller with this key, or None.

        Runs on the event loop: a check of the file takes a few microseconds, a reload a few hundred.
        """
        if not text.startswith(KEY_PREFIX):
            return None
        if self.now() - self.checked_at >= CHECK_SECONDS:
            self.checked_at = self.now()
            self._refresh()
        return self.callers.get(key_hash(text, self.key_file.pepper))

    def _refresh(self) -> None:
        # Take the fingerprint before reading. If the file changes in between, the next check notices it.
        if (fingerprint := self._fingerprint()) == self.fingerprint:
            return
        self.fingerprint = fingerprint
        try:
            self.callers = callers_by_hash(self.key_file.read())
        except BadSetting as error:
            # Fails open: the keys read last stay valid, because a mistake in the file must not lock out all services.
            LOGGER.error("the service keys stay unchanged: %s", error.detail)

    def _fingerprint(self) -> FileFingerprint | None:
        try:
            status = self.key_file.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns
