"""Encrypted ids, cursors and seen tokens, each valid for a single viewer."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from notifier.api.auth.service_and_installation_keys import InstallationKeys
from notifier.codec import pack, unpack
from notifier.domain.errors import BadCursor, BadMark, BadSeenToken, Poison
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.domain.users.visibility import SeenToken
from notifier.flow.live.streams_and_events import StreamPosition
from notifier.ports.inbox import InboxPosition

VERSION = b"\x01"
"""A new version invalidates all values issued so far."""
SEQ_BYTES = 8
"""Bytes of every burst number. With a fixed size, the length of an id does not reveal the number."""

T = TypeVar("T")


class _EncodedBurst(msgspec.Struct, array_like=True, frozen=True):
    subject: str
    seq: bytes

    @classmethod
    def of(cls, burst: BurstKey) -> Self:
        return cls(str(burst.subject), burst.seq.to_bytes(SEQ_BYTES, "big"))

    @property
    def burst(self) -> BurstKey:
        return BurstKey(Subject.parse(self.subject), int.from_bytes(self.seq, "big"))


class _Position(msgspec.Struct, array_like=True):
    opened_at: datetime
    burst: _EncodedBurst


class _StreamPosition(msgspec.Struct, array_like=True):
    as_of: datetime
    visibility_fingerprint: bytes
    marks_fingerprint: bytes


class _Seen(msgspec.Struct, array_like=True):
    as_of: datetime
    newer: list[_EncodedBurst]


@dataclass(frozen=True, slots=True)
class OpaqueIds:
    """Deterministic authenticated encryption, AES-SIV (RFC 5297), bound to version, purpose and viewer.

    - Encrypted: gaps between readable burst numbers would reveal how many bursts are hidden from the viewer.
    - Deterministic: a viewer's id of a burst is the same in all responses, although it is not stored.
    - Bound to the viewer: two users learn nothing by comparing ids, and a value issued to one is invalid for others.
    """

    cipher: AESSIV = field(repr=False)

    @classmethod
    def of(cls, keys: InstallationKeys) -> Self:
        return cls(AESSIV(keys.derive("opaque")))

    def id(self, viewer: UserId, burst: BurstKey) -> str:
        return self._encrypt("burst", viewer, _EncodedBurst.of(burst))

    def burst(self, viewer: UserId, id: str) -> BurstKey:
        """Raises BadMark."""
        key = self._decrypt("burst", viewer, id, _EncodedBurst)
        if key is None:
            raise BadMark("Use the burst id from the user's own inbox.")
        return key.burst

    def cursor(self, viewer: UserId, position: InboxPosition) -> str:
        return self._encrypt("cursor", viewer, _Position(position.opened_at, _EncodedBurst.of(position.burst)))

    def inbox_position(self, viewer: UserId, cursor: str) -> InboxPosition:
        """Raises BadCursor."""
        position = self._decrypt("cursor", viewer, cursor, _Position)
        if position is None:
            raise BadCursor("Begin again without a cursor.")
        return InboxPosition(position.opened_at, position.burst.burst)

    def gap_cursor(self, viewer: UserId, position: InboxPosition) -> str:
        """Return a cursor that is valid only for the subject of the position."""
        return self._encrypt("gap", viewer, _Position(position.opened_at, _EncodedBurst.of(position.burst)))

    def gap_position(self, viewer: UserId, subject: Subject, cursor: str) -> InboxPosition:
        """Raises BadCursor."""
        position = self._decrypt("gap", viewer, cursor, _Position)
        if position is None or position.burst.subject != str(subject):
            raise BadCursor("Begin again without a cursor.")
        return InboxPosition(position.opened_at, position.burst.burst)

    def encode_seen(self, seen: SeenToken) -> str:
        return self._encrypt(
            "seen", seen.viewer, _Seen(seen.as_of, [_EncodedBurst.of(burst) for burst in sorted(seen.newer)])
        )

    def seen_token(self, viewer: UserId, token: str) -> SeenToken:
        """Raises BadSeenToken."""
        decoded = self._decrypt("seen", viewer, token, _Seen)
        if decoded is None:
            raise BadSeenToken("Load the inbox again to get a new token.")
        return SeenToken(viewer=viewer, as_of=decoded.as_of, newer=frozenset(key.burst for key in decoded.newer))

    def event_id(self, viewer: UserId, position: StreamPosition) -> str:
        """Return the id of an event of the viewer's stream, or of a page from which a stream can resume."""
        packed = _StreamPosition(position.as_of, position.visibility_fingerprint, position.marks_fingerprint)
        return self._encrypt("moment", viewer, packed)

    def stream_position(self, viewer: UserId, event_id: str) -> StreamPosition | None:
        """Return None if the id is invalid."""
        event = self._decrypt("moment", viewer, event_id, _StreamPosition)
        if event is None:
            return None
        return StreamPosition(
            as_of=event.as_of,
            visibility_fingerprint=event.visibility_fingerprint,
            marks_fingerprint=event.marks_fingerprint,
        )

    def _encrypt(self, purpose: str, viewer: UserId, value: object) -> str:
        return _to_text(self.cipher.encrypt(pack(value), _associated_data(purpose, viewer)))

    def _decrypt(self, purpose: str, viewer: UserId, text: str, value_type: type[T]) -> T | None:
        try:
            raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            if _to_text(raw) != text:  # b64decode ignores foreign characters; accept only the text that was issued
                return None
            return unpack(value_type, self.cipher.decrypt(raw, _associated_data(purpose, viewer)))
        except (ValueError, InvalidTag, Poison):
            return None


def _associated_data(purpose: str, viewer: UserId) -> list[bytes]:
    """Return the data without which a value can't be decrypted."""
    return [VERSION, purpose.encode(), viewer.encode()]


def _to_text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
