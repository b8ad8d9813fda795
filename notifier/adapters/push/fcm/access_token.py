"""The access token: Google's leave to send, kept fresh by letters' own transport, so that no letter waits for it.

A new one is asked for among the letters when half of the old one's hour is over, and its answer taken out from among
theirs, while the old one goes on being good. So there is no thread, and no pause; only the first token, and one after
a rest of an hour, is waited for.
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
"""Where no answer came, or none with a token, while the old one is still good."""
KNOWN = ("invalid jwt signature", "short-lived token", "account not found", "invalid email", "audience")
"""Of Google's sentences about a refusal these tell what to look at."""
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
"""As it stands in a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    token: str
    renew_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking(Post):
    """Told from letters by its kind alone."""


@dataclass(slots=True, kw_only=True)
class AccessTokens:
    """A Transport to send letters by, and their token; one process's. Not for two threads."""

    account: ServiceAccount
    transport: Transport
    clock: Clock
    chance: Chance
    _held: _Held | None = None
    _trouble: Receipt | None = None
    """What became of the last question that brought no token."""
    _ask_at: datetime | None = None

    def ensure(self) -> Receipt | None:
        """Before letters are written: waits for a token where there is none that is still good. What becomes of the
        letters if none can be had."""
        now = self.clock.now()
        if self._held is not None and now < self._held.expires_at:
            return None
        if isinstance(self._trouble, RetryAt) and now < self._trouble.at:  # and doesn't ask for each burst
            return self._trouble
        self._held = None
        for _, answer in self.transport.exchange([self._asking(now)]):
            self._take(answer)
        return None if self._held is not None else self._trouble

    def current(self) -> str:
        """Asks nobody, and doesn't look at the time: one that grows too old among the letters Google refuses."""
        assert self._held is not None
        return self._held.token

    def forget(self, token: str) -> None:
        """Google takes it no more."""
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
        # Noted before it is sent: where no answer ever comes back, because whoever sent letters gave up, it is asked
        # again.
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
    """Nothing of it was sent to any device, whatever became of the question."""
    if isinstance(answer, Silence):
        return RetryAt(at=in_a_while(now, chance), reason=f"no access token: {answer.reason}")
    if answer.status == 429 or answer.status >= 500:
        at = as_asked(answer.headers, now) or in_a_while(now, chance)
        return RetryAt(at=at, reason=f"no access token: status {answer.status}")
    body = answers.read(answer.body)
    error = answers.name(body.get("error")) or f"status {answer.status}"
    said = ", ".join(answers.said(body.get("error_description"), KNOWN))
    hint = "the account or its key is gone, or this machine's clock is wrong" if error == "invalid_grant" else ""
    return ConfigError(reason=": ".join(filter(None, (error, said, hint))) + ".")
