"""A browser with one subscription: its keys, and what its service worker makes of a message."""

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

# What a browser does with a message: aes128gcm (RFC 8188) with a browser's keys (RFC 8291).
#
# Written by those two RFCs and not by our sender, which it is there to find out: nothing here is the sender's.

TAG = 16
LEAST_RECORD = 18
"""A delimiter, a tag, and something between."""


def decrypted(message: bytes, private: ec.EllipticCurvePrivateKey, secret: bytes) -> bytes:
    """Without its padding. Raises ValueError for what a browser throws away."""
    salt, size, sender, record = _parts(message)
    if size < LEAST_RECORD or len(record) > size:
        raise ValueError("a message of Web Push is one record")
    public = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
    shared = private.exchange(ec.ECDH(), theirs)
    material = _hkdf(secret, shared, b"WebPush: info\x00" + public + sender, 32)
    key = _hkdf(salt, material, b"Content-Encoding: aes128gcm\x00", 16)
    nonce = _hkdf(salt, material, b"Content-Encoding: nonce\x00", 12)
    plain = _opened(record, key, nonce).rstrip(b"\x00")
    if not plain.endswith(b"\x02"):
        raise ValueError("it doesn't end as a last record does")
    return plain[:-1]


def _parts(message: bytes) -> tuple[bytes, int, bytes, bytes]:
    if len(message) < 21 or len(message) < 21 + message[20] + TAG:
        raise ValueError("it is shorter than its header")
    begins = 21 + message[20]
    return message[:16], int.from_bytes(message[16:20], "big"), message[21:begins], message[begins:]


def _hkdf(salt: bytes, material: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(material)


def _opened(record: bytes, key: bytes, nonce: bytes) -> bytes:
    opening = Cipher(AES(key), GCM(nonce, record[-TAG:])).decryptor()
    try:
        return opening.update(record[:-TAG]) + opening.finalize()
    except InvalidTag:
        raise ValueError("it was not encrypted for this browser") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNotification:
    title: str
    tag: str
    """One more with the same takes the place of the last."""
    language: str


@dataclass(slots=True, kw_only=True)
class Browser:
    endpoint: str
    private: EllipticCurvePrivateKey = field(repr=False)
    secret: bytes = field(repr=False)
    key: str
    """The application server's, which it subscribed with."""
    online: bool = True
    gone: bool = False
    """Its person has taken the permission away."""
    unreadable: int = 0

    @property
    def subscription(self) -> WebSubscription:
        """What an app registers."""
        public = self.private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return WebSubscription(endpoint=self.endpoint, key=public, secret=self.secret)

    def read(self, body: bytes) -> ShownNotification | None:
        """None for what can't be read: it is thrown away, and whoever sent it isn't told."""
        try:
            said = json.loads(decrypted(body, self.private, self.secret))
            return ShownNotification(title=said["title"], tag=said["tag"], language=said["lang"])
        except (ValueError, KeyError, TypeError):
            self.unreadable += 1
            return None
