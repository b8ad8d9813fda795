"""Fake of APNs: accepts and refuses requests like Apple, with Apple's reasons.

Connection-level behavior, such as GOAWAY, belongs to the HTTP/2 server.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2s
from typing import Any
from uuid import UUID

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from notifier.devkit.fake_providers.behavior import ProviderScript, retry_after
from notifier.devkit.fake_providers.fake_devices import FakePhones
from notifier.domain.push.device import ApnsEnvironment
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import Post, Reply

# Validation of provider tokens.

MAX_TOKEN_AGE = timedelta(hours=1)
MAX_CLOCK_SKEW = timedelta(minutes=5)
TOKEN_UPDATE_WINDOW = timedelta(minutes=20)
MAX_TOKEN_UPDATES = 2
"""Maximum number of new tokens within TOKEN_UPDATE_WINDOW. Apple documents one, but tolerates more.

The limit finds clients that make a new token for each alert.
"""
MAX_REMEMBERED_TOKENS = 64


@dataclass(slots=True, kw_only=True)
class TokenCheck:
    """Validates provider tokens."""

    keys: Mapping[str, EllipticCurvePublicKey]
    """Public keys by key id."""
    team: str
    _issued: dict[str, datetime] = field(default_factory=dict)
    """Issue times of tokens with a valid signature."""
    _first_seen: dict[str, datetime] = field(default_factory=dict)
    """Times at which tokens were admitted."""

    def refusal_reason(self, authorization: str | None, now: datetime) -> str | None:
        """Return Apple's reason for refusing the token, or None if it is valid."""
        if not authorization:
            return "MissingProviderToken"
        scheme, _, token = authorization.partition(" ")
        issued = self._issued_at(token) if scheme.lower() == "bearer" else None
        if issued is None or issued > now + MAX_CLOCK_SKEW:
            return "InvalidProviderToken"
        if now - issued > MAX_TOKEN_AGE:
            return "ExpiredProviderToken"
        return None if self._admit(token, now) else "TooManyProviderTokenUpdates"

    def _issued_at(self, token: str) -> datetime | None:
        if token not in self._issued:
            try:
                header = jwt.get_unverified_header(token)
                # `refusal_reason` checks the age, by the fake's own clock.
                claims = jwt.decode(
                    token,
                    self.keys[header["kid"]],
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

    def _admit(self, token: str, now: datetime) -> bool:
        """Remember a new token. Return False, and don't remember it, if it is one too many."""
        if token not in self._first_seen:
            recent = [seen for seen in self._first_seen.values() if now - seen < TOKEN_UPDATE_WINDOW]
            if len(recent) >= MAX_TOKEN_UPDATES:
                return False
            _remember(self._first_seen, token, now)
        return True


def _remember(times_by_token: dict[str, datetime], token: str, at: datetime) -> None:
    times_by_token[token] = at
    if len(times_by_token) > MAX_REMEMBERED_TOKENS:
        del times_by_token[next(iter(times_by_token))]


ORIGINS: Mapping[str, ApnsEnvironment] = {
    "https://api.push.apple.com:443": ApnsEnvironment.PRODUCTION,
    "https://api.sandbox.push.apple.com:443": ApnsEnvironment.SANDBOX,
}
MAX_BODY_BYTES = 4_096
MAX_COLLAPSE_ID_BYTES = 64
PUSH_TYPES = (
    *("alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm"),
    *("pushtotalk", "voip", "widgets"),
)
PRIORITIES = ("10", "5", "1")
_PATH = re.compile(r"/3/device/([^/]*)")
_TOKEN = re.compile(r"[0-9A-Fa-f]{64,200}")


@dataclass(frozen=True, slots=True)
class ApnsError:
    status: int
    reason: str
    timestamp: datetime | None = None
    retry_after: str | None = None


@dataclass(slots=True, kw_only=True)
class FakeApns:
    token_check: TokenCheck
    topics: frozenset[str]
    """Topics of the key's team. An empty set allows any topic."""
    clock: Clock
    script: ProviderScript = field(default_factory=ProviderScript)
    origins: Mapping[str, ApnsEnvironment] = field(default_factory=lambda: ORIGINS)
    """Environment of each origin. Other origins are production."""
    phones: FakePhones = field(default_factory=FakePhones)
    response_counts: Counter[str] = field(default_factory=Counter)
    """Number of responses by reason, or "Accepted"."""
    _installed: dict[str, tuple[ApnsEnvironment, str]] = field(default_factory=dict)
    """Environment and topic by token."""
    _uninstalled_at: dict[str, datetime] = field(default_factory=dict)
    _started: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock.now()

    def install(self, token: str, topic: str, environment: ApnsEnvironment = ApnsEnvironment.PRODUCTION) -> None:
        """Bind a token to an app and environment. Other tokens are valid for every app and environment."""
        self._installed[token] = (environment, topic)
        self._uninstalled_at.pop(token, None)

    def uninstall(self, token: str, at: datetime) -> None:
        self._uninstalled_at[token] = at

    def answer(self, post: Post) -> Reply:
        """Answer one request. Not thread-safe."""
        headers = dict(post.headers)
        response_headers = {"apns-id": headers.get("apns-id", _derived_id(post))}
        refusal = next(self._refusals(post, headers), None)
        self.response_counts[refusal.reason if refusal else "Accepted"] += 1
        if refusal is None:
            collapse_id = headers.get("apns-collapse-id") or response_headers["apns-id"]
            self.phones.ring(
                _token(post), collapse_id=collapse_id, text=_alert_text(post.body), id=response_headers["apns-id"]
            )
            return Reply(status=200, headers=response_headers)
        body: dict[str, object] = {"reason": refusal.reason}
        if refusal.timestamp is not None:
            body["timestamp"] = int(refusal.timestamp.timestamp() * 1000)
        if refusal.retry_after is not None:
            response_headers["retry-after"] = refusal.retry_after
        return Reply(status=refusal.status, headers=response_headers, body=json.dumps(body).encode())

    def _refusals(self, post: Post, headers: Mapping[str, str]) -> Iterator[ApnsError]:
        """Yield the reasons for refusal. The first one becomes the response."""
        uptime = self.clock.now() - self._started
        if self.script.down.is_active(uptime):
            yield ApnsError(503, "ServiceUnavailable")
        if not _PATH.fullmatch(post.path):
            yield ApnsError(404, "BadPath")
        if (refused := self.token_check.refusal_reason(headers.get("authorization"), self.clock.now())) is not None:
            yield ApnsError(429 if refused == "TooManyProviderTokenUpdates" else 403, refused)
        yield from _header_refusals(post, headers)
        if self.topics and headers["apns-topic"] not in self.topics:
            yield ApnsError(400, "TopicDisallowed")
        yield from _body_refusals(post.body)
        yield from self._token_refusals(_token(post), headers["apns-topic"], post.origin)
        if self.script.limited.is_active(uptime):
            yield ApnsError(429, "TooManyRequests", retry_after=retry_after(self.script.limited, uptime))

    def _token_refusals(self, token: str, topic: str, origin: str) -> Iterator[ApnsError]:
        requested = self.origins.get(origin, ApnsEnvironment.PRODUCTION)
        environment, app = self._installed.get(token, (requested, topic))
        if not token:
            yield ApnsError(400, "MissingDeviceToken")
        if not _TOKEN.fullmatch(token) or environment is not requested or self.script.belongs_elsewhere(token):
            yield ApnsError(400, "BadDeviceToken")
        if app != topic:
            yield ApnsError(400, "DeviceTokenNotForTopic")
        if token in self._uninstalled_at:
            yield ApnsError(410, "Unregistered", timestamp=self._uninstalled_at[token])
        if self.script.is_gone(token):
            yield ApnsError(410, "Unregistered", timestamp=self.script.gone_since(self._started))


def _header_refusals(post: Post, headers: Mapping[str, str]) -> Iterator[ApnsError]:
    if len(headers) < len(post.headers):
        yield ApnsError(400, "DuplicateHeaders")
    # Apple generates a missing id.
    if not _is_uuid_or_none(headers.get("apns-id")):
        yield ApnsError(400, "BadMessageId")
    if not headers.get("apns-expiration", "0").isdecimal():
        yield ApnsError(400, "BadExpirationDate")
    if headers.get("apns-priority", "10") not in PRIORITIES:
        yield ApnsError(400, "BadPriority")
    # Apple accepts a missing push type for old devices only. The fake refuses it for all, to expose the mistake.
    if headers.get("apns-push-type") not in PUSH_TYPES:
        yield ApnsError(400, "InvalidPushType")
    if headers["apns-push-type"] == "background" and headers.get("apns-priority", "10") == "10":
        yield ApnsError(400, "BadPriority")
    if len(headers.get("apns-collapse-id", "").encode()) > MAX_COLLAPSE_ID_BYTES:
        yield ApnsError(400, "BadCollapseId")
    if not headers.get("apns-topic"):
        yield ApnsError(400, "MissingTopic")


def _body_refusals(body: bytes) -> Iterator[ApnsError]:
    if len(body) > MAX_BODY_BYTES:
        yield ApnsError(413, "PayloadTooLarge")
    # Apple does not document its reason for a body that is not JSON.
    if not isinstance(_payload(body).get("aps"), dict):
        yield ApnsError(400, "PayloadEmpty")


def _token(post: Post) -> str:
    match = _PATH.fullmatch(post.path)
    return match[1] if match else ""


def _payload(body: bytes) -> Mapping[str, Any]:
    try:
        payload = json.loads(body)
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}


def _alert_text(body: bytes) -> str:
    alert = _payload(body)["aps"].get("alert", "")
    return alert if isinstance(alert, str) else str(alert.get("body", ""))


def _is_uuid_or_none(text: str | None) -> bool:
    try:
        return text is None or str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _derived_id(post: Post) -> str:
    return str(UUID(bytes=blake2s(post.path.encode() + post.body, digest_size=16).digest()))
