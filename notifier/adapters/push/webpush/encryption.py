"""Encryption for one browser: RFC 8291 over RFC 8188's aes128gcm, as one record.

HKDF is written out as the HMACs that it is: each of its outputs is no longer than a hash, so each is one HMAC with a 1
behind its label. All of them take some 15 µs, and the exchange on the curve 47, which has no way around it.
"""

from dataclasses import dataclass
from hashlib import blake2s
from hmac import digest
from struct import pack

from cryptography.hazmat.primitives.asymmetric.ec import ECDH, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from notifier.adapters.push.requests import fitting
from notifier.adapters.push.webpush.vapid import Pair
from notifier.domain.push.alert import Alert

RECORD = 4096
"""The size that every receiver has to take (RFC 8291, 4); ours are shorter, and the only one."""
OVERHEAD = 86 + 1 + 16
"""Header with our public key, delimiter, tag: bytes that a body has more than its content."""
KEY, SECRET, SALT = 65, 16, 16
"""Bytes: a point without compression, what goes with it, and what makes each message another."""
_LAST = b"\x02"
"""Ends the content of the last record; zeros follow, as many as one likes."""


def encrypted(content: bytes, *, length: int, key: bytes, secret: bytes, pair: Pair, salt: bytes) -> bytes:
    """The body of a message, whose content is filled up to `length`. Raises ValueError for keys that are none.

    `pair` is for this message alone. Browsers' keys aren't kept parsed: of millions none comes again before it would
    be forgotten, and parsing one takes 6 µs.
    """
    if len(key) != KEY or len(secret) != SECRET:
        raise ValueError("its keys don't have the length of keys")
    shared = pair.private.exchange(ECDH(), EllipticCurvePublicKey.from_encoded_point(SECP256R1(), key))
    pseudorandom = _expand(_hmac(secret, shared), b"WebPush: info\0" + key + pair.public)
    derived = _hmac(salt, pseudorandom)
    encryption = _expand(derived, b"Content-Encoding: aes128gcm\0")[:16]
    nonce = _expand(derived, b"Content-Encoding: nonce\0")[:12]
    record = AESGCM(encryption).encrypt(nonce, (content + _LAST).ljust(length + 1, b"\0"), None)
    return salt + pack(">IB", RECORD, len(pair.public)) + pair.public + record


def _expand(key: bytes, label: bytes) -> bytes:
    return _hmac(key, label + b"\x01")


def _hmac(key: bytes, message: bytes) -> bytes:
    return digest(key, message, "sha256")


# The content of an alert for a browser: what its service worker shows, and a length that tells nothing of it.

STEP = 512
"""Bytes. Contents are filled up to a multiple: a push service, and whoever watches the line, sees that an alert is an
ordinary one, and not whose name is in it."""
MOST = 5 * STEP
"""Of all steps the last with which a body, 103 bytes longer, has at most 2,744: what Firefox on Android takes. Push
services have to take 4,096 (RFC 8030, 7.2). Two names of 256 characters fit in any alphabet, and none is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    text: bytes
    length: int
    """To be filled up to."""


def content(alert: Alert, language: str) -> Content:
    """JSON for `event.data.json()`: a title, and the tag by which an alert that comes again takes its own place."""
    text = fitting(
        alert.text_in(language), lambda shown: {"title": shown, "tag": alert.collapse_id, "lang": language}, most=MOST
    )
    return Content(text=text, length=-(-len(text) // STEP) * STEP)


def topic(alert: Alert) -> str:
    """What a push service replaces an alert by that it still holds: 32 characters, no more are allowed. Hexadecimal is
    base64url, whose length Apple checks, and has nothing but letters and digits, which is what Mozilla asks for.
    Hashed, so that a push service can't tell from it what a browser's tag was."""
    return blake2s(alert.collapse_id.encode(), digest_size=16, person=b"topic").hexdigest()
