"""The book of service keys: one file, changed by `notifier key` and read again by every process that runs."""

import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import msgspec

from notifier.api.auth.scopes import Caller
from notifier.api.auth.secrets import Keys
from notifier.api.auth.service_keys import PREFIX, ServiceKey, callers, hashed
from notifier.config import Settings
from notifier.domain.errors import BadSetting, Unwritable

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
