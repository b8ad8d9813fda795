"""The secret and the service key: made once for a data folder, and never shown by a log or an error."""

import os
import secrets
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import msgspec

from notifier.config import SHORTEST_SECRET, Settings
from notifier.domain.errors import BadSetting

FILE = "secret.json"


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
    path = folder / FILE
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
    draft = path.with_name(f".{FILE}.{secrets.token_hex(8)}")
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
