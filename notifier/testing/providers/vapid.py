"""What a push service makes of an authorization: who sends, or what is wrong with it (RFC 8292)."""

import re
from base64 import urlsafe_b64decode
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

LONGEST = timedelta(hours=24)
_VAPID = re.compile(r"vapid t=([\w-]+\.[\w-]+\.[\w-]+), ?k=([\w-]+)", re.ASCII)
_SUBJECT = re.compile(r"mailto:[^@\s<>]+@[^@\s<>]+\.[a-z]+|https://[^\s<>@/]+\.[a-z]+(/\S*)?", re.ASCII)


class Fault(StrEnum):
    MISSING = "there is none"
    UNREADABLE = "it is no VAPID"
    FORGED = "it isn't signed by the key that it names"
    ELSEWHERE = "it is for another push service"
    OVER = "it is over, or lasts for more than a day"
    NOBODY = "nobody can be reached at its subject"
    OTHER_KEY = "it is of another key than the subscription"


def fault(authorization: str | None, origin: str | None, key: str, now: datetime) -> Fault | None:
    """`key` is the one that the browser subscribed with; without an origin the token may be for any push service."""
    if authorization is None:
        return Fault.MISSING
    if not (found := _VAPID.fullmatch(authorization)):
        return Fault.UNREADABLE
    claims = _claims(*found.groups())
    if isinstance(claims, Fault):
        return claims
    if found[2] != key:
        return Fault.OTHER_KEY
    return _fault_of(claims, origin, now)


def _claims(token: str, key: str) -> dict[str, Any] | Fault:
    try:
        point = urlsafe_b64decode(key + "=" * (-len(key) % 4))
        public = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
        # Time and audience are judged below: by this service's clock, and to the letter.
        return jwt.decode(token, key=public, algorithms=["ES256"], options={"verify_exp": False, "verify_aud": False})
    except jwt.InvalidSignatureError:
        return Fault.FORGED
    except (ValueError, jwt.PyJWTError):
        return Fault.UNREADABLE


def _fault_of(claims: dict[str, Any], origin: str | None, now: datetime) -> Fault | None:
    expires, subject = claims.get("exp"), claims.get("sub")
    if origin is not None and claims.get("aud") != origin:
        return Fault.ELSEWHERE
    if not isinstance(expires, int) or not now.timestamp() < expires <= (now + LONGEST).timestamp():
        return Fault.OVER
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        return Fault.NOBODY
    return None
