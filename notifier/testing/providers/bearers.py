"""Provider tokens as Apple judges them: whose, how old, and how often another one comes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

OLDEST = timedelta(hours=1)
CLOCKS_MAY_DIFFER = timedelta(minutes=5)
UPDATES_WITHIN = timedelta(minutes=20)
MOST_UPDATES = 2
"""Tokens in that time. Apple allows one and is lenient; one for each alert is what it means."""
REMEMBERED = 64


@dataclass(slots=True, kw_only=True)
class Bearers:
    keys: Mapping[str, EllipticCurvePublicKey]
    """By key id."""
    team: str
    _issued: dict[str, datetime] = field(default_factory=dict)
    """Of tokens whose signature was found good."""
    _first_seen: dict[str, datetime] = field(default_factory=dict)

    def complaint(self, authorization: str | None, now: datetime) -> str | None:
        """Apple's reason; None for a good one."""
        if not authorization:
            return "MissingProviderToken"
        scheme, _, token = authorization.partition(" ")
        issued = self._issued_at(token) if scheme.lower() == "bearer" else None
        if issued is None or issued > now + CLOCKS_MAY_DIFFER:
            return "InvalidProviderToken"
        if now - issued > OLDEST:
            return "ExpiredProviderToken"
        return "TooManyProviderTokenUpdates" if self._too_many(token, now) else None

    def _issued_at(self, token: str) -> datetime | None:
        if token not in self._issued:
            try:
                head = jwt.get_unverified_header(token)
                # Its age is judged by the fake's own clock.
                claims = jwt.decode(
                    token,
                    self.keys[head["kid"]],
                    algorithms=["ES256"],
                    options={"verify_iat": False, "verify_exp": False},
                )
                if claims["iss"] != self.team:
                    return None
                issued = datetime.fromtimestamp(int(claims["iat"]), UTC)
            except (jwt.PyJWTError, KeyError, ValueError, TypeError, OverflowError, OSError):
                return None
            _remember(self._issued, token, issued)
        return self._issued[token]

    def _too_many(self, token: str, now: datetime) -> bool:
        if token not in self._first_seen:
            lately = [seen for seen in self._first_seen.values() if now - seen < UPDATES_WITHIN]
            if len(lately) >= MOST_UPDATES:
                return True
            _remember(self._first_seen, token, now)
        return False


def _remember(kept: dict[str, datetime], token: str, moment: datetime) -> None:
    kept[token] = moment
    if len(kept) > REMEMBERED:
        del kept[next(iter(kept))]
