"""A browser's subscription as an app hands it on: its address and its keys, taken only if they can be used."""

import re
from base64 import b64decode

from notifier.domain.device import WebSubscription
from notifier.domain.endpoint import PushServices

KEY, SECRET = 65, 16
"""Bytes: a point of P-256 without compression, and RFC 8291's authentication secret."""
# The curve of FIPS 186-4, D.1.2.3: y² = x³ - 3x + b, modulo p.
_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B


def subscription(endpoint: str, p256dh: str, auth: str, services: PushServices) -> WebSubscription:
    """Raises ValueError with what is wrong, which repeats nothing of what was given: these are secrets."""
    try:
        services.endpoint(endpoint)
    except ValueError as error:
        raise ValueError(f"endpoint: {error}") from None
    key, secret = _bytes("p256dh", p256dh, KEY), _bytes("auth", auth, SECRET)
    if not on_the_curve(key):
        raise ValueError("p256dh: it is no point of the curve P-256")
    return WebSubscription(endpoint=endpoint, key=key, secret=secret)


def on_the_curve(key: bytes) -> bool:
    """Whether it is a public key at all. A point beside the curve would tell whoever sent it about our own key, or
    fail in the middle of a send."""
    x, y = int.from_bytes(key[1:33], "big"), int.from_bytes(key[33:], "big")
    return len(key) == KEY and key[0] == 4 and max(x, y) < _P and (y * y - (x * x * x - 3 * x + _B)) % _P == 0


def _bytes(name: str, text: str, length: int) -> bytes:
    """Of base64 in either alphabet, with or without its padding: browsers write one, and some apps the other."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    if not re.fullmatch(r"[A-Za-z0-9+/]*", plain, re.ASCII) or len(plain) % 4 == 1:
        raise ValueError(f"{name}: it is no base64url")
    found = b64decode(plain + "=" * (-len(plain) % 4))
    if len(found) != length:
        raise ValueError(f"{name}: it has {len(found)} bytes, not {length}")
    return found
