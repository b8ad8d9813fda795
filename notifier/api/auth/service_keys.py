"""Service keys: random, named, good for some scopes; what is kept of one tells nobody what it is."""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Annotated

import msgspec

from notifier.api.auth.scopes import Caller, Scope

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
