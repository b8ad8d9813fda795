"""VAPID tokens (RFC 8292), and the VAPID key's reputation."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.adapters.push.jwt import base64url, es256_token, parse_es256_key
from notifier.domain.errors import BadSetting
from notifier.domain.push.device import MAX_DEVICES

START_INTERVAL = timedelta(hours=6)
"""Tokens begin and end at multiples of this interval, so a process signs few tokens for each origin."""
TOKEN_LIFETIME = timedelta(hours=12)
"""Lifetime of a token, from the last multiple of START_INTERVAL.

A token in use is valid for another 6 to 12 hours. That is less than the allowed 24 hours, and enough even if this
machine's clock is off by hours.
"""
MAX_CACHED_TOKENS = 256
"""Maximum number of cached tokens, one per origin. There are four push services; Windows uses dozens of host names."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_MAIL_PATTERN = re.compile(r"mailto:[^\s<>@:?&#]+@([^\s<>@:?&#]+)", re.ASCII)
_HOST_PATTERN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_UNREACHABLE_DOMAINS = ("local", "localhost", "internal", "invalid", "test", "example")
"""Top-level domains that are not reachable from elsewhere (RFC 2606, 6762): Apple answers them with BadJwtToken."""


@dataclass(slots=True, kw_only=True)
class Vapid:
    """VAPID key and its tokens."""

    key: EllipticCurvePrivateKey = field(repr=False)
    subject: str
    public_key: str
    """Key with which browsers subscribe, as `applicationServerKey`."""
    _headers: dict[str, tuple[datetime, str]] = field(default_factory=dict, repr=False)
    """Cached header by origin, with the start time of its token."""

    @classmethod
    def read(cls, pem: bytes, *, subject: str) -> Self:
        """Parse the key and check the subject. Raises BadSetting."""
        key = parse_es256_key(pem, key_name="The key of Web Push", required_kind="an elliptic curve key on P-256")
        if not _is_reachable(subject):
            raise BadSetting(
                "The subject of Web Push must be mailto: with a mail address, or an https:// address "
                "on a public host. Push services use it to report problems with alerts."
            )
        public = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return cls(key=key, subject=subject, public_key=base64url(public))

    def authorization(self, origin: str, now: datetime) -> str:
        """Return the value of the authorization header for a push service."""
        start = now - (now - _EPOCH) % START_INTERVAL
        cached_start, header = self._headers.get(origin, (None, ""))
        if cached_start != start:
            header = f"vapid t={self._token(origin, start + TOKEN_LIFETIME)}, k={self.public_key}"
            if len(self._headers) >= MAX_CACHED_TOKENS:
                # Real push services have fewer origins, so clients have registered invented ones.
                self._headers.clear()
            self._headers[origin] = start, header
        return header

    def _token(self, origin: str, expires_at: datetime) -> str:
        claims = {"aud": origin, "exp": int(expires_at.timestamp()), "sub": self.subject}
        return es256_token(self.key, {"typ": "JWT", "alg": "ES256"}, claims)


def _is_reachable(subject: str) -> bool:
    if address_match := _MAIL_PATTERN.fullmatch(subject):
        return _is_host(address_match[1])
    try:
        parts = urlsplit(subject)
        is_plain = subject.isascii() and subject.isprintable() and not re.search(r"[\s\\<>\"]", subject)
        return is_plain and parts.scheme == "https" and "@" not in parts.netloc and _is_host(parts.hostname or "")
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    host = text.lower()
    return bool(_HOST_PATTERN.fullmatch(host)) and host.rpartition(".")[2] not in _UNREACHABLE_DOMAINS


# Reputation of the VAPID key: it decides whether a refusal is caused by the key or by one subscription.
#
# Any client can register a subscription that was created for another key, or a URL of a push service that is not a
# subscription. A configuration error stops all alerts to a push service, so `record_refusal` blames the key only on
# strong evidence. Either a service that has never accepted our key names the key in a refusal. Or more than MAX_DEVICES
# refusals come in a row, which is more than the browsers of one user can cause.

MAX_ACCEPTING_ORIGINS = 256
"""Maximum number of remembered origins. Origins that a client invented accept no key, so they are not remembered."""


@dataclass(slots=True)
class KeyReputation:
    """Responses to the VAPID key, as this process received them."""

    accepting_origins: set[str] = field(default_factory=set)
    consecutive_refusal_count: int = 0
    """Consecutive refusals, at any origin."""

    def record_acceptance(self, origin: str) -> None:
        self.consecutive_refusal_count = 0
        if len(self.accepting_origins) < MAX_ACCEPTING_ORIGINS:
            self.accepting_origins.add(origin)

    def record_refusal(self, origin: str, *, mentions_key: bool) -> bool:
        """Record a refusal, and return whether the key or token is to blame.

        With `mentions_key`, the response names the key or its token, but may still be about one subscription.
        """
        self.consecutive_refusal_count += 1
        return (mentions_key and origin not in self.accepting_origins) or self.consecutive_refusal_count > MAX_DEVICES
