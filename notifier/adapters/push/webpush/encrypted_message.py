"""Web Push message encryption with key pairs: RFC 8291 over aes128gcm (RFC 8188).

HKDF is written out as HMACs. No output is longer than a hash, so each output is one HMAC of a label and the byte 1.
The HMACs of a message take some 15 µs, the ECDH exchange 47 µs.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2s
from hmac import digest
from struct import pack
from threading import Event, Thread
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.adapters.push.request_rounds_and_replies import shortened_to_fit
from notifier.domain.push.alert import Alert

# Ephemeral key pairs: RFC 8291 (3.1) requires a new pair for each message.
#
# Generating a pair and encoding its public key takes 27 µs of the 122 µs that a message takes. A pair does not depend
# on the message, so `MessageKeyPairs` generates pairs in advance.


@dataclass(frozen=True, slots=True)
class MessageKeyPair:
    private_key: EllipticCurvePrivateKey
    public_key: bytes
    """Uncompressed encoding, 65 bytes."""

    @classmethod
    def of(cls, private: EllipticCurvePrivateKey) -> Self:
        return cls(private, private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    @classmethod
    def new(cls) -> Self:
        return cls.of(generate_private_key(SECP256R1()))


PREGENERATED_PAIRS = 2_000
"""Number of pairs generated in advance: enough for one send batch. They take 55 ms of a core, and some 2 MB."""
IDLE_SECONDS = 0.05
"""Seconds without a message after which pairs are generated. Generating them earlier would slow down a send."""


class MessageKeyPairs:
    """Source of key pairs for one sending thread, with a background thread that generates them."""

    def __init__(
        self,
        new_pair: Callable[[], MessageKeyPair] = MessageKeyPair.new,
        *,
        pregenerated_count: int = PREGENERATED_PAIRS,
        idle_seconds: float = IDLE_SECONDS,
    ):
        self._new_pair, self._pregenerated_count, self._idle_seconds = new_pair, pregenerated_count, idle_seconds
        self._pairs: deque[MessageKeyPair] = deque()
        self._was_used, self._closing = Event(), Event()
        self._thread = Thread(target=self._run, name="pairs", daemon=True)
        self._thread.start()

    def __call__(self) -> MessageKeyPair:
        """Return an unused pair. If none is left, generate a pair here instead of waiting."""
        try:
            pair = self._pairs.popleft()
        except IndexError:
            pair = self._new_pair()
        self._was_used.set()
        return pair

    def close(self) -> None:
        self._closing.set()
        self._was_used.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._fill()
            self._was_used.wait()
            while self._was_used.is_set():
                self._was_used.clear()
                if self._closing.wait(self._idle_seconds):
                    return

    def _fill(self) -> None:
        while len(self._pairs) < self._pregenerated_count and not self._was_used.is_set():
            self._pairs.append(self._new_pair())


# Body of a message

RECORD_SIZE = 4096
"""Record size that every receiver must accept (RFC 8291, 4). A message is a single, shorter record."""
OVERHEAD_BYTES = 86 + 1 + 16
"""Bytes of a body in addition to its content: header with the sender's public key, delimiter, tag."""
KEY_BYTES, SECRET_BYTES, SALT_BYTES = 65, 16, 16
"""Sizes in bytes of the uncompressed public key, the authentication secret, and the salt of each message."""
_LAST_RECORD_DELIMITER = b"\x02"
"""Delimiter after the content of the last record. Any number of zero bytes may follow as padding."""


def encrypt(
    content: bytes, *, padded_length: int, key: bytes, secret: bytes, pair: MessageKeyPair, salt: bytes
) -> bytes:
    """Return the encrypted body of a message. Raises ValueError for invalid keys of the browser.

    `pair` must be new for each message. Parsed browser keys are not cached: parsing takes 6 µs, and with millions of
    browsers a cached key would be evicted before its next use.
    """
    if len(key) != KEY_BYTES or len(secret) != SECRET_BYTES:
        raise ValueError("the subscription's keys have a wrong length")
    shared = pair.private_key.exchange(ECDH(), EllipticCurvePublicKey.from_encoded_point(SECP256R1(), key))
    input_key = _expand(_hmac(secret, shared), b"WebPush: info\0" + key + pair.public_key)
    record_key = _hmac(salt, input_key)
    encryption_key = _expand(record_key, b"Content-Encoding: aes128gcm\0")[:16]
    nonce = _expand(record_key, b"Content-Encoding: nonce\0")[:12]
    record = AESGCM(encryption_key).encrypt(
        nonce, (content + _LAST_RECORD_DELIMITER).ljust(padded_length + 1, b"\0"), None
    )
    return salt + pack(">IB", RECORD_SIZE, len(pair.public_key)) + pair.public_key + record


def _expand(key: bytes, label: bytes) -> bytes:
    return _hmac(key, label + b"\x01")


def _hmac(key: bytes, message: bytes) -> bytes:
    return digest(key, message, "sha256")


# Content of an alert for the browser's service worker, padded so that its length reveals little.

PADDING_STEP = 512
"""Contents are padded to a multiple of this many bytes, so that their lengths hardly differ between names."""
MAX_CONTENT_BYTES = 5 * PADDING_STEP
"""Maximum padded content in bytes.

Firefox on Android accepts bodies of at most 2,744 bytes, and a body is 103 bytes (OVERHEAD_BYTES) longer than its
content. The largest multiple of the step that fits is 2,560. Two names of 256 characters, the maximum length, fit in
any alphabet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPushContent:
    json: bytes
    padded_length: int


def build_content(alert: Alert, language: str) -> WebPushContent:
    """Return the JSON for `event.data.json()`. The tag makes a resent alert replace its first copy."""
    json = shortened_to_fit(
        alert.text_in(language),
        lambda title: {"title": title, "tag": alert.collapse_id, "lang": language},
        max_bytes=MAX_CONTENT_BYTES,
    )
    return WebPushContent(json=json, padded_length=-(-len(json) // PADDING_STEP) * PADDING_STEP)


def build_topic(alert: Alert) -> str:
    """Return the topic. A new alert replaces an alert with the same topic that the push service still stores.

    A topic has at most 32 characters. Apple requires base64url of a valid length, Mozilla letters and digits. The hash
    is valid for both, and does not reveal the tag to the push service.
    """
    return blake2s(alert.collapse_id.encode(), digest_size=16, person=b"topic").hexdigest()
