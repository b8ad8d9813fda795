"""Fake browser with one Web Push subscription: its keys, and decryption of messages."""

import json
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.domain.push.device import WebSubscription

# Decryption of aes128gcm (RFC 8188) with the keys of a browser (RFC 8291).
#
# Implemented from the RFCs without any code of the sender, so that it detects the sender's mistakes.

TAG_BYTES = 16
MIN_RECORD_BYTES = 18
"""Smallest record size that RFC 8188 allows: at least one byte, a delimiter and a tag."""


def decrypt(message: bytes, private: ec.EllipticCurvePrivateKey, secret: bytes) -> bytes:
    """Decrypt a message and remove its padding. Raises ValueError if a browser would discard the message."""
    salt, size, sender, record = _split_message(message)
    if size < MIN_RECORD_BYTES or len(record) > size:
        raise ValueError("a Web Push message must be one record")
    public = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    sender_key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
    shared = private.exchange(ec.ECDH(), sender_key)
    material = _hkdf(secret, shared, b"WebPush: info\x00" + public + sender, 32)
    key = _hkdf(salt, material, b"Content-Encoding: aes128gcm\x00", 16)
    nonce = _hkdf(salt, material, b"Content-Encoding: nonce\x00", 12)
    plain = _open_record(record, key, nonce).rstrip(b"\x00")
    if not plain.endswith(b"\x02"):
        raise ValueError("the delimiter of a last record is missing")
    return plain[:-1]


def _split_message(message: bytes) -> tuple[bytes, int, bytes, bytes]:
    if len(message) < 21 or len(message) < 21 + message[20] + TAG_BYTES:
        raise ValueError("the message is too short")
    record_start = 21 + message[20]
    return message[:16], int.from_bytes(message[16:20], "big"), message[21:record_start], message[record_start:]


def _hkdf(salt: bytes, material: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(material)


def _open_record(record: bytes, key: bytes, nonce: bytes) -> bytes:
    decryptor = Cipher(AES(key), GCM(nonce, record[-TAG_BYTES:])).decryptor()
    try:
        return decryptor.update(record[:-TAG_BYTES]) + decryptor.finalize()
    except InvalidTag:
        raise ValueError("the message was not encrypted for this browser") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNotification:
    title: str
    tag: str
    """A later notification with the same tag replaces this one."""
    language: str


@dataclass(slots=True, kw_only=True)
class Browser:
    """A browser with one subscription."""

    endpoint: str
    private: EllipticCurvePrivateKey = field(repr=False)
    secret: bytes = field(repr=False)
    application_server_key: str
    """Public key of the server that may send to this subscription."""
    is_online: bool = True
    is_revoked: bool = False
    """Whether the user has revoked the permission."""
    unreadable_count: int = 0
    """Number of messages that could not be decrypted or parsed."""

    @property
    def subscription(self) -> WebSubscription:
        public = self.private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return WebSubscription(endpoint=self.endpoint, key=public, secret=self.secret)

    def read(self, body: bytes) -> ShownNotification | None:
        """Decrypt a message. Return None if it is unreadable: a browser discards it without an error to the sender."""
        try:
            message = json.loads(decrypt(body, self.private, self.secret))
            return ShownNotification(title=message["title"], tag=message["tag"], language=message["lang"])
        except (ValueError, KeyError, TypeError):
            self.unreadable_count += 1
            return None
