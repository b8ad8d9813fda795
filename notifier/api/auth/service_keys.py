"""Service keys: random, named, good for some scopes; what is kept of one tells nobody what it is."""

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Annotated

import msgspec

from notifier.api.auth.scopes import Caller, Scope
from notifier.config import SHORTEST_SECRET, Settings
from notifier.domain.errors import BadSetting, Unwritable

PREFIX = "nsk_"
"""By it a scanner of repositories and logs knows what was left lying about, and no person's token is hashed in vain."""
KEY_BYTES = 32
NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
HASH_BYTES = 32
SHOWN = 8
"""Characters of a hash; they are the key's id, and of a thousand keys two share theirs once in ten thousand books."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKey:
    name: Annotated[str, msgspec.Meta(pattern=NAME)]
    """Of the service; while it changes its key it has two of one name."""
    scopes: tuple[Scope, ...]
    hash: Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{2 * HASH_BYTES}}}$")]
    made_at: datetime

    @property
    def id(self) -> str:
        return self.hash[:SHOWN]

    @property
    def caller(self) -> Caller:
        return Caller(key=self.id, name=self.name, scopes=frozenset(self.scopes))


def made(name: str, scopes: Collection[Scope], pepper: bytes, now: datetime) -> tuple[str, ServiceKey]:
    """The key, which is never seen again, and what is kept of it."""
    text = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    return text, ServiceKey(name=name, scopes=tuple(sorted(scopes)), hash=hashed(text, pepper), made_at=now)


def hashed(text: str, pepper: bytes) -> str:
    """Fast, because every request needs it, and slowness would protect nothing: a password is guessed from a list, 256
    random bits from none. Keyed, so that nobody who can write to the book, and lacks the secret, can make a key of his
    own. Looked up as it stands: nobody can steer a keyed hash, so how long a comparison takes tells nothing."""
    return blake2b(text.encode(errors="replace"), key=pepper, digest_size=HASH_BYTES).hexdigest()


def callers(keys: Sequence[ServiceKey]) -> Mapping[str, Caller]:
    """By hash."""
    return {key.hash: key.caller for key in keys}


def is_name(text: str) -> bool:
    return re.fullmatch(NAME, text) is not None


# The secret and the service key: made once for a data folder, and never shown by a log or an error.

SECRETS_FILE = "secret.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    secret: str = field(repr=False)
    """Signs people's tokens, and encrypts ids, cursors and seen tokens."""
    service_key: str = field(repr=False)
    """What the tweet service says to be let in."""

    def __post_init__(self) -> None:
        if len(self.secret.encode()) < SHORTEST_SECRET or not self.service_key:
            raise BadSetting(f"The secret has fewer than {SHORTEST_SECRET} bytes, or there is no service key.")

    def derived(self, purpose: str) -> bytes:
        """A key of its own for each purpose: what is signed for one can't be used for another."""
        return _derived(self.secret, purpose)


def keys_of(settings: Settings) -> Keys:
    """Those of the data folder, or those that follow from the secret in the settings."""
    if settings.secret:
        return Keys(secret=settings.secret, service_key=_derived(settings.secret, "service").hex())
    return load_or_create(settings.data)


def load_or_create(folder: Path) -> Keys:
    """The same keys for everybody who asks, also for several processes that ask for the first time at once."""
    path = folder / SECRETS_FILE
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create(path)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Keys)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Not chained: the vendor's message could quote the file.
        raise BadSetting(f"{path} can't be read; put it back from a backup.") from None


def _create(path: Path) -> None:
    keys = Keys(secret=secrets.token_urlsafe(48), service_key=secrets.token_urlsafe(32))
    draft = path.with_name(f".{SECRETS_FILE}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(keys)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        # A link never replaces what another process put there first, and never shows half a file.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _derived(secret: str, purpose: str) -> bytes:
    return blake2b(purpose.encode(), key=blake2b(secret.encode()).digest(), digest_size=32).digest()


# The book of service keys: one file, changed by `notifier key` and read again by every process that runs.

LOGGER = logging.getLogger("notifier.api")

FILE = "service_keys.json"
LOOKS_EVERY = 1.0
"""Seconds: so long a key that was removed may still count, and one that was added not yet."""

Signature = tuple[int, int, int]
"""Of a file that was replaced or edited none of another: inode, size and nanosecond."""


class _Book(msgspec.Struct):
    keys: list[ServiceKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBook:
    path: Path
    pepper: bytes = field(repr=False)

    @classmethod
    def of(cls, settings: Settings, keys: Keys) -> "KeyBook":
        path = Path(settings.service_keys) if settings.service_keys else settings.data / FILE
        return cls(path=path, pepper=keys.derived("service keys"))

    def read(self) -> Sequence[ServiceKey]:
        """None where there is no book. Raises BadSetting."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Book).keys
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadSetting(f"The service keys in {self.path} can't be read: {error}.") from error

    @contextmanager
    def changed(self) -> Iterator[list[ServiceKey]]:
        """What the caller makes of the list is in the book afterwards; of several who change it each waits for the
        other. Raises BadSetting or Unwritable."""
        with self._alone():
            keys = list(self.read())
            yield keys
            self._write(keys)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            with self.path.with_name(f".{self.path.name}.lock").open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise Unwritable(f"{self.path}: {error.strerror}.") from error

    def _write(self, keys: list[ServiceKey]) -> None:
        """Whoever reads finds the old book or the new one, never half, also after a crash."""
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(_Book(keys))) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


@dataclass(slots=True)
class Doorman:
    """Knows the callers of a book as it is now, or was a second ago."""

    book: KeyBook
    now: Callable[[], float] = monotonic
    known: Mapping[str, Caller] = field(init=False)
    seen: Signature | None = field(init=False)
    looked_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Raises BadSetting: a process that starts with a book that can't be read would refuse everybody in it."""
        self.seen, self.looked_at = self._signature(), self.now()
        self.known = callers(self.book.read())

    def caller(self, text: str) -> Caller | None:
        """On the loop: a look at a file's date is some microseconds, and its book a few hundred once it has changed."""
        if not text.startswith(PREFIX):
            return None
        if self.now() - self.looked_at >= LOOKS_EVERY:
            self.looked_at = self.now()
            self._look()
        return self.known.get(hashed(text, self.book.pepper))

    def _look(self) -> None:
        # Before it is read: a change in between is then seen a second later, and not never.
        if (signature := self._signature()) == self.seen:
            return
        self.seen = signature
        try:
            self.known = callers(self.book.read())
        except BadSetting as error:
            # Fails open for those who were known: a slip of an editor is no reason to lock the tweet service out.
            LOGGER.error("The service keys stay as they were. %s", error.detail)

    def _signature(self) -> Signature | None:
        try:
            found = self.book.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
