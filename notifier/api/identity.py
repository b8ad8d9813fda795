"""Who is asking: people bring a short-lived token, the tweet service its key; both are checked in constant time."""

import unicodedata
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Annotated

import jwt
import msgspec
from jwt.types import Options

from notifier.api.keys import Keys, keys_of, load_or_create
from notifier.domain.errors import BadToken, Forbidden
from notifier.domain.event import LONGEST_ID
from notifier.domain.subject import UserId

__all__ = ["Keys", "issue", "keys_of", "load_or_create", "person", "require_service"]

ALGORITHM = "HS256"
AUDIENCE = "notifier"
LIFETIME = timedelta(minutes=15)
LEEWAY = timedelta(seconds=30)
"""Clocks of the one who issues and of this service may differ by so much."""


_Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**40)]

UNJUDGED: Options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_aud": False}


class _Claims(msgspec.Struct, omit_defaults=True):
    sub: str
    aud: str
    exp: _Seconds
    iat: _Seconds
    nbf: _Seconds = 0


def issue(keys: Keys, user: UserId, now: datetime, lifetime: timedelta = LIFETIME) -> str:
    """A person's token."""
    claims = _Claims(sub=user, aud=AUDIENCE, exp=int((now + lifetime).timestamp()), iat=int(now.timestamp()))
    return jwt.encode(msgspec.to_builtins(claims), keys.secret, algorithm=ALGORITHM)


def person(keys: Keys, authorization: str | None, now: datetime) -> UserId:
    """Raises BadToken, and Forbidden for the service key: it opens nobody's inbox."""
    token = _bearer(authorization)
    if _same(token, keys.service_key):
        raise Forbidden("The service key is for events; an inbox takes a person's token.")
    return _user(keys, token, now)


def ends_at(keys: Keys, authorization: str | None) -> float:
    """The moment, in seconds since 1970, from which on `person` refuses this token. Raises BadToken."""
    return _claims(keys, _bearer(authorization)).exp + LEEWAY.total_seconds()


def require_service(keys: Keys, authorization: str | None, now: datetime) -> None:
    """Raises BadToken, and Forbidden for a person's token."""
    token = _bearer(authorization)
    if _same(token, keys.service_key):
        return
    _user(keys, token, now)
    raise Forbidden("A person's token is for that person's inbox; events take the service key.")


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise BadToken("There is no bearer token.")
    return token.strip()


def _same(given: str, wanted: str) -> bool:
    return compare_digest(given.encode(errors="replace"), wanted.encode())


def _user(keys: Keys, token: str, now: datetime) -> UserId:
    claims = _claims(keys, token)
    seconds, leeway = now.timestamp(), LEEWAY.total_seconds()
    if claims.aud != AUDIENCE:
        raise BadToken("The token is for another audience.")
    if claims.exp <= seconds - leeway:
        raise BadToken("The token has expired.")
    if max(claims.iat, claims.nbf) > seconds + leeway:
        raise BadToken("The token is from the future.")
    if not 0 < len(claims.sub) <= LONGEST_ID or any(unicodedata.category(c) in ("Cc", "Cs") for c in claims.sub):
        raise BadToken("The token names nobody.")
    return UserId(claims.sub)


def _claims(keys: Keys, token: str) -> _Claims:
    """The signature first; the claims are judged by our own clock, which tests and simulations hold."""
    try:
        claims = jwt.decode(token, keys.secret, algorithms=[ALGORITHM], options=UNJUDGED)
        return msgspec.convert(claims, _Claims)
    # Not chained and not quoted: a token is a secret, also a bad one. Deeply nested JSON is bad like any other.
    except (jwt.PyJWTError, msgspec.MsgspecError, ValueError, RecursionError):
        raise BadToken("The token is not one of ours.") from None
