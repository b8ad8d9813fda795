"""Fake Web Push service: accepts and refuses messages like the real ones."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key

from notifier.devkit.fake_providers.behavior import ProviderScript, retry_after
from notifier.devkit.fake_providers.fake_browser import Browser
from notifier.devkit.fake_providers.fake_devices import FakePhones
from notifier.devkit.fake_providers.webpush_refusals import (
    AuthorizationFault,
    RefusalDialect,
    authorization_fault,
    refusal,
)
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import Post, Reply

DEFAULT_MAX_BODY_BYTES = 4_096
"""Push services must accept bodies of this size (RFC 8030, 7.2). Firefox on Android is an exception: 2,744 bytes."""
MAX_TTL_SECONDS = 2_592_000
URGENCIES = ("very-low", "low", "normal", "high")
_TOPIC = re.compile(r"(?:[A-Za-z0-9_-]{4}){1,8}", re.ASCII)
"""Topics by Apple's rule, the strictest: base64url without padding, with a length that is a multiple of four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredMessage:
    body: bytes
    expires_at: datetime


@dataclass(slots=True, kw_only=True)
class FakePushService:
    clock: Clock
    origin: str = "https://updates.push.services.mozilla.com"
    dialect: RefusalDialect = RefusalDialect.MOZILLA
    accepts_any_host: bool = False
    """Whether requests for any host are accepted, as by a fake of all push services."""
    find_unknown_browser: Callable[[str], Browser | None] = lambda _: None
    """Called for a path that is not in `browsers`. Returns its browser, or None if the path has no subscription."""
    script: ProviderScript = field(default_factory=ProviderScript)
    """Scripted misbehavior. Subscriptions that belong elsewhere are refused, as if made with another server key."""
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    redirect: str = ""
    """Target of a redirect for all requests; empty for none."""
    phones: FakePhones = field(default_factory=FakePhones)
    """Devices by endpoint path."""
    browsers: dict[str, Browser] = field(default_factory=dict)
    response_counts: Counter[int] = field(default_factory=Counter)
    """Number of responses by status."""
    _stored: dict[str, dict[str, _StoredMessage]] = field(default_factory=dict)
    """Messages for offline browsers, by endpoint and topic. A later message replaces one with the same topic."""
    _random: Random = field(init=False)
    _started: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._random, self._started = Random(f"{self.script.seed}/{self.origin}"), self.clock.now()

    def subscribe(self, application_server_key: str) -> Browser:
        path = f"/wpush/v2/{self._random.randbytes(24).hex()}"
        number = self._random.getrandbits(255) + 1
        browser = Browser(
            endpoint=self.origin + path,
            private=derive_private_key(number, SECP256R1()),
            secret=self._random.randbytes(16),
            application_server_key=application_server_key,
        )
        self.browsers[path] = browser
        return browser

    def bring_online(self, browser: Browser) -> None:
        """Bring a browser online and deliver its stored messages that have not expired."""
        browser.is_online = True
        for stored in self._stored.pop(browser.endpoint, {}).values():
            if self.clock.now() < stored.expires_at:
                self._show(browser, stored.body)

    def answer(self, post: Post) -> Reply:
        """Answer one request. Not thread-safe."""
        reply = self._refusal(post, dict(post.headers), self.clock.now()) or self._accept(post)
        self.response_counts[reply.status] += 1
        return reply

    def _refusal(self, post: Post, headers: Mapping[str, str], now: datetime) -> Reply | None:
        uptime, limited = now - self._started, self.script.limited
        browser = self._browser(post.path)
        if self.script.down.is_active(uptime):
            return refusal(self.dialect, 503)
        if self.redirect:
            return Reply(status=307, headers={"location": self.redirect})
        if browser is None or not (self.accepts_any_host or post.origin.removesuffix(":443") == self.origin):
            return refusal(self.dialect, 404)
        if (fault := self._authorization_fault(post, browser, headers, now)) is not None:
            return refusal(self.dialect, fault)
        if browser.is_revoked or self.script.is_gone(post.path):
            return refusal(self.dialect, 410)
        if len(post.body) > self.max_body_bytes:
            return refusal(self.dialect, 413)
        if len(headers) < len(post.headers) or not _are_well_formed(headers):
            return refusal(self.dialect, 400)
        return (
            refusal(self.dialect, 429, retry_after=retry_after(limited, uptime)) if limited.is_active(uptime) else None
        )

    def _browser(self, path: str) -> Browser | None:
        return self.browsers.get(path) or self.find_unknown_browser(path)

    def _authorization_fault(
        self, post: Post, browser: Browser, headers: Mapping[str, str], now: datetime
    ) -> AuthorizationFault | None:
        origin = None if self.accepts_any_host else self.origin
        fault = authorization_fault(headers.get("authorization"), origin, browser.application_server_key, now)
        return fault or (AuthorizationFault.OTHER_KEY if self.script.belongs_elsewhere(post.path) else None)

    def _accept(self, post: Post) -> Reply:
        browser, headers = self._browser(post.path), dict(post.headers)
        assert browser is not None  # `_refusal` has refused unknown paths
        if browser.is_online:
            self._show(browser, post.body)
        elif seconds := int(headers["ttl"]):
            messages = self._stored.setdefault(browser.endpoint, {})
            expires_at = self.clock.now() + timedelta(seconds=seconds)
            messages[headers.get("topic", f"message {self.response_counts[201]}")] = _StoredMessage(
                body=post.body, expires_at=expires_at
            )
        return Reply(
            status=201, headers={"location": f"{self.origin}/m/{self.response_counts[201]}", "ttl": headers["ttl"]}
        )

    def _show(self, browser: Browser, body: bytes) -> None:
        if (shown := browser.read(body)) is not None:
            path = browser.endpoint.removeprefix(self.origin)
            self.phones.ring(path, collapse_id=shown.tag, text=shown.title, id=shown.tag)


def _are_well_formed(headers: Mapping[str, str]) -> bool:
    ttl, topic = headers.get("ttl", ""), headers.get("topic")
    return (
        headers.get("content-encoding") == "aes128gcm"
        and ttl.isascii()
        and ttl.isdecimal()
        and int(ttl) <= MAX_TTL_SECONDS
        and (topic is None or bool(_TOPIC.fullmatch(topic)))
        and headers.get("urgency", "normal") in URGENCIES
    )
