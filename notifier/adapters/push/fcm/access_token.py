"""OAuth access tokens for FCM, renewed between messages without delaying them.

When half of a token's hour is over, a request for a new one is sent among the messages. Its answer is filtered out of
theirs, and the old token stays valid in the meantime. So renewals need no thread and no pause. Only the first token,
and one after an idle hour, delays messages.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.adapters.push import requests as answers
from notifier.adapters.push.fcm.service_account import ServiceAccount
from notifier.adapters.push.requests import Chance, as_asked, in_a_while
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt
from notifier.ports.coordination import Clock
from notifier.ports.push import Post, Reply, Silence, Transport

ASKED_AGAIN = timedelta(minutes=1)
"""Pause between renewal requests while the old token is valid, if no answer or no token arrives."""
KNOWN = ("invalid jwt signature", "short-lived token", "account not found", "invalid email", "audience")
"""Phrases of Google's error messages that help to find the cause."""
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
"""Access token, safe in a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    token: str
    renew_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking(Post):
    """Token request. Its class distinguishes it from messages."""


@dataclass(slots=True, kw_only=True)
class AccessTokens:
    """Transport for messages and source of their access token, for one process. Not thread-safe."""

    account: ServiceAccount
    transport: Transport
    clock: Clock
    chance: Chance
    _held: _Held | None = None
    _trouble: Receipt | None = None
    """Receipt of the last token request that failed."""
    _ask_at: datetime | None = None

    def ensure(self) -> Receipt | None:
        """Fetch a token if there is no valid one. Call before messages are built.

        Returns the receipt of all messages if no token is available.
        """
        now = self.clock.now()
        if self._held is not None and now < self._held.expires_at:
            return None
        if isinstance(self._trouble, RetryAt) and now < self._trouble.at:  # do not repeat the request for each burst
            return self._trouble
        self._held = None
        for _, answer in self.transport.exchange([self._asking(now)]):
            self._take(answer)
        return None if self._held is not None else self._trouble

    def current(self) -> str:
        """Return the token without a request or an expiry check. Google refuses one that expires in the meantime."""
        assert self._held is not None
        return self._held.token

    def forget(self, token: str) -> None:
        """Discard a token that Google refused."""
        if self._held is not None and self._held.token == token:
            self._held = None

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        for post, answer in self.transport.exchange(self._among(posts)):
            if isinstance(post, _Asking):
                self._take(answer)
            else:
                yield post, answer

    def _among(self, posts: Iterable[Post]) -> Iterator[Post]:
        for post in posts:
            now = self.clock.now()
            if self._held is not None and now >= self._held.renew_at and (not self._ask_at or now >= self._ask_at):
                yield self._asking(now)
            yield post

    def _asking(self, now: datetime) -> _Asking:
        # Set before sending: if no answer arrives because the caller stopped the exchange, the request is repeated.
        self._ask_at = now + ASKED_AGAIN
        post = self.account.asking(now)
        return _Asking(origin=post.origin, path=post.path, headers=post.headers, body=post.body)

    def _take(self, answer: Reply | Silence) -> None:
        now = self.clock.now()
        held = _held(answer, now) if isinstance(answer, Reply) else None
        if held is not None:
            self._held, self._trouble = held, None
        else:
            self._trouble = trouble(answer, now, self.chance())


def _held(reply: Reply, now: datetime) -> _Held | None:
    body = answers.read(reply.body)
    token, lives = body.get("access_token"), body.get("expires_in")
    if reply.status != 200 or not isinstance(token, str) or not _TOKEN.fullmatch(token):
        return None
    if not isinstance(lives, int) or not 0 < lives < 10**6:
        return None
    life = timedelta(seconds=lives)
    return _Held(token=token, renew_at=now + life / 2, expires_at=now + life)


def trouble(answer: Reply | Silence, now: datetime, chance: float) -> Receipt:
    """Return the receipt of messages that were not sent because the token request failed."""
    if isinstance(answer, Silence):
        return RetryAt(at=in_a_while(now, chance), reason=f"no access token: {answer.reason}")
    if answer.status == 429 or answer.status >= 500:
        at = as_asked(answer.headers, now) or in_a_while(now, chance)
        return RetryAt(at=at, reason=f"no access token: status {answer.status}")
    body = answers.read(answer.body)
    error = answers.name(body.get("error")) or f"status {answer.status}"
    phrases = ", ".join(answers.said(body.get("error_description"), KNOWN))
    hint = "the account or its key is gone, or this machine's clock is wrong" if error == "invalid_grant" else ""
    return ConfigError(reason=": ".join(filter(None, (error, phrases, hint))) + ".")
