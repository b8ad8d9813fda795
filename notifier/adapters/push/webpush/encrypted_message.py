"""Web Push message encryption: RFC 8291 over aes128gcm (RFC 8188), one record.

HKDF is written out as HMACs. No output is longer than a hash, so each output is one HMAC of a label and the byte 1.
The HMACs of a message take some 15 µs, the ECDH exchange 47 µs.
"""

from dataclasses import dataclass
from hashlib import blake2s
from hmac import digest
from struct import pack

from cryptography.hazmat.primitives.asymmetric.ec import ECDH, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from notifier.adapters.push.requests_and_responses import shortened_to_fit
from notifier.adapters.push.webpush.vapid import MessageKeyPair
from notifier.domain.push.alert import Alert

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
