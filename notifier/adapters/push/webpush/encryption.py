"""Encryption for one browser: RFC 8291 over RFC 8188's aes128gcm, as one record.

HKDF is written out as the HMACs that it is: each of its outputs is no longer than a hash, so each is one HMAC with a 1
behind its label. All of them take some 15 µs, and the exchange on the curve 47, which has no way around it.
"""

from hmac import digest
from struct import pack

from cryptography.hazmat.primitives.asymmetric.ec import ECDH, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from notifier.adapters.push.webpush.key_pairs import Pair

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
