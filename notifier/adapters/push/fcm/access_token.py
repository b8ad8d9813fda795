"""OAuth access tokens for FCM, renewed between messages without delaying them.

After half of a token's lifetime, a request for a new token is sent among the messages. Meanwhile the old token is used.
Messages wait for a token only if none is valid, such as at the start or after an idle hour.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.adapters.push.fcm.service_account import ServiceAccount
from notifier.adapters.push.request_rounds_and_replies import (
    RandomSource,
    error_code,
    known_phrases,
    parse_object,
    retry_after_time,
    soon_with_jitter,
)
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import NoReply, Post, Reply, Transport

RENEWAL_RETRY_INTERVAL = timedelta(minutes=1)
"""Time between two renewal requests while no new token has arrived."""
KNOWN_PHRASES = ("invalid jwt signature", "short-lived token", "account not found", "invalid email", "audience")
"""Phrases of Google's error messages that help to find the cause."""
_TOKEN_PATTERN = re.compile(r"[\x21-\x7e]{1,4096}")
"""Access token, safe in a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AccessToken:
    token: str
    renew_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenRequest(Post):
    """Token request, distinguished from messages by its class."""


@dataclass(slots=True, kw_only=True)
class AccessTokens:
    """Transport for messages and source of their access token, for one process. Not thread-safe."""

    account: ServiceAccount
    transport: Transport
    clock: Clock
    random: RandomSource
    _token: _AccessToken | None = None
    _failure: Receipt | None = None
    """Receipt for messages that cannot be sent, if the last token request failed."""
    _next_renewal_at: datetime | None = None
    """Earliest time at which `exchange` requests another token."""

    def ensure_token(self) -> Receipt | None:
        """Fetch a token if there is no valid one. Call before messages are built.

        If no token is available, returns the receipt for all messages.
        """
        now = self.clock.now()
        if self._token is not None and now < self._token.expires_at:
            return None
        if isinstance(self._failure, RetryAt) and now < self._failure.at:  # do not repeat the request for each burst
            return self._failure
        self._token = None
        for _, answer in self.transport.exchange([self._token_request(now)]):
            self._store(answer)
        return None if self._token is not None else self._failure

    def current_token(self) -> str:
        """Return the token, which may have expired since `ensure_token` returned."""
        assert self._token is not None
        return self._token.token

    def forget(self, token: str) -> None:
        """Discard a token that Google refused."""
        if self._token is not None and self._token.token == token:
            self._token = None

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        for post, answer in self.transport.exchange(self._with_renewals(posts)):
            if isinstance(post, _TokenRequest):
                self._store(answer)
            else:
                yield post, answer

    def _with_renewals(self, posts: Iterable[Post]) -> Iterator[Post]:
        for post in posts:
            now = self.clock.now()
            if (
                self._token is not None
                and now >= self._token.renew_at
                and (not self._next_renewal_at or now >= self._next_renewal_at)
            ):
                yield self._token_request(now)
            yield post

    def _token_request(self, now: datetime) -> _TokenRequest:
        # Set this before sending. Otherwise each message until the response would request another token. If no response
        # comes, the request is repeated after the interval.
        self._next_renewal_at = now + RENEWAL_RETRY_INTERVAL
        post = self.account.token_request(now)
        return _TokenRequest(origin=post.origin, path=post.path, headers=post.headers, body=post.body)

    def _store(self, answer: Reply | NoReply) -> None:
        now = self.clock.now()
        token = _parse_token(answer, now) if isinstance(answer, Reply) else None
        if token is not None:
            self._token, self._failure = token, None
        else:
            self._failure = token_failure(answer, now, self.random())


def _parse_token(reply: Reply, now: datetime) -> _AccessToken | None:
    body = parse_object(reply.body)
    token, lifetime_seconds = body.get("access_token"), body.get("expires_in")
    if reply.status != 200 or not isinstance(token, str) or not _TOKEN_PATTERN.fullmatch(token):
        return None
    if not isinstance(lifetime_seconds, int) or not 0 < lifetime_seconds < 10**6:
        return None
    lifetime = timedelta(seconds=lifetime_seconds)
    return _AccessToken(token=token, renew_at=now + lifetime / 2, expires_at=now + lifetime)


def token_failure(answer: Reply | NoReply, now: datetime, random_number: float) -> Receipt:
    """Return the receipt for messages that were not sent because the token request failed."""
    if isinstance(answer, NoReply):
        return RetryAt(at=soon_with_jitter(now, random_number), reason=f"no access token: {answer.reason}")
    if answer.status == 429 or answer.status >= 500:
        retry_at = retry_after_time(answer.headers, now) or soon_with_jitter(now, random_number)
        return RetryAt(at=retry_at, reason=f"no access token: status {answer.status}")
    body = parse_object(answer.body)
    error = error_code(body.get("error")) or f"status {answer.status}"
    phrases = ", ".join(known_phrases(body.get("error_description"), KNOWN_PHRASES))
    hint = (
        "the service account or its key is gone, or this machine's clock is wrong" if error == "invalid_grant" else ""
    )
    return ConfigError(reason=": ".join(filter(None, (error, phrases, hint))) + ".")
