"""Cursors and seen tokens: opaque to people, signed, and good for the one person they were made for."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest
from typing import TypeVar

from notifier.api.keys import Keys
from notifier.codec import pack, unpack
from notifier.domain.errors import BadCursor, BadSeen, Poison
from notifier.domain.marks import SeenToken
from notifier.domain.subject import UserId
from notifier.ports.timeline import Place

VERSION = b"\x01"
SIGNATURE = 16
"""Bytes: nobody tries 2^128 of them."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opaque:
    keys: Keys = field(repr=False)

    def cursor(self, viewer: UserId, place: Place) -> str:
        return self._seal("cursor", viewer, pack(place))

    def place(self, viewer: UserId, cursor: str) -> Place:
        """Raises BadCursor."""
        found = self._open("cursor", viewer, cursor, Place)
        if found is None:
            raise BadCursor("Begin again without one.")
        return found

    def token(self, seen: SeenToken) -> str:
        return self._seal("seen", seen.viewer, pack(seen))

    def seen(self, viewer: UserId, token: str) -> SeenToken:
        """Raises BadSeen."""
        found = self._open("seen", viewer, token, SeenToken)
        if found is None or found.viewer != viewer:
            raise BadSeen("Load the inbox again for a new one.")
        return found

    def _seal(self, purpose: str, viewer: UserId, body: bytes) -> str:
        body = VERSION + body
        return urlsafe_b64encode(self._sign(purpose, viewer, body) + body).rstrip(b"=").decode()

    def _open(self, purpose: str, viewer: UserId, text: str, kind: type[T]) -> T | None:
        try:
            raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except ValueError:
            return None
        signature, body = raw[:SIGNATURE], raw[SIGNATURE:]
        if not compare_digest(signature, self._sign(purpose, viewer, body)) or body[:1] != VERSION:
            return None
        try:
            return unpack(kind, body[1:])
        except Poison:  # signed by a version that wrote other fields
            return None

    def _sign(self, purpose: str, viewer: UserId, body: bytes) -> bytes:
        key = self.keys.derived(f"{purpose}:{viewer}")
        return blake2b(body, key=key, digest_size=SIGNATURE).digest()
