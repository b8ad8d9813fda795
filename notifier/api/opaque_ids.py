"""Ids, cursors and seen tokens: opaque to people, and good for the one person they were made for."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from notifier.api.auth.service_keys import Keys
from notifier.codec import pack, unpack
from notifier.domain.errors import BadCursor, BadMark, BadSeen, Poison
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.domain.users.visibility import SeenToken
from notifier.flow.live.stream import StreamPosition
from notifier.ports.inbox import InboxPosition

VERSION = b"\x01"
SEQ = 8
"""Bytes of every number, however small: the length of an id must not tell how large it is."""

T = TypeVar("T")


class _Key(msgspec.Struct, array_like=True, frozen=True):
    subject: str
    seq: bytes

    @classmethod
    def of(cls, burst: BurstKey) -> Self:
        return cls(str(burst.subject), burst.seq.to_bytes(SEQ, "big"))

    @property
    def burst(self) -> BurstKey:
        return BurstKey(Subject.parse(self.subject), int.from_bytes(self.seq, "big"))


class _Place(msgspec.Struct, array_like=True):
    opened_at: datetime
    burst: _Key


class _Moment(msgspec.Struct, array_like=True):
    as_of: datetime
    sight: bytes
    marks: bytes


class _Seen(msgspec.Struct, array_like=True):
    as_of: datetime
    newer: list[_Key]


@dataclass(frozen=True, slots=True)
class Opaque:
    """Deterministic authenticated encryption, AES-SIV (RFC 5297), bound to version, purpose and viewer.

    Encrypted, because a burst's number that can be read tells a stranger by its gaps how many mentions were not for
    her. Deterministic, because a viewer's id of a burst stays the same on every device and for the burst's life, and
    is stored nowhere. Bound to the viewer, so that two people who compare their ids learn nothing, and nobody can use
    what somebody else was given.
    """

    cipher: AESSIV = field(repr=False)

    @classmethod
    def of(cls, keys: Keys) -> Self:
        return cls(AESSIV(keys.derived("opaque")))

    def id(self, viewer: UserId, burst: BurstKey) -> str:
        return self._seal("burst", viewer, _Key.of(burst))

    def burst(self, viewer: UserId, id: str) -> BurstKey:
        """Raises BadMark: nothing but marks takes an id."""
        found = self._open("burst", viewer, id, _Key)
        if found is None:
            raise BadMark("A burst is named as it is in the person's own inbox.")
        return found.burst

    def cursor(self, viewer: UserId, place: InboxPosition) -> str:
        return self._seal("cursor", viewer, _Place(place.opened_at, _Key.of(place.burst)))

    def place(self, viewer: UserId, cursor: str) -> InboxPosition:
        """Raises BadCursor."""
        found = self._open("cursor", viewer, cursor, _Place)
        if found is None:
            raise BadCursor("Begin again without one.")
        return InboxPosition(found.opened_at, found.burst.burst)

    def gap_cursor(self, viewer: UserId, place: InboxPosition) -> str:
        """Return the cursor of a gap fetch's next page; it is good for the subject of the place only."""
        return self._seal("gap", viewer, _Place(place.opened_at, _Key.of(place.burst)))

    def gap_place(self, viewer: UserId, subject: Subject, cursor: str) -> InboxPosition:
        """Raises BadCursor."""
        found = self._open("gap", viewer, cursor, _Place)
        if found is None or found.burst.subject != str(subject):
            raise BadCursor("Begin again without one.")
        return InboxPosition(found.opened_at, found.burst.burst)

    def token(self, seen: SeenToken) -> str:
        return self._seal("seen", seen.viewer, _Seen(seen.as_of, [_Key.of(burst) for burst in sorted(seen.newer)]))

    def seen(self, viewer: UserId, token: str) -> SeenToken:
        """Raises BadSeen."""
        found = self._open("seen", viewer, token, _Seen)
        if found is None:
            raise BadSeen("Load the inbox again for a new one.")
        return SeenToken(viewer=viewer, as_of=found.as_of, newer=frozenset(key.burst for key in found.newer))

    def moment(self, viewer: UserId, told: StreamPosition) -> str:
        """The id of an event of the viewer's stream, or of a page that a stream goes on from."""
        return self._seal("moment", viewer, _Moment(told.as_of, told.sight, told.marks))

    def told(self, viewer: UserId, moment: str) -> StreamPosition | None:
        """None for what was never issued: then nothing is known of what the client has."""
        found = self._open("moment", viewer, moment, _Moment)
        return None if found is None else StreamPosition(as_of=found.as_of, sight=found.sight, marks=found.marks)

    def _seal(self, purpose: str, viewer: UserId, value: object) -> str:
        return _text(self.cipher.encrypt(pack(value), _bound_to(purpose, viewer)))

    def _open(self, purpose: str, viewer: UserId, text: str, kind: type[T]) -> T | None:
        try:
            raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            # The decoder passes over what it doesn't know: a value has one spelling.
            return unpack(kind, self.cipher.decrypt(raw, _bound_to(purpose, viewer))) if _text(raw) == text else None
        except (ValueError, InvalidTag, Poison):
            return None


def _bound_to(purpose: str, viewer: UserId) -> list[bytes]:
    return [VERSION, purpose.encode(), viewer.encode()]


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
