"""VAPID (RFC 8292): who sends, said to each push service in a token of its own."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.adapters.push.jwt import base64url, es256_key, es256_token
from notifier.domain.errors import BadSetting

GRID = timedelta(hours=6)
"""Tokens begin and end on it, so all processes send the same, and none is signed twice."""
LASTS = timedelta(hours=12)
"""From the last line of the grid. Between 6 and 12 hours are left of it: less than the 24 that are allowed, and more
than none, even where this machine's clock is hours off."""
ORIGINS = 256
"""Push services whose tokens are kept; there are four, and Windows has some dozens of names."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_MAIL = re.compile(r"mailto:[^\s<>@:?&#]+@([^\s<>@:?&#]+)", re.ASCII)
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_NOWHERE = ("local", "localhost", "internal", "invalid", "test", "example")
"""Ends of names that lead nowhere for whoever is not here (RFC 2606, 6762): Apple answers them with BadJwtToken."""


@dataclass(slots=True, kw_only=True)
class Vapid:
    """`key` and what is signed with it stay out of what is printed."""

    key: EllipticCurvePrivateKey = field(repr=False)
    subject: str
    public: str
    """What browsers subscribe with, as `applicationServerKey`."""
    _kept: dict[str, tuple[datetime, str]] = field(default_factory=dict, repr=False)
    """By origin, with the line of the grid that it is of."""

    @classmethod
    def read(cls, pem: bytes, *, subject: str) -> Self:
        """Raises BadSetting."""
        key = es256_key(pem, whose="The key of Web Push", called="one of the elliptic curve P-256")
        if not _reachable(subject):
            raise BadSetting(
                "The subject of Web Push is where push services write to when alerts go wrong: mailto: and a mail "
                "address, or an https:// address, whose host others can reach too."
            )
        public = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return cls(key=key, subject=subject, public=base64url(public))

    def authorization(self, origin: str, now: datetime) -> str:
        """The header's value, for a push service of this origin."""
        line = now - (now - _EPOCH) % GRID
        kept, said = self._kept.get(origin, (None, ""))
        if kept != line:
            said = f"vapid t={self._token(origin, line + LASTS)}, k={self.public}"
            if len(self._kept) >= ORIGINS:  # no such many push services exist: somebody makes up names
                self._kept.clear()
            self._kept[origin] = line, said
        return said

    def _token(self, origin: str, expires_at: datetime) -> str:
        claims = {"aud": origin, "exp": int(expires_at.timestamp()), "sub": self.subject}
        return es256_token(self.key, {"typ": "JWT", "alg": "ES256"}, claims)


def _reachable(subject: str) -> bool:
    if found := _MAIL.fullmatch(subject):
        return _is_host(found[1])
    try:
        parts = urlsplit(subject)
        plain = subject.isascii() and subject.isprintable() and not re.search(r"[\s\\<>\"]", subject)
        return plain and parts.scheme == "https" and "@" not in parts.netloc and _is_host(parts.hostname or "")
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    host = text.lower()
    return bool(_HOST.fullmatch(host)) and host.rpartition(".")[2] not in _NOWHERE
